"""Our suites: what comes along, how they are expanded, and what is wrong with one."""

import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from micro_suites import DRAM, HERE, RANDOM, capacity, overrides, suite

from harness.errors import UsageError
from harness.micro import native
from harness.micro.host_suite import (
    HostSuite,
    TargetKey,
    suite_on,
    target_sizes,
    through_page_cache,
)
from harness.micro.keys import Patterns, chosen
from harness.micro.model import FILE
from harness.micro.spec import spec_json
from harness.micro.suite import find_suite, known_suites, load_suite
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.units import GIB, KIB, MIB
from harness.workloads.kinds import Duration
from reports.micro.as_published import PERMA_FIGURES, published_file
from reports.published import read_published


def refusal(measurements: str, defaults: str = "{range: 1GiB, duration: 1s}") -> UsageError:
    with pytest.raises(UsageError) as refused:
        suite(measurements, defaults)
    return refused.value


def configurations(measurements: str, **variables: Any) -> list[str]:
    return [
        measurement.configuration for measurement in suite(measurements, **variables).measurements
    ]


@pytest.mark.parametrize("name", known_suites())
def test_every_suite_that_comes_along_is_one_that_the_program_takes(name, tmp_path):
    loaded = load_suite(find_suite(name), HERE)
    if not loaded.measurements:
        assert loaded.program != "microbench"
        return
    names = [measurement.configuration for measurement in loaded.measurements]
    assert len(names) == len(set(names))
    near = tuple(sorted(os.sched_getaffinity(0))) * 64
    nodes = {0: 256 * GIB, 1: 256 * GIB}
    here = replace(capacity(tier=256 * GIB, dram=512 * GIB, node_bytes_free=nodes), near=near)
    tier = DRAM
    if any(job.kind == FILE for job in loaded.jobs()):
        tier = Tier(TierClaim("fast", "fsdax", path=str(tmp_path)), TierFacts("fsdax"))
        here = replace(here, has_files=True, pages_matter=False)
    host_suite = suite_on(loaded, here, overrides())
    native.refuse(host_suite, tier, here)
    spec = spec_json(host_suite.measurements, tier, tmp_path, here, seed=1, repeats=2)
    assert len(spec["measurements"]) == 2 * len(host_suite.measurements)


@pytest.mark.parametrize("llc", [32 * MIB, 504 * MIB])
def test_quick_fits_two_processors_and_4_gb(llc):
    """0.6 of what is free may be taken; a cache of 504 MiB is the server's that the guest is on."""
    variables = {"cpus": 2.0, "cores": 1.0, "llc": float(llc), "memory": 4e9}
    quick = load_suite(find_suite("quick"), variables)
    free = int(0.6 * 3e9)
    fitting = suite_on(quick, capacity(cpus=2, tier=free, dram=free), overrides())
    assert len(fitting.measurements) == len(quick.measurements)


@cache
def papers_of_suites():
    """Return what each suite repeats, by its name."""
    files = {name: path for name, path in known_suites().items() if path.is_file()}
    told = {name: load_suite(path, HERE).published for name, path in files.items()}
    return {name: published for name, published in told.items() if published is not None}


@pytest.mark.parametrize("paper", ["perma-bench", "empirical-guide", "pmem-io-primitives", "bento"])
def test_every_number_of_a_papers_microbenchmarks_is_laid_beside_some_suite(paper):
    told = papers_of_suites().values()
    named = {f for published in told if published["paper"] == paper for f in published["figures"]}
    if paper == "perma-bench":  # whose own format has no room to say so
        named |= {figure for figures in PERMA_FIGURES.values() for figure in figures}
    assert {row.figure for row in read_published(published_file(paper))} <= named


@pytest.mark.parametrize("name", ["fig6", "fig17", "sec3-1", "sec5-4"])
def test_far_configurations_want_a_second_socket_and_say_so_without_one(name):
    """A simulated host of two sockets with 24 processors each, and of one."""
    loaded = load_suite(find_suite(f"empirical-guide/{name}"), HERE)
    two, single = (suite_on(loaded, capacity(cpus=24, far=far), overrides()) for far in (24, 0))
    far = {m.configuration for m in two.measurements if any(j.numa == "far" for j in m.jobs)}
    assert far and not [f for f in two.warnings if f.code == "no-far-processors"]
    assert [m.configuration for m in single.measurements] == [
        m.configuration for m in two.measurements if m.configuration not in far
    ]
    assert [f.code for f in single.warnings].count("no-far-processors") == 1


