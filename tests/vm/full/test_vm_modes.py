"""Modes of the playbooks: the kernel's view of each, again without change, and back.

One boot for all of them: the kernel shows a region whose labels are gone as what it was only
after a restart, which the last test does. fsdax with ext4 is test_vm_provisioning's.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import playbook_modules  # noqa: F401
import pytest
from tierbench import ipmctl
from vm_guest import Done, Played, harness, modes, play, state
from vm_machine import Vm

pytestmark = pytest.mark.vm

State = dict[str, Any]
#: Small, for a slow processor: where it writes and whose memory it uses is looked at.
RUN = ("run", "ycsb", "--engine", "postgres", "--records", 1000, "--threads", 2,
       "--ramp-up", "0s", "--operations", 2000,  # the log's room is looked at beforehand
       "--json", "--placement")  # fmt: skip


@dataclass(frozen=True)
class Mode:
    """A playbook with its variables, and what is to be seen of it.

    ``namespace``: the mode of each namespace that it makes. ``kinds``: the tiers of the host file
    with their kinds, one for each namespace, as ``harness doctor`` verifies them.
    """

    playbook: str
    variables: dict[str, Any]
    namespace: str
    kinds: dict[str, str]


def both(name: str, kind: str) -> dict[str, str]:
    """Tiers of two regions."""
    return {name: kind, f"{name}1": kind}


MODES = {
    "xfs": Mode("setup-appdirect", {"pmem_filesystem": "xfs"}, "fsdax", both("pmem", "fsdax")),
    "no-dax": Mode("setup-appdirect", {"pmem_dax": False}, "fsdax", both("pmem_nodax", "fs-nodax")),
    "part-of-a-region": Mode(
        "setup-appdirect", {"pmem_regions": ["region1"], "pmem_namespace_size": 512 << 20},
        "fsdax", {"pmem": "fsdax"},
    ),
    "sector": Mode("setup-sector", {}, "sector", both("pmem_log", "sector")),
    "devdax": Mode("setup-devdax", {}, "devdax", both("pmem_raw", "devdax")),
    "system-ram": Mode("setup-system-ram", {}, "devdax", both("pmem_ram", "numa")),
}  # fmt: skip


@dataclass(frozen=True)
class Cycle:
    """Observations on the way through one mode and back."""

    before: State
    up: State
    tiers: dict[str, str]
    problems: list[Any]
    again: Played
    used: Done | None
    files: list[str]
    left: str
    back: Played
    down: State


@pytest.fixture(scope="module")
def blank(lab):
    """Before the first mode."""
    return state(lab)


@pytest.fixture(scope="module")
def cycle(lab, blank):
    """Each mode once, for all tests that look at it."""
    done: dict[str, Cycle] = {}

    def of(name: str) -> Cycle:
        if name not in done:
            done[name] = _through(lab, MODES[name], USES.get(name))
        return done[name]

    return of


#: What a run shows of a mode that other runs do not.
USES: dict[str, tuple[object, ...]] = {
    "xfs": (*RUN, "ssd-data-pmem-wal"),
    "part-of-a-region": (*RUN, "pmem-both"),
    "system-ram": (*RUN, "data=ssd,memory=pmem_ram"),
}


def _through(lab: Vm, mode: Mode, use: tuple[object, ...] | None) -> Cycle:
    """A play costs half a minute there: consent is given to what is known to be there, by name."""
    before = state(lab)
    made = play(lab, mode.playbook, {**mode.variables, **_consent(_in_the_way(before, mode))})
    assert made.code == 0, made.out
    up = state(lab)
    again = play(lab, mode.playbook, mode.variables)
    document = harness(lab, "doctor", "--json").json
    with _watched(lab) as files:
        used = harness(lab, *use) if use else None
    left = lab.run(f"find {_TIERS} -path '*/tierbench-work/*'", check=False)
    ours = [name for name, found_mode in modes(up).items() if found_mode != "raw"]
    back = play(lab, "teardown", _consent(ours))
    assert back.code == 0, back.out
    tiers = {tier["name"]: tier["kind"] for tier in document["tiers"]}
    return Cycle(
        before, up, tiers, document["tier_problems"], again, used, files, left, back, state(lab)
    )


def _consent(names: Iterable[str]) -> dict[str, Any]:
    return {"confirm_destroy": True, "destroy": list(names)}


def _in_the_way(there: State, mode: Mode) -> list[str]:
    """Return the content of the regions that a mode is made in."""
    wanted = mode.variables.get("pmem_regions", ["region0", "region1"])
    regions = {name: re.sub(r"namespace(\d+)\..*", r"region\1", name) for name in modes(there)}
    return [name for name, region in regions.items() if region in wanted]


_TIERS = "/mnt/pmem0 /mnt/pmem1 /var/lib/tierbench/tiers/ssd"
_SERVER_FILES = r"\( -name '00000001*' -o -name postmaster.pid \)"


@contextmanager
def _watched(lab: Vm) -> Iterator[list[str]]:
    """Segments of the log and the lock file of every server on any tier meanwhile, by path."""
    seen: list[str] = []
    look = f"find {_TIERS} -path '*/tierbench-work/*' {_SERVER_FILES}"
    lab.run(
        f'nohup sh -c "while sleep 2; do {look}; done" </dev/null >/run/seen 2>/dev/null &'
        " echo $! >/run/watch.pid"
    )
    try:
        yield seen
    finally:
        seen += lab.run("kill $(cat /run/watch.pid); sort -u /run/seen").splitlines()


@pytest.mark.parametrize("name", MODES)
def test_the_kernel_confirms_the_mode(cycle, name):
    seen, mode = cycle(name), MODES[name]
    made = [each for each in modes(seen.up).values() if each != "raw"]
    assert made == [mode.namespace] * len(mode.kinds)
    assert seen.problems == []
    assert {tier: seen.tiers.get(tier) for tier in mode.kinds} == mode.kinds


@pytest.mark.parametrize("name", MODES)
def test_the_second_time_nothing_is_left_to_do(cycle, name):
    """A run without a step still asks the kernel whether all is as wanted, and fails if not."""
    seen = cycle(name)
    assert (seen.again.code, seen.again.steps) == (0, []), seen.again.out
    assert seen.again.report["changed"] is False


@pytest.mark.parametrize("name", MODES)
def test_teardown_goes_back_to_what_was_there(cycle, name):
    seen = cycle(name)
    assert [mode for mode in modes(seen.down).values() if mode != "raw"] == []
    assert any("after a restart" in note for note in seen.back.report["notes"])
    for what in seen.before.keys() - {"namespaces"}:
        assert seen.down[what] == seen.before[what], what


def _run(done: Done | None) -> dict[str, Any]:
    assert done is not None
    assert done.code == 0, done.err + done.out
    (run,) = done.json["runs"]
    assert (run["status"], run["emulated"]) == ("complete", [])
    assert {check["status"] for check in run["checks"]} == {"passed"}
    return dict(run)


def test_the_log_alone_on_persistent_memory(cycle):
    """By what lay where while the server ran."""
    seen = cycle("xfs")
    _run(seen.used)
    names = {(path.split("/tierbench-work/")[0], Path(path).name) for path in seen.files}
    segments = {place for place, name in names if re.fullmatch(r"[0-9A-F]{24}", name)}
    assert segments == {"/mnt/pmem0"}
    servers = {place for place, name in names if name == "postmaster.pid"}
    assert servers == {"/var/lib/tierbench/tiers/ssd"}


def test_all_on_persistent_memory_and_nothing_left_there(cycle):
    """By what lay where while the server ran, and after it."""
    seen = cycle("part-of-a-region")
    _run(seen.used)
    assert {path.split("/tierbench-work/")[0] for path in seen.files} == {"/mnt/pmem1"}
    assert seen.left == ""


def test_memory_of_the_engine_is_on_the_node_made_of_persistent_memory(cycle):
    """The check reads numa_maps of the server's processes."""
    run = _run(cycle("system-ram").used)
    (policy,) = [check for check in run["checks"] if check["name"] == "memory-policy"]
    assert re.match(r"bind to node [23]: ", policy["detail"]), policy


