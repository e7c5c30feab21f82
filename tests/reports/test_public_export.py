"""Runs that are exported to be published: what identifies is gone, comparisons stay equal."""

import gzip
import json
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from report_runs import Case, demo, metric, with_artifacts, write
from typer.testing import CliRunner

from harness import structs
from harness.cli.app import app
from harness.publication.export import publish_runs
from harness.publication.pseudonyms import Publication
from harness.publication.rules import LEFT_OUT, RULES, plain_name
from harness.store import artifacts
from harness.store.documents import write_json_atomically
from harness.store.result import Manifest, RunResult
from harness.store.run_store import Store
from harness.store.runs import StoredRun

#: What identifies a host or its user, by what it is.
PLANTED = {
    "hostname": "pelican17",
    "domain": "pelican17.corp.example",
    "host id": "feedfacecafe0123",
    "user": "quillfeather",
    "home": "/home/quillfeather/bench",
    "mount": "/mnt/zephyr-array/pool7",
    "path": "/srv/zephyr/profiles/ours.yml",
    "address": "198.51.100.77",
    "address of version 6": "2001:db8:77:1::beef",
    "link-local address": "fe80::42:acff:fe1d:7e99",
    "shortest address": "2001:db8::5",
    "mapped address": "::ffff:198.51.100.77",
    "mac": "02:42:ac:1d:7e:99",
    "serial of a disk": "S5GXNX0T118273",
    "serial of a module": "2F1B44E9",
    "unique id": "8089-a2-1748-00001afe",
    "dsn": "host=pelican17.corp.example user=quillfeather password=w0mbat-Key",
    "password": "w0mbat-Key",
    "environment": "tok_9a8b7c6d5e",
    "literal": "Ottoline Vandersloot",
    "cmdline": "7a3c1b22-5d41-4e0b-9d6e-2f6c1f0a9b11",
    "device": "/dev/disk/by-id/nvme-ACME_S5GXNX0T118273",
    "script": "/home/quillfeather/bench/secret-orders.sql",
    "pci": "0000:3b:00.0",
    "kernel": "6.8.0-quillbuild",
}


def every_text() -> str:
    return "; ".join(PLANTED.values())


