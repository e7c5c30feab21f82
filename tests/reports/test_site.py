"""A site of results stores: its pages and addresses, and what writing it again changes."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from explained_runs import device_suite
from micro_runs import card_run
from report_runs import Case, demo, metric, write, write_unfinished
from test_basis import execution
from typer.testing import CliRunner

from harness.cli.app import app
from harness.errors import UsageError
from harness.models.score import Score, ScoredMetric, ScoreStore
from harness.progress import SilentProgress
from harness.store.run_store import Store
from reports.page import render
from reports.site.write import StaticSite, Written

HOSTILE = "<script>document.title='owned'</script>"
FEW = (1, 6)
OTHER_HOST = {"host.hostname": "lab7", "host.host_id": "7" * 16}


class _Html(HTMLParser):
    """The addresses of a page's links, and its text in the title and in the page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if (tag, name) == ("a", "href")]

    def handle_data(self, data: str) -> None:
        self.text += data


def written(out: Path, *roots: Path) -> Written:
    site = StaticSite("Results", [Store(root) for root in roots], lambda _: ())
    return site.write(out, SilentProgress())


def pages(out: Path, folder: str = "") -> set[str]:
    files = (path.relative_to(out).as_posix() for path in (out / folder).rglob("*.html"))
    return {name.removesuffix(".html") for name in files}


def check_links(out: Path) -> None:
    """Each link is relative, and leads to a page that is there."""
    for file in out.rglob("*.html"):
        for link in _Html(file).links:
            target, _, part = link.partition("#")
            there = (file.parent / target).resolve()
            assert there.is_relative_to(out) and there.is_file(), (file, link)
            assert not part or f'id="{part}"' in there.read_text("utf-8")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    demo(tmp_path / "a", ("postgres", "duckdb"), blocks=2, queries=FEW, plans=False)
    return tmp_path / "a"


