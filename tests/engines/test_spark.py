"""Spark SQL: alone on this host, and with the executors of a cluster that the tests start."""

import itertools
import os
import secrets
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from generated import shared_files
from lab import Lab, execute
from narrowed import of_kind
from open_files import LOOPBACK, listening, seen_below
from patience import eventually, kill
from scratch import session_directory

from engines._settings import NOT_RECORDED
from engines.spark.configuration import AUTHENTICATE, JAVA_OPTIONS, Installation, recorded
from engines.spark.explain import translate
from harness import paths, registry
from harness.engine import LoadRequest, Process, QueryTimeout
from harness.errors import RunFailed, UsageError
from harness.progress import SilentProgress
from harness.supervise.listeners import ANY_PORT
from harness.workload import Session
from harness.workloads.tpch import data
from harness.workloads.tpch.params import TpchParams
from harness.workloads.tpch.qgen import QUERIES
from harness.workloads.tpch.workload import WORKLOAD

CLUSTER = {"master": "spark://h:7077", "location": "file:///x"}
TRUSTED = {AUTHENTICATE: "false"}
SPILL = (
    "select count(*), max(h) from (select h, row_number() over (order by h) n "
    "from (select sha2(cast(id as string), 512) h from range(300000))) where n % 2 = 0"
)
#: It occupies one of the driver's two threads.
ENDLESS = "select count(*) from range(0, 1e15, 1, 1) where sha2(cast(id as string), 512) = 'x'"


@pytest.fixture(scope="module")
def source(module_lab):
    """TPC-H's data at scale 0.01."""
    folder = module_lab.root / "source" / "content"
    with shared_files(session_directory()):
        data.generate(0.01, "parquet", folder, SilentProgress())
    return folder


@pytest.fixture(scope="module")
def loaded(spark, source):
    load(spark, source)
    return spark


def load(engine, source: Path) -> None:
    made = data.read_source(source)
    engine.bulk_load(LoadRequest(engine.sql("tpch"), made.files, made.row_counts, SilentProgress()))


class WarmSession(Session):
    def cold_start(self, label: str) -> None:
        raise AssertionError("a warm run has no cold start")


def check_answers(engine, queries: tuple[int, ...], **params):
    """Run these of TPC-H's queries warm; every answer is right."""
    given = {"scale": 0.01, "cache": "warm", "warmups": 0, "queries": list(queries), **params}
    outcome = WORKLOAD.measure(
        TpchParams.from_mapping(given), WarmSession(engine, SilentProgress())
    )
    statuses = [(check.labels["query"], check.status) for check in outcome.checks]
    assert statuses == [(str(query), "passed") for query in queries]
    return outcome


# Alone ----------------------------------------------------------------------------


def test_queries_have_plans_and_counters(loaded):
    outcome = check_answers(loaded, (6, 18))
    kinds = {m.labels["operator"] for m in outcome.metrics if m.name == "plan_operator_ns"}
    assert {"scan", "join", "aggregate", "sort", "other"} <= kinds
    written = {
        m.labels["query"]: m.value
        for m in outcome.metrics
        if m.name == "query_shuffle_written_bytes"
    }
    assert written["18"] > written["6"] > 0
    total = dict.fromkeys(("query_duration_ns", "query_spark_tasks_at_work_ns"), 0.0)
    for metric in outcome.metrics:
        if metric.name in total:
            total[metric.name] += metric.value or 0
    duration_ns, at_work_ns = total.values()
    assert 0 < at_work_ns <= duration_ns
    rarely = at_work_ns < duration_ns / 2
    assert rarely == ("tasks-rarely-at-work" in {warning.code for warning in outcome.uncontrolled})


def test_queries_with_no_task_at_work_for_half_of_their_time_are_named(loaded):
    def codes(at_work_ns):
        warnings = loaded.query_warnings({"spark_tasks_at_work_ns": at_work_ns}, 1e9)
        return [warning.code for warning in warnings]

    assert (codes(0.49e9), codes(0.51e9)) == (["tasks-rarely-at-work"], [])


