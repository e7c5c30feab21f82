"""Substitution parameters of the 22 queries: the validation values, and qgen's for a seed.

For a seed the values are the ones that the TPC's qgen 2.17.3 prints under
``qgen -r SEED -s SCALE``: its generator (Park and Miller's minimal standard, CACM
10/1988), one stream per query, and its order of draws. That order is not the order
of the parameters in the query text, and a rejected draw (two equal nations) costs
one more number, so every entry of ``_DRAW`` draws exactly as qgen does.

qgen's ``-p STREAM`` changes the order of the queries (clause 5.3.5, appendix A) and
none of the values; a stream of its own values is a seed of its own (clause 2.1.3.6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

from harness.errors import UsageError
from harness.workloads.kinds import QUERIES as QUERIES

#: Value of each substitution parameter, named as in clause 2.4.x.3 in lower case.
Values: TypeAlias = dict[str, str | list[str]]
_T = TypeVar("_T")

_MULTIPLIER, _MODULUS = 16807, 2**31 - 1
#: 0 and the modulus are fixed points of the generator: every draw would be the lowest
#: value, and query 7 would look for a second nation for ever.
SEEDS = range(1, _MODULUS)


def _words(text: str) -> list[str]:
    return text.split(",")


_NATIONS = _words(
    "ALGERIA,ARGENTINA,BRAZIL,CANADA,EGYPT,ETHIOPIA,FRANCE,GERMANY,INDIA,INDONESIA,IRAN,IRAQ,"
    "JAPAN,JORDAN,KENYA,MOROCCO,MOZAMBIQUE,PERU,CHINA,ROMANIA,SAUDI ARABIA,VIETNAM,RUSSIA,"
    "UNITED KINGDOM,UNITED STATES"
)
_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
#: Region of each nation, by position (clause 4.2.3).
_REGION_OF = (0, 1, 1, 1, 4, 0, 3, 3, 2, 2, 4, 4, 2, 4, 0, 0, 0, 1, 2, 3, 4, 2, 3, 3, 1)
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_SHIP_MODES = ("REG AIR", "AIR", "RAIL", "TRUCK", "MAIL", "FOB", "SHIP")
_WORDS_1 = ("special", "pending", "unusual", "express")
_WORDS_2 = ("packages", "requests", "accounts", "deposits")
_TYPES = tuple(
    f"{a} {b} {c}"
    for a in ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
    for b in ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
    for c in ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
)
_CONTAINERS = tuple(
    f"{a} {b}"
    for a in ("SM", "LG", "MED", "JUMBO", "WRAP")
    for b in ("CASE", "BOX", "BAG", "JAR", "PACK", "PKG", "CAN", "DRUM")
)
_COLORS = _words(
    "almond,antique,aquamarine,azure,beige,bisque,black,blanched,blue,blush,brown,burlywood,"
    "burnished,chartreuse,chiffon,chocolate,coral,cornflower,cornsilk,cream,cyan,dark,deep,"
    "dim,dodger,drab,firebrick,floral,forest,frosted,gainsboro,ghost,goldenrod,green,grey,"
    "honeydew,hot,indian,ivory,khaki,lace,lavender,lawn,lemon,light,lime,linen,magenta,"
    "maroon,medium,metallic,midnight,mint,misty,moccasin,navajo,navy,olive,orange,orchid,"
    "pale,papaya,peach,peru,pink,plum,powder,puff,purple,red,rose,rosy,royal,saddle,salmon,"
    "sandy,seashell,sienna,sky,slate,smoke,snow,spring,steel,tan,thistle,tomato,turquoise,"
    "violet,wheat,white,yellow"
)


class _Stream:
    """One of qgen's random number streams."""

    def __init__(self, state: int) -> None:
        self._state = state

    def uniform(self, low: int, high: int) -> int:
        """An integer in [low, high]; in double arithmetic, as qgen computes it."""
        self._state = self._state * _MULTIPLIER % _MODULUS
        return low + int(self._state / float(_MODULUS) * float(high - low + 1))

    def pick(self, values: Sequence[_T], weight: int = 1) -> _T:
        """One of ``values``, which all have the same ``weight``."""
        return values[(self.uniform(1, len(values) * weight) - 1) // weight]

    def permute(self, values: Sequence[_T]) -> list[_T]:
        """``values`` shuffled from the front."""
        shuffled = list(values)
        for i in range(len(shuffled)):
            j = self.uniform(i, len(shuffled) - 1)
            shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
        return shuffled

    def pick_two(self, values: Sequence[_T]) -> Iterator[tuple[int, _T]]:
        """Two different ones of ``values``, numbered from 1; the second is redrawn until it is."""
        yield 1, (first := self.pick(values))
        while (second := self.pick(values)) == first:
            pass
        yield 2, second

    def first_of_month(self, low: int, high: int) -> str:
        """The first day of a month, counted from January 1993."""
        month = self.uniform(low, high)
        return f"{1993 + month // 12}-{month % 12 + 1:02d}-01"

    def first_of_year(self) -> str:
        """The first of January of 1993 … 1997."""
        return f"19{self.uniform(93, 97)}-01-01"

    def brand(self) -> str:
        """``Brand#MN``, M and N in 1 … 5."""
        first = self.uniform(1, 5)
        return f"Brand#{first}{self.uniform(1, 5)}"


_DRAW: Mapping[int, Callable[[_Stream], Values]] = {
    1: lambda s: {"delta": str(s.uniform(60, 120))},
    2: lambda s: {
        "size": str(s.uniform(1, 50)),
        "type": s.pick(_TYPES).split()[2],
        "region": s.pick(_REGIONS),
    },
    3: lambda s: {
        "segment": s.pick(_SEGMENTS),
        "date": f"1995-03-{s.uniform(0, 30) + 1:02d}",
    },
    4: lambda s: {"date": s.first_of_month(0, 57)},
    5: lambda s: {"region": s.pick(_REGIONS), "date": s.first_of_year()},
    6: lambda s: {
        "date": s.first_of_year(),
        "discount": f"0.{s.uniform(2, 9):02d}",
        "quantity": str(s.uniform(24, 25)),
    },
    7: lambda s: {f"nation{i}": nation for i, nation in s.pick_two(_NATIONS)},
    8: lambda s: {
        "nation": _NATIONS[nation := s.pick(range(len(_NATIONS)))],
        "region": _REGIONS[_REGION_OF[nation]],
        "type": s.pick(_TYPES),
    },
    9: lambda s: {"color": s.pick(_COLORS)},
    10: lambda s: {"date": s.first_of_month(1, 24)},
    11: lambda s: {"nation": s.pick(_NATIONS)},
    12: lambda s: {
        **{f"shipmode{i}": mode for i, mode in s.pick_two(_SHIP_MODES)},
        "date": s.first_of_year(),
    },
    13: lambda s: {
        "word1": s.pick(_WORDS_1, weight=20),
        "word2": s.pick(_WORDS_2, weight=40),
    },
    14: lambda s: {"date": s.first_of_month(0, 59)},
    15: lambda s: {"date": s.first_of_month(0, 57)},
    16: lambda s: {
        "brand": s.brand(),
        "type": s.pick(_TYPES).rpartition(" ")[0],
        "sizes": [str(size) for size in s.permute(range(1, 51))[:8]],
    },
    17: lambda s: {"brand": s.brand(), "container": s.pick(_CONTAINERS)},
    18: lambda s: {"quantity": str(s.uniform(312, 315))},
    19: lambda s: {
        **{f"brand{i}": s.brand() for i in (1, 2, 3)},
        **{f"quantity{i}": str(s.uniform(10 * i - 10 or 1, 10 * i)) for i in (1, 2, 3)},
    },
    20: lambda s: {
        "color": s.pick(_COLORS),
        "date": s.first_of_year(),
        "nation": s.pick(_NATIONS),
    },
    21: lambda s: {"nation": s.pick(_NATIONS)},
    22: lambda s: {"codes": [str(10 + code) for code in s.permute(range(25))[:7]]},
}
#: Clause 2.4.x.3, "for the validation": query 11's fraction depends on the scale.
_VALIDATION: Mapping[int, Values] = {
    1: {"delta": "90"},
    2: {"size": "15", "type": "BRASS", "region": "EUROPE"},
    3: {"segment": "BUILDING", "date": "1995-03-15"},
    4: {"date": "1993-07-01"},
    5: {"region": "ASIA", "date": "1994-01-01"},
    6: {"date": "1994-01-01", "discount": "0.06", "quantity": "24"},
    7: {"nation1": "FRANCE", "nation2": "GERMANY"},
    8: {"nation": "BRAZIL", "region": "AMERICA", "type": "ECONOMY ANODIZED STEEL"},
    9: {"color": "green"},
    10: {"date": "1993-10-01"},
    11: {"nation": "GERMANY"},
    12: {"shipmode1": "MAIL", "shipmode2": "SHIP", "date": "1994-01-01"},
    13: {"word1": "special", "word2": "requests"},
    14: {"date": "1995-09-01"},
    15: {"date": "1996-01-01"},
    16: {
        "brand": "Brand#45",
        "type": "MEDIUM POLISHED",
        "sizes": ["49", "14", "23", "45", "19", "3", "36", "9"],
    },
    17: {"brand": "Brand#23", "container": "MED BOX"},
    18: {"quantity": "300"},
    19: {
        "brand1": "Brand#12",
        "brand2": "Brand#23",
        "brand3": "Brand#34",
        "quantity1": "1",
        "quantity2": "10",
        "quantity3": "20",
    },
    20: {"color": "forest", "date": "1994-01-01", "nation": "CANADA"},
    21: {"nation": "SAUDI ARABIA"},
    22: {"codes": ["13", "31", "23", "29", "30", "18", "17"]},
}


def parameters(query: int, seed: int | None, scale: float) -> Values:
    """Substitution parameters of ``query`` (1 … 22).

    ``seed`` None: the validation values (clause 2.4.x.3); else what ``qgen -r seed
    -s scale`` substitutes. UsageError for a seed that qgen cannot use.
    """
    if seed is None:
        values = dict(_VALIDATION[query])
    elif seed not in SEEDS:
        raise UsageError(
            f"query_seed {seed}", "not a seed of qgen", f"choose 1 … {SEEDS[-1]:,} or null"
        )
    else:
        values = _DRAW[query](_Stream(seed * pow(_MULTIPLIER, query, _MODULUS) % _MODULUS))
    if query == 11:  # clause 2.4.11.3
        values["fraction"] = f"{0.0001 / scale:.10f}"
    return values