@pytest.fixture
def without_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what pages say and link to, charts take half the time."""
    monkeypatch.setattr("reports.charts.draw_panel", lambda *_, **__: iter(()))
    monkeypatch.setattr("reports.site.experiments.draw_headline", lambda *_: iter(()))


def test_a_site_of_two_stores(tmp_path: Path, store: Path) -> None:
    other, out = tmp_path / "b", tmp_path / "site"
    places = ("ssd-both", "pmem-both", "ssd-data-pmem-wal")
    changes: dict[str, Any] = {"queries": FEW, "plans": False, "manifest_changes": OTHER_HOST}
    shutil.copytree(store, other)  # as runs import does
    demo(other, ("postgres",), places, 2, experiment="log", **changes)
    card_run(other, host="lab7")
    write(other, Case(queries=FEW, spec_changes={"plant": ("wal.sync=+100us",)}))
    done = written(out, store, other)
    assert {address.partition("/")[0] for address in done.written} == {
        "index", "experiments", "comparisons", "hosts",
    }  # fmt: skip
    # Two engines in the one, and every two of three placements in the other.
    assert len(pages(out, "comparisons")) == 2 + 3
    assert len(done.left_out) == 1  # planted delays
    check_links(out)
    start = _Html(out / "index.html").text
    assert "8 runs of a" in start and "lab7" in start
    written(out, store, store / "empty", other / "empty")
    assert "0 runs of a/empty, 0 runs of b/empty" in _Html(out / "index.html").text


@pytest.mark.usefixtures("without_charts")
def test_a_host_has_its_models_and_their_scores(tmp_path: Path, store: Path) -> None:
    device_suite(store, "pmem", 10)
    (host_id,) = {run.host_id for run in Store(store).runs() if run.spec.workload == "micro"}
    scored = (ScoredMetric("operations_per_second", 1.1, 1.0, 1.2),)
    about = (host_id, "cloud-ebs-observed", "digest", "pmem", "rocksdb", "ycsb", "a case")
    written(tmp_path / "site", store)
    ScoreStore(store).write(Score(*about, 1, (), scored))
    done = written(tmp_path / "site", store)
    (page,) = (address for address in done.written if address.startswith("hosts/"))
    text = _Html(tmp_path / "site" / f"{page}.html").text
    assert "Device models, measured" in text and "cloud-ebs-observed" in text


def test_every_page_has_the_marks_of_stand_ins(tmp_path: Path, store: Path) -> None:
    card_run(store, host="lab7", emulated=[{"tier": "pmem", "by": "tmpfs"}])
    written(tmp_path / "site", store)
    for file in (tmp_path / "site").rglob("*.html"):
        html = _Html(file)
        of_device = file.parent.name != "hosts" or "What it likes" in html.text
        assert "EMULATED" in html.text or not of_device, file


def test_a_comparison_has_the_charts_of_its_headline_and_results(tmp_path: Path) -> None:
    rate = metric("new_orders_per_minute", 3e4, "higher")
    for block in range(2):
        for place in ("ssd-both", "pmem-both", "ssd-data-pmem-wal"):
            of_run: dict[str, Any] = {"placement": place, "block": block}
            write(tmp_path / "a", Case(queries=FEW, experiment="tpch", **of_run))
            write(tmp_path / "a", Case(metrics=[rate], experiment="tpcc", **of_run))
    written(tmp_path / "site", tmp_path / "a")
    charts = [
        re.findall(r'<figure class="chart" id="figure-([^"]*)"', page.read_text("utf-8"))
        for page in (tmp_path / "site" / "comparisons").iterdir()
    ]
    assert len(charts) == 6 and all(names[:2] == ["overview", "headline"] for names in charts)
    assert charts.count(["overview", "headline"]) == 3  # of new-orders; queries have times, too
    assert max(map(len, charts)) == 4


def test_texts_of_users_stay_texts(tmp_path: Path) -> None:
    changes = {"host.hostname": HOSTILE}
    uncontrolled = [{"code": "a-code", "what": HOSTILE, "found": HOSTILE, "do": HOSTILE}]
    for block, label in enumerate((HOSTILE, "../../x", "a", "a")):
        write(
            tmp_path / "a",
            Case(experiment=HOSTILE, label=label, block=block, queries=FEW,
                 manifest_changes=changes, run_changes={"uncontrolled": uncontrolled}),
        )  # fmt: skip
    written(tmp_path / "site", tmp_path / "a")
    check_links(tmp_path / "site")
    assert len(pages(tmp_path / "site")) > 3
    for file in (tmp_path / "site").rglob("*.html"):
        assert _Html(file).tags.count("script") == 1
        assert HOSTILE in _Html(file).text


# Addresses ------------------------------------------------------------------------------


@pytest.mark.usefixtures("without_charts")
def test_a_comparison_keeps_its_address(tmp_path: Path) -> None:
    """Also where runs that arrive become the baseline, or bring another compared dimension."""
    store, out = tmp_path / "a", tmp_path / "site"
    limits: list[dict[str, Any]] = [{"memory_limit_bytes": gib << 30} for gib in (1, 2)]
    for block in range(2):
        for limit in limits:
            write(store, Case(placement="pmem-both", block=block, queries=FEW, spec_changes=limit))
    written(out, store)
    (before,) = pages(out, "comparisons")
    for block in range(2, 4):
        for place in ("pmem-both", "ssd-both"):
            for limit in limits:
                write(store, Case(placement=place, block=block, queries=FEW, spec_changes=limit))
    done = written(out, store)
    assert before in pages(out, "comparisons") and before in done.written
    # Two limits on either placement, and two placements with either limit.
    assert len(pages(out, "comparisons")) == 4
    assert done.removed == []


@pytest.mark.usefixtures("without_charts")
def test_another_kernel_is_another_comparison(tmp_path: Path, store: Path) -> None:
    written(tmp_path / "site", store)
    before = pages(tmp_path / "site", "comparisons")
    changes = {"host.kernel.release": "9.9.9"}
    demo(store, ("duckdb",), blocks=2, queries=FEW, plans=False, manifest_changes=changes)
    written(tmp_path / "site", store)
    assert pages(tmp_path / "site", "comparisons") > before


# Writing it again -----------------------------------------------------------------------


@pytest.mark.usefixtures("without_charts")
def test_only_what_changed_is_written(tmp_path: Path, store: Path) -> None:
    out = tmp_path / "site"
    demo(store, ("mysql",), blocks=1, queries=FEW, plans=False, experiment="other",
         manifest_changes=OTHER_HOST)  # fmt: skip
    first = written(out, store)
    assert (written(out, store).written, written(out, store).unchanged) == ([], len(first.written))
    (run, *_) = demo(
        store, ("mysql",), ("ssd-both",), 1, queries=FEW, plans=False, experiment="other",
        manifest_changes=OTHER_HOST | {"engine.version": "10"},
    )  # fmt: skip
    (out / "notes.html").write_text("mine")
    (out / "comparisons" / "notes.html").write_text("mine")
    kinds = [address.partition("/")[0] for address in written(out, store).written]
    assert sorted(kinds) == ["experiments", "history", "hosts", "index"]
    shutil.rmtree(run.directory)
    assert [address.partition("/")[0] for address in written(out, store).removed] == ["history"]
    assert not (out / "history").exists()
    assert (out / "notes.html").exists() and (out / "comparisons" / "notes.html").exists()
    page = next((out / "experiments").iterdir())
    page.unlink()
    assert f"experiments/{page.stem}" in written(out, store).written


@pytest.mark.usefixtures("without_charts")
def test_an_interruption_leaves_the_former_site(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "site"
    written(out, store)
    before = (out / "index.html").read_bytes()
    demo(store, ("mysql",), blocks=1, queries=FEW, plans=False, experiment="another")
    shutil.rmtree(next((store / "runs").glob("*-duckdb-*")))

    def interrupted(title: str, *arguments: Any) -> str:
        if "against" in title:
            raise KeyboardInterrupt
        return render(title, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("reports.site.write.render", interrupted)
        written(out, store)
    assert (out / "index.html").read_bytes() == before
    check_links(out)
    assert not list(out.rglob("*.partial"))
    assert "index" in written(out, store).written
    check_links(out)


@pytest.mark.usefixtures("without_charts")
def test_a_folder_of_something_else_is_refused(tmp_path: Path, store: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "site.json").write_text('{"schema": 1, "pages": ["../../etc/x"]}')
    (tmp_path / "file").write_text("")
    (tmp_path / "mixed" / "hosts").mkdir(parents=True)
    (tmp_path / "mixed" / "site.json").write_text('{"schema": 1}')
    (tmp_path / "mixed" / "index.html").write_text("mine")
    for name in ("mine", "damaged", "file", "mixed"):
        with pytest.raises(UsageError):
            written(tmp_path / name, store)
    assert (tmp_path / "mine" / "index.html").read_text() == "mine"
    assert (tmp_path / "mixed" / "index.html").read_text() == "mine"


def test_without_a_run_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        written(tmp_path / "site", tmp_path)
    assert not (tmp_path / "site").exists()


# What cannot be shown -------------------------------------------------------------------


@pytest.mark.usefixtures("without_charts")
def test_damaged_and_unfinished_runs_are_named(tmp_path: Path, store: Path) -> None:
    damaged, _ = demo(store, ("mysql",), blocks=1, queries=FEW, plans=False)
    (damaged.directory / "run.json").write_text("{")
    write_unfinished(store)
    done = written(tmp_path / "site", store)
    assert len(done.left_out) == 2
    assert damaged.run_id in _Html(tmp_path / "site" / "index.html").text
    assert str(tmp_path) not in _Html(tmp_path / "site" / "index.html").text


def test_an_experiment_of_failed_runs_has_a_page(tmp_path: Path) -> None:
    write(tmp_path / "a", Case(status="failed", queries=FEW))
    named = {"experiment.name": "suite"}
    card_run(tmp_path / "a", status="failed", host="lab7", run_changes=named)
    done = written(tmp_path / "site", tmp_path / "a")
    assert len(pages(tmp_path / "site", "experiments")) == 1
    assert len(done.left_out) == 1  # what a failed suite measured is on no card


def test_history_has_a_page_with_change_points(tmp_path: Path) -> None:
    for day in range(14):
        execution(tmp_path / "a", day, 2 + (day > 6) + day % 3 / 100)
    written(tmp_path / "site", tmp_path / "a")
    (page,) = (tmp_path / "site" / "history").iterdir()
    assert _Html(page).text.count("Change point at") == 1
    check_links(tmp_path / "site")


# The command ----------------------------------------------------------------------------


@pytest.mark.usefixtures("without_charts")
def test_the_command_prints_what_it_wrote(tmp_path: Path, store: Path) -> None:
    write(tmp_path / "b", Case(metrics=[metric("queries_geomean_ns", 1e9, "lower")]))
    argv = ["site", str(tmp_path / "site"), "--json", "--results", str(store)]
    done = CliRunner().invoke(app, [*argv, "--results", str(tmp_path / "b")])
    site = json.loads(done.stdout)["site"]
    assert site["start"] == str(tmp_path / "site" / "index.html")
    assert set(site["written"]) == pages(tmp_path / "site")
    assert (site["unchanged"], site["removed"], site["left_out"]) == (0, [], [])