# What only a machine with other modules could do ----------------------------------------


@pytest.mark.parametrize(
    ("playbook", "variables"),
    [("setup-appdirect", {"pmem_goal": "AppDirectNotInterleaved"}), ("setup-memory-mode", {})],
)
def test_a_goal_without_modules_is_refused_in_ipmctls_words(lab, blank, playbook, variables):
    before = state(lab)
    refused = play(lab, playbook, variables)
    assert refused.code != 0
    assert "No PMem modules in the system" in refused.refusals, refused.out
    assert state(lab) == before


#: Goals as the playbooks ask for them.
GOALS = [
    ipmctl.Goal("AppDirect").argv,
    ipmctl.Goal("AppDirectNotInterleaved").argv,
    ipmctl.Goal("AppDirect", reserved_percent=20).argv,
    ipmctl.Goal("none", 100).argv,
    ipmctl.Goal("AppDirect", 50).argv,
]


QUESTIONS = [["ipmctl", "show", *words] for words in (
    ("-u", "B", "-memoryresources"), ("-region",), ("-goal",), ("-dimm",),
)]  # fmt: skip


def answers(vm: Vm, commands: list[list[str]]) -> list[tuple[int, str]]:
    """Exit status and words of each command, asked through one connection."""
    lines = "".join(
        f"words=$({shlex.join(argv)} 2>&1 | tr '\\n' ' '; exit ${{PIPESTATUS[0]}})\n"
        'echo "$? $words"\n'
        for argv in commands
    )
    told = [line.partition(" ") for line in vm.run("bash -s", given=lines).splitlines()]
    return [(int(code), words) for code, _, words in told]


def test_the_real_ipmctl_understands_what_it_is_asked(lab):
    """Without modules it says so."""
    asked = [*GOALS, *QUESTIONS]
    replies = answers(lab, asked)
    assert len(replies) == len(asked)
    for argv, (code, words) in zip(asked, replies, strict=True):
        assert (code, "No PMem modules in the system" in words) == (1, True), (argv, words)


def test_the_real_ipmctl_tells_a_slip_of_the_pen_from_missing_modules(lab):
    """A property's name is validated before the modules are read, but not its value."""
    slips = [[*argv[:-1], f"x{argv[-1]}"] for argv in GOALS]
    slips += [[*argv, "Gaol=1"] for argv in GOALS]
    for argv, (code, words) in zip(slips, answers(lab, slips), strict=True):
        assert (code, "Syntax Error" in words) == (201, True), (argv, words)


def test_after_a_restart_the_machine_is_what_it_was_before_the_first_mode(lab, blank):
    assert modes(blank) == {"namespace0.0": "raw", "namespace1.0": "raw"}
    lab.reboot()
    assert state(lab) == blank
