"""Memory policies on four nodes of a real kernel (6.1, without weighted interleaving).

Nodes 0 and 1 have processors, node 2 is memory alone, and node 3 is persistent memory as
system-ram, which this kernel has in a lower memory tier. What is checked is what the kernel shows
of a process's pages; a process that has another policy than its run says must be found.
"""

import json
import shlex
from typing import Any

import pytest
from vm_guest import fresh_machine, harness, install_with_memory_tiers
from vm_image import GUEST_VENV

from harness.engine import MemoryPolicy
from harness.execution.engine_state import memory_check
from harness.tiers.linux.numa import NodeResidency

pytestmark = pytest.mark.vm

WEIGHTED = "  weighted: {kind: numa, nodes: [0, 2], policy: weighted, weights: [3, 1]}\n"
SLOW_NODE = """set -e
ndctl disable-region all; ndctl init-labels -f all; ndctl enable-region all
ndctl create-namespace -r region1 -m devdax
daxctl reconfigure-device --mode=system-ram dax1.0
grep -q MemTotal /sys/devices/system/node/node3/meminfo
"""
#: Policies that the run states, and those that the process has.
POLICIES: dict[str, tuple[MemoryPolicy, MemoryPolicy | None, str]] = {
    "bind": (MemoryPolicy("bind", (2,)), None, "passed"),
    "preferred": (MemoryPolicy("preferred", (3,)), None, "passed"),
    "interleave": (MemoryPolicy("interleave", (0, 1, 2, 3)), None, "passed"),
    "weighted": (MemoryPolicy("weighted", (0, 3), (3, 1)), None, "passed"),
    "weighted over four": (MemoryPolicy("weighted", (0, 1, 2, 3), (4, 1, 2, 1)), None, "passed"),
    "tiered": (MemoryPolicy("tiered", (0, 2)), None, "passed"),
    "bound elsewhere": (MemoryPolicy("bind", (2,)), MemoryPolicy("bind", (1,)), "failed"),
    "preferred elsewhere": (MemoryPolicy("preferred", (3,)), MemoryPolicy("bind", (1,)), "failed"),
    "not interleaved": (MemoryPolicy("interleave", (0, 1)), MemoryPolicy("bind", (0,)), "failed"),
    "evenly": (
        MemoryPolicy("weighted", (0, 3), (3, 1)), MemoryPolicy("interleave", (0, 3)), "failed",
    ),
    "the other way round": (
        MemoryPolicy("weighted", (0, 3), (3, 1)), MemoryPolicy("weighted", (0, 3), (1, 3)),
        "failed",
    ),
    "tiered elsewhere": (MemoryPolicy("tiered", (0, 2)), MemoryPolicy("bind", (1,)), "failed"),
}  # fmt: skip


@pytest.fixture(scope="module")
def vm():
    with fresh_machine(memory_mib=(1024, 1024, 1024)) as machine:
        machine.run(SLOW_NODE)
        install_with_memory_tiers(machine, WEIGHTED)
        yield machine


def filled(vm, policies, seconds=0.0, preloaded=True) -> list[dict[str, Any]]:
    """What the kernel shows of a process under each policy (guest_policies.py)."""
    requested = [
        {
            **{"mode": policy.mode, "nodes": policy.nodes, "weights": policy.weights},
            "preloaded": preloaded and policy.mode in ("weighted", "tiered"),
            "seconds": seconds,
        }
        for policy in policies
    ]
    script = "/opt/harness/tests/vm/guest_policies.py"
    answer: list[dict[str, Any]] = json.loads(
        vm.run(f"{GUEST_VENV}/bin/python {script} '{json.dumps(requested)}'")
    )
    return answer


@pytest.fixture(scope="module")
def checks(vm):
    answers = filled(vm, [actual or stated for stated, actual, _ in POLICIES.values()])
    return {
        name: memory_check(stated, residency(answer))
        for (name, (stated, _, _)), answer in zip(POLICIES.items(), answers, strict=True)
    }


def residency(answer: dict[str, Any]) -> NodeResidency:
    shares = ({int(n): size for n, size in answer[k].items()} for k in ("anonymous", "shared"))
    return NodeResidency(*shares)


