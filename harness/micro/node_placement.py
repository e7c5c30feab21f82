"""Memory of a job on NUMA nodes that its suite names: ``0``, ``0,1``, ``0*5,1*24``, ``0,1/2``.

Pages lie on the nodes in turn, with weights that many on each. A slash divides the range into two
parts, each on nodes of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.micro.model import Pages
from harness.sequences import grouped
from harness.units import KIB, MIB

_NODE = re.compile(r"(\d{1,3})(?:\*(\d{1,6}))?")
PAGE_BYTES = {"huge": 2 * MIB, "base": 4 * KIB}


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of a part of a range; ``weights``: pages on each in turn, empty where all are equal."""

    nodes: tuple[int, ...]
    weights: tuple[int, ...] = ()

    def shares(self) -> dict[int, float]:
        """Return the share of the pages that lies on each node."""
        weights = self.weights or (1,) * len(self.nodes)
        by_node = grouped(zip(self.nodes, weights, strict=True))
        return {node: sum(each) / sum(weights) for node, each in by_node.items()}

    def to_json(self, size_bytes: int) -> dict[str, Any]:
        """Return the part as the native program's spec has it."""
        weights = {"weights": list(self.weights)} if self.weights else {}
        return {"bytes": size_bytes, "nodes": list(self.nodes), **weights}


def node_groups(text: str) -> tuple[NodeGroup, ...]:
    """Return the parts of a text that was read before."""
    return tuple(_group(part) for part in text.split("/"))


def _group(text: str) -> NodeGroup:
    pairs = [_NODE.fullmatch(node) for node in text.split(",")]
    nodes = tuple(int(match[1]) for match in pairs if match)
    weights = tuple(int(match[2] or 1) for match in pairs if match)
    return NodeGroup(nodes, weights if len(set(weights)) > 1 else ())


class Nodes:
    """The kind of a value that names memory nodes (workloads.parameters.Kind)."""

    values = "0, 0,1, 0*5,1*24, 0,1/2"

    def parse(self, name: str, value: Any) -> str:
        """Return the text without spaces; UsageError where it names no nodes."""
        text = str(value).replace(" ", "")
        parts = [part.split(",") for part in text.split("/")]
        matches = [_NODE.fullmatch(node) for part in parts for node in part]
        if isinstance(value, bool) or len(parts) > 2 or not all(matches):
            hint = "write 0, or 0,1, with pages on each 0*5,1*24, in two parts 0,1/2"
            raise UsageError(f"{name} {value!r}", "no memory nodes", hint)
        if any(match and match[2] and int(match[2]) == 0 for match in matches):
            raise UsageError(f"{name} {value!r}", "a weight of 0", "leave the node out")
        return text


def first_bytes(range_bytes: int, first_share: float, pages: Pages) -> int:
    """Return the bytes of the first of two parts, in whole pages."""
    page = PAGE_BYTES[pages]
    return min(round(range_bytes * first_share / page) * page, range_bytes)
