"""Write a site: the pages of each experiment and host that changed, and the start page at last."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

import harness
from harness.errors import UsageError
from harness.metrics import metric_files
from harness.models.score import Score, ScoreStore
from harness.progress import Progress
from harness.sequences import grouped
from harness.store.calibrations import Calibration, CalibrationStore
from harness.store.index import HostName, stamps_of
from harness.store.run_store import Store
from harness.store.runs import StoredRun
from harness.units import counted
from reports.explain.devices import TierSources
from reports.host_models import HostModels
from reports.micro.devices import is_micro
from reports.page import render
from reports.published import PublishedSeries
from reports.select import unplanted
from reports.site.entries import START, Entry, SitePage
from reports.site.experiments import ExperimentPages, NotReported
from reports.site.folder import Part, SiteFolder
from reports.site.hosts import HostPage
from reports.site.start import Start, frame

_REPORTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Written:
    """What became of the pages of a site: their addresses without ``.html``.

    ``left_out``: runs and experiments that have no page, and why.
    """

    start: Path
    written: Sequence[str]
    unchanged: int
    removed: Sequence[str]
    left_out: Sequence[str]


@dataclass(frozen=True)
class StaticSite:
    """A site of results stores.

    ``published``: the figures of papers that an experiment repeats, by its name.
    """

    title: str
    stores: Sequence[Store]
    published: Callable[[str], Sequence[PublishedSeries]]

    def write(self, out: Path, progress: Progress) -> Written:
        """Write what changed, and remove pages that are obsolete.

        UsageError, before anything is written, without a finished run or where ``out`` is the
        folder of something else.
        """
        folder = SiteFolder(out)
        if not self._runs:
            stores = ", ".join(str(store.root) for store in self.stores)
            hint = "`harness runs list` shows what is there"
            raise UsageError("a site", f"no finished run in {stores}", hint)
        parts: dict[str, Part] = {}
        with progress.task("site", len(self._by_experiment) + len(self._by_host)) as task:
            for name, runs in self._by_experiment.items():
                key = self._key(runs, self._of_hosts(runs))
                pages = partial(self._experiment_pages, name, runs)
                parts[f"experiment {name}"] = _made(folder, f"experiment {name}", key, pages)
                task.advance(note=name)
            for host_id, runs in self._by_host.items():
                experiments = [*self._experiments(runs, parts)]
                host = self._host(host_id, experiments)
                key = self._key(runs, [experiments, *self._of_hosts(runs)])
                parts[f"host {host_id}"] = _made(folder, f"host {host_id}", key, host.pages)
                task.advance(note=host.name)
        entries = [entry for part in parts.values() for entry in part.entries]
        left_out = [*self._left_out()]
        left_out += [f"{name}: {part.problem}" for name, part in parts.items() if part.problem]
        start = Start(self.title, self._counts, entries, left_out)
        blocks = [*start.blocks()]
        folder.write(START, render(self.title, blocks, "html", frame(START)))
        folder.retain(parts, {START, *(entry.address for entry in entries)})
        return Written(
            out / f"{START}.html", folder.written, folder.unchanged, folder.removed, left_out
        )

    # What the stores have --------------------------------------------------------------

    @cached_property
    def _all(self) -> list[list[StoredRun]]:
        """Return the runs of each store; one that several stores have is in the first."""
        seen: set[tuple[str, int, HostName | None]] = set()
        of_stores = []
        for store in self.stores:
            of_store = []
            for run in store.runs():
                identity = (run.run_id, run.head.started_unix_ns, run.head.host)
                if identity not in seen:
                    seen.add(identity)
                    of_store.append(run)
            of_stores.append(of_store)
        return of_stores

    @cached_property
    def _runs(self) -> list[StoredRun]:
        runs = [run for of_store in self._all for run in unplanted(of_store)]
        return sorted(runs, key=lambda run: (run.head.started_unix_ns, run.run_id))

    @property
    def _counts(self) -> list[tuple[str, int]]:
        return [*zip(self._names, map(len, self._all), strict=True)]

    @cached_property
    def _names(self) -> list[str]:
        """Return the end of each store's path, as long as it takes to distinguish them."""
        paths = [store.root.parts or (str(store.root),) for store in self.stores]
        for parts in range(1, max(map(len, paths)) + 1):
            names = ["/".join(path[-parts:]) for path in paths]
            if len({*names}) == len(names):
                break
        return names

    def _left_out(self) -> Iterator[str]:
        for store, name in zip(self.stores, self._names, strict=True):
            for why in store.unreadable.values():
                yield f"{name}: {why.replace(str(store.root), name)}"
            if unfinished := store.unfinished():
                yield f"{name}: {counted(len(unfinished), 'unfinished run')}"
        planted = sum(map(len, self._all)) - len(self._runs)
        if planted:
            yield f"{counted(planted, 'run')} with planted delays"

    @cached_property
    def _by_experiment(self) -> dict[str, list[StoredRun]]:
        return grouped((run.head.experiment.name, run) for run in self._runs)

    @cached_property
    def _by_host(self) -> dict[str, list[StoredRun]]:
        return grouped((run.head.host.host_id, run) for run in self._runs if run.head.host)

    @cached_property
    def _host_names(self) -> dict[str, str]:
        """Return the name of each host by its id, with a piece of the id where two have one."""
        names = {
            host_id: runs[-1].head.host.hostname if runs[-1].head.host else host_id
            for host_id, runs in self._by_host.items()
        }
        counts = Counter(names.values())
        return {
            host_id: name if counts[name] == 1 else f"{name} ({host_id[:6]})"
            for host_id, name in names.items()
        }

    # Parts -------------------------------------------------------------------------------

    def _experiment_pages(self, name: str, runs: Sequence[StoredRun]) -> list[SitePage]:
        hosts = {i: (name, self._host(i).address) for i, name in self._host_names.items()}
        return ExperimentPages(
            name,
            _reread(runs),
            hosts,
            self._calibrations,
            self._sources,
            self.published(name),
            self._models,
        ).pages()

    def _host(self, host_id: str, experiments: Sequence[tuple[str, str]] = ()) -> HostPage:
        name = self._host_names[host_id]
        scores = [score for score in self._scores if score.host_id == host_id]
        return HostPage(name, host_id, _reread(self._by_host[host_id]), experiments, scores)

    @staticmethod
    def _experiments(
        runs: Sequence[StoredRun], parts: Mapping[str, Part]
    ) -> Iterator[tuple[str, str]]:
        """Yield name and address of each experiment that has a page, the newest first."""
        for name in dict.fromkeys(run.head.experiment.name for run in reversed(runs)):
            part = parts[f"experiment {name}"]
            yield from ((name, e.address) for e in part.entries if e.kind == "experiment")

    @cached_property
    def _calibrations(self) -> list[Calibration]:
        return [item for store in self.stores for item in CalibrationStore(store.root).all()]

    @cached_property
    def _scores(self) -> list[Score]:
        return [score for store in self.stores for score in ScoreStore(store.root).all()]

    @cached_property
    def _sources(self) -> TierSources:
        suites = [run for run in self._runs if is_micro(run)]
        return TierSources.of(_reread(suites), self._scores)

    @cached_property
    def _models(self) -> HostModels:
        return HostModels.of(_reread(self._runs), self._scores)

    # Keys of what parts are made of -------------------------------------------------------

    def _of_hosts(self, runs: Sequence[StoredRun]) -> list[object]:
        """Return what reports read of the hosts of these runs, in addition to the runs."""
        hosts = {run.head.host.host_id for run in runs if run.head.host}
        documents: list[Calibration | Score] = [*self._calibrations, *self._scores]
        suites = (r for r in self._runs if is_micro(r) and r.head.host)
        return [
            *(document.to_json() for document in documents if document.host_id in hosts),
            *(_stamp(run) for run in suites if run.head.host and run.head.host.host_id in hosts),
        ]

    def _key(self, runs: Sequence[StoredRun], more: object) -> str:
        """Identify what pages are made of: runs, other documents, and this program."""
        hosts = sorted({run.head.host.host_id for run in runs if run.head.host})
        names = [self._host_names[host_id] for host_id in hosts]
        content = json.dumps([[_stamp(run) for run in runs], names, more])
        return hashlib.sha256(_program() + content.encode()).hexdigest()


def _made(folder: SiteFolder, name: str, key: str, pages: Callable[[], Iterable[SitePage]]) -> Part:
    """Return a part that is there already, or write its pages."""
    if (part := folder.part(name, key)) is not None:
        return part
    entries: list[Entry] = []
    problem = ""
    try:
        for page in pages():
            text = render(page.title, page.blocks, "html", frame(page.address))
            folder.write(page.address, text)
            entries += page.entries
    except NotReported as error:
        entries, problem = [], str(error)
    part = Part(key, tuple(entries), problem)
    folder.finish_part(name, part)
    return part


def _reread(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Return the same runs without documents in memory: a site reads all runs of a store."""
    return [StoredRun(run.directory, run.entry) for run in runs]


def _stamp(run: StoredRun) -> str:
    return f"{run.directory.parents[1].name}/{run.run_id} {stamps_of(run.directory)!r}"


@cache
def _program() -> bytes:
    """Identify the code and the statements that pages are made with."""
    files = [
        path
        for path in (*_REPORTS.rglob("*"), *metric_files())
        if path.is_file() and path.suffix != ".pyc"
    ]
    digest = hashlib.sha256(harness.__version__.encode())
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.digest()