def test_without_pmdk_its_configurations_are_left_out_and_counted():
    loaded = load_suite(find_suite("pmem-io-primitives/fig6"), HERE)
    there, missing = (
        suite_on(loaded, replace(capacity(), no_pmdk=why), overrides())
        for why in ("", "libpmemlog missing")
    )
    assert len(there.measurements) - len(missing.measurements) == 6
    (warning,) = [warning for warning in missing.warnings if warning.code == "no-pmdk"]
    assert "libpmemlog missing" in warning.context
    assert not [warning for warning in there.warnings if warning.code == "no-pmdk"]


@pytest.mark.parametrize(
    ("host", "left_out", "measured"),
    [
        ({}, {"no-files": 65}, {"chase", "loaded_latency", "bandwidth"}),
        (
            {"has_files": True, "page_cached": True},
            {"not-memory": 20},
            {"page_read", "log_append", "checkpoint"},
        ),
        ({"has_files": True}, {}, {"page_read", "chase"}),
    ],
    ids=["memory", "block", "files-in-memory"],
)
def test_the_baseline_has_what_the_tier_has(host, left_out, measured):
    """With 64 threads on four processors: those that wait for a file need none of their own."""
    loaded = load_suite(find_suite("baseline"), HERE)
    host_suite = suite_on(loaded, replace(capacity(), **host), overrides())
    names = {measurement.name for measurement in host_suite.measurements}
    assert measured <= names
    assert len(loaded.measurements) - len(host_suite.measurements) == sum(left_out.values())
    counted = {
        warning.code: int(warning.context.split()[0])
        for warning in host_suite.warnings
        if "left out" in warning.context
    }
    assert counted == left_out
    assert "page-cache" not in {warning.code for warning in host_suite.warnings}


def test_a_file_job_has_a_target_of_its_own():
    """Next to memory of the same tier, which is mapped."""
    both = suite(f"""  read: {{args: {{kind: file, operation: read, pattern: random, access: 512}}}}
  load: {{{RANDOM}}}
""")
    assert target_sizes(both.measurements, capacity()) == {
        TargetKey("tier", "file"): GIB, TargetKey("tier", "huge"): GIB,
    }  # fmt: skip


@pytest.mark.parametrize(("written", "read"), [("true", "yes"), ("false", "no"), ("auto", "auto")])
def test_direct_is_a_flag_or_auto(written, read):
    keys = f"kind: file, operation: write, pattern: random, access: 512, direct: {written}"
    (job,) = suite(f"  write: {{args: {{{keys}}}}}\n").jobs()
    assert job.keys["direct"] == read


def test_direct_writes_that_linux_caches_are_measured_as_such():
    def on_btrfs(direct: str) -> HostSuite:
        keys = f"kind: file, pattern: random, access: 4KiB, direct: {direct}"
        operations = "matrix: {operation: [read, write]}"
        requested = suite(f"  m: {{{operations}, args: {{{keys}}}}}\n")
        return through_page_cache(HostSuite(requested.measurements, ()))

    auto = on_btrfs("auto")
    read, write = (job.keys for measurement in auto.measurements for job in measurement.jobs)
    assert (read["direct"], write["direct"]) == ("auto", "no")
    assert [warning.code for warning in auto.warnings] == ["direct-writes-cached"]
    assert on_btrfs("false").warnings == ()
    with pytest.raises(UsageError):
        on_btrfs("true")


def test_a_file_job_names_its_operation_and_its_order():
    for missing in ("operation: read", "pattern: random", "access: 512"):
        keys = {"operation: read", "pattern: random", "access: 512"} - {missing}
        with pytest.raises(UsageError, match=missing.split(":")[0]):
            suite(f"  read: {{args: {{kind: file, {', '.join(keys)}}}}}\n")


def test_a_matrix_is_a_cross_product_with_the_last_key_fastest():
    swept = "matrix: {kernel: [load, ntstore+sfence], access: [64, 4KiB]}"
    assert configurations(f"  m: {{{swept}, args: {{pattern: random}}}}") == [
        f"m/kernel={kernel},access={access}"
        for kernel in ("load", "ntstore+sfence")
        for access in ("64", "4KiB")
    ]


