"""Choose the Spark to run, and its configuration.

The pinned one has its jars in ``lib`` and the programs that ask them for their release and their
settings in ``classes``; a distribution (``SPARK_HOME``) has jars in ``jars``, and these programs
run from their sources. The driver program is compiled for each run: it is part of the harness.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import urlsplit

from engines._installation import first_fitting, java_of, output_of
from engines._programs import compile_java
from engines._settings import NOT_RECORDED, SettingTable, run_with_file
from harness.engine import EngineContext, EngineOptions, EngineVersion, FileSettings
from harness.errors import UsageError
from harness.install import installed as installed_folders
from harness.supervise.user_files import acting_as
from harness.units import MIB, suffixed_number

_JAVA_SOURCES = Path(__file__).parent / "java"
_PROGRAM, _INSTALLED = _JAVA_SOURCES / "driver", _JAVA_SOURCES / "installed"
_BANNER = re.compile(r"(Spark (\d+(?:\.\d+)*).*, Java \S+)\n(.*)")
#: Settings that Spark reads, and does not list among its own.
_UNKNOWN = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")
_OLDEST, _JAVA, _PACKAGE = (4,), "17", "tierbench.spark"


@dataclass(frozen=True)
class Installation(EngineVersion):
    """``jars``: their folder. ``classes``: our compiled programs; None: run from source.

    ``java``: the program that runs them, with the ``java_options`` that Spark needs.
    """

    product = "Spark"
    jars: Path
    classes: Path | None
    java: str
    java_options: tuple[str, ...] = ()

    def command(self, classes: Path, *options: str) -> list[str]:
        """Return what runs a Java class whose name follows."""
        path = f"{classes}:{self.jars}/*"
        # The driver answers on its standard output, where the JVM would print warnings.
        flags = ("-XX:-UsePerfData", "-XX:+DisplayVMOutputToStderr")
        return [self.java, *flags, *self.java_options, *options, "-cp", path]

    def complaints(self, settings: Mapping[str, str]) -> str:
        """Return what Spark itself finds wrong with the settings; empty: nothing."""
        given = [f"{name}={value}" for name, value in settings.items() if name not in _UNKNOWN]
        return _output(self.jars, self.classes, self.java, "Settings", *given) if given else ""

    def compiled_driver(self, context: EngineContext) -> Path:
        """Return the folder of our driver program, compiled as the engine's user."""
        classes = context.scratch / "classes"
        with acting_as(context.credentials):
            if (classes / "tierbench").exists():
                return classes
        title = f"the driver program for {self.title}"
        sources = sorted(_PROGRAM.rglob("*.java"))
        return compile_java(context, title, self.java, f"{self.jars}/*", sources)


def choose(options: EngineOptions, engines_prefix: Path) -> Installation:
    """Return the installation that these options mean; UsageError where there is none.

    Order: ``prefix``; the private prefix. With ``version`` the first there that fits it.
    """
    java = java_of(options)
    return first_fitting(
        "Spark",
        (),
        _private(engines_prefix, java),
        options,
        install="run `harness engines install spark`",
        of_prefix=partial(_of_distribution, java),
    )


def _private(engines_prefix: Path, java: str) -> Iterator[Installation]:
    for package in installed_folders("spark", engines_prefix):
        folder = package.folder
        if spark := _inspect(folder / "lib", folder / "classes", java, package.source):
            yield spark


def _of_distribution(java: str, prefix: Path) -> Installation:
    spark = _inspect(prefix / "jars", None, java, str(prefix))
    if spark is not None and spark.version_tuple >= _OLDEST:
        return spark
    raise UsageError(
        f"Spark under {prefix}",
        f"it is {spark.build}" if spark else "the jars in its folder jars do not run with this JDK",
        "name the folder of a Spark distribution (SPARK_HOME), release 4 or later, with a JDK, 17 "
        "or later, on the PATH or named by the engine option 'java'",
    )


def _inspect(jars: Path, classes: Path | None, java: str, source: str) -> Installation | None:
    """Return what the jars are; None where Java cannot run them."""
    match = _BANNER.fullmatch(_output(jars, classes, java, "Version"))
    if match is None:
        return None
    build, version, options = match.groups()
    return Installation(
        "spark", version, build, source, jars, classes, java, tuple(options.split())
    )


