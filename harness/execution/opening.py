"""Opening an environment: find the tiers, read the host, start the supervisor."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness import paths
from harness.execution.environment import Environment
from harness.host.facts import host_facts
from harness.progress import Progress
from harness.store.datasets import DatasetStore
from harness.supervise.credentials import unprivileged
from harness.supervise.journal import recover
from harness.supervise.supervisor import Supervisor
from harness.tiers.discovery import find_tiers
from harness.tiers.hostfile import find_host_file, load_host_file
from harness.warnings import RunWarning, warn


def data_directory(host_file: Path | None) -> Path | None:
    """Where the host file keeps source and golden data; None: the default place."""
    path = find_host_file(host_file)
    return load_host_file(path).data_dir if path is not None else None


def dataset_stores(host_file: Path | None = None) -> Mapping[str, DatasetStore]:
    """Readers of the source and golden data."""
    data_dir = data_directory(host_file)
    return {
        "source": DatasetStore(paths.source_root(data_dir)),
        "golden": DatasetStore(paths.golden_root(data_dir)),
    }


@contextmanager
def open_environment(
    host_file: Path | None, emulate: Sequence[str], progress: Progress
) -> Iterator[Environment]:
    """Everything that runs of one command share, closed in order at the end.

    What an earlier harness left (it and its supervisor were killed) is undone first.
    """
    credentials = unprivileged()
    for recovery in recover(paths.state_dir()):
        for what in recovery.undone:
            progress.say(f"left by {recovery.owner}, now undone: {what}")
        for what in recovery.failures:
            warn(RunWarning("left-behind", "an earlier harness left something behind", what))
    tiers = find_tiers(host_file, emulate, credentials)
    data_dir = data_directory(host_file)
    with Supervisor(paths.state_dir()) as supervisor:
        yield Environment(
            tiers=tiers,
            host=host_facts(tiers.values()),
            credentials=credentials,
            engines_prefix=paths.engines_prefix(),
            golden=DatasetStore(paths.golden_root(data_dir), supervisor.journal),
            source=DatasetStore(paths.source_root(data_dir), supervisor.journal),
            supervisor=supervisor,
            progress=progress,
            argv=sys.argv,
        )