@pytest.mark.parametrize("name", POLICIES)
def test_numa_maps_confirms_each_policy_and_finds_each_violation(checks, name):
    assert checks[name].status == POLICIES[name][2], checks[name].detail


def test_linux_balances_shared_memory_only_with_a_policy_of_its_own(vm):
    """In mode 1: the machine has no slower tier, so that mode 2 finds nothing to promote."""
    vm.run("sysctl -q kernel.numa_balancing=1")
    tiered = MemoryPolicy("tiered", (0, 2))
    (alone,) = filled(vm, [tiered], seconds=5, preloaded=False)
    (with_library,) = filled(vm, [tiered], seconds=5)
    assert with_library["hint_faults"] > 5 * alone["hint_faults"]


#: What Linux has while the server runs, and after the harness was killed.
KILLED = """
settings="/proc/sys/kernel/numa_balancing /sys/kernel/mm/numa/demotion_enabled"
setsid COMMAND > /root/killed.txt 2>&1 &
harness=$!
until [ "$(cat /sys/kernel/mm/numa/demotion_enabled)" = true ]; do
  kill -0 $harness || { cat /root/killed.txt >&2; exit 3; }
  sleep 0.1
done
cat $settings
kill -9 $harness
for try in $(seq 100); do
  [ "$(cat /proc/sys/kernel/numa_balancing)" = 1 ] && break
  sleep 0.2
done
cat $settings
"""
#: Small, for a slow processor.
RUN = (
    *("run", "ycsb", "--host", "/root/host.yml", "--engine", "postgres", "--records", 1000),
    *(
        "--threads",
        2,
        "--ramp-up",
        "0s",
        "--operations",
        500,
        "--repeats",
        1,
        "--json",
        "--placement",
    ),
)


def test_a_server_s_memory_is_spread_by_weights(vm):
    """By the preloaded library; a small run fills part of the buffer pool, perhaps unevenly."""
    done = harness(vm, *RUN, "data=ssd,memory=weighted")
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    (check,) = [check for check in run["checks"] if check["name"] == "memory-policy"]
    assert check["status"] in ("passed", "unknown"), check
    assert "weighted to node 0, 2 by 3:1" in check["detail"]
    sizes = {
        metric["labels"]["node"]: metric["value"]
        for metric in run["metrics"]
        if metric["name"] == "vm_engine_memory_bytes" and metric["labels"]["at"] == "stop"
    }
    assert set(sizes) == {"0", "1", "2", "3"}
    assert sizes["1"] + sizes["3"] < 0.01 * sizes["2"]


def test_tiered_memory_is_refused_where_all_nodes_are_in_one_memory_tier(vm):
    placement = "data=ssd,memory=tiered:near,far"
    refused = harness(vm, *RUN, placement)
    assert refused.code == 2
    assert "one memory tier" in refused.err


def test_the_settings_of_tiered_memory_are_restored_after_a_kill(vm):
    """Promotion and demotion are on while the server runs; its supervisor undoes that."""
    vm.run("sysctl -q kernel.numa_balancing=1")
    argv = shlex.join(map(str, ["harness", *RUN, "data=ssd,memory=tiered:near,slow"]))
    seen = vm.run(KILLED.replace("COMMAND", argv)).split()
    assert seen == ["2", "true", "1", "false"]


def test_weights_that_this_kernel_does_not_compute_are_refused(vm):
    refused = harness(vm, *RUN, "data=ssd,memory=weighted:near,far")
    assert refused.code == 2
    assert "Linux computes none" in refused.err


def test_stops_by_a_quota_of_control_groups_version_2_are_counted(vm):
    quota = (
        "systemd-run --quiet --wait --pipe -E HOME=/root -p WorkingDirectory=/root -p CPUQuota=50%"
    )
    command = shlex.join(map(str, ["harness", *RUN, "ssd-both"]))
    (run,) = json.loads(vm.run(f"{quota} {command}"))["runs"]
    stops = [m["value"] for m in run["metrics"] if m["name"] == "window_cpu_throttled_ns"]
    assert len(stops) == 1
    assert stops[0] > 0
