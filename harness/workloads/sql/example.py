"""The example of a user's folder: three tables, five queries, answers, a check."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from harness.errors import UsageError
from harness.supervise.own_files import make_own, replacing

_FILES = Path(__file__).parent / "example_files"
_CUSTOMERS, _PRODUCTS, _PURCHASES = 500, 120, 20_000
_CITIES = ("Aachen", "Bergen", "Cork", "Dresden", "Espoo")
_CATEGORIES = ("books", "garden", "music", "tools")
_FIRST_DAY = date(2024, 7, 1)


def write_example(folder: Path) -> list[Path]:
    """Write the example into a new or empty folder; returns its files."""
    refuse_used(folder)
    texts = {
        str(path.relative_to(_FILES)): path.read_text(encoding="utf-8")
        for path in sorted(_FILES.rglob("*"))
        if path.is_file()
    }
    texts |= {f"load/{name}.csv": "".join(lines) for name, lines in _rows().items()}
    try:
        for part in (folder, *(folder / name for name in ("load", "queries", "answers"))):
            make_own(part)
        return [_written(folder / name, text) for name, text in texts.items()]
    except OSError as error:
        raise UsageError(
            f"example in {folder}", error.strerror or str(error), "name another folder"
        ) from error


def refuse_used(folder: Path) -> None:
    """UsageError unless the folder is new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"write into {folder}",
            "it exists and is not an empty folder",
            f"name another, such as {shlex.quote(f'{folder}-2')}",
        )


def _written(path: Path, text: str) -> Path:
    with replacing(path) as stream:
        stream.write(text.encode())
    return path


def _rows() -> dict[str, Iterator[str]]:
    """The lines of the tables' files: the same for everybody, so that the answers are known."""
    return {"customer": _customers(), "product": _products(), "purchase": _purchases()}


def _customers() -> Iterator[str]:
    yield "id,name,city,since\n"
    for number in range(1, _CUSTOMERS + 1):
        city = _CITIES[number * 7 % len(_CITIES)]
        since = _FIRST_DAY - timedelta(days=number * 37 % 2000)
        yield f'{number},"Customer {number}",{city},{since}\n'


def _products() -> Iterator[str]:
    yield "id,name,category,price\n"
    for number in range(1, _PRODUCTS + 1):
        category = _CATEGORIES[number % len(_CATEGORIES)]
        yield f'{number},"Product {number}",{category},{number * 173 % 9900 / 100 + 1:.2f}\n'


def _purchases() -> Iterator[str]:
    """All customers and all products but each tenth, unevenly."""
    yield "id,customer_id,product_id,quantity,bought\n"
    for number in range(1, _PURCHASES + 1):
        mixed = number * 2_654_435_761 % 2**32
        customer = (mixed >> 7) % _CUSTOMERS * ((mixed >> 3) % 5 + 1) % _CUSTOMERS + 1
        product = (mixed >> 11) % (_PRODUCTS // 10) * 10 + (mixed >> 17) % 9 + 1
        bought = _FIRST_DAY + timedelta(days=(mixed >> 13) % 700)
        yield f"{number},{customer},{product},{(mixed >> 5) % 7 + 1},{bought}\n"
