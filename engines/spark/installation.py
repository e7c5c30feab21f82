"""Which Spark to run: the pinned one of the private prefix, or a distribution that is named.

The pinned one has its jars in ``lib`` and the programs that ask them for their release and their
settings in ``classes``; a distribution (``SPARK_HOME``) has jars in ``jars``, and these programs
run from their sources. The driver program is compiled for each run: it is part of the harness.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from engines._installation import first_fitting, java_of, output_of
from engines._managed import compile_java
from engines._settings import run_with_file
from harness.engine import EngineContext, EngineOptions, EngineVersion
from harness.errors import UsageError
from harness.install import installed
from harness.supervise.user_files import acting_as

_JAVA_SOURCES = Path(__file__).parent / "java"
_DRIVER, _INSTALLED = _JAVA_SOURCES / "driver", _JAVA_SOURCES / "installed"
_BANNER = re.compile(r"(Spark (\d+(?:\.\d+)*).*, Java \S+)\n(.*)")
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
        own = ("-XX:-UsePerfData", "-XX:+DisplayVMOutputToStderr")
        return [self.java, *own, *self.java_options, *options, "-cp", path]

    def complaints(self, settings: Mapping[str, str]) -> str:
        """Return what Spark itself finds wrong with the settings; empty: nothing."""
        given = (f"{name}={value}" for name, value in settings.items())
        return _output(self.jars, self.classes, self.java, "Settings", *given)

    def compiled_driver(self, context: EngineContext) -> Path:
        """Return the folder of our driver program, compiled as the engine's user."""
        classes = context.scratch / "classes"
        with acting_as(context.credentials):
            if (classes / "tierbench").exists():
                return classes
        title = f"the driver program for {self.title}"
        sources = sorted(_DRIVER.rglob("*.java"))
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
    for found in installed("spark", engines_prefix):
        folder = found.folder
        if spark := _inspect(folder / "lib", folder / "classes", java, found.source):
            yield spark


def _of_distribution(java: str, prefix: Path) -> Installation:
    found = _inspect(prefix / "jars", None, java, str(prefix))
    if found is not None and found.version_tuple >= _OLDEST:
        return found
    raise UsageError(
        f"Spark under {prefix}",
        f"it is {found.build}" if found else "the jars in its folder jars do not run with this JDK",
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
