"""Several databases of one run, measured at once: engines with data and processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from harness.counters import summed
from harness.engine import (
    Credentials,
    DataDirectories,
    Engine,
    EngineVersion,
    StoredRelation,
    TaskTimes,
)
from harness.errors import naming_instance
from harness.host.threads import Thread
from harness.sequences import grouped
from harness.store.spec import JsonObject
from harness.supervise.process import ProcessId
from harness.supervise.user_files import make_directory
from harness.waits import Observation, Resource, WaitObserver
from harness.warnings import RunWarning

#: Seeds of instances differ by its multiples.
_SEEDS_APART = 0x9E3779B9


def seed_of_instance(seed: int, number: int) -> int:
    """Return the seed of an instance's draws; that of the first, 1, is the run's."""
    return (seed + (number - 1) * _SEEDS_APART) % 2**32


class EngineInstances(Engine):
    """Alike engines as one: what is counted is the sum, what they are is that of the first."""

    def __init__(self, engines: Sequence[Engine], user: Credentials | None) -> None:
        self._engines, self._user = engines, user
        self._first = first = engines[0]
        self.name, self.kind, self.supported_parts = first.name, first.kind, first.supported_parts
        self.sql_folder, self.load_format = first.sql_folder, first.load_format
        self.durability_settings = first.durability_settings
        self.lost_when_killed = first.lost_when_killed
        self.published_after_ns = first.published_after_ns
        self.publication_cost = first.publication_cost
        self.traced, self.inside_client = first.traced, first.inside_client
        self.native_backend = first.native_backend

    @property
    def background_threads(self) -> Sequence[str] | None:  # type: ignore[override]
        return self._first.background_threads

    def version(self) -> EngineVersion:
        return self._first.version()

    def format_options(self) -> Mapping[str, str]:
        return self._first.format_options()

    def log_limit_bytes(self) -> int | None:
        return self._first.log_limit_bytes()

    def effective_config(self) -> Mapping[str, str]:
        return self._first.effective_config()

    def lost_without_power(self) -> Mapping[str, str]:
        return self._first.lost_without_power()

    def native_connection(self) -> JsonObject:
        return self._first.native_connection()

    def native_calls(self, workload: str, params: JsonObject) -> Mapping[str, str | Sequence[str]]:
        return self._first.native_calls(workload, params)

    def restore(self, dataset: Path, directories: DataDirectories) -> None:
        """Restore each into directories of its own, in turn."""
        for number, engine in self._numbered():
            with naming_instance(number, len(self._engines)):
                folders = {
                    part: folder / str(number) for part, folder in directories.directories.items()
                }
                for folder in folders.values():
                    make_directory(folder, self._user)
                engine.restore(dataset, replace(directories, directories=folders))

    def start(self) -> None:
        self._in_turn(lambda engine: engine.start())

    def stop(self) -> None:
        self._in_turn(lambda engine: engine.stop())

    def kill(self) -> None:
        for engine in self._engines:
            engine.kill()

    def processes(self) -> Sequence[ProcessId]:
        return [process for engine in self._engines for process in engine.processes()]

    def counters(self) -> Mapping[str, float]:
        return summed(engine.counters() for engine in self._engines)

    def files(self) -> Sequence[Path]:
        return [file for engine in self._engines for file in engine.files()]

    def relations(self) -> Sequence[StoredRelation]:
        """Return each relation once, with the files of all instances."""
        every = grouped(
            ((stored.relation, stored.table), stored.files)
            for engine in self._engines
            for stored in engine.relations()
        )
        return [
            StoredRelation(relation, table, {path: f[path] for f in files for path in f})
            for (relation, table), files in every.items()
        ]

    def write_back_warnings(
        self, ramp_up: Mapping[str, float], window: Mapping[str, float], window_ns: int
    ) -> Iterable[RunWarning]:
        """Warn by the counters of the average instance."""
        count = len(self._engines)
        before, within = (
            {name: value / count for name, value in counters.items()}
            for counters in (ramp_up, window)
        )
        return self._first.write_back_warnings(before, within, window_ns)

    def wait_observer(self) -> WaitObserver | None:
        observers = [engine.wait_observer() for engine in self._engines]
        every = [observer for observer in observers if observer is not None]
        return _WaitsOfAll(every) if every else None

    def background_tasks(self) -> TaskTimes:
        tasks = grouped(
            (task, times)
            for engine in self._engines
            for task, times in engine.background_tasks().items()
        )
        return {task: sorted(chain.from_iterable(times)) for task, times in tasks.items()}

    def unmodelled(self, part: str) -> tuple[str, str] | None:
        return self._first.unmodelled(part)

    def exposed(self) -> str:
        return next((text for engine in self._engines if (text := engine.exposed())), "")

    def _numbered(self) -> Iterator[tuple[int, Engine]]:
        return iter(enumerate(self._engines, 1))

    def _in_turn(self, act: Callable[[Engine], None]) -> None:
        for number, engine in self._numbered():
            with naming_instance(number, len(self._engines)):
                act(engine)


class _WaitsOfAll(WaitObserver):
    """The sessions of all instances."""

    def __init__(self, observers: Sequence[WaitObserver]) -> None:
        self._observers = observers
        self._last: Sequence[Sequence[Observation]] = ()
        self.events = observers[0].events

    def resource(self, event: str) -> Resource:
        return self._observers[0].resource(event)

    def observe(self) -> Sequence[Observation]:
        self._last = [observer.observe() for observer in self._observers]
        return [*chain.from_iterable(self._last)]

    def threads(self, observations: Sequence[Observation]) -> Iterable[Thread]:
        for observer, last in zip(self._observers, self._last, strict=True):
            yield from observer.threads(last)

    def close(self) -> None:
        for observer in self._observers:
            observer.close()