def test_the_other_answers_are_right(loaded):
    check_answers(loaded, tuple(set(QUERIES) - {6, 18}), plans=False)


def test_connections_execute_side_by_side_and_are_cancelled_alone(loaded):
    with (
        ThreadPoolExecutor(1) as pool,
        closing(loaded.connect()) as busy,
        closing(loaded.connect()) as other,
    ):
        executing = pool.submit(busy.execute, ENDLESS)
        assert other.execute("select count(*) from region").rows == [(5,)]
        assert not executing.done()
        assert eventually(lambda: busy.cancel() or executing.done())
        with pytest.raises(RunFailed, match="cancelled"):
            executing.result()


def test_refresh_functions_are_refused(loaded):
    params = TpchParams.from_mapping({"scale": 0.01, "test": "power"})
    with pytest.raises(UsageError, match="Parquet"):
        WORKLOAD.check_engine(params, "native", loaded, {})


def test_the_driver_has_no_rights_and_its_secret_is_nowhere(loaded, module_lab):
    (process,) = loaded.processes()
    assert {address for address, _ in listening(process.pid)} <= LOOPBACK
    folder = Path(f"/proc/{process.pid}")
    expected = module_lab.credentials.uid if module_lab.credentials else os.geteuid()
    assert folder.stat().st_uid == expected != 0
    config = loaded.effective_config()
    assert config["spark.authenticate"] == "true"
    assert not [name for name in config if "secret" in name]
    texts = [folder / "cmdline", folder / "environ", *loaded._context.scratch.rglob("*.log")]
    assert not [path for path in texts if "authenticate.secret" in path.read_text("utf-8")]


def test_what_is_shuffled_and_spilled_goes_to_the_temp_part(loaded):
    places = loaded.places
    with seen_below(places["temp"], places["data"], places["wal"]) as seen:
        before = loaded.counters()
        assert execute(loaded, SPILL)[0][0] == 150_000
        after = loaded.counters()
    for name in ("spilled_bytes", "shuffle_written_bytes"):
        assert after[name] - before[name] > 10 << 20
    blocks = {path for path in seen if "blockmgr" in str(path)}
    assert blocks and all(path.is_relative_to(places["temp"]) for path in blocks)


def test_values_have_their_types_and_errors_are_spark_s(loaded):
    values = "1, cast(2.50 as decimal(5, 2)), 0.1d, 'a', date '1995-03-15', null"
    (row,) = execute(loaded, f"select {values}")
    assert [str(value) for value in row] == ["1", "2.50", "0.1", "a", "1995-03-15", "None"]
    with pytest.raises(RunFailed, match="TABLE_OR_VIEW_NOT_FOUND"):
        execute(loaded, "select * from no_such_table")


def test_a_statement_ends_at_its_limit_and_the_session_goes_on(loaded):
    with closing(loaded.connect()) as connection:
        with pytest.raises(QueryTimeout):
            connection.execute(ENDLESS, timeout_s=0.5)
        assert connection.execute("select 1").rows == [(1,)]


def test_files_of_other_types_are_rewritten_and_keys_left_out(loaded, lab):
    import duckdb

    folder, schema = lab.directory("load"), lab.directory("schema")
    for path in (folder, schema):
        path.chmod(0o755)
    (schema / "10_tables.sql").write_text(
        "create table t (a int constraint k primary key, b date not null comment 'unique, (', "
        "c decimal(9, 2) check (c > (1)) references u (x) on delete set null, "
        "unique (a, b), constraint f foreign key (a) references u (y));"
    )
    (schema / "30_indexes.sql").write_text("create index i on t (a);")
    file = folder / "t.parquet"
    duckdb.execute(
        "copy (select * from values ('1.50', '7', '1999-01-31') t(c, a, b)) "
        f"to '{file}' (format parquet)"
    )
    file.chmod(0o644)
    loaded.bulk_load(LoadRequest(schema, {"t": [file]}, {}, SilentProgress()))
    assert [str(v) for v in execute(loaded, "select * from t")[0]] == ["7", "1999-01-31", "1.50"]
    (schema / "40_foreign_keys.sql").write_text("create trigger i after insert on t;")
    with pytest.raises(RunFailed, match="trigger"):
        loaded.bulk_load(LoadRequest(schema, {}, {}, SilentProgress()))


