"""BenchBase's loading of TPC-C into PostgreSQL, over loopback: it speaks TCP only.

``BENCHBASE_HOME`` is the folder that ``mvn package -P postgres`` packs
(``target/benchbase-postgres.tgz``): ``benchbase.jar`` with ``lib/`` and ``config/`` beside it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from xml.sax.saxutils import escape

from tpcc import Bench, Server, run

from harness.errors import RunFailed, UsageError
from harness.workloads.tpcc.data import row_counts

_ADDRESS = "127.0.0.1"
#: Its tables of which the number of rows is fixed, by ours.
_COUNTED = {
    "item": "item", "warehouse": "warehouse", "stock": "stock", "district": "district",
    "customer": "customer", "history": "history", "orders": "oorder", "new_order": "new_order",
}  # fmt: skip
#: As its own sample for PostgreSQL has it, but for where and how large.
_CONFIGURATION = """<?xml version="1.0"?>
<parameters>
    <type>POSTGRES</type>
    <driver>org.postgresql.Driver</driver>
    <url>{url}</url>
    <username>{user}</username>
    <password>{password}</password>
    <isolation>TRANSACTION_SERIALIZABLE</isolation>
    <batchsize>128</batchsize>
    <scalefactor>{warehouses}</scalefactor>
    <loaderThreads>{threads}</loaderThreads>
    <terminals>1</terminals>
    <works><work><time>60</time><rate>10000</rate><weights>45,43,4,4,4</weights></work></works>
    <transactiontypes>
        <transactiontype><name>NewOrder</name></transactiontype>
        <transactiontype><name>Payment</name></transactiontype>
        <transactiontype><name>OrderStatus</name></transactiontype>
        <transactiontype><name>Delivery</name></transactiontype>
        <transactiontype><name>StockLevel</name></transactiontype>
    </transactiontypes>
</parameters>
"""


def find() -> Path:
    """BenchBase's folder. UsageError where there is none, or no Java."""
    home = Path(os.environ.get("BENCHBASE_HOME") or "/nonexistent").resolve()
    if not (home / "benchbase.jar").is_file():
        raise UsageError(
            "BenchBase", "BENCHBASE_HOME names no folder with benchbase.jar",
            "name the folder that its benchbase-postgres.tgz unpacks to",
        )  # fmt: skip
    if shutil.which("java") is None:
        raise UsageError("BenchBase", "there is no java", "install a Java of its release")
    return home


def listen(server: Server) -> None:
    """Restart the server so that it is reached over loopback, too, with the same password."""
    server.execute(f"ALTER SYSTEM SET listen_addresses = '{_ADDRESS}'")
    server.engine.stop()
    server.engine.start()
    with Path(server.execute("SHOW hba_file")[0][0]).open("a") as rules:
        rules.write(f"host all {server.connection['user']} {_ADDRESS}/32 scram-sha-256\n")
    server.execute("SELECT pg_reload_conf()")


def load(bench: Bench, server: Server, warehouses: int) -> None:
    """Its tables, keys and indexes, then its rows, on as many threads as there are processors."""
    home = find()
    with bench.env.scratch() as scratch:
        configuration = scratch / "tpcc.xml"
        configuration.write_text(_configuration(server, warehouses, bench.env.cores))
        configuration.chmod(0o600)
        if bench.env.credentials is not None:
            shutil.chown(configuration, bench.env.credentials.uid, bench.env.credentials.gid)
        run(
            [
                "java", "-jar", str(home / "benchbase.jar"), "-b", "tpcc",
                "-c", str(configuration), "-d", str(scratch),
                "--create=true", "--load=true", "--execute=false",
            ],
            server,
            {"HOME": "/"},
            home,
        )  # fmt: skip


def check(server: Server, warehouses: int) -> None:
    """RunFailed where rows are missing: BenchBase only logs what fails while it loads."""
    for table, rows in row_counts(warehouses).items():
        if (name := _COUNTED.get(table)) is not None:
            found = server.execute(f"SELECT count(*) FROM {name}")[0][0]
            if found != rows:
                raise RunFailed("BenchBase", f"{found} rows in {name}, not {rows}")


def _configuration(server: Server, warehouses: int, threads: int) -> str:
    where = server.connection
    url = (
        f"jdbc:postgresql://{_ADDRESS}:{where['port']}/{where['database']}"
        "?sslmode=disable&ApplicationName=tpcc&reWriteBatchedInserts=true"
    )
    return _CONFIGURATION.format(
        url=escape(url), user=escape(where["user"]), password=escape(where["password"]),
        warehouses=warehouses, threads=threads,
    )  # fmt: skip
