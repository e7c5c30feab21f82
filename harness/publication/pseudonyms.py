"""Pseudonyms: what stands for a text that identifies, in every export of a host.

A keyed hash, whose key stays on the host: without it no list of names leads back. What was removed
anywhere is replaced wherever it occurs in a text that was kept, such as a host's name in that of an
arm.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from harness import paths
from harness.errors import UsageError
from harness.supervise.own_files import make_own

#: A number with a unit, or several; hexadecimal; a date.
NUMBER = re.compile(
    r"-?\d+(\.\d+)?([eE][+-]?\d+)? ?([kKMGTP]?i?[bB]?|ns|us|ms|s|min|h|d|%)"
    r"|0x[0-9a-f]{1,8}|\d{4}-\d\d-\d\d"
)
#: Words of settings that say how something works.
WORDS = frozenset({
    "on", "off", "true", "false", "yes", "no", "none", "null", "default", "auto", "always",
    "never", "enabled", "disabled", "full", "partial", "replica", "minimal", "logical",
    "open_sync", "open_datasync", "fsync", "fdatasync", "fsync_writethrough", "O_DIRECT",
    "O_DSYNC", "io_uring", "worker", "sync", "async", "nosync", "local", "remote_write",
    "remote_apply", "read-committed", "repeatable-read", "serializable", "madvise", "try",
    "lz4", "zstd", "snappy", "pglz", "zlib", "kLZ4Compression", "kNoCompression",
    "kSnappyCompression", "kZSTD", "passive", "active", "nosmt", "debug", "info", "warning",
    "error", "crc32", "strict", "row", "statement", "mixed", "constant", "zipfian", "uniform",
    "latest", "hashed", "ordered", "C", "UTF8", "utf8mb4",
})  # fmt: skip
#: Names that occur in every document, whoever's they are.
_COMMON = frozenset({
    "root", "admin", "user", "test", "postgres", "mysql", "mariadb", "duckdb", "rocksdb",
    "spark", "localhost", "ubuntu", "debian", "home", "data", "temp", "index",
    "memory", "local", "host", "server", "client", "default", "unknown", "none", "removed",
})  # fmt: skip
_GROUPS = "[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4})*"
ADDRESSES = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d)"
    r"|(?<![\w:])(?:[0-9A-Fa-f]{1,4}:){3,}[0-9A-Fa-f]{1,4}(?![\w:])"
    rf"|(?<![\w:])(?:{_GROUPS}::(?:{_GROUPS})?|::{_GROUPS})(?:\.\d{{1,3}}){{0,3}}(?![\w:])"
    r"|(?<![0-9A-Fa-f-])(?:[0-9A-Fa-f]{2}-){5}[0-9A-Fa-f]{2}(?![\w-])"
)
UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_USER = re.compile(
    r"(?:/(?:home|Users)/|~(?=[A-Za-z_][\w.-]*/))([^/\s:'\"]+)|([\w.-]+)(?::[^@\s/]*)?@[\w.-]+"
)
_AT_HOST = re.compile(r"@([\w.-]+)")
_CONNECTION = re.compile(r"\b(user|password|host|hostaddr|dbname|uid|pwd|server)=([^\s;,'\"]+)")
_PATHS = re.compile(r"(?<![\w.])/[\w.-]+/[^\s:,;'\"()]+")
#: Places that every host has.
PLACES = frozenset({"/", "/dev/shm", "/tmp", "tmpfs", "none", ""})
KERNEL_DEVICE = re.compile(
    r"(?:/dev/)?(?:(?:sd|vd|xvd)[a-z]+\d*|nvme\d+n\d+(?:p\d+)?|pmem\d+(?:\.\d+)?s?(?:p\d+)?"
    r"|(?:loop|md|dm-|zram|ram)\d+(?:p\d+)?|dax\d+\.\d+|nmem\d+|mem\d+)"
)


@dataclass
class Publication:
    """Documents of runs that may be published. ``removed``: numbers of values by kind."""

    key: bytes
    removed: Counter[str] = field(default_factory=Counter)
    #: What is replaced wherever it occurs, with what stands for it.
    identities: dict[str, str] = field(default_factory=dict)
    #: Names of engines, workloads, tiers, metrics and keys: no identities, whoever else has them.
    names: set[str] = field(default_factory=set)

    def pseudonym(self, kind: str, text: str, identifies: bool = False) -> str:
        """Return what stands for a text of this kind, the same in every export of this host."""
        self.removed[kind] += 1
        self._note(text)
        name = self._name(kind, text)
        if identifies:
            self._identity(text, name)
            if kind == "host" and not ADDRESSES.fullmatch(text):
                short, _, domain = text.partition(".")
                self._identity(short, name)
                if "." in domain:
                    self._identity(domain, self._name("host", domain))
        return name

    def leave_out(self, kind: str, value: Any) -> None:
        """Count a value that is left out; what identifies in it is replaced elsewhere."""
        if value not in (None, "", [], {}):
            self.removed[kind] += 1
        for text in _texts(value):
            self._note(text)

    def _name(self, kind: str, text: str) -> str:
        digest = hmac.new(self.key, f"{kind}\0{text}".encode("utf-8", "replace"), hashlib.sha256)
        return f"{kind.replace(' ', '-')}-{digest.hexdigest()[:10]}"

    def _note(self, text: str) -> None:
        """Note the users, hosts, addresses and paths that a removed text names."""
        for match in _USER.finditer(text):
            user = match[1] or match[2]
            self._identity(user, self._name("user", user))
        for match in _AT_HOST.finditer(text):
            self._identity(match[1], self._name("host", match[1]))
        for match in _CONNECTION.finditer(text):
            kind = "host" if match[1] in ("host", "hostaddr", "server") else "user"
            self._identity(match[2], self._name(kind, match[2]))
        for match in (*ADDRESSES.finditer(text), *UUID.finditer(text)):
            self._identity(match[0], self._name("address", match[0]))
        for match in _PATHS.finditer(text):
            if match[0] not in PLACES and not KERNEL_DEVICE.fullmatch(match[0]):
                self._identity(match[0], "/" + self._name("path", match[0]))

    def _identity(self, text: str, name: str) -> None:
        plain = text.lower() in _COMMON or text in WORDS or NUMBER.fullmatch(text)
        if len(text) >= 3 and not plain and text not in PLACES:
            self.identities.setdefault(text, name)

    def replaced(self, documents: Mapping[str, Any]) -> dict[str, Any]:
        """Return documents without the identities in the texts that were kept."""
        identities = [text for text in self.identities if text.lower() not in self.names]
        longest_first = sorted(identities, key=len, reverse=True)
        names = {text.lower(): self.identities[text] for text in longest_first}
        if not longest_first:
            return dict(documents)
        pattern = re.compile(
            "|".join(  # a short one would be found within words
                re.escape(text) if len(text) > 5 else rf"(?<!\w){re.escape(text)}(?!\w)"
                for text in longest_first
            ),
            re.IGNORECASE,
        )

        def name_of(match: re.Match[str]) -> str:
            self.removed["within names"] += 1
            return names[match[0].lower()]

        def walk(value: Any) -> Any:
            if isinstance(value, str):
                return pattern.sub(name_of, value)
            if isinstance(value, dict):
                return {walk(key): walk(member) for key, member in value.items()}
            return [*map(walk, value)] if isinstance(value, list) else value

        return {name: walk(document) for name, document in documents.items()}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, member in value.items():
            yield key
            yield from _texts(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _texts(member)


def key_of_host() -> bytes:
    """Return the secret of pseudonyms, of this host and user; made at the first export."""
    path = paths.state_dir() / "publish.key"
    try:
        make_own(path.parent)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(32))
        key = path.read_bytes()
    except OSError as error:
        raise UsageError(f"key of pseudonyms {path}", str(error), "make it readable") from error
    if len(key) != 32:
        raise UsageError(f"key of pseudonyms {path}", "it is damaged", "remove it")
    return key