def test_a_dataset_is_restored_elsewhere_and_no_spilled_file_is_left(loaded, module_lab):
    """The last: the driver ends, and another one reads the copy."""
    dataset = module_lab.stored(loaded)
    assert not [path for path in loaded.places["temp"].rglob("*") if path.is_file()]
    engine = module_lab.engine("spark", loaded._context.settings)
    places = module_lab.places()
    engine.restore(dataset, places)
    (folder,) = engine.files()
    assert folder == places["data"] / "spark"
    was, now = (
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (dataset / "spark", folder)
    )
    assert now == was and len(was) > 8
    engine.start()
    tables = [name for _, name, _ in execute(engine, "show tables")]
    assert tables and execute(engine, f"select count(*) from {tables[0]}") != [(0,)]
    engine.kill()


# Settings -------------------------------------------------------------------------


def test_what_spark_itself_does_not_take_is_named(lab):
    wrong = {"spark.sql.shuffle.partitionz": "4", "spark.sql.shuffle.partitions": "many"}
    with pytest.raises(UsageError) as refused:
        lab.engine("spark", wrong)
    assert [name for name in wrong if name not in refused.value.context] == []


@pytest.fixture
def unasked(monkeypatch):
    """Settings are validated without Spark, which would start a Java."""
    monkeypatch.setattr(Installation, "complaints", lambda *_: "")


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.local.dir", "/elsewhere"),
        ("spark.hadoop.fs.s3a.secret.key", "s"),
        ("spark.driver.memory", "9g"),
    ],
)
def test_a_setting_that_the_harness_does_not_take(lab, name, value):
    with pytest.raises(UsageError, match=name):
        lab.engine("spark", {name: value})


def test_the_heap_is_within_the_memory_limit(lab):
    assert lab.engine("spark")._settings["spark.driver.memory"] == "614M"  # of 1 GiB


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize(
    ("settings", "options", "broadcast"),
    [
        ({"spark.driver.memory": "800M"}, {}, 8 << 20),
        (
            {**TRUSTED, "spark.driver.memory": "800M", "spark.executor.memory": "600M"},
            CLUSTER,
            6 << 20,
        ),
        ({**TRUSTED, "spark.driver.memory": "800M"}, CLUSTER, 8 << 20),
        ({"spark.sql.autoBroadcastJoinThreshold": "5B"}, {}, 5),
    ],
)
def test_no_table_is_broadcast_that_a_heap_has_no_room_for(lab, settings, options, broadcast):
    engine = lab.engine("spark", settings, options)
    assert engine._settings["spark.sql.autoBroadcastJoinThreshold"] == f"{broadcast}B"


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("settings", [{}, {AUTHENTICATE: "yes"}])
def test_a_cluster_without_authentication_is_refused_unless_the_user_says_so(lab, settings):
    with pytest.raises(UsageError, match=AUTHENTICATE):
        lab.engine("spark", settings, CLUSTER)
    assert lab.engine("spark", TRUSTED, CLUSTER).exposed()
    assert not lab.engine("spark", {AUTHENTICATE: "true"}, CLUSTER).exposed()


@pytest.mark.parametrize(
    "options",
    [
        {"master": "local[2]", "location": "file:///x"},
        {"master": "spark://h:7077"},
        {"master": "spark://h:7077", "location": "/x"},
        {"master": "spark://h:7077", "location": "s3a://key:secret@bucket/x"},
        {"location": "s3a://bucket/x"},
        {"conf": "/no/such/file"},
    ],
)
def test_options_that_do_not_name_a_cluster_are_refused(options):
    factory = registry.engine("spark")
    with pytest.raises(UsageError):
        factory.settings_of_file(options, Path())
        factory.available(options, paths.engines_prefix())


