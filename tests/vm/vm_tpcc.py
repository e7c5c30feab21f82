"""TPC-C from the test machine's host: the client and its journal survive the machine.

The server is the guest's own and lies on its persistent memory; the client is the harness's
native one on the host, connected through an ssh tunnel.
"""

import random
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from vm_machine import Vm

from harness import paths, registry
from harness.drivers.result import WindowCallbacks
from harness.engine import EngineContext
from harness.errors import HarnessError
from harness.progress import SilentProgress
from harness.store.result import Check
from harness.store.spec import Json
from harness.supervise.supervisor import Supervisor
from harness.workload import Clients, Loading, Session
from harness.workloads.tpcc.consistency import check_conditions
from harness.workloads.tpcc.drivers import TpccLoadgen
from harness.workloads.tpcc.durability import CommitJournal, check_durability
from harness.workloads.tpcc.params import TpccParams

_SOCKET = ".s.PGSQL.5432"
_SCRIPT = "bash /opt/harness/tests/vm/guest_postgres.sh"
_PROGRESS = SilentProgress()
_KEY = "power-loss"
#: The power goes at a moment between these, of the measured window: the log's writer has
#: worked by then.
_EARLIEST_S, _LATEST_S = 12, 36


@dataclass(frozen=True)
class Served:
    """The harness's engine that reaches a running server, and how its clients are started."""

    engine: Any
    clients: Clients


@dataclass
class GuestServer:
    """PostgreSQL in the guest, seen from the host as a server of the user's."""

    vm: Vm
    data: str
    wal: str
    password: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def make(self) -> None:
        """An empty cluster on its places."""
        self.vm.run(f"{_SCRIPT} make {self.data} {self.wal}", given=f"{self.password}\n")

    @contextmanager
    def served(self, *settings: str) -> Iterator[Served]:
        """Start it, with settings for this once, and reach it for as long as the context lasts."""
        words = " ".join(f"'{setting}'" for setting in settings)
        self.vm.run(f"{_SCRIPT} start {self.data} {words}")
        here = self.vm.scratch
        dsn = f"host={here} port=5432 user=harness dbname=postgres password={self.password}"
        with (
            self.vm.tunnel(f"/var/run/postgresql/{_SOCKET}", here / _SOCKET),
            pytest.MonkeyPatch.context() as patch,
            Supervisor(here / "state") as supervisor,
        ):
            patch.setenv("HARNESS_DSN", dsn)
            context = EngineContext(
                {}, {"dsn": "env"}, here, paths.engines_prefix(), supervisor, None, 2, None
            )
            engine: Any = registry.engine("postgres").create(context)
            engine.prepared(_KEY)
            yield Served(engine, Clients(supervisor, None, here))


def tpcc(**params) -> TpccParams:
    """One warehouse, two users; a window that only the loss of power ends."""
    defaults: dict[str, Json] = {"warehouses": 1, "users": 2, "ramp_up": "1s", "duration": "2h"}
    return TpccParams.from_mapping({**defaults, **params})


def load(served: Served, params: TpccParams) -> None:
    """Schema, procedures and rows; the twelve conditions hold of them."""
    served.engine.prepare(_KEY)
    loading = Loading(served.engine, "loadgen", None, served.clients, 2, _PROGRESS)
    served.engine.mark_prepared(_KEY, TpccLoadgen(params).load(loading))


def drive_until_power_loss(
    vm, served, params: TpccParams, folder: Path, seed: int
) -> CommitJournal:
    """Return the acknowledged commits before the machine lost power.

    At a moment drawn from the seed, and not before something was committed.
    """
    folder.mkdir(exist_ok=True)
    moment_s = random.Random(seed).uniform(_EARLIEST_S, _LATEST_S)
    driver = TpccLoadgen(params)
    dark, ended = threading.Event(), threading.Event()

    def go_dark() -> None:
        while not _both_kinds(driver.journals(folder)):
            if ended.wait(0.2):
                return
        dark.set()
        vm.lose_power()

    timer = threading.Timer(moment_s, go_dark)
    session = Session(served.engine, _PROGRESS, seed=seed, client_starter=served.clients)
    try:
        driver.drive(session, WindowCallbacks(timer.start, lambda: None), journal=folder)
    except HarnessError:
        if not dark.is_set():
            raise  # the client failed before the power was lost
        return CommitJournal.read(driver.journals(folder))
    finally:
        timer.cancel()
        ended.set()
        if timer.ident is not None:
            timer.join()
    raise AssertionError("the client did not notice that the machine was gone")


def _both_kinds(journals: Sequence[Path]) -> bool:
    """Return whether a new order and a payment are in them, each line whole or not."""
    text = "".join(f"\n{file.read_text(encoding='ascii')}" for file in journals)
    return "\nN " in text and "\nP " in text


def verdicts(served: Served, journal: CommitJournal) -> tuple[Sequence[Check], Sequence[Check]]:
    """Return the checks of the recovered data: durability by transaction, and the conditions."""
    return (
        check_durability(journal, served.engine, _PROGRESS),
        check_conditions(served.engine, _PROGRESS),
    )