MANIFEST = {
    "argv": ["harness", "run", "sql", PLANTED["path"], "--dsn", PLANTED["dsn"]],
    "host.hostname": PLANTED["hostname"],
    "host.host_id": PLANTED["host id"],
    "host.mode_evidence": every_text(),
    "host.notes": [every_text()],
    "host.kernel": {
        "release": PLANTED["kernel"],
        "cmdline": f"root=UUID={PLANTED['cmdline']} ip={PLANTED['address']} mitigations=off",
    },
    "host.dimms": [
        {
            "source": "nvdimm", "dev": "nmem0", "mapped_bytes": 1, "id": PLANTED["unique id"],
            "serial": PLANTED["serial of a module"],
            "health": {"text": PLANTED["serial of a module"]},
        },
        {"source": "cxl", "name": "mem0", "serial": None, "pci": [PLANTED["pci"]], "active": True},
    ],
    "host.mounts": [
        {
            "tier": "ssd", "point": PLANTED["mount"], "device": PLANTED["device"],
            "filesystem": "ext4", "options": ["rw", f"username={PLANTED['user']}"], "dax": None,
        }
    ],
    "engine.source": PLANTED["home"],
    "engine.effective_config": {
        "cluster_name": PLANTED["hostname"], "shared_buffers": "64MB", "fsync": "on",
        "primary_conninfo": PLANTED["dsn"], "listen_addresses": PLANTED["address"],
        "hba": PLANTED["mac"], "archive": f"cp %p {PLANTED['home']}",
    },
    "engine.settings": {"work_mem": "4MB", "extra": PLANTED["literal"]},
    "tools": {"python": "3.11.2", "wrapper": PLANTED["home"]},
    "conditions": {"program": [PLANTED["home"]]},
    "run_state": {"cpu_quota": "none", "hook": PLANTED["domain"]},
    "dataset": {"key": "sql-postgres-0123", "fingerprint": {"folder": PLANTED["path"], "rows": 5}},
}  # fmt: skip
SPEC = {
    "env": {"TOKEN": PLANTED["environment"]},
    "listen": PLANTED["address of version 6"],
    "settings": {"archive_command": PLANTED["dsn"]},
    "engine_options": {"dsn": PLANTED["dsn"], "port": 5432},
}
RUN = {
    "uncontrolled": [
        {"code": "swap-enabled", "what": every_text(), "found": every_text(), "do": every_text()}
    ],
    "checks": [
        {"name": "answer", "status": "passed", "detail": every_text(), "labels": {"query": "1"}}
    ],
}
ARTIFACTS: Mapping[str, Any] = {
    **{name: {"1": {"text": every_text()}} for name in LEFT_OUT},
    "accounting": {"1": {"plan_ns": 1, "why": every_text()}},
    "background": {"flush": [{"begin_ns": 1, "end_ns": 2}]},
    "io-relations": [
        {"kind": "table", "name": "orders", "table": "orders", "bytes": 1, "io": []}
    ],
    "latencies": {"transactions": []},
    "monitor-block": {"disks": {"ssd": [PLANTED["device"]]}, "samples": [{"monotonic_ns": 1}]},
    "microbench": {"spec": {"path": every_text()}, "result": {"host": every_text()}},
    "plans": {
        "1": {
            "operators": {
                "kind": "scan", "name": f"Seq Scan (name = '{PLANTED['literal']}')", "rows": 1,
                "time_ns": 1, "relation": "orders",
            },
            "raw": every_text(), "note": every_text(),
        }
    },
    "series": {"transactions": [{"monotonic_ns": 1, "counts": {"all": 2}}]},
    "suite": {"name": "mine", "documents": {PLANTED["path"]: {"text": every_text()}}},
    "timeline": [{"submitted_ns": 1, "ended_ns": 2, "query": "1"}],
    "unexplained": {"why": every_text()},
}  # fmt: skip


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_STATE", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("private")
    for block in range(3):
        for placement in ("ssd-both", "pmem-both"):
            disks = {"disks": [PLANTED["device"]], "mount_point": PLANTED["mount"]}
            case = Case(
                placement=placement,
                block=block,
                queries=(1, 6),
                spec_changes=SPEC,
                run_changes=RUN,
                manifest_changes=MANIFEST,
                experiment=f"at-{PLANTED['hostname']}",
            )
            run = with_artifacts(write(root, case), ARTIFACTS)
            document = json.loads((run.directory / "manifest.json").read_text())
            document["tiers"][0] |= {
                "path": PLANTED["mount"] + "/x", "source": PLANTED["path"] + ":3",
                "device": PLANTED["device"], "warnings": [every_text()],
            }  # fmt: skip
            document["tiers"][0]["facts"] |= disks | {"notes": [every_text()]}
            write_json_atomically(run.directory / "manifest.json", document)
            (run.directory / "origin.json").write_text(json.dumps({"from": PLANTED["domain"]}))
            (run.directory / "observers").mkdir()
            (run.directory / "observers" / "log.gz").write_bytes(
                gzip.compress(every_text().encode())
            )
    return root


def harness(*argv: str) -> Any:
    done = CliRunner().invoke(app, [*argv])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def compared(results: Path) -> Any:
    done = harness(
        "compare", "placement=ssd-both", "placement=pmem-both", "--all", "--json",
        "--results", str(results),
    )  # fmt: skip
    assert done.exit_code == 0
    return json.loads(done.stdout)


