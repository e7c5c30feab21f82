"""Weights of Linux's own, and pages that it promotes and demotes, under a real server.

Debian 13's kernel (6.12). Nodes 0 and 1 have processors, node 2 is memory alone, and node 3 is
persistent memory as system-ram, in a lower memory tier. It is not CXL memory: QEMU emulates each
access to that, and QEMU 10 ends with a segmentation fault where programs have their memory there.
"""

import os
import shlex
from typing import Any

import pytest
from vm_guest import fresh_machine, harness, install_with_memory_tiers
from vm_image import DEBIAN_13

pytestmark = pytest.mark.vm

SLOW_NODE = """set -e
echo offline > /sys/devices/system/memory/auto_online_blocks
ndctl disable-region all; ndctl init-labels -f all; ndctl enable-region all
ndctl create-namespace -r region1 -m devdax
udevadm settle
daxctl reconfigure-device --mode=system-ram dax1.0
grep -q MemTotal /sys/devices/system/node/node3/meminfo
sysctl -q kernel.numa_balancing=1
"""
WEIGHTS = "/sys/kernel/mm/mempolicy/weighted_interleave"
SETTINGS = "cat /proc/sys/kernel/numa_balancing /sys/kernel/mm/numa/demotion_enabled"
#: 64 MiB, and the line of numa_maps that shows where they are.
FILL = """
import mmap
block = mmap.mmap(-1, 64 << 20)
for at in range(0, len(block), mmap.PAGESIZE):
    block[at] = 1
print(next(l for l in open("/proc/self/numa_maps") if "dirty=16384" in l or "anon=16384" in l))
"""
#: Fills while the run has set the weights; the harness is killed then.
WEIGHED = f"""
setsid COMMAND > /root/weighted.txt 2>&1 &
harness=$!
until [ "$(cat {WEIGHTS}/node0)" = 3 ]; do
  kill -0 $harness || {{ cat /root/weighted.txt >&2; exit 3; }}
  sleep 0.1
done
numactl --weighted-interleave=0,2 python3 /root/fill.py
kill -9 $harness
for try in $(seq 100); do
  [ "$(cat {WEIGHTS}/node0)" = 1 ] && break
  sleep 0.2
done
echo restored=$(cat {WEIGHTS}/node0)
"""
#: Takes node 0 but for 80 MiB, so that a server's memory does not fit there.
TAKEN = """
import ctypes, mmap, re, sys
libc = ctypes.CDLL(None)
free = lambda: int(re.search(r"MemFree: +(\\d+)", open(NODE).read())[1]) >> 10
NODE = "/sys/devices/system/node/node0/meminfo"
blocks = []
while free() > 80:
    blocks.append(mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    start = ctypes.addressof(ctypes.c_char.from_buffer(blocks[-1]))
    assert libc.mlock(ctypes.c_void_p(start), ctypes.c_size_t(4 << 20)) == 0
print("taken", flush=True)
sys.stdin.read()
"""
YCSB = (
    *("run", "ycsb", "--host", "/root/host.yml", "--engine", "postgres", "--threads", 2),
    *("--ramp-up", "0s", "--repeats", 1, "--json"),
)
RUN = (*YCSB, "--records", 1000, "--placement")
#: More data than node 0 has room for.
LARGE = (*YCSB, "--records", 40_000, "--placement")
TIERED = (*LARGE, "data=ssd,memory=tiered:near,slow")
#: As another program does that knows nothing of the run.
SWITCHED_OFF = """
(until [ "$(cat /sys/kernel/mm/numa/demotion_enabled)" = true ]; do sleep 0.1; done
 sleep 5; echo false > /sys/kernel/mm/numa/demotion_enabled) > /dev/null 2>&1 &
"""


@pytest.fixture(scope="module")
def vm():
    if os.geteuid() != 0:
        pytest.skip("building the test machine's image needs root")
    with fresh_machine(memory_mib=(1024, 1024, 1024), recipe=DEBIAN_13) as machine:
        machine.run(SLOW_NODE)
        install_with_memory_tiers(machine)
        yield machine


