"""The settings of a run, checked, and the deployment file that carries them to the server."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from engines.voltdb.wire import password_digest
from harness.errors import UsageError, nearest
from harness.units import suffixed_number

USER = "harness"
HEAP = "java_heap"
SITES = "sitesperhost"
SNAPSHOTS, FREQUENCY = "snapshot_enabled", "snapshot_frequency"
_NUMBER, _TRUTH, _PERIOD, _SIZE = r"[0-9]+", r"true|false", r"[1-9][0-9]*[smh]", r"[1-9][0-9]*[MG]"
_FORMS = {
    _NUMBER: "a whole number",
    _TRUTH: "true or false",
    _PERIOD: "a period such as 30s, 5m or 1h",
    _SIZE: "a size such as 1024M or 4G",
}
_TRUTHS = {"on": "true", "off": "false"}


@dataclass(frozen=True)
class Setting:
    """``place``: elements and attribute in the deployment file; none of Java's own.

    ``reported``: its name in ``@SystemInformation``'s DEPLOYMENT, if it is there.
    """

    place: tuple[str, ...]
    default: str
    form: str
    reported: str = ""


#: As VoltDB's documentation names them, elements before attributes where that is not unique.
SETTINGS: Mapping[str, Setting] = {
    SITES: Setting(("cluster", "sitesperhost"), "", _NUMBER, "sitesperhost"),
    SNAPSHOTS: Setting(("snapshot", "enabled"), "true", _TRUTH, "snapshotenabled"),
    FREQUENCY: Setting(("snapshot", "frequency"), "30s", _PERIOD, "snapshotfrequency"),
    "snapshot_retain": Setting(("snapshot", "retain"), "2", _NUMBER, "snapshotretain"),
    "snapshot_priority": Setting(
        ("systemsettings", "snapshot", "priority"), "6", _NUMBER, "snapshotpriority"
    ),
    "flush_interval_minimum": Setting(
        ("systemsettings", "flushinterval", "minimum"), "1000", _NUMBER
    ),
    # Each site's memory for what a query keeps, in MB: conditions over all rows need more than
    # the server's 100.
    "temptables_maxsize": Setting(
        ("systemsettings", "temptables", "maxsize"), "1024", _NUMBER, "temptablesmaxsize"
    ),
    # Milliseconds; 0: none. Checks over all rows take longer than the server's 10 s.
    "query_timeout": Setting(("systemsettings", "query", "timeout"), "0", _NUMBER, "querytimeout"),
    HEAP: Setting((), "1024M", _SIZE),
}


def settled(settings: Mapping[str, str], threads: int) -> dict[str, str]:
    """All settings, with the defaults of those that are not given; UsageError for a wrong one.

    Of ``threads``, three quarters are sites, as VoltDB's documentation recommends.
    """
    values = {name: setting.default for name, setting in SETTINGS.items()}
    values[SITES] = str(max(1, threads * 3 // 4))
    for name, given in settings.items():
        if name not in SETTINGS:
            raise UsageError(
                f"setting {name} of VoltDB",
                f"no such setting{nearest(name, list(SETTINGS))}",
                f"known: {', '.join(SETTINGS)}",
            )
        value = _TRUTHS.get(given, given)
        form = SETTINGS[name].form
        if not re.fullmatch(form, value):
            raise UsageError(
                f"setting {name}={given} of VoltDB", "not a valid value", f"write {_FORMS[form]}"
            )
        values[name] = value
    return values


def heap_bytes(settings: Mapping[str, str]) -> int:
    """Limit by ``settled`` settings: the most that Java's heap takes."""
    return int(suffixed_number(settings[HEAP]) or 0)


def deployment(settings: Mapping[str, str], snapshots: Path, password: str) -> str:
    """The file's text, of ``settled`` settings; the password as the server keeps it: hashed."""
    hashed = (hashlib.sha1(password.encode()).digest() + password_digest(password)).hex().upper()
    attributes = {
        ("cluster", "hostcount"): "1",
        ("cluster", "kfactor"): "0",
        ("httpd", "enabled"): "false",
        ("partition-detection", "enabled"): "false",
        ("paths", "snapshots", "path"): str(snapshots),
        ("security", "enabled"): "true",
        ("security", "provider"): "hash",
        ("snapshot", "prefix"): "auto",
        ("users", "user", "name"): USER,
        ("users", "user", "roles"): "administrator",
        ("users", "user", "password"): hashed,
        ("users", "user", "plaintext"): "false",
        **{SETTINGS[name].place: value for name, value in settings.items() if name != HEAP},
    }
    body = _elements(attributes)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<deployment>\n{body}</deployment>\n'


def _elements(attributes: Mapping[tuple[str, ...], str]) -> str:
    """Elements with their attributes, from paths whose last part is the attribute's name."""
    text = ""
    for name in dict.fromkeys(path[0] for path in attributes if len(path) > 1):
        inner = {path[1:]: value for path, value in attributes.items() if path[0] == name}
        head = "".join(f" {p[0]}={quoteattr(v)}" for p, v in inner.items() if len(p) == 1)
        text += f"<{name}{head}>{_elements(inner)}</{name}>\n"
    return text