def test_a_public_export_identifies_nothing(store: Path, tmp_path: Path) -> None:
    public, again = tmp_path / "public", tmp_path / "again"
    done = harness("runs", "export", "--public", str(public), "--results", str(store), "--json")
    assert done.exit_code == 0
    removed = json.loads(done.stdout)["removed"]
    assert removed.keys() >= {"host", "path", "serial", "environment", "text", "artifact"}
    files = [path for path in public.rglob("*") if path.is_file()]
    assert {path.stem for path in files} >= {"run", "manifest", "spec", "plans", "monitor-block"}
    for path in files:
        content = path.read_bytes()
        assert path.suffix == ".json"
        for what, text in PLANTED.items():
            assert text.encode() not in content, (what, path.name)
            assert text not in str(path), (what, path)
    done = harness("runs", "import", str(public), "--results", str(again), "--json")
    assert len(json.loads(done.stdout)["imported"]) == 6
    # Settings that identify are shown by their pseudonyms; every number is the same.
    differing = [*differences(compared(again), compared(store), ())]
    assert {where[2] for where in differing} == {"what_was_run"}
    assert {where[-1] for where in differing} <= {*PLANTED.values()}


def differences(a: Any, b: Any, where: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Where two documents differ."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from differences(a[key], b[key], (*where, key))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for number, pair in enumerate(zip(a, b, strict=True)):
            yield from differences(*pair, (*where, str(number)))
    elif a != b:
        yield (*where, str(a), str(b))


def test_runs_of_a_host_stay_together(tmp_path: Path) -> None:
    demo(tmp_path / "a", ("duckdb",), blocks=1, queries=(1,))
    write(tmp_path / "a", Case(manifest_changes={"host.host_id": "another"}, block=9))
    for name in ("b", "c"):
        argv = ("--public", str(tmp_path / name), "--results", str(tmp_path / "a"))
        assert harness("runs", "export", *argv).exit_code == 0
    hosts = [
        [run.manifest.host.host_id for run in Store(tmp_path / name).runs() if run.manifest]
        for name in ("b", "c")
    ]
    assert hosts[0] == hosts[1]
    assert compared(tmp_path / "b") == compared(tmp_path / "a")
    assert len({*hosts[0]}) == 2


@pytest.mark.parametrize(
    "text",
    [
        "scan /srv/zephyr/pool7", "read ~zephyr/x", "nightly-zephyr.service",
        "user.slice/zephyr.scope", "0x5002538e40a1b2c3", "naa.6001405zephyr", "at 198.51.100.77.",
        "zephyr@here", "fe80::42:acff:fe1d:7e99",
    ],
)  # fmt: skip
def test_a_text_that_identifies_is_no_name(text: str) -> None:
    assert plain_name(Publication(bytes(32)), text).startswith("name-")


@pytest.mark.parametrize("word", ["query", "value", "duration", "Status", "complete"])
def test_words_of_all_documents_identify_nothing(word: str, tmp_path: Path) -> None:
    for place in ("ssd-both", "pmem-both"):
        changes = {"host.hostname": word}
        of_run: dict[str, Any] = {"placement": place, "spec_changes": {"env": {"X": word}}}
        write(tmp_path / "a", Case(queries=(1,), manifest_changes=changes, **of_run))
    argv = ("--public", str(tmp_path / "b"), "--results", str(tmp_path / "a"))
    assert harness("runs", "export", *argv).exit_code == 0
    public = [run.manifest for run in Store(tmp_path / "b").runs() if run.manifest]
    assert len(public) == 2 and all(manifest.host.hostname != word for manifest in public)
    rows = [group["rows"] for group in compared(tmp_path / "b")["groups"]]
    assert rows == [group["rows"] for group in compared(tmp_path / "a")["groups"]]


def test_a_label_that_names_the_host_is_replaced(tmp_path: Path) -> None:
    for label in (
        "arm-of-PELICAN17",
        "with-corp.example",
        "db7.other.example",
        "quillfeather@pelican17.corp.example",
    ):
        case = Case(
            placement=None, label=label, queries=(1,),
            manifest_changes={"host.hostname": "pelican17.corp.example"},
        )  # fmt: skip
        write(tmp_path / "a", case)
    public = tmp_path / "b"
    argv = ("--public", str(public), "--results", str(tmp_path / "a"))
    assert harness("runs", "export", *argv).exit_code == 0
    assert len(Store(public).runs()) == 4
    for path in public.rglob("*"):
        for text in ("pelican17", "corp.example", "other.example"):
            assert text not in str(path).lower()
            assert not path.is_file() or text.encode() not in path.read_bytes().lower()


@pytest.mark.parametrize(
    "changed",
    ["artifacts/mine.json", "artifacts/notes.txt", "note.json", "parameter", "dimm", "extra key"],
)
def test_what_no_rule_names_is_refused(changed: str, tmp_path: Path) -> None:
    run = write(tmp_path / "a", Case(queries=(1,)))
    if changed == "parameter":
        run = write(tmp_path / "a", Case(spec_changes={"params": {"secret": "x"}}, queries=(1,)))
    elif changed == "dimm":
        change = {"host.dimms": [{"source": "nvdimm", "owner": "me"}]}
        run = write(tmp_path / "a", Case(manifest_changes=change, block=1, queries=(1,)))
    elif changed == "extra key":
        with_artifacts(run, {"timeline": [{"submitted_ns": 1, "ended_ns": 2, "who": "me"}]})
    else:
        with_artifacts(run, {})
        (run.directory / changed).write_text("{}")
    done = CliRunner().invoke(
        app,
        ["runs", "export", "--public", str(tmp_path / "b"), "--results", str(tmp_path / "a")],
    )
    names = {"parameter": "params.secret", "dimm": "owner", "extra key": "who"}
    assert names.get(changed, changed) in str(done.exception)
    assert not (tmp_path / "b").exists()


def test_a_folder_that_has_something_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", Case(queries=(1,)))
    argv = ["runs", "export", "--public", str(tmp_path), "--results", str(tmp_path / "a")]
    assert "not empty" in str(CliRunner().invoke(app, argv).exception)


def texts(kind: Any, where: str, seen: set[Any]) -> Iterator[str]:
    """Fields of the types that a document has whose texts have no rule."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and (
        issubclass(kind, msgspec.Struct) or hasattr(kind, "__dataclass_fields__")
    ):
        if kind in seen or kind.__name__ == "RunWarning":
            return
        seen.add(kind)
        rules = RULES.get(kind, {})
        for key, key_kind in structs.keys_of(kind).items():
            nested = [*texts(key_kind, f"{kind.__name__}.{key}", seen)]
            yield from [] if key in rules or key == "params" else nested
    elif kind in (str, Any):
        yield where
    elif origin is not typing.Literal:
        values = (
            arguments[1:]
            if len(arguments) == 2 and isinstance(origin, type) and issubclass(origin, Mapping)
            else arguments
        )
        for argument in values:
            if isinstance(argument, type) or typing.get_args(argument) or argument is Any:
                yield from texts(argument, where, seen)


def test_each_text_has_a_rule() -> None:
    seen: set[Any] = set()
    for kind in (RunResult, Manifest, *artifacts.KINDS.values(), artifacts.MonitorSamples):
        assert not [*texts(kind, str(kind), seen)]


def test_bencher(tmp_path: Path) -> None:
    for block, value in enumerate((3.0, 1.0, 2.0)):
        metrics = [metric("queries_duration_ns", value, "lower"), metric("query_cpu_ns", 1)]
        write(tmp_path / "a", Case(block=block, metrics=metrics))
    out = tmp_path / "x.bmf.json"
    assert (
        harness("runs", "export", "-o", str(out), "--results", str(tmp_path / "a")).exit_code == 0
    )
    (measures,) = json.loads(out.read_text()).values()
    limits = {"value": 2.0, "lower_value": 1.0, "upper_value": 3.0}
    assert measures == {"queries_duration_ns": limits}


def test_only_the_exporter_has_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path / "a", Case(queries=(1,)))
    hosts = set()
    for state in ("s", "t"):
        monkeypatch.setenv("HARNESS_STATE", str(tmp_path / state))
        publish_runs([StoredRun(run.directory)], tmp_path / f"public-{state}")
        assert (tmp_path / state / "publish.key").stat().st_mode & 0o777 == 0o600
        (public,) = Store(tmp_path / f"public-{state}").runs()
        assert public.manifest
        hosts.add(public.manifest.host.hostname)
    assert len(hosts) == 2
