"""Counts of the flushes and fences that a program executes (BENTŌ, section 3.2.1).

Each flush and fence is overwritten by a breakpoint in the memory of the traced program once its
libraries are there. At a breakpoint the instruction is counted and skipped: a flush or fence
changes neither registers nor memory, and the stop itself orders what the thread has stored. So
breakpoints stay in place, and no thread passes them uncounted. The counts are exact; times mean
nothing, and what the program wrote need not be durable.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import UsageError
from harness.rewrite.tools import Instruction, flushes_and_fences, is_library, read_elf

#: Requests and events of ptrace(2).
_TRACEME, _CONT, _GETREGS, _SETREGS, _SETOPTIONS = 0, 7, 12, 13, 0x4200
#: Threads and children are traced, too; all end with us.
_OPTIONS = 0x2 | 0x4 | 0x8 | 0x10 | 0x100000
_EVENT_EXEC = 4
#: Words of struct user_regs_struct, and the instruction pointer among them.
_REGISTERS, _POINTER = 27, 16
_BREAKPOINT = b"\xcc"
_AT_ENTRY = 9
_MAPPED = re.compile(r"^(\w+)-\w+ r\S+ (\w+) \S+ \d+ +(/.+)$", re.MULTILINE)
_LOAD = re.compile(r"^\s+LOAD\s+0x(\w+) 0x(\w+) ", re.MULTILINE)
#: Instructions end within as many bytes: prefixes, opcode and address.
_LONGEST = 15
_NO_PROGRAM = 127

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


@dataclass(frozen=True)
class Executed:
    """A flush or fence of ``file``, and how often it was executed."""

    file: str
    function: str
    address: str
    name: str
    count: int


@dataclass
class _Image:
    """Breakpoints of the program, by their addresses in its memory."""

    sites: dict[int, tuple[str, Instruction, int]] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    entry: int = 0
    first_byte: bytes = b""


def count_executed(program: Path, words: Sequence[str] = ()) -> tuple[int, list[Executed]]:
    """Run the program to its end: its exit status, and what it executed, most often first.

    UsageError where it cannot be traced. Libraries are counted that are there when the program
    begins, from then on; not those that it opens later, and not other programs that it starts. What
    the program prints goes to stderr.
    """
    header = read_elf(program, "-h")
    if "X86-64" not in header or os.uname().machine != "x86_64":
        raise _refused(program, "not a program of x86-64", "flushes are instructions of x86-64")
    if is_library(program):
        raise _refused(program, "a library, not a program", "name a program that uses it")
    if not os.access(program, os.X_OK):
        raise _refused(program, "it cannot be executed", f"chmod +x {program}")
    child = os.fork()
    if child == 0:
        _become(program, words)
    image = _Image()
    status = _follow(child, image)
    executed = [
        Executed(file, site.function, site.address, site.name, image.counts[at])
        for at, (file, site, _) in image.sites.items()
        if image.counts[at]
    ]
    return status, sorted(executed, key=lambda item: -item.count)


def _refused(program: Path, context: str, hint: str) -> UsageError:
    return UsageError(f"count the flushes of {program}", context, hint)


def _become(program: Path, words: Sequence[str]) -> None:
    """Become the program, traced by the parent; never returns."""
    try:
        os.dup2(2, 1)
        _ptrace(_TRACEME, 0)
        os.execv(program, [str(program), *words])
    except OSError as error:
        print(f"{program}: {error.strerror}", file=sys.stderr, flush=True)
    os._exit(_NO_PROGRAM)


def _follow(child: int, image: _Image) -> int:
    """Serve the stops of all threads until the program has ended; return its exit status."""
    result, alive, began = 0, {child}, False
    while alive:
        pid, status = os.waitpid(-1, 0x40000000)  # __WALL
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            alive.discard(pid)
            if pid == child:
                result = os.waitstatus_to_exitcode(status)
            continue
        alive.add(pid)
        deliver, event = os.WSTOPSIG(status), status >> 16
        if not began:  # the stop of exec
            began, deliver = True, 0
            _ptrace(_SETOPTIONS, pid, _OPTIONS)
            image.entry = _entry(pid)
            image.first_byte = _exchange(pid, image.entry, _BREAKPOINT)
        elif event == _EVENT_EXEC and pid == child:
            image.entry, deliver = 0, 0
        elif (
            event
            or deliver == signal.SIGSTOP  # of a new thread or child
            or (deliver == signal.SIGTRAP and _at_breakpoint(pid, image))
        ):
            deliver = 0
        _ptrace(_CONT, pid, deliver)
    return result


def _at_breakpoint(pid: int, image: _Image) -> bool:
    """Count and skip the instruction of a breakpoint; False of any other trap."""
    registers = (ctypes.c_ulong * _REGISTERS)()
    _ptrace(_GETREGS, pid, ctypes.addressof(registers))
    at = registers[_POINTER] - 1
    if at == image.entry and not image.sites:
        _exchange(pid, at, image.first_byte)
        registers[_POINTER] = at
        image.entry = 0
        _set_breakpoints(pid, image)
    elif at in image.sites:
        image.counts[at] += 1
        registers[_POINTER] = at + image.sites[at][2]
    else:
        return False
    _ptrace(_SETREGS, pid, ctypes.addressof(registers))
    return True


def _set_breakpoints(pid: int, image: _Image) -> None:
    for path, base in _files(pid).items():
        for site, length in _sites(Path(path)):
            at = base + int(site.address, 16)
            _exchange(pid, at, _BREAKPOINT)
            image.sites[at] = (path, site, length)


def _files(pid: int) -> Mapping[str, int]:
    """The program's files with code, with what is added to addresses in each."""
    bases: dict[str, int] = {}
    for start, offset, path in _MAPPED.findall(Path(f"/proc/{pid}/maps").read_text()):
        if path in bases or not Path(path).is_file():
            continue
        for at, address in _LOAD.findall(read_elf(Path(path), "-l")):
            # Segments are mapped from the beginning of their page.
            page = int(at, 16) & ~0xFFF
            if page == int(offset, 16):
                bases[path] = int(start, 16) - (int(address, 16) & ~0xFFF)
                break
    return bases


