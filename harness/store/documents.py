"""Dataclasses and structs as JSON documents, which are stored whole or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import (
    Any,
    ClassVar,
    Generic,
    TypeVar,
)

import msgspec
from msgspec.structs import replace

from harness import jsonfile, structs
from harness.errors import RunFailed, UsageError
from harness.printable import printable
from harness.store import rescue
from harness.structs import Struct
from harness.supervise.own_files import replacing
from harness.warnings import RunWarning, warn


def attributes(value: object, *names: str) -> dict[str, Any]:
    """Return these attributes of an object as JSON, by name; all null where there is none."""
    return {name: None if value is None else as_json(getattr(value, name)) for name in names}


def members(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON, by name."""
    return attributes(value, *(field.name for field in fields(value)))


def set_members(value: Any) -> dict[str, Any]:
    """Return :func:`members` without those that are None."""
    return {name: member for name, member in members(value).items() if member is not None}


def as_json(value: Any) -> Any:
    """Return a value of dataclasses, structs, mappings and sequences as JSON."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return members(value)
    if isinstance(value, Mapping):
        return {key: as_json(inner) for key, inner in value.items()}
    return [as_json(inner) for inner in value] if isinstance(value, list | tuple) else value


class Document(Struct, frozen=True):
    """Base of documents that have a file of their own in the results directory."""

    documented = "docs/results.md"

    @property
    def document_name(self) -> str:
        """The name of its file, without the extension."""
        raise NotImplementedError


D = TypeVar("D", bound=Document)
#: A name that stays in its directory: another host may have chosen it.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=,@+-]{0,250}")


class DocumentStore(Generic[D]):
    """The documents of one kind in a results directory.

    ``place``: the name of their folder; ``unreadable``: the warning of a file that cannot be read.
    """

    kind: type[D]
    place: ClassVar[str]
    unreadable: ClassVar[RunWarning]

    def __init__(self, results: Path) -> None:
        self.folder = results / self.place

    def write(self, item: D) -> None:
        """Store it, in place of an earlier one of the same name."""
        document = item.to_json()
        structs.convert(document, self.kind, item.document_name)
        path = self.folder / f"{item.document_name}.json"
        rescue.write_result(path, json_bytes(document), item.document_name)

    def all(self) -> list[D]:
        """Return every readable document; warn about each unreadable file."""
        documents = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                documents.append(structs.convert(jsonfile.read(path), self.kind, str(path)))
            except (OSError, ValueError, UsageError) as error:
                warn(replace(self.unreadable, context=f"{path}: {error}"))
        return documents

    def take_over(self, results: Path) -> list[D]:
        """Copy the documents of another results directory that are not here; return them."""
        new = []
        for document in type(self)(results).all():
            name = document.document_name
            if _PLAIN_NAME.fullmatch(name) and not (self.folder / f"{name}.json").exists():
                self.write(document)
                new.append(document)
        return new


def write_json_atomically(path: Path, document: Any) -> None:
    """Write, fsync, rename, fsync the directory: the file is whole or absent.

    RunFailed where it cannot be written; no partial file is left then.
    """
    write_atomically(path, json_bytes(document))


def write_atomically(path: Path, content: bytes) -> None:
    """As :func:`write_json_atomically`."""
    try:
        with replacing(path) as stream:
            stream.write(content)
    except OSError as error:
        raise not_written(path, error) from error


def json_bytes(document: Any) -> bytes:
    """Return a document as its file has it; TypeError or ValueError for what JSON cannot have."""
    compact = json.dumps(document, ensure_ascii=False, allow_nan=False)
    # Surrogates pass, until they are written out. json itself indents much more slowly.
    indented = msgspec.json.format(compact.encode("utf-8", "surrogatepass"), indent=1)
    return printable(indented.decode("utf-8", "surrogatepass")).encode() + b"\n"


def not_written(path: Path, error: OSError) -> RunFailed:
    """The failure to write a file into its directory."""
    gone = isinstance(error, FileNotFoundError)
    return RunFailed(
        f"write {path.name} into {path.parent}",
        "the directory was removed" if gone else error.strerror or str(error),
        "run again, and leave it there" if gone else "make room there, or name another place",
    )