def totals(run: dict[str, Any], name: str) -> float:
    values: list[float] = [each["value"] for each in run["metrics"] if each["name"] == name]
    return sum(values)


def engine_memory(run: dict[str, Any], node: int) -> list[float]:
    return [
        metric["value"]
        for metric in run["metrics"]
        if metric["name"] == "vm_engine_memory_bytes" and metric["labels"]["node"] == str(node)
    ]


def test_linux_interleaves_by_the_weights_of_a_run_and_they_are_restored_after_a_kill(vm):
    vm.run("cat > /root/fill.py", given=FILL)
    argv = ["harness", *RUN, "data=ssd,memory=weighted:near=3,far=1", "--operations", 20000]
    words = vm.run(WEIGHED.replace("COMMAND", shlex.join(map(str, argv)))).split()
    assert {"N0=12288", "N2=4096", "restored=1"} <= set(words)


def test_a_run_has_the_memory_of_its_nodes_where_caches_were(vm):
    vm.run("taskset 1 head -c 1300M /dev/zero > /root/cached; sync")
    done = harness(vm, *RUN, "data=ssd,memory=weighted:near=3,far=1", "--operations", 500)
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    (check,) = [check for check in run["checks"] if check["name"] == "memory-policy"]
    assert check["status"] in ("passed", "unknown"), check
    sizes = vm.run("cat /sys/devices/system/node/node[02]/meminfo | grep MemTotal").split()
    assert run["memory_bytes"] == sum(int(word) << 10 for word in sizes[3::5])
    applied = vm.run("grep -h memory_policy /root/results/runs/*/manifest.json")
    assert "3:1, by Linux" in applied


@pytest.fixture
def small_node(vm):
    """Node 0 without room for a server's memory."""
    vm.run("cat > /root/taken.py", given=TAKEN)
    vm.run(
        "sync; echo 3 > /proc/sys/vm/drop_caches; rm -f /root/hold; mkfifo /root/hold\n"
        "numactl --membind=0 python3 /root/taken.py <> /root/hold > /root/taken.txt 2>&1 &\n"
        "until grep -q taken /root/taken.txt; do kill -0 $! || exit 3; sleep 0.1; done\n"
        "echo $! > /root/taken.pid"
    )
    yield
    vm.run("kill $(cat /root/taken.pid)")


def test_memory_of_a_full_node_continues_on_slower_memory(vm, small_node):
    done = harness(vm, *LARGE, "data=ssd,memory=preferred:near", "--operations", 500)
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    checks = {check["name"]: check["status"] for check in run["checks"]}
    assert checks["memory-policy"] == "passed", run["checks"]
    assert max(engine_memory(run, node=2)) > 0


def test_linux_promotes_and_demotes_pages_of_a_server_in_the_window(vm, small_node):
    done = harness(vm, *TIERED, "--operations", 4000)
    assert done.code == 0, done.err
    (run,) = done.json["runs"]
    checks = {check["name"]: check["status"] for check in run["checks"]}
    assert checks["memory-policy"] == checks["memory-demotion"] == "passed", run["checks"]
    assert totals(run, "window_vm_pgdemote_count") > 0
    assert totals(run, "window_vm_numa_hint_faults_count") > 0
    assert totals(run, "window_vm_pgpromote_success_count") > 0
    slow = engine_memory(run, node=3)
    assert len(slow) == 2 and min(slow) > 0
    assert vm.run(SETTINGS).split() == ["1", "false"]


def test_a_run_whose_demotion_was_switched_off_fails(vm, small_node):
    vm.run(SWITCHED_OFF)
    done = harness(vm, *TIERED, "--operations", 500)
    assert done.code == 1
    run, *_again = done.json["runs"]  # a failed run is tried again
    checks = {check["name"]: check["status"] for check in run["checks"]}
    assert checks["memory-demotion"] == "failed", run["checks"]
