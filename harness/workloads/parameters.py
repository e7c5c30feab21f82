"""Values of a workload's parameters: one form for each, and three-part errors for the others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import UsageError, nearest
from harness.units import parse_duration_ns

_LONGEST_NS = 7 * 24 * 3600 * 10**9
#: A destination of ssh's; never one that it would take for an option.
_HOST = re.compile(r"(ssh://)?[A-Za-z0-9_][A-Za-z0-9_.@:%-]*")
_UNITS = (("h", 3600 * 10**9), ("m", 60 * 10**9), ("s", 10**9), ("ms", 10**6), ("us", 10**3))


def unknown(
    workload: str, name: str, known: Sequence[str], elsewhere: Mapping[str, str]
) -> UsageError:
    """For a name that is none; ``elsewhere``: what the same thing is called by others."""
    same = elsewhere.get(name)
    hint = f" (did you mean {same!r}?)" if same else nearest(name, list(known))
    return UsageError(
        f"{workload} parameter {name!r}",
        f"not a parameter of {workload}{hint}",
        f"the parameters are {', '.join(known)}",
    )


def given_or(value: Any, default: Any) -> Any:
    """The default where nothing is given."""
    return default if value is None else value


def count(name: str, value: Any, most: int, least: int = 1) -> int:
    """A whole number from ``least`` to ``most``."""
    whole = isinstance(value, float) and value.is_integer()
    if isinstance(value, bool) or not (isinstance(value, int) or whole):
        found = "not a whole number"
    elif not least <= value <= most:
        found = "out of range"
    else:
        return int(value)
    raise UsageError(f"{name} {value!r}", found, f"choose a whole number from {least} to {most:,}")


def flag(name: str, value: Any) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise UsageError(f"{name} {value!r}", "neither true nor false", "choose true or false")


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """One of several words."""
    if value in known:
        return str(value)
    raise UsageError(
        f"{name} {value!r}",
        f"there is no such {name}{nearest(str(value), list(known))}",
        f"choose {', '.join(known)}",
    )


def rate(name: str, value: Any, what: str) -> int | float | None:
    """More than 0 of ``what`` a second; None where none is asked for."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{name} {value!r}", "not a number", f"give {what} a second")
    if value <= 0:
        raise UsageError(f"{name} {value!r}", "nothing would be offered", "give 1 or more")
    return int(value) if value == int(value) else float(value)


def duration(name: str, value: Any, least_ns: int) -> str:
    """One form for each: ``90s`` and ``1.5m`` are both ``90s``; 7 days at most."""
    nanoseconds = parse_duration_ns(str(value)) if value != 0 else 0
    if not least_ns <= nanoseconds <= _LONGEST_NS:
        do = f"choose from {_text_of(least_ns)} to {_text_of(_LONGEST_NS)} (7 days)"
        raise UsageError(f"{name} {value!r}", "out of range", do)
    return _text_of(nanoseconds)


def duration_ns(params: Mapping[str, Any], name: str) -> int:
    """A duration of normalised parameters."""
    return parse_duration_ns(params[name])


def client_hosts(given: Any) -> list[str]:
    """``client1,bench@client2`` or a list of such; empty: this host."""
    names = given.split(",") if isinstance(given, str) else list(given or [])
    for name in names:
        if not isinstance(name, str) or not _HOST.fullmatch(name):
            raise UsageError(
                f"client_hosts {name!r}",
                "not a host as ssh takes it",
                "write host, user@host, or ssh://user@host:port",
            )
    return names


def check_clients(clients: int, hosts: Sequence[str]) -> None:
    """UsageError for fewer client processes than hosts of them."""
    if clients < len(hosts):
        raise UsageError(
            f"{clients} clients on {len(hosts)} client_hosts",
            "every host needs a client process at least",
            f"choose clients={len(hosts)} or more, or fewer hosts",
        )


def _text_of(nanoseconds: int) -> str:
    if nanoseconds == 0:
        return "0s"
    unit, size = next(((u, s) for u, s in _UNITS if nanoseconds % s == 0), ("ns", 1))
    return f"{nanoseconds // size}{unit}"
