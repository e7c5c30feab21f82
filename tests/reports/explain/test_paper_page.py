"""A paper's page has predicted speed-ups next to measured ones, and no column without any."""

from __future__ import annotations

from pathlib import Path

from explained_runs import suites, tpcc, what_if

from harness.store.runs import Store
from reports.fidelity.page import FigureRuns, page_of, write_paper


def test_a_prediction_stands_next_to_what_was_measured(tmp_path: Path) -> None:
    runs = [tpcc(tmp_path, placement, rate=rate)
            for placement, rate in (("ssd-both", 6e4), ("ssd-data-pmem-wal", 9e4))]  # fmt: skip
    figure = FigureRuns("Table 5", "", ("table5",), tuple(runs), 2)
    without = page_of("nvm-for-databases", "The paper", [figure], stored=Store(tmp_path).runs())
    assert "predicted" not in without.compared_head
    (view,) = without.figures
    assert f"harness run micro --like {runs[0].run_id}" in view.to_predict[0]
    assert view.to_predict[1].startswith("harness whatif tpcc")
    assert view.to_predict[1] in write_paper(without, tmp_path / "page")["markdown"].read_text()
    suites(tmp_path, runs[0])
    what_if(tmp_path, "wal", "sync", 1.0)
    page = page_of("nvm-for-databases", "The paper", [figure], stored=Store(tmp_path).runs())
    ((row,),) = (page.compared(one) for one in page.figures)
    row_of = dict(zip(page.compared_head, row, strict=True))
    assert row_of["speed-up"] == "1.50×"
    assert row_of["predicted"].startswith("1.66× [")  # 1000 / (1000 - 399)
    assert page.figures[0].to_predict == ()