@lru_cache(maxsize=64)
def _output(jars: Path, classes: Path | None, java: str, name: str, *arguments: str) -> str:
    """Return what a class of ours prints, from its source where it is not compiled."""
    quiet = (java, "-XX:-UsePerfData")
    if classes is not None:
        return output_of(*quiet, "-cp", f"{classes}:{jars}/*", f"{_PACKAGE}.{name}", *arguments)
    options = ("--source", _JAVA, "-cp", f"{jars}/*")
    program = (_INSTALLED / _PACKAGE.replace(".", "/") / f"{name}.java").read_text("utf-8")
    with suppress(OSError, subprocess.TimeoutExpired):
        return run_with_file(program, lambda p: [*quiet, *options, p, *arguments]).stdout.strip()
    return ""


# Its configuration ----------------------------------------------------------------
#
# All of it goes to the driver program through a pipe: none of it is in a command line or a file.

SETTINGS = SettingTable.read(Path(__file__).parent)
_MASTER = re.compile(r"spark://\S+|k8s://\S+|yarn")
#: Of the memory that the run may use, for Java's heap; the rest is the page cache's, which holds
#: the Parquet files, and what Java has besides the heap.
_HEAP_SHARE = 0.6
#: Spark starts with no less.
_LEAST_HEAP = 512 * MIB
#: Of the smallest heap, for one table that a join broadcasts: Spark's own proportion, 10 MiB of the
#: 1 GiB that is its default. The driver collects the table, and each executor holds it.
_BROADCAST_SHARE, _MOST_BROADCAST = 0.01, 128 * MIB
_DRIVER, _EXECUTOR = "spark.driver.memory", "spark.executor.memory"
JAVA_OPTIONS, AUTHENTICATE = "spark.driver.defaultJavaOptions", "spark.authenticate"
_LINE = re.compile(r"\s*([^\s=:]+)\s*[\s=:]\s*(.*?)\s*")
_SIZE = re.compile(r"\d+[kmgt]?b?", re.I)
_FILE = "conf"


def settings_of_file(options: EngineOptions, _: Path) -> FileSettings:
    """Return those settings of the file ``conf`` that are no secrets, to be stored with the run."""
    given = _in_file(options)
    SETTINGS.refuse_fixed(f"Spark: {options.get(_FILE)}", {name: name for name in given})
    if not _is_harmless(JAVA_OPTIONS, given.get(JAVA_OPTIONS, "")):
        raise UsageError(
            f"Spark: {options[_FILE]}: {JAVA_OPTIONS}",
            "it has more than options such as -Xss8m, and is in the driver's command line",
            "leave out what begins with -D, which may be a secret",
        )
    return FileSettings({n: v for n, v in given.items() if _is_harmless(n, v)})


def checked(context: EngineContext, installation: Installation) -> dict[str, str]:
    """Return the settings to use, without secrets; UsageError for one that Spark does not take."""
    given = dict(context.settings)
    SETTINGS.refuse_fixed("Spark", {name: name for name in given})
    if stored := [name for name, value in given.items() if _is_secret(name, value)]:
        raise UsageError(
            f"Spark: setting {', '.join(stored)}",
            "it is a secret, and settings are stored with the run",
            f"write it into a file that only you can read, and name it: --option {_FILE}=FILE",
        )
    if complaints := installation.complaints(given):
        raise UsageError(
            f"settings of {installation.title}", complaints, "correct the name or the value"
        )
    memory = context.memory_limit_bytes or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    heap = max(_LEAST_HEAP, int(memory * _HEAP_SHARE))
    settings = {_DRIVER: f"{heap // MIB}M", **given}
    if (heap := heap_bytes(settings)) >= memory:
        raise UsageError(
            f"{_DRIVER}={settings[_DRIVER]}",
            f"the run may use {memory // MIB} MiB, in all",
            f"set less than {memory // MIB}M, or raise --memory-limit",
        )
    if "master" in context.options:
        _check_authentication(str(context.options["master"]), settings)
        heap = min(heap, _bytes(_EXECUTOR, settings.get(_EXECUTOR, "1g")))
    broadcast = min(_MOST_BROADCAST, int(heap * _BROADCAST_SHARE))
    return {"spark.sql.autoBroadcastJoinThreshold": f"{broadcast}B", **settings}