def test_a_file_of_settings_is_stored_without_its_secrets(tmp_path):
    file = tmp_path / "spark.conf"
    file.write_text(
        "# S3\nspark.hadoop.fs.s3a.endpoint http://h\n"
        "spark.hadoop.fs.s3a.secret.key=k\nspark.hadoop.fs.s3a.access.key  a\n"
        "spark.executorEnv.AWS_SECRET_ACCESS_KEY k\nspark.executorEnv.AWS_ACCESS_KEY_ID k\n"
        "spark.hadoop.fs.s3a.encryption.key k\nspark.hadoop.fs.azure.sas.c.a.net k\n"
        "spark.executor.extraJavaOptions -Djavax.net.ssl.trustStorePassword=k\n"
        "spark.executorEnv.MYSQL_PWD 12345\nspark.executorEnv.PIN 12345\n"
        "spark.sql.catalog.shop.url jdbc:mysql://h/d?user=k\nspark.sql.catalog.shop.pin 12345\n"
        "spark.hadoop.fs.s3a.endpoint.region k\nspark.sql.extensions http://me:k@h\n"
        "spark.sql.shuffle.partitions 8\nspark.executor.memory 2g\n"
    )
    settings = registry.engine("spark").settings_of_file({"conf": str(file)}, Path())
    assert settings.values == {
        "spark.hadoop.fs.s3a.endpoint": "http://h",
        "spark.hadoop.fs.s3a.endpoint.region": "k",
        "spark.sql.shuffle.partitions": "8",
        "spark.executor.memory": "2g",
    }


def test_the_driver_s_record_has_no_text_of_a_name_that_others_choose():
    conf = recorded(
        {
            "spark.executorEnv.API_KEY": "k",
            "spark.executorEnv.PIN": "12345",
            "spark.master": "k8s://https://me:k@h:443",
            "spark.executor.extraJavaOptions": "-Xss8m -Dpin=k",
            "spark.driver.memory": "2g",
        }
    )
    assert conf == {
        "spark.executorEnv.PIN": NOT_RECORDED,
        "spark.master": NOT_RECORDED,
        "spark.executor.extraJavaOptions": NOT_RECORDED,
        "spark.driver.memory": "2g",
    }


def test_no_secret_of_a_file_is_in_the_driver_s_command_line(tmp_path):
    file = tmp_path / "spark.conf"
    file.write_text("spark.driver.defaultJavaOptions -Djavax.net.ssl.keyStorePassword=k\n")
    with pytest.raises(UsageError):
        registry.engine("spark").settings_of_file({"conf": str(file)}, Path())


def test_java_s_options_of_a_file_are_no_unknown_settings(lab, tmp_path):
    file = tmp_path / "spark.conf"
    file.write_text("spark.driver.defaultJavaOptions -Xss8m\n")
    settings = registry.engine("spark").settings_of_file({"conf": str(file)}, Path()).values
    assert lab.engine("spark", settings)._settings[JAVA_OPTIONS] == "-Xss8m"


# Plans ----------------------------------------------------------------------------


def test_a_loop_s_time_is_divided_among_what_spark_measures_in_it():
    numbers = itertools.count()

    def metric(name: str, value: int, kind: str = "timing") -> dict[str, Any]:
        return {"id": next(numbers), "name": name, "type": kind, "value": value}

    def node(name: str, *children, metrics=()) -> dict[str, Any]:
        return {"name": name, "detail": name, "metrics": list(metrics), "children": list(children)}

    read = [metric("scan time", 30), metric("number of output rows", 1000)]
    scan = node("Scan parquet spark_catalog.default.orders", metrics=read)
    lower = node(
        "WholeStageCodegen (1)", node("HashAggregate", scan), metrics=[metric("duration", 100)]
    )
    shuffled = node(
        "Exchange", lower, metrics=[metric("shuffle write time", 5_000_000, "nsTiming")]
    )
    upper = node(
        "WholeStageCodegen (2)",
        node("HashAggregate", node("SortMergeJoin", shuffled)),
        metrics=[metric("duration", 40)],
    )
    operators = node("AdaptiveSparkPlan", upper)
    executed = {"operators": operators, "phases_ns": {"planning": 20_000_000}}
    plan = translate({"plan": executed, "duration_ns": 120_000_000})
    # 145 ms of tasks in 100 ms of execution: 1.45 tasks at work.
    assert plan.extra["tasks_at_work"] == pytest.approx(1.45)
    ms = {kind: ns * 1.45 / 1e6 for kind, ns in plan.time_by_kind_ns().items()}
    assert ms["scan"] == pytest.approx(30) and ms["aggregate"] == pytest.approx(70)
    assert ms["join"] == 0
    assert ms["other"] == pytest.approx(40 + 5 + 20 * 1.45)
    assert {o.relation for o in plan.operators.walk()} == {None, "orders"}


