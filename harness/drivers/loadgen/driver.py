"""The parts of the native client's driver that all workloads share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from harness.drivers.loadgen.processes import drive
from harness.drivers.loadgen.remote_clients import RemoteClients
from harness.drivers.loadgen.spec import LoadgenResult, LoadgenSpec
from harness.drivers.result import WindowCallbacks
from harness.engine import Engine, FillRequest
from harness.errors import UsageError
from harness.host import process_limits
from harness.native_programs import loadgen_program
from harness.progress import Task
from harness.store.spec import JsonObject
from harness.workload import Loading

#: What the harness itself keeps open: counters, checks, and what servers set apart.
_OWN_CONNECTIONS = 10
#: Tasks of a server and files of a client in addition to those of connections.
_OWN_TASKS, _OWN_FILES = 100, 50


def backend_of(engine: Engine, workload: str) -> str:
    """Return the name of the client's module for the engine; UsageError where it has none."""
    if not engine.native_backend:
        raise UsageError(
            f"{workload} on {engine.name}",
            "the native client does not speak to this engine: it has no server that many users "
            "connect to",
            f"choose an engine that {workload} runs on (docs/{workload}.md)",
        )
    return engine.native_backend


def check(engine: Engine, workload: str, hosts: Sequence[str]) -> None:
    """Raise UsageError where the client cannot drive the engine, here or from ``hosts``."""
    loadgen_program(backend_of(engine, workload))
    if hosts:
        RemoteClients(tuple(hosts), engine).check()


def calls(
    engine: Engine, workload: str, params: JsonObject, operations: Collection[str]
) -> dict[str, str | list[str]]:
    """Return the engine's text of each operation, or one text a field; UsageError without one."""
    native = engine.native_calls(workload, params)
    missing = [name for name in operations if name not in native]
    if missing:
        raise UsageError(
            f"{workload} on {engine.name}",
            f"the engine brings no calls of {workload} for {', '.join(missing)}",
            "choose another engine",
        )
    return {
        name: text if isinstance(text, str) else list(text)
        for name, text in native.items()
        if name in operations
    }


def check_connections(
    connections: int,
    engine: Engine,
    settings: Mapping[str, str],
    lower: str,
    clients: int = 1,
    instances: int = 1,
) -> None:
    """Raise UsageError for more connections than the server's settings or the host allow.

    ``lower``: what to lower where they are too many; ``clients``: processes that share them.
    ``instances``: servers that have as many of both at once.
    """
    _check_host(connections * instances, engine, lower, clients * instances)
    limit = settings.get("max_connections", "")
    required = connections + _OWN_CONNECTIONS
    if engine.kind == "managed" and limit.isdecimal() and int(limit) < required:
        raise UsageError(
            f"{connections} connections with max_connections {limit}",
            f"the server takes fewer than that and the {_OWN_CONNECTIONS} of the harness",
            f"raise it with --set max_connections={required}, or lower {lower}",
        )


def _check_host(connections: int, engine: Engine, lower: str, clients: int) -> None:
    """Raise UsageError for more connections than the host has tasks and open files for."""
    problem = f"{connections} connections"
    tasks = process_limits.room_for_tasks() if engine.kind == "managed" else None
    if tasks and tasks[0] < connections + _OWN_TASKS:
        raise UsageError(
            problem,
            f"servers have a process or thread for each, and the host has room for {tasks[0]} "
            f"more ({tasks[1]})",
            f"raise that limit, or lower {lower}",
        )
    files = process_limits.room_for_files()
    each = -(-connections // clients)
    if files and files[0] < each + _OWN_FILES:
        raise UsageError(
            f"{problem} of {clients} client processes" if clients > 1 else problem,
            f"a process may have {files[0]} open files ({files[1]})",
            f"raise it (ulimit -n {each + _OWN_FILES}), use more client processes "
            f"(-p clients=…), or lower {lower}",
        )


def load(
    workload: str,
    params: JsonObject,
    rows: Mapping[str, int],
    loading: Loading,
    about: int,
    schema: JsonObject | None = None,
) -> LoadgenResult:
    """Fill an engine's tables through its bulk path; the client's result.

    ``params``: of the client's spec. ``rows``: those that the tables must have then; ``about``:
    of all tables, for the progress. ``schema``: parameters that the engine's schema depends on.
    """
    native = loading.engine
    results: list[LoadgenResult] = []

    def fill(connection: JsonObject) -> Mapping[str, int]:
        backend, threads = backend_of(native, workload), loading.threads
        spec = LoadgenSpec(backend, connection, workload, params, threads, task="load")
        with loading.progress.task(f"load {workload}", about, "rows") as task:
            callbacks = WindowCallbacks(on_counts=rows_moving(task))
            results.append(drive([spec], loading.clients, callbacks))
        return results[-1].rows

    native.native_load(FillRequest(workload, fill, rows, loading.progress, schema or {}))
    return results[-1]


def rows_moving(task: Task) -> Callable[[Mapping[str, int]], None]:
    """Return a callback that moves a task on; it gets all rows sent so far, by table."""
    sent = 0

    def count(counts: Mapping[str, int]) -> None:
        nonlocal sent
        task.advance(sum(counts.values()) - sent)
        sent = sum(counts.values())

    return count