def _check_authentication(master: str, settings: Mapping[str, str]) -> None:
    """UsageError unless the settings say whether whoever connects to the driver has a secret."""
    if settings.get(AUTHENTICATE, "").lower() not in ("true", "false"):
        raise UsageError(
            f"Spark's cluster {master}",
            f"{AUTHENTICATE} is not set: whoever reaches the driver's port could run code in it",
            f"write {AUTHENTICATE} true and {AUTHENTICATE}.secret into the file of --option "
            f"{_FILE}=FILE, or, in a network that you trust, --set {AUTHENTICATE}=false",
        )


def heap_bytes(settings: Mapping[str, str]) -> int:
    """Return the size of the driver's heap."""
    return _bytes(_DRIVER, settings[_DRIVER])


def _bytes(name: str, text: str) -> int:
    size = suffixed_number(text, bare="m")
    if size is None or not _SIZE.fullmatch(text.strip()):
        raise UsageError(f"{name}={text}", "not a size", "write 4g or 512m")
    return int(size)


def _unrecorded(options: EngineOptions) -> dict[str, str]:
    """Return the settings of the file ``conf`` that are applied, and not stored."""
    return {n: v for n, v in _in_file(options).items() if not _is_harmless(n, v)}


def _is_secret(name: str, value: str) -> bool:
    java = name.endswith("JavaOptions") and SETTINGS.is_secret(value)
    return java or SETTINGS.is_secret(name, value)


def _is_harmless(name: str, value: str) -> bool:
    """Return whether a setting is recorded; of Java's options, those without properties."""
    if name.endswith("JavaOptions"):
        return all(option.startswith("-X") for option in value.split())
    return SETTINGS.is_harmless(name, value)


def recorded(settings: Mapping[str, str]) -> dict[str, str]:
    """Return what a run records of the settings that the driver reports."""
    values = SETTINGS.record(settings)
    return {
        name: value if _is_harmless(name, settings[name]) else NOT_RECORDED
        for name, value in values.items()
    }


def local(scratch: Path, temp: Path, threads: int, options: EngineOptions) -> dict[str, str]:
    """Return what makes the driver Spark's only process, which no other user can speak to."""
    return {
        **_unrecorded(options),
        **SETTINGS.values,
        "spark.master": f"local[{threads}]",
        "spark.local.dir": str(temp),
        "spark.sql.warehouse.dir": f"file://{scratch}/warehouse",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(32),
    }


def cluster(scratch: Path, options: EngineOptions) -> dict[str, str]:
    """Return what makes the driver one of the user's cluster."""
    return {
        **SETTINGS.values,
        "spark.master": str(options["master"]),
        "spark.submit.deployMode": "client",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": f"file://{scratch}/warehouse",
        **_unrecorded(options),
    }


def installed(options: EngineOptions, engines_prefix: Path) -> Installation:
    """Return what would run; UsageError for options that do not fit each other."""
    if "master" in options:
        _check_cluster(str(options["master"]), str(options.get("location", "")))
    elif "location" in options:
        raise UsageError("engine option location", "it is for a cluster", "add --option master=…")
    return choose(options, engines_prefix)


def _check_cluster(master: str, location: str) -> None:
    if not _MASTER.fullmatch(master):
        raise UsageError(
            f"engine option master={master}",
            "not the address of a cluster",
            "write spark://HOST:PORT, yarn or k8s://URL; leave it out for Spark on this host",
        )
    url = urlsplit(location)
    hint = "name a URL that driver and executors reach: --option location=s3a://bucket/folder"
    if "@" in url.netloc:  # not the text, which may be stored nowhere
        secret = "the location has a user, or a key, which would be stored with the run"
        raise UsageError("engine option location", secret, "write it into the file of conf=FILE")
    if not url.scheme or set(location) & set("'\\"):
        named = location or "no folder"
        raise UsageError(f"Spark's cluster {master}", f"{named} is named for tables", hint)


def _in_file(options: EngineOptions) -> dict[str, str]:
    """Return the settings of a file such as spark-defaults.conf."""
    if _FILE not in options:
        return {}
    path = Path(str(options[_FILE]))
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"engine option {_FILE}={path}",
            getattr(error, "strerror", None) or "not a text file",
            "name a file with a setting and its value on each line, as spark-defaults.conf",
        ) from error
    properties: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None or not match[1].startswith("spark."):
            # Not the line's text, which may be a secret.
            raise UsageError(
                f"{path}, line {number}", "not a setting of Spark", "write spark.NAME VALUE"
            )
        properties[match[1]] = match[2]
    return properties