# A cluster ------------------------------------------------------------------------


@dataclass
class Cluster:
    """A standalone cluster on the loopback, with authentication. ``parts``: first the master."""

    lab: Lab
    folder: Path
    options: Mapping[str, str]
    secret: str
    parts: list[Process] = field(default_factory=list)


@pytest.fixture(scope="module")
def cluster(module_lab):
    folder, secret = module_lab.directory("cluster"), secrets.token_hex(16)
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = folder / "spark.conf"
    conf.write_text(
        f"spark.authenticate true\nspark.authenticate.secret {secret}\n"
        "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
        f"spark.master.rest.enabled false\nspark.executorEnv.PIN {secret}\n"
    )
    conf.chmod(0o600)
    if (user := module_lab.credentials) is not None:
        os.chown(conf, user.uid, user.gid)
    (folder / "jars").symlink_to(installation().jars)
    master = f"spark://127.0.0.1:{port}"
    options = {"master": master, "location": f"file://{folder}/tables", "conf": str(conf)}
    cluster = Cluster(module_lab, folder, options, secret)
    start_part(cluster, "master.Master", "--port", str(port))
    assert eventually(lambda: not refused(port))
    yield cluster
    for process in reversed(cluster.parts):
        process.kill()


def installation() -> Installation:
    return of_kind(Installation, registry.engine("spark").available({}, paths.engines_prefix()))


def start_part(cluster: Cluster, name: str, *arguments: str) -> None:
    common = ("--host", "127.0.0.1", "--webui-port", "0")
    process = cluster.lab.supervisor.spawn(
        [
            *installation().command(Path("/nonexistent"), "-Xmx256m"),
            *(f"org.apache.spark.deploy.{name}", *common, *arguments),
            *("--properties-file", cluster.options["conf"]),
        ],
        cwd=cluster.folder,
        log=cluster.folder / f"{name}.log",
        credentials=cluster.lab.credentials,
        listens=ANY_PORT,
        env={  # as the scripts of a distribution set it
            "SPARK_HOME": str(cluster.folder),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": "127.0.0.1",
            # Executors, which are killed, leave their files there.
            "SPARK_LOCAL_DIRS": str(cluster.folder),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={cluster.folder}",
        },
    )
    cluster.parts.append(process)


def refused(port: int) -> bool:
    with closing(socket.socket()) as trial:
        return trial.connect_ex(("127.0.0.1", port)) != 0


EXECUTORS = {
    "spark.executor.memory": "600M",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "512M",
}


@pytest.fixture(scope="module")
def lonely(cluster):
    """A driver of a cluster that has no worker yet."""
    engine = open_cluster(cluster)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engines.spark.sql._WITHOUT_EXECUTORS_S", 0)
        patch.setattr("engines.spark.sql._WARM_UP", "set a = b")  # which needs no executor
        engine.start()
    return engine


@pytest.fixture(scope="module")
def clustered(lonely, cluster, source):
    """The same driver with a worker, and TPC-H's data."""
    room = ("--cores", "2", "--memory", "700M", "--work-dir", f"{cluster.folder}/work")
    start_part(cluster, "worker.Worker", *room, cluster.options["master"])
    assert lonely.prepared("tpch-1234") is None
    lonely.prepare("tpch-1234")
    load(lonely, source)
    lonely.mark_prepared("tpch-1234", {"scale": 0.01})
    return lonely


