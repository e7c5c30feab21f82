"""TPC-H as a workload: its parameters, its data, its measured phase."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from harness.engine import Engine, LoadFormat, LoadRequest
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.progress import Progress
from harness.workload import Loading, Outcome, Session, Workload
from harness.workloads.tpch import data
from harness.workloads.tpch.measured_phase import measure, sets_needed
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.refresh_sets import prepare
from harness.workloads.tpch.tables import TABLES


class Tpch(Workload[TpchParams]):
    """The 22 queries over freshly loaded data: one stream, or power and throughput tests."""

    name = "tpch"

    def check_engine(
        self, params: TpchParams, driver: str, engine: Engine, settings: Mapping[str, str]
    ) -> None:
        """Refuse refresh functions on tables that cannot be changed."""
        if engine.unchangeable and sets_needed(params):
            raise UsageError(
                f"refresh functions on {engine.name}", engine.unchangeable, "add --no-refresh"
            )

    def data_key(self, params: TpchParams, driver: str = "native") -> dict[str, Any]:
        """Scale and generator: the parameters of the queries change no data."""
        return {"scale": params.scale, "generator": data.generator()}

    def tables(self, params: TpchParams, engine: Engine) -> Collection[str]:
        return TABLES

    def estimate_bytes(self, params: TpchParams, engine_format: str) -> dict[Part, int]:
        """Upper estimate of the bytes in each part; see harness.workloads.tpch.data."""
        return data.estimate_bytes(params.scale, engine_format)

    def source_bytes(self, params: TpchParams, engine_format: str) -> int:
        """Return the size of the generator's files."""
        return data.source_bytes(params.scale, engine_format)

    def generate(
        self, params: TpchParams, engine: Engine, folder: Path, progress: Progress
    ) -> None:
        """Make the eight tables in chunks; nothing is done where they are whole already."""
        data.generate(params.scale, _load_format(engine), folder, progress)

    def source_key(self, params: TpchParams, engine: Engine) -> str:
        return data.source_name(params.scale, _load_format(engine))

    def changes_key(self, params: TpchParams) -> str:
        """``tpch-sf1-refresh3-tpchgen-4.0.0``: three refresh sets; empty without functions."""
        sets = sets_needed(params)
        return data.refresh_name(params.scale, sets) if sets else ""

    def changes_bytes(self, params: TpchParams) -> int:
        """Return the size of the refresh sets."""
        return data.refresh_bytes(params.scale, sets_needed(params))

    def generate_changes(self, params: TpchParams, folder: Path, progress: Progress) -> None:
        """Make the refresh sets of the run's refresh functions."""
        prepare(params.scale, range(1, sets_needed(params) + 1), folder, progress)

    def load(self, params: TpchParams, loading: Loading) -> dict[str, Any]:
        """Bulk load; the facts are scale, generator and rows of every table."""
        if loading.source is None:
            raise RunFailed("load TPC-H", "its source data are not there", "run again")
        made = data.read_source(loading.source)
        schema = loading.engine.sql(self.name)
        loading.engine.bulk_load(LoadRequest(schema, made.files, made.row_counts, loading.progress))
        return self.data_key(params) | {"row_counts": dict(made.row_counts)}

    def measure(self, params: TpchParams, session: Session) -> Outcome:
        """Run the requested test, check its answers."""
        return measure(params, session)


def _load_format(engine: Engine) -> LoadFormat:
    if engine.load_format is None:
        raise UsageError(
            f"tpch on {engine.name}", "the engine has no bulk load", "choose another engine"
        )
    return engine.load_format


WORKLOAD = Tpch()
