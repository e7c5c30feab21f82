"""All commands, on stored runs whose texts have control characters: none of them is printed,
and every file that a command writes is without them and well-formed.
"""

import io
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.axis import Axis
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from test_every_kind_of_run import PAPER, PROFILE, write_every_kind
from typer.main import get_command

from harness import cli, registry
from harness.cli.app import app
from harness.errors import UsageError
from harness.models.score import RefusedBlock, Score, ScoredMetric, ScoreStore
from harness.paths import source_root
from harness.printable import PrintableStream
from harness.progress import SilentProgress
from harness.store.calibrations import (
    Calibration,
    CalibrationStore,
    Canary,
    CanaryBandwidth,
    CanaryStore,
    MetricNoise,
)
from harness.store.datasets import DatasetRecord, DatasetStore
from harness.store.result import Manifest, RunResult
from harness.store.run_store import Store
from harness.store.spec import RunSpec
from harness.structs import Struct, convert
from harness.supervise.journal import Journal
from harness.warnings import RunWarning

#: It writes the clipboard (OSC 52), by C0 and by C1, colours, rings, erases and turns text around.
MARK = "\x1b]52;c;QQ==\x07\x9d52;c;QQ==\x9c\x9b31m\x00\x7f\r\x08\u202e"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: Members whose texts are the project's own words: with a mark, pages lack what is drawn of them.
#: Of two stores one has the mark in these, too.
WORDS = {"spec", "spec_hash", "unit", "kind", "operator", "part", "resource", "role",
         "operation", "of", "config", "measure", "measurement", "tier"}  # fmt: skip