ONE = "args: {kernel: load, access: 64, pattern: random}"


def test_powers_have_both_ends_whatever_the_end_is():
    powers = f"  m: {{matrix: {{threads: {{powers_of: 2, from: 1, to: '= cpus'}}}}, {ONE}}}"
    measurements = suite(powers, cpus=6).measurements
    assert [measurement.jobs[0].threads for measurement in measurements] == [1, 2, 4, 6]
    # What an expression makes equal is measured once.
    assert configurations(f"  m: {{matrix: {{threads: [1, '= cpus']}}, {ONE}}}", cpus=1) == [
        "m/threads=1"
    ]


def test_without_load_it_does_not_matter_which_load_there_would_be():
    loaded = suite(
        "  m: {args: {duration: 2s}, jobs: {chase: {args: {kind: chase}},"
        " load: {matrix: {kernel: [load, ntstore+sfence], pace: [idle, 2GB/s, unlimited]},"
        " args: {access: 256, pattern: sequential}}}}"
    )
    idle = [measurement for measurement in loaded.measurements if len(measurement.jobs) == 1]
    assert len(idle) == 1
    assert len(loaded.measurements) == 5
    assert {measurement.duration_ns for measurement in loaded.measurements} == {2 * 10**9}
    paces = [
        measurement.jobs[1].pace
        for measurement in loaded.measurements
        if len(measurement.jobs) == 2
    ]
    assert paces == [{"bytes_per_second": 2 * 10**9}, None] * 2


