"""toplev of pmu-tools: the top-down tree, by the kernel's perf."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

from harness.observers import ObservedNumber, Observer, find_program

_OUTPUT = "toplev.csv"


class Toplev(Observer):
    """Counts three levels of the top-down tree, system-wide and multiplexed."""

    name = "toplev"
    started = " stat -x"  # of the command line of perf, which it starts then

    def program(self) -> Path:
        return find_program("toplev", "PMU_TOOLS_HOME", ("toplev.py", "toplev"), ("toplev",))

    def collect(self, tree: Path) -> Sequence[str]:
        """``-x,`` is CSV; without a program to observe it would print its help.

        Without ``-v``, it leaves out the nodes below its thresholds: other ones in each repeat.
        """
        form = ["--no-desc", "-v", "--perf", "-x,", "-o", str(tree / _OUTPUT)]
        options = [*form, "-l3", "-a", "--global"]
        return [str(self.program()), *options, "sleep", "infinity"]

    def figures(self, tree: Path, output: str) -> list[ObservedNumber]:
        return parse((tree / _OUTPUT).read_text("utf-8", "replace"))


def parse(text: str) -> list[ObservedNumber]:
    """The figures by processor, where there is a column of them, and node."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    rows = csv.DictReader(io.StringIO("\n".join(lines)))
    names = rows.fieldnames or ()
    if not {"Area", "Value", "Unit"} <= set(names):
        raise ValueError("toplev's output has not the columns Area,Value,Unit")
    figures = []
    for row in rows:
        try:
            value = float(row["Value"] or "nan")
        except ValueError:
            continue
        if math.isfinite(value) and row["Area"]:
            nodes = row["Area"].split(".")
            cpus = [row["CPUs"]] if row.get("CPUs") else []
            figures.append(ObservedNumber((*cpus, *nodes), value))
    return figures


OBSERVERS: Sequence[Observer] = [Toplev()]
