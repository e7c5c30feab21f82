"""The processes that a harness process has started in the current test."""

from harness.supervise.process import all_processes, mark_of

#: Marks of processes that were there before the test.
earlier: set[str | None] = set()


def processes_of(harness_pid: int) -> list[int]:
    """Pids of what a harness process (by its pid) has started in this test, through any forks.

    A process and all that it forks have one mark. A process that an earlier server forks during
    this test, as PostgreSQL does every minute, has that server's mark and is left out.
    """
    return [
        stat.id.pid
        for stat in all_processes()
        if (mark := mark_of(stat.id.pid) or "").startswith(f"{harness_pid}-")
        and mark not in earlier
    ]