def test_a_kernel_in_words_is_store_flush_and_fence():
    (measurement,) = suite(
        "  m: {args: {kernel: mixed+ntstore+sfence, read_share: 0.5, access: 64, pattern: random}}"
    ).measurements
    assert measurement.jobs[0].keys == {
        "operation": "mixed", "store": "ntstore", "flush": "none", "fence": "sfence",
        "read_share": 0.5, "access_bytes": 64, "pattern": "random",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("measurements", "words"),
    [
        ("  m: {args: {kernal: load}}", "did you mean 'kernel'"),
        ("  m: {args: {kernel: laod, access: 64, pattern: random}}", "did you mean 'load'"),
        ("  m: {args: {kernel: store+clbw, access: 64, pattern: random}}", "did you mean 'clwb'"),
        ("  m: {args: {kernel: load, access: 64}}", "without pattern"),
        ("  m: {args: {kernel: mixed+store, access: 64, pattern: random}}", "without read_share"),
        ("  m: {args: {kernel: load, access: 100, pattern: random}}", "multiple of 64"),
        ("  m: {args: {kind: chase, access: 64}}", "'access' of a chase job"),
        ("  m: {args: {kind: chain, mode: dependent}}", "without chain"),
        ("  m: {args: {kind: chain, mode: dependent, chain: r_64, mix: {r_64: 1}}}", "both chain"),
        ("  m: {args: {kind: chain, mode: dependent, mix: {r_64: 0}}}", "mix"),
        ("  m: {args: {kernel: load, access: 64, pattern: random, pace: 2GB}}", "2GB/s"),
        ("  m: {args: {kernel: load, access: 64, pattern: random, threads: 1.5}}", "whole number"),
        ("  m: {matrix: {threads: [1]}, jobs: {a: {}, b: {}}}", "both matrix and jobs"),
        ("  m: {args: {threads: 2}, jobs: {a: {args: {kind: chase}}, b: {args: {kind: chase}}}}",
         "'threads' with jobs"),
        ("  m: {args: {kernel: load, access: 64, pattern: random, threads: '= cpu'}}",
         "did you mean 'cpus'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_suite_is_said_with_its_line(measurements, words):
    error = refusal(measurements)
    assert error.problem.startswith("mine.yml:")
    assert words in f"{error.context}: {error.hint}"


def test_a_measurement_that_would_never_end_is_refused():
    error = refusal("  m: {args: {kernel: load, access: 64, pattern: random}}", "{range: 1GiB}")
    assert "never ends" in error.context


def test_parameters_of_the_command_line_are_read_with_their_units():
    limits = overrides(duration="2s", range="64MiB", only="a,b*", threads="3")
    assert (limits.duration, limits.range_bytes, limits.only, limits.threads) == (
        Duration(2 * 10**9), 64 * MIB, ("a", "b*"), 3)  # fmt: skip
    with pytest.raises(UsageError, match="'duration'"):
        overrides(durration="2s")
    with pytest.raises(UsageError, match="not a duration"):
        overrides(duration="2")


def test_sizes_in_suites_are_bytes_with_units():
    text = "  m: {args: {kernel: load, access: 4KiB, pattern: random, range: '= 2 * llc'}}"
    (measurement,) = suite(text).measurements
    assert (measurement.jobs[0].keys["access_bytes"], measurement.jobs[0].range_bytes) == (
        4 * KIB,
        64 * MIB,
    )


# Impossible measurements -------------------------------------------------------

HEAD = "schema: 1\nname: mine\ndescription: d\n"
BODY = "args: {kernel: load, access: 64, pattern: random"


def refused_file(tmp_path: Path, text: str) -> UsageError:
    file = tmp_path / "mine.yml"
    file.write_text(HEAD + text)
    with pytest.raises(UsageError) as refused:
        load_suite(file, HERE)
    return refused.value


def test_idle_stands_beside_other_jobs_only(tmp_path):
    error = refused_file(
        tmp_path,
        "defaults: {range: 1MiB, duration: 1s}\nmeasurements:\n  m:\n"
        f"    matrix:\n      pace: [idle, 1GB/s]\n    {RANDOM}\n",
    )
    assert error.problem == f"{tmp_path}/mine.yml:8, measurement m"
    assert error.context.startswith("pace: idle,")
    assert error.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [("range", "= 1e400"), ("threads", "= 1e308*10"), ("range", "= 1e300"), ("range", "= 4 - llc")],
)
def test_an_expression_without_a_size_is_refused(tmp_path, key, value):
    error = refused_file(
        tmp_path,
        f"defaults: {{range: 1MiB, duration: 1s}}\nmeasurements:\n  m: {{{BODY}, "
        f"{key}: '{value}'}}}}\n",
    )
    assert error.problem == f"{tmp_path}/mine.yml:6, measurement m"
    assert error.context.startswith(f"{key}: ") and value in error.context


def test_what_fio_measures_on_a_block_device_is_looked_at_too(tmp_path):
    error = refused_file(
        tmp_path,
        f"defaults: {{range: 1MiB, duration: 1s}}\nmeasurements: {{m: {{{RANDOM}}}}}\n"
        "block:\n  program: fio\n  params: {measurements: [1]}\n",
    )
    assert error.problem.startswith(f"{tmp_path}/mine.yml:8, measurements of")


# ``-p only=`` ---------------------------------------------------------------------


ALL = [
    f"{name}/kernel={kernel},threads={threads}"
    for name in ("sequential", "latency")
    for kernel in ("load", "ntstore+sfence")
    for threads in (1, 2)
]


def only(text: str) -> list[str]:
    return chosen(ALL, Patterns().parse("only", text), lambda name: (name.partition("/")[0], name))


def test_a_configuration_is_named_as_it_is_printed() -> None:
    for name in ALL:
        assert only(name) == [name]
    assert only(f"{ALL[5]},{ALL[0]}") == [ALL[0], ALL[5]]


def test_a_name_with_commas_stands_beside_patterns_without() -> None:
    assert only(f"latency,{ALL[1]}") == [ALL[1], *ALL[4:]]
    assert only(f"{ALL[1]},latency") == [ALL[1], *ALL[4:]]
    assert only("sequential/kernel=l*,threads=2") == [ALL[1]]


def test_what_matches_by_itself_is_a_pattern_of_its_own() -> None:
    """Both, not those that are both: as if no name had a comma."""
    assert only("*kernel=load*,*threads=1") == [name for name in ALL if "load" in name
                                                or name.endswith("=1")]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("latncy", "latncy"),
        ("latency,chase", "chase"),
        ("latency/kernel=load,threads=3", "latency/kernel=load"),
        (f"{ALL[0]},threads=9", "threads=9"),
        ("latency,", ""),
    ],
)
def test_what_matches_nothing_is_refused_by_name(text: str, missing: str) -> None:
    with pytest.raises(UsageError) as refused:
        only(text)
    assert refused.value.problem == f"--param only={text}"
    assert f"the name {missing!r}" in refused.value.context
    assert "measurements: sequential, latency;" in refused.value.hint
