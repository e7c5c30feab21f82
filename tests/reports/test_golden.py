"""The wording of each page and the numbers behind it, from stored example runs: a golden file each.

After a change of the wording, `.venv/bin/python tests/reports/test_golden.py` writes the pages
(with ``--runs`` the example runs too); read the difference before committing it.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from harness.store.run_store import Store
from reports import compare_output
from reports.compare import compare
from reports.conclusions.catalogue import PAPERS, conclusions_of
from reports.conclusions.model import check_all
from reports.explain import output as explain_output
from reports.explain.comparisons import explained
from reports.explain.devices import TierSources
from reports.explain.output import ExplainedView
from reports.micro.devices import is_micro
from reports.micro.report import write_cards
from reports.report import Report
from reports.select import having
from reports.series import panels

GOLDEN = Path(__file__).parent / "golden"
RUNS = GOLDEN / "runs.tar.gz"
PAGES = ("report.md", "report.csv", "card.md", "compare.json", "explain.json", "conclusions.json")


def pages(folder: Path) -> dict[str, str]:
    """The pages of the stored runs, with report.csv and what commands print with ``--json``."""
    subprocess.run(["tar", "-xf", RUNS, "-C", folder], check=True)
    runs = Store(folder).runs()
    engines = [run for run in runs if not is_micro(run)]
    report = Report(engines).write(folder / "pages")
    card = write_cards([run for run in runs if is_micro(run)], folder / "pages")
    files = {"report.md": report.markdown, "report.csv": report.csv, "card.md": card.markdown}
    ssd, pmem = (having(engines, {"placement": place}) for place in ("ssd-both", "pmem-both"))
    rows = tuple(explained(panels(engines, "placement", None), TierSources.of(runs, ())))
    documents = {
        "compare.json": compare_output.to_json(compare(ssd, pmem), 0.05),
        "explain.json": explain_output.to_json(ExplainedView(rows)),
        "conclusions.json": [
            conclusion.to_json() for conclusion in check_all(conclusions_of(*PAPERS), runs)
        ],
    }
    made = {page: file.read_text("utf-8") for page, file in files.items()}
    return made | {
        page: json.dumps(document, indent=1) + "\n" for page, document in documents.items()
    }


@pytest.fixture(scope="module")
def written(undrawn: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return pages(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_as_its_golden_file(written: dict[str, str], page: str) -> None:
    assert written[page] == (GOLDEN / page).read_text("utf-8")


def make_runs(folder: Path) -> None:
    """TPC-H on two engines with a resolved verdict, TPC-C on one placement, and one device."""
    from micro_runs import card_run
    from report_runs import Case, demo, write
    from test_report_workloads import tpcc_runs

    demo(folder, blocks=7, queries=(1, 6))
    write(folder, Case(block=7, status="failed", queries=(1, 6)))
    tpcc_runs(folder, 1, 1.5)
    card_run(folder)
    with tarfile.open(RUNS, "w:gz") as archive:
        archive.add(folder / "runs", arcname="runs")


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    if "--runs" in sys.argv:
        with tempfile.TemporaryDirectory() as made:
            make_runs(Path(made))
    with tempfile.TemporaryDirectory() as made:
        for page, text in pages(Path(made)).items():
            (GOLDEN / page).write_text(text, "utf-8")
