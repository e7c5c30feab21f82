"""Property files as the client reads them (``java.util.Properties``), written by us."""

from __future__ import annotations

from collections.abc import Mapping

_LATIN_1 = 0x7E


def properties_text(properties: Mapping[str, object]) -> str:
    """One line each, in order; booleans and numbers as Java has them, None left out."""
    return "".join(
        f"{_escaped(name, key=True)}={_escaped(_java(value))}\n"
        for name, value in properties.items()
        if value is not None
    )


def _java(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str, key: bool = False) -> str:
    """Every character that the syntax means something by, and all that is not plain ASCII."""
    return "".join(
        f"\\{c}"
        if c in ("\\=:#! " if key else "\\") or (c == " " and number == 0)
        else c
        if " " <= c <= chr(_LATIN_1)
        else "".join(f"\\u{unit:04x}" for unit in _utf16(c))
        for number, c in enumerate(text)
    )


def _utf16(character: str) -> list[int]:
    data = character.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[i : i + 2]) for i in range(0, len(data), 2)]
