"""The command line: parses and prints, decides nothing.

This file imports next to nothing: what is interrupted while the rest is imported must
end in order, too.
"""

from __future__ import annotations

import errno
import gc
import locale
import os
import signal
import sys
import threading
import time
from types import FrameType

from harness.cli.streams import keep_streams_writable, output_error

#: Exit codes of a command that SIGHUP, SIGINT or SIGTERM ended.
_SIGNALLED = tuple(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))

#: Of an error's text.
_SHOWN = 300

#: Interrupts a wait of the main thread, and does nothing else.
_NUDGE = signal.SIGURG
_NUDGES, _NUDGE_S = 3, 0.1


def main() -> None:
    """Entry point of ``harness``; exit codes: 2 beforehand, 1 under way, 130 on Ctrl-C."""
    _use_utf8()
    # Looking for garbage among imported modules took a fifth of a short command's time.
    gc.set_threshold(100_000, 50, 50)
    if os.geteuid() == 0:
        # Servers and clients, another user then, read data and programs that we make. What only
        # we may read is made with that mode.
        os.umask(0o022)
    try:
        keep_streams_writable()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup(1) ignores SIGHUP
                signal.signal(number, _terminated)
        lose_no_signal()
        code = _command()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done but the exit
    except BaseException as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = _ended_by(error)
    sys.exit(_flushed(code))


def _use_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale has another encoding.

    Output, files, file names and the text of programs would otherwise be in the caller's, which
    need not have the characters of a path.
    """
    if not sys.flags.utf8_mode and locale.getencoding().lower().replace("-", "") != "utf8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _terminated(number: int, _frame: FrameType | None) -> None:
    """SIGTERM and SIGHUP end the command in order, as Ctrl-C does."""
    raise SystemExit(128 + number)


def lose_no_signal() -> None:
    """Let Ctrl-C also end a wait that had just begun; called by the main thread.

    Python notes a signal and looks for it between its own steps: one that arrives after the last
    look and before the wait would be seen at the end of the wait. So a thread that learns of each
    signal interrupts the wait a little later; Python then looks, and waits on if there is nothing.
    """
    learns, written = os.pipe()
    os.set_blocking(written, False)
    signal.signal(_NUDGE, lambda *_: None)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)

    def interrupt() -> None:
        while noted := set(os.read(learns, 64)):
            if noted != {_NUDGE}:
                for _ in range(_NUDGES):
                    time.sleep(_NUDGE_S)
                    signal.pthread_kill(threading.main_thread().ident or 0, _NUDGE)

    threading.Thread(target=interrupt, name="signals", daemon=True).start()


def _command() -> int:
    from harness.cli.app import app

    code = 0
    try:
        app()
    except SystemExit as done:
        if done.code in _SIGNALLED:
            raise
        code = done.code if isinstance(done.code, int) else int(done.code is not None)
    rescue = sys.modules.get("harness.store.rescue")  # if a command has stored anything
    return code or int(rescue is not None and rescue.any_rescued())


def _ended_by(error: BaseException) -> int:
    """Say what ended the command; the exit code. An error of the program itself is raised again."""
    from harness.errors import HarnessError, RunFailed, interruption

    cause = interruption(error)
    if cause is not None:
        _print_error("interrupted", "everything that was started is stopped", _notes(error))
        return cause.code if isinstance(cause, SystemExit) and isinstance(cause.code, int) else 130
    if isinstance(error, OSError):
        # shutil.Error has a line for each file of a tree.
        reason = error.strerror or str(error)[:_SHOWN]
        error = RunFailed(str(error.filename or type(error).__name__), reason)
    if isinstance(error, HarnessError):
        _print_error(**error.to_json())
        return error.exit_code
    raise error


def _notes(error: BaseException | None) -> str:
    """Return the notes of the exceptions that led to it: typer makes an exit of Ctrl-C."""
    notes: list[str] = []
    while error is not None:
        notes += getattr(error, "__notes__", ())
        error = error.__context__
    return "; ".join(notes)


def _print_error(problem: str, context: str, hint: str = "", type: str = "Interrupted") -> None:
    """On stderr; as JSON on stdout too where --json was given.

    The line after a hint is a command to be copied.
    """
    from harness.terminal import say, say_command

    say(f"harness: {problem}: {context}", file=sys.stderr)
    text, _, command = hint.partition("\n")
    if text:
        say(f"  {text}", file=sys.stderr)
    if command:
        say_command(command, file=sys.stderr)
    if "--json" in sys.argv:
        import json

        document: dict[str, object] = {
            "error": {"type": type, "problem": problem, "context": context, "hint": hint}
        }
        if {"run", "repro"} & set(sys.argv[1:3]):
            document["runs"] = []  # always there; what had finished is in the store
        print(json.dumps(document, indent=1, ensure_ascii=False))


def _flushed(code: int) -> int:
    """``code``, or 1 where output could not be written."""
    if (error := output_error()) is None:
        return code
    if code == 0 and error.errno != errno.EPIPE:
        print(f"harness: standard output: {error.strerror}", file=sys.stderr)
    return code or 1
