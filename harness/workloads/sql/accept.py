"""Expected answers from a run whose answers a person has looked at."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.sql_values import decode
from harness.supervise.user_files import make_own, open_regular
from harness.workloads.sql.folder import ANSWERS, SqlFolder


def write_answers(folder: SqlFolder, answers: Mapping[str, Any]) -> list[Path]:
    """Write a file for each query that has none, from the artifact ``answers`` of a run.

    UsageError for an answer that the run has not stored in full, before any is written.
    """
    texts: dict[Path, str] = {}
    for name, answer in answers.items():
        if name in folder.answers or name not in folder.queries:
            continue
        rows = answer["rows"]
        if answer["row_count"] > len(rows):
            raise UsageError(
                f"answer of {name}",
                f"the run has stored {len(rows)} of {answer['row_count']} rows",
                "sum up rows in the query, or write the file yourself",
            )
        texts[folder.path / ANSWERS / f"{name}.csv"] = _text(rows)
    try:
        if texts:
            make_own(folder.path / ANSWERS)
        for path, text in texts.items():
            descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(text)
    except OSError as error:
        raise UsageError(
            f"answers in {folder.path}", error.strerror or str(error), "correct the folder"
        ) from error
    return list(texts)


def _text(rows: list[list[Any]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    width = len(rows[0]) if rows else 1
    writer.writerow(f"column_{number}" for number in range(1, width + 1))
    writer.writerows([decode(value) for value in row] for row in rows)
    return stream.getvalue()