def open_cluster(cluster: Cluster):
    given = registry.engine("spark").settings_of_file(cluster.options, Path()).values
    return cluster.lab.engine("spark", {**given, **EXECUTORS}, cluster.options)


def executors(cluster: Cluster) -> list[int]:
    """Processes of executors, below the workers."""
    processes = []
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            text = status.read_bytes()
            if b"CoarseGrainedExecutorBackend" in text and str(cluster.folder).encode() in text:
                processes.append(int(status.parent.name))
    return processes


def test_a_cluster_that_has_no_executor_yet_has_lost_none(lonely):
    with pytest.raises(RunFailed, match="has registered"):
        execute(lonely, "select count(*) from range(1000)", timeout_s=2)


def test_a_cluster_gives_right_answers(clustered, cluster):
    assert clustered.kind == "external"
    assert registry.engine("spark").supported_parts(cluster.options) == frozenset()
    assert len(executors(cluster)) == 1
    check_answers(clustered, (18,), plans=False)
    assert clustered.counters()["shuffle_written_bytes"] > 0
    assert clustered.data_bytes() > 1 << 20


def test_its_secret_is_in_no_command_line_and_no_log(clustered, cluster):
    processes = [*executors(cluster), *(p.pid for p in cluster.parts)]
    processes += [p.pid for p in clustered.processes()]
    assert len(processes) >= 4
    texts = [Path(f"/proc/{process}/cmdline").read_bytes() for process in processes]
    logs = [path for name in ("*.log", "stderr") for path in cluster.lab.root.rglob(name)]
    assert len(logs) >= 4
    texts += [path.read_bytes() for path in logs]
    assert not [text for text in texts if cluster.secret.encode() in text]
    config = clustered.effective_config()
    assert cluster.secret not in str(config)
    assert config["spark.executorEnv.PIN"] == NOT_RECORDED


@pytest.fixture(scope="module")
def again(clustered, cluster):
    """Another driver on the same data; its executor is all that the worker has room for."""
    config = clustered.effective_config()
    clustered.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("engines.spark.sql._WITHOUT_EXECUTORS_S", 40)
        engine = open_cluster(cluster)
        engine.start()
    local = {"spark.local.dir": config["spark.local.dir"]}  # all else is compared
    assert {**engine.effective_config(), **local} == config
    return engine


def test_loaded_data_are_found_again_and_others_files_are_kept(again, cluster):
    assert again.prepared("tpch-1234") == {"scale": 0.01}
    assert execute(again, "select count(*) from region") == [(5,)]
    folder = cluster.folder / "tables" / "tierbench_tpch_1234"
    (folder / "mine").touch()
    with pytest.raises(RunFailed, match="mine"):
        again.prepare("tpch-1234")
    (folder / "mine").unlink()
    (cluster.folder / "tables" / "tierbench_tpch_9").mkdir()
    with pytest.raises(RunFailed):
        again.prepare("tpch-9")
    assert again.prepared("tpch-1234")


def test_a_query_outlives_a_killed_executor_though_not_the_worker(again, cluster):
    """It ends with the reason. The last test that needs executors."""
    # Its tasks sleep: they last on a fast machine, and leave the processors to other tests.
    slept = "coalesce(java_method('java.lang.Thread', 'sleep', 1000L), '')"
    sql = f"select count(*) from (select distinct id % 7, {slept} from range(0, 8, 1, 8))"
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.extend(execute(again, sql)))
    tasks = again.counters()["spark_tasks_count"]
    thread.start()
    assert eventually(lambda: again.counters()["spark_tasks_count"] > tasks)
    kill_executors(cluster)
    assert thread.is_alive()
    thread.join()
    assert outcome == [(7,)]
    cluster.parts[1].kill()
    kill_executors(cluster)
    with pytest.raises(RunFailed) as ended:
        execute(again, sql)
    assert "executor" in ended.value.context


def kill_executors(cluster: Cluster) -> None:
    for process in executors(cluster):
        with suppress(ProcessLookupError):
            kill(process)