#: Of these the reader refuses any other text than it knows.
REFUSED = {"hdr", "placement"}
RUNNING = tuple(registry.all_parameters())
#: What each command is run with; STORE, OUT and MARK stand for themselves. A command that is not
#: listed here fails the test: list it with what makes it print what it reads.
COMMANDS: dict[str, Sequence[str]] = {
    "doctor": ["--host MARK"],
    **{f"run {name}": ["--engine MARK --placement ssd-both"] for name in RUNNING},
    "run micro": ["--suite MARK --tier MARK"],
    **{
        f"advise {name}": ["--engine MARK", "--engine postgres --by-table --budget MARK"]
        for name in RUNNING
    },
    **{f"calibrate {name}": ["--engine MARK --placement ssd-both"] for name in RUNNING},
    **{f"curve {name}": ["--engine MARK --part wal"] for name in RUNNING},
    "compare": [
        "placement=ssd-both,engine=duckdb placement=pmem-both,engine=duckdb --all --anyway"
        " --fail-above 1% --inconclusive fail --junit junit.xml",
        "placement=MARK placement=MARK",
    ],
    "report": ["--anyway -o OUT --title MARK"],
    "site": ["OUT/site --title MARK"],
    "experiment list": [""],
    "experiment show": ["profile.yml --placement ssd-both"],
    "experiment run": ["profile.yml --dry-run --placement ssd-both", "MARK"],
    "experiment submit": ["profile.yml --hosts MARK", "MARK"],
    "experiment status": ["", "MARK"],
    "model list": [""],
    "model show": ["cloud-ebs-observed", "MARK"],
    "model make": ["MARK --tier MARK"],
    "model verify": ["MARK --tier MARK --case MARK"],
    "runs list": ["", "MARK"],
    "runs show": ["workload=tpch", "workload=micro", "MARK"],
    "runs rm": ["--unfinished --dry-run", "MARK"],
    "runs export": [
        "workload=tpch -o OUT/runs.csv",
        "-o OUT/runs.json",
        "-o OUT/otava.yaml",
        "-o OUT/runs.bmf.json",
        "-o OUT/MARK",
        "workload=tpch --public OUT/MARK",
    ],
    "runs sql": ["'SELECT * FROM runs'", "'SELECT * FROM metrics'", "MARK"],
    "runs import": ["MARK"],
    "workload init": ["OUT/MARK", "OUT/MARK --from MARK"],
    "workload answers": ["OUT MARK"],
    "workload capture": ["OUT/MARK --dsn MARK"],
    "data list": [""],
    "data rm": ["MARK --dry-run"],
    "data verify": ["MARK"],
    "explain": ["", "--anyway"],
    "repro": ["MARK"],
    "engines list": [""],
    "engines install": ["MARK"],
    "engines verify": ["MARK"],
    "micro list": [""],
    "micro show": ["MARK"],
    "micro import": ["MARK --out OUT/MARK"],
    "card": ["-o OUT"],
    "flushes": ["MARK"],
    "rewrite": ["MARK -o OUT/MARK"],
    "paper": ["paper.yml --budget 1ns --emulate pmem -o OUT"],
    "conclusions": [""],
    "selftest": ["MARK"],
    "host modes": [""],
    "host plan": ["MARK"],
    "host apply": ["MARK"],
    "host verify": ["MARK"],
    "host restore": ["MARK"],
}


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The commands that the application has, with their options."""
    if not hasattr(group, "list_commands"):
        yield " ".join(path), group
        return
    for name in group.list_commands(None):
        yield from commands(group.get_command(None, name), (*path, name))


#: Those that print texts of the store.
SHOWN = ("compare", "explain", "runs list", "runs show", "runs sql", "data list")
#: Those whose pictures are drawn.
DRAWN = ("report", "card", "site")
ALL = dict(commands(get_command(app)))


def test_each_command_is_tried() -> None:
    assert set(COMMANDS) == set(ALL)


# The store ------------------------------------------------------------------------------


def is_valid(document: Any, schema: type[Struct]) -> bool:
    try:
        convert(document, schema, source="here")
    except UsageError:
        return False
    return True


def marked(document: Any, schema: type[Struct] | None, every: bool, fits: dict[Any, bool]) -> Any:
    """The document with the mark in each text that may have it.

    ``fits``: which members may, by their path, as tried by the schema in an earlier document.
    """

    def valid(where: tuple[str, ...]) -> bool:
        if where not in fits:
            fits[where] = schema is None or is_valid(document, schema)
        return fits[where]

    def walk(node: Any, path: tuple[str, ...]) -> None:
        for key, value in list(node.items() if isinstance(node, dict) else enumerate(node)):
            number = isinstance(value, str) and value.isdecimal() and key != "query"
            if key in REFUSED or (not every and (key in WORDS or number)):
                continue
            where = (*path, key if isinstance(node, dict) else "#")
            if isinstance(value, dict | list):
                walk(value, where)
            elif isinstance(value, str):
                node[key] = value + MARK
                node[key] = value + MARK * valid(where)
            if every and isinstance(node, dict):
                node[key + MARK] = node.pop(key)
                if not valid((*where, "name of it")):
                    node[key] = node.pop(key + MARK)

    walk(document, (str(schema),))
    return document


#: Of documents, by their name or folder.
SCHEMAS: dict[str, type[Struct]] = {
    "spec": RunSpec,
    "run": RunResult,
    "manifest": Manifest,
    "golden": DatasetRecord,
    "calibrations": Calibration,
    "canaries": Canary,
    "scores": Score,
}


def write_others(root: Path) -> None:
    """Write what commands store in addition to runs."""
    run = Store(root).runs()[0]
    ids = ((run.run_id, run.run_id),) * 6
    noise = MetricNoise("queries_geomean_ns", "ns", "lower", {}, (0.1, -0.1, 0.02) * 2)
    warning = RunWarning("turbo-enabled", "a problem", "a context", "a hint")
    made = Calibration(run.run_id, 1, "a1b2c3d4", run.spec, ids, 9, 0, (noise,), (warning,))
    CalibrationStore(root).write(made)
    CanaryStore(root).write(
        Canary("plan", "a1b2c3d4", 1, 9, (CanaryBandwidth("dram", "r", (1.0,), (2.0,)),))
    )
    scored = (ScoredMetric("operations_per_second", 1.1, 1.0, 1.2),)
    about = ("a1b2c3d4", "cloud-ebs-observed", "digest", "pmem", "rocksdb", "ycsb", "a case")
    refused = RefusedBlock("disturbed", (run.run_id,))
    ScoreStore(root).write(Score(*about, 1, (), scored, (refused,)))
    folder = source_root(root / "data")
    folder.mkdir(parents=True)
    journal = Journal(root / "state")
    with DatasetStore(folder, journal).building("tpch-x", SilentProgress()) as building:
        assert building is not None
        building.publish({"data": {"scale": 1}, "build": "x"}, {"rows": {}}, SilentProgress())
    journal.close()


@pytest.fixture(scope="module", params=["texts", "everything"])
def store(request, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp(request.param)
    write_every_kind(root)
    write_others(root)
    fits: dict[Any, bool] = {}
    for path in root.rglob("*.json"):
        schema = SCHEMAS.get(path.stem) or SCHEMAS.get(path.parent.name)
        every, text = request.param == "everything", path.read_text("utf-8")
        document = marked(json.loads(text), schema, every, fits)
        if schema and not is_valid(document, schema):  # it is not like the earlier ones
            document = marked(json.loads(text), schema, every, {})
        path.write_text(json.dumps(document), "utf-8")
    (root / "runs.index").unlink(missing_ok=True)
    return root


# What comes out -------------------------------------------------------------------------


class _Balanced(HTMLParser):
    """A page whose elements end in the order in which they begin."""

    _VOID = {"meta", "link", "br", "hr", "img", "input"}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self._VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_file(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not CONTROL.search(text), path
    match path.suffix:
        case ".svg" | ".xml":
            ElementTree.fromstring(text)
        case ".json":
            json.loads(text)
        case ".html":
            page = _Balanced()
            page.feed(text)
            assert page.open == []


def ran(argv: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Exit status and output of a command, run as by ``harness.cli.main``.

    It prints no control character.
    """
    monkeypatch.setattr("sys.argv", ["harness", *argv])
    streams = [PrintableStream(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            code = cli._command()
        except (Exception, SystemExit) as error:
            code = cli._ended_by(error)
    out, err = (stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]
    for text in (out, err):
        assert not CONTROL.search(text), argv
    if "--json" in argv and code == 0:
        json.loads(out)
    return code, out


@pytest.mark.parametrize(
    "command",
    [pytest.param(command, marks=[pytest.mark.draws] * (command in DRAWN)) for command in COMMANDS],
)
def test_no_control_character_comes_out(command, store, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_DATA", str(store / "data"))
    # The texts of a picture are looked at, not where they are, nor its lines and marks.
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda engine, figure: None)
    monkeypatch.setattr(Axis, "_update_label_position", lambda axis, renderer: None)
    monkeypatch.setattr(Line2D, "draw", lambda line, renderer: None)
    for name, text in {"paper": PAPER, "figure1": PROFILE, "profile": PROFILE}.items():
        marked_text = text.replace("A paper", json.dumps(MARK)[1:-1])
        (tmp_path / f"{name}.yml").write_text(marked_text.replace("one query", json.dumps(MARK)))
    options = {name for parameter in ALL[command].params for name in parameter.opts}
    of_texts = store.name.startswith("texts")
    if not of_texts and ("--results" not in options or command == "experiment list"):
        return  # it prints nothing of a store, and was tried with the other one
    results = ["--results", str(store)] * ("--results" in options)
    forms = [(), ("--json",)][: 1 if command in DRAWN or "--json" not in options else 2]
    places = {"OUT": str(tmp_path), "MARK": MARK.replace("\0", "")}  # no argument has NUL
    for line in COMMANDS[command]:
        words = [_replaced(word, places) for word in shlex.split(line)]
        for form in forms:
            code, out = ran([*command.split(), *words, *results, *form], monkeypatch)
            assert code < 2 or "MARK" in line or not of_texts
            assert "\\u001b" in out or command not in SHOWN or "MARK" in line
    for path in tmp_path.rglob("*"):
        if path.suffix in (".html", ".md", ".csv", ".svg", ".xml", ".yaml"):
            check_file(path)


def _replaced(word: str, places: Mapping[str, str]) -> str:
    for name, text in places.items():
        word = word.replace(name, text)
    return word