def _sites(path: Path) -> Iterator[tuple[Instruction, int]]:
    """Flushes and fences of a file with their lengths."""
    content = path.read_bytes()
    segments = [
        (int(at, 16), int(address, 16)) for at, address in _LOAD.findall(read_elf(path, "-l"))
    ]
    for site in flushes_and_fences(path):
        number = int(site.address, 16)
        at, address = max((s for s in segments if s[1] <= number), key=lambda s: s[1])
        start = at + number - address
        yield site, _length(content[start : start + _LONGEST])


def _length(code: bytes) -> int:
    """Length of a flush or fence: prefixes, 0F AE, ModRM, SIB and displacement."""
    opcode = code.index(b"\x0f\xae")
    mod_rm = code[opcode + 2]
    mod, rm = mod_rm >> 6, mod_rm & 7
    length = opcode + 3
    if mod == 3:
        return length
    if rm == 4:
        base = code[length] & 7
        length += 1
        if mod == 0 and base == 5:
            return length + 4
    elif mod == 0 and rm == 5:
        return length + 4
    return length + (0, 1, 4)[mod]


def _entry(pid: int) -> int:
    """Address of the program's first instruction: its libraries are there when it is reached."""
    vector = Path(f"/proc/{pid}/auxv").read_bytes()
    return int(dict(struct.iter_unpack("QQ", vector))[_AT_ENTRY])


def _exchange(pid: int, at: int, code: bytes) -> bytes:
    """Write ``code`` into the process's memory; return what was there."""
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(at)
        before = memory.read(len(code))
        memory.seek(at)
        memory.write(code)
    return before


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    if _libc.ptrace(request, pid, 0, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace: {os.strerror(number)}")
