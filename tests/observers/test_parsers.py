"""Summaries of observers: fixtures written in their public formats, and damaged ones.

The shapes are those of public recordings and sources, not recordings of ours (but bpftrace 0.17
prints such lines): VTune's summary of
hpides/cxlbench, the columns of its events as in the options -column and -group-by of its user
guide, the fields of toplev's
CSV in pmu-tools' wiki, and bpftrace's ``-f json``.
"""

import json
from collections.abc import Callable

import numpy as np
import pytest

from harness.observers import ObservedNumber, bpftrace, metrics, toplev, vtune

VTUNE = """Hierarchy Level,Metric Name,Metric Value
0,Elapsed Time,11.25
1,IPC,0.41
0,Logical Core Utilization,23.5% (22.597 out of 96)
0,Memory Bound,76.2
1,DRAM Bound,70.7
0,Vectorization,0.0
1,Instruction Mix,
2,SP FLOPs,0.0
3,Packed,1.5
2,DP FLOPs,0.0
3,Packed,2.5
0,Collection and Platform Info,
1,Result Size,3949723
1,Collection start time,05:29:48 18/06/2025 UTC
0,Recommendations:
1,Hotspots,Start with Hotspots analysis.,Use it.
"""
PROCESSES = """Process,Hardware Event Count:INST_RETIRED.ANY,Hardware Event Count:MEM_LOADS:Self,PID
loadgen,20,1,17
postgres,3000,400,18
swapper,,,0
"""
TOPLEV = """# 5-full on Intel(R) Xeon(R)
CPUs,Area,Value,Unit,Description,Sample,Stddev,Multiplex,Bottleneck,Idle
S0-C0,Backend_Bound.Memory_Bound,55.5,% Slots,,,,12.5,<==,
S0-C0,Info.Thread,not counted,Metric,,,,,,
"""
BPFTRACE = "\n".join(
    [
        json.dumps({"type": "attached_probes", "data": {"probes": 4}}),
        json.dumps({"type": "printf", "data": "tracing\n"}),
        json.dumps({"type": "map", "data": {"@calls": {"postgres,16384,vfs_read": 7}}}),
        json.dumps({"type": "map", "data": {"@bytes": {"postgres,16384,vfs_read": 57344}}}),
    ]
)
SHAPES: list[tuple[Callable[[str], list[ObservedNumber]], str]] = [
    (vtune.parse, VTUNE),
    (vtune.parse_processes, PROCESSES),
    (toplev.parse, TOPLEV),
    (bpftrace.parse, BPFTRACE),
]


def test_vtune_names_figures_by_their_path() -> None:
    values = {figure.path: figure.value for figure in vtune.parse(VTUNE)}
    assert values["Logical Core Utilization",] == 23.5
    assert values["Memory Bound", "DRAM Bound"] == 70.7
    assert values["Vectorization", "Instruction Mix", "SP FLOPs", "Packed"] == 1.5
    assert values["Vectorization", "Instruction Mix", "DP FLOPs", "Packed"] == 2.5
    assert {path[0] for path in values}.isdisjoint(
        {"Recommendations:", "Collection and Platform Info"}
    )


def test_vtune_s_events_are_those_of_the_processes_with_the_most() -> None:
    assert vtune.parse_processes(PROCESSES) == [
        ObservedNumber(("Processes", "postgres", "INST_RETIRED.ANY"), 3000),
        ObservedNumber(("Processes", "postgres", "MEM_LOADS"), 400),
        ObservedNumber(("Processes", "loadgen", "INST_RETIRED.ANY"), 20),
        ObservedNumber(("Processes", "loadgen", "MEM_LOADS"), 1),
    ]
    many = PROCESSES + "".join(f"idle{i},1,1,9\n" for i in range(1000))
    shown = {figure.path[1] for figure in vtune.parse_processes(many)}
    assert len(shown) == 20 and {"postgres", "loadgen"} <= shown


def test_the_others_leave_out_what_was_not_counted() -> None:
    assert toplev.parse(TOPLEV) == [
        ObservedNumber(("S0-C0", "Backend_Bound", "Memory_Bound"), 55.5)
    ]
    assert bpftrace.parse(BPFTRACE) == [
        ObservedNumber(("calls", "postgres", "16384", "vfs_read"), 7),
        ObservedNumber(("bytes", "postgres", "16384", "vfs_read"), 57344),
    ]


def test_bpftrace_s_own_maps_are_no_figures() -> None:
    """The maps are of calls under way when it ended."""
    maps = {"@file": {"17": 1}, "@function": {"17": "vfs_read"}}
    line = json.dumps({"type": "map", "data": maps})
    assert bpftrace.parse(f"{BPFTRACE}\n{line}") == bpftrace.parse(BPFTRACE)


def test_a_full_map_of_bpftrace_is_an_error() -> None:
    """It leaves out further files without a message."""
    files = {f"x,{i},vfs_read": 1 for i in range(bpftrace.MOST_KEYS)}
    with pytest.raises(ValueError, match="left out"):
        bpftrace.parse(json.dumps({"type": "map", "data": {"@calls": files}}))


def test_a_path_that_repeats_is_numbered() -> None:
    (observer, *_) = vtune.OBSERVERS
    labelled = metrics(observer, [ObservedNumber(("a", "b"), 1), ObservedNumber(("a", "b"), 2)])
    assert [metric.labels["path"] for metric in labelled] == ["a / b", "a / b #2"]


def test_names_of_files_cannot_break_what_is_stored() -> None:
    (observer,) = bpftrace.OBSERVERS
    line = json.dumps({"type": "map", "data": {"@calls": {"x,\ud800\n\x1b[31m,vfs_read": 1}}})
    (metric,) = metrics(observer, bpftrace.parse(line))
    assert metric.labels["path"] == "calls / x / ???[31m / vfs_read"


@pytest.mark.parametrize(("parse", "text"), SHAPES)
def test_another_format_is_an_error(
    parse: Callable[[str], list[ObservedNumber]], text: str
) -> None:
    for wrong in ("", "Error: no data", text.replace(",", "\t").replace("@calls", "x")):
        with pytest.raises(ValueError, match=r"\w"):
            parse(wrong)


@pytest.mark.parametrize(("parse", "text"), SHAPES)
def test_damaged_text_gives_finite_figures_or_an_error(parse, text):
    rng = np.random.default_rng(19)
    for _ in range(500):
        damaged = list(text)
        for _ in range(rng.integers(1, 8)):
            at = rng.integers(len(damaged))
            damaged[at] = str(rng.choice(["", ",", '"', "\n", "9", "e", "nan", "\0", "²", "{"]))
        try:
            parsed = parse("".join(damaged)[: rng.integers(1, len(text))])
        except ValueError:
            continue
        assert all(np.isfinite(figure.value) for figure in parsed)
