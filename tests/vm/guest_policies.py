"""Runs inside the test machine with the installed harness: memory of a process under each policy.

The argument is a JSON list of policies: mode, nodes, weights, whether the library is preloaded, and
optionally the policy that the process has in truth. For each, a process fills a shared mapping as a
server does. Prints, for each, bytes by node as numa_maps has them, and NUMA hint faults meanwhile.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness.engine import MemoryPolicy
from harness.iotrace.page import LIBRARY
from harness.native_programs import find_native
from harness.supervise.linux import set_memory_policy
from harness.tiers.linux.numa import residency

_PROGRAM = """
import ctypes, mmap, sys, time
block = mmap.mmap(-1, 160 << 20)
start = ctypes.addressof(ctypes.c_char.from_buffer(block))
until = time.monotonic() + float(sys.argv[1])
while True:
    ctypes.memset(start, 1, len(block))
    if time.monotonic() >= until:
        break
print("filled", flush=True)
sys.stdin.read()
"""


def _hint_faults() -> int:
    words = Path("/proc/vmstat").read_text(encoding="ascii").split()
    return int(dict(zip(words[::2], words[1::2], strict=True))["numa_hint_faults"])


def _filled(requested: dict[str, Any]) -> dict[str, Any]:
    library = find_native(LIBRARY) if requested["preloaded"] else None
    nodes = tuple(requested["nodes"])
    policy = MemoryPolicy(requested["mode"], nodes, tuple(requested["weights"]), library)
    before = _hint_faults()
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, str(requested["seconds"])],
        env={**os.environ, **policy.environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: set_memory_policy(policy.of_process, policy.nodes),  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == b"filled\n"
        time.sleep(0.1)
        pages = residency([process.pid])
        process.stdin.close()
    shared = {str(node): size for node, size in pages.shared.items()}
    anonymous = {str(node): size for node, size in pages.anonymous.items()}
    return {"shared": shared, "anonymous": anonymous, "hint_faults": _hint_faults() - before}


print(json.dumps([_filled(requested) for requested in json.loads(sys.argv[1])]))
