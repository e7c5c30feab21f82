"""A JSON file as damage leaves it: values of other kinds, keys gone, bytes flipped or cut off."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

_ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    1 << 70,
    0.5,
    "",
    "\0",
    "\ud800",
    "../..",
    "/",
    "a b",
    [],
    [[]],
    {},
    {"x": 1},
)


def mutated(document: dict[str, Any], number: int, seed: int = 1) -> Iterator[bytes]:
    """``number`` of them, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(number):
        kind = chance.random()
        if kind < 0.7:
            copy = json.loads(json.dumps(document))
            _damage(copy, chance)
            yield json.dumps(copy).encode()
        else:
            text = bytearray(json.dumps(document).encode())
            if kind < 0.9:
                for _ in range(chance.randint(1, 4)):
                    text[chance.randrange(len(text))] = chance.randrange(256)
            yield bytes(text[: chance.randrange(len(text) + 1)] if kind > 0.8 else text)


def _damage(node: Any, chance: random.Random) -> None:
    """One value somewhere below ``node``."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    key = chance.choice(keys)
    inside = node[key]
    if isinstance(inside, (dict, list)) and inside and chance.random() < 0.8:
        _damage(inside, chance)
    elif isinstance(node, dict) and chance.random() < 0.3:
        del node[key]
    else:
        node[key] = chance.choice(_ODD)
