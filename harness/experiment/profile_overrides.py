"""Changes by the command line to a profile before it is expanded: size, parameters, drivers.

An error still names the line of the file: the places that a changed profile has keep theirs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any

from harness.errors import UsageError, unknown
from harness.store.spec import JsonObject
from harness.structs import Where
from harness.yamlfile import YamlDocument


def resized(document: YamlDocument, size: float) -> YamlDocument:
    """The profile at this size; UsageError where it has none."""
    if "size" not in document.value:
        raise UsageError(
            f"size {size:g} of {document.path}",
            "this profile has no size: nothing in it scales",
            "leave --size out, or give the profile a size and expressions of it",
        )
    if not (math.isfinite(size) and size > 0):
        raise UsageError(f"size {size:g}", "not a positive number", "give a size such as 0.5")
    return replace(document, value={**document.value, "size": size})


def with_params(document: YamlDocument, params: JsonObject) -> YamlDocument:
    """The profile with these workload parameters, whatever it says of them itself.

    An axis has this value alone; of configurations, those that have it are left.
    """
    profile = document.value
    axes = dict(profile["axes"])
    over = {name: [params[name]] for name in axes.get("params", {}) if name in params}
    if over:
        axes["params"] = {**axes["params"], **over}
    fixed = {name: value for name, value in params.items() if name not in over}
    entries: Sequence[int] = range(len(axes.get("configuration", ())))
    for name, value in params.items():
        values = [
            e["params"][name] for e in axes.get("configuration", ()) if name in e.get("params", {})
        ]
        if values:
            fixed.pop(name)
            if value not in values:
                texts = list(dict.fromkeys(map(str, values)))
                raise unknown(
                    f"{name} {value!r} of {document.path}",
                    "no configuration of this profile has it",
                    str(value),
                    texts,
                    "its values: {}",
                )
            together = profile["axes"]["configuration"]
            entries = [
                position
                for position in entries
                if together[position].get("params", {}).get(name, value) == value
            ]
            axes["configuration"] = [together[position] for position in entries]
    merged = profile.get("fixed", {})
    merged = {**merged, "params": {**merged.get("params", {}), **fixed}}
    narrowed = {**profile, "axes": axes, "fixed": merged}
    return changed(document, narrowed, tuple(over), entries)


def changed(
    document: YamlDocument,
    value: Any,
    params: Sequence[str] = (),
    entries: Sequence[int] | None = None,
) -> YamlDocument:
    """The profile with another value, and the lines of the places that this value still has.

    ``params``: axes whose values are not the file's. ``entries``: positions in the file of the
    configurations, if some are left out.
    """
    lines: dict[Where, int] = {}
    for place, line in document.lines.items():
        where = place
        if where[:2] == ("axes", "params") and len(where) > 3 and where[2] in params:
            continue
        if entries is not None and where[:2] == ("axes", "configuration") and len(where) > 2:
            if where[2] not in entries:
                continue
            where = (*where[:2], [*entries].index(int(where[2])), *where[3:])
        try:
            reduce(getitem, where, value)
        except (LookupError, TypeError):
            continue
        lines[where] = line
    return replace(document, value=value, lines=lines)


def with_drivers(document: YamlDocument, drivers: Sequence[str]) -> YamlDocument:
    """The profile with these drivers in place of its fixed one; an axis of drivers stays."""
    profile = document.value
    together = profile["axes"].get("configuration", ())
    if "driver" in profile["axes"] or any("driver" in entry for entry in together):
        return document
    fixed = {key: value for key, value in profile.get("fixed", {}).items() if key != "driver"}
    axes = {**profile["axes"], "driver": list(drivers)}
    return changed(document, {**profile, "axes": axes, "fixed": fixed})
