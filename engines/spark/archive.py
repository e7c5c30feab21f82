"""Make the archive of Spark's classes that Java maps at a start (class-data sharing).

Without it, Java unpacks, parses and verifies thousands of classes at each start. A driver, which
runs as the servers' user, lists the classes that it loads. From this list and the jars, Java makes
the archive with our rights, and executes nothing of Spark meanwhile.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from engines.spark.configuration import JAVA_OPTIONS, installed
from engines.spark.sql import SqlOnSpark
from harness.engine import DataDirectories, EngineContext
from harness.errors import RunFailed
from harness.experiment.placement import DIRECTORY_PARTS
from harness.install.prefix import run_client, work_directory
from harness.progress import Progress
from harness.supervise import workdirs
from harness.supervise.credentials import unprivileged
from harness.supervise.own_files import sync_path
from harness.supervise.supervisor import Supervisor
from harness.supervise.user_files import make_directory, read_text

#: They load what queries on tables need, in addition to what each start loads.
_STATEMENTS = (
    "create table numbers using parquet as select id k, cast(id as string) name, "
    "cast(id as decimal(15, 2)) price, date_add(date '1995-01-01', cast(id as int)) day "
    "from range(1000)",
    "select k from numbers a where exists (select * from numbers b where b.k = a.k + 1) "
    "and price > (select avg(price) from numbers c where c.k < 10)",
    "select year(a.day), avg(a.price), sum(case when b.name like '%1%' then b.price end) "
    "from numbers a left join numbers b on a.k = b.k "
    "where a.day between date '1995-02-01' and date '1996-01-01' "
    "group by 1 having count(*) > 1 order by 2 desc limit 5",
)
#: A line with a class of the class path, or with what Java makes for lambdas. Lines of other class
#: loaders name files, which Java would read.
_CLASS = re.compile(r"([\w/$.-]+)(?: id: \d+)?|@lambda-(?:proxy|form-invoker) .*")


def make_archive(
    make: Callable[[EngineContext], SqlOnSpark], folder: Path, progress: Progress
) -> None:
    """Make the archive of the installation in ``folder`` for the Java on the PATH, once.

    Where that fails, Spark starts without it.
    """
    options = {"version": folder.name.partition("-")[2]}
    spark = installed(options, folder.parent)
    if spark.archive is None or spark.archive.exists():
        return
    problem = f"archive classes of {spark.title}"
    try:
        with (
            progress.task(f"{problem} for faster starts"),
            work_directory(folder.parent, folder.name) as work,
        ):
            listed, made = work / "classes.list", work / spark.archive.name
            listed.write_text(classes_in(_loaded(make, options, folder.parent)), "utf-8")
            command = [spark.java, "-Xshare:dump", f"-XX:SharedClassListFile={listed}"]
            command += [f"-XX:SharedArchiveFile={made}", "-cp", f"{spark.jars}/*"]
            run_client(problem, command, work, "Spark starts without it")
            made.chmod(0o644)
            sync_path(made)
            made.rename(spark.archive)
            sync_path(folder)
    except RunFailed as error:
        progress.say(str(error))


def _loaded(
    make: Callable[[EngineContext], SqlOnSpark], options: dict[str, str], engines_prefix: Path
) -> str:
    """Return Java's list of the classes that a driver loads for a start and some statements."""
    user = unprivileged()
    with workdirs.temporary(credentials=user) as scratch, Supervisor() as supervisor:
        listed = scratch / "classes.list"
        java_options = f"-XX:DumpLoadedClassList={shlex.quote(str(listed))}"
        settings = {"spark.driver.memory": "1g", JAVA_OPTIONS: java_options}
        engine = make(
            EngineContext(
                settings=settings,
                options=options,
                scratch=scratch,
                engines_prefix=engines_prefix,
                processes=supervisor,
                credentials=user,
                threads=2,
                memory_limit_bytes=None,
            )
        )
        places = {part: scratch / f"of-{part}" for part in DIRECTORY_PARTS}
        for place in places.values():
            make_directory(place, user)
        engine.initialise(DataDirectories(places))
        try:
            engine.start()
            with closing(engine.connect()) as connection:
                for statement in _STATEMENTS:
                    connection.execute(statement)
                engine.explain(connection, _STATEMENTS[-1])
            engine.counters()
            engine.stop()
        finally:
            engine.kill()
        return read_text(listed, user)


def classes_in(text: str) -> str:
    """Return the lines of Java's list that name no file: the servers' user wrote it."""
    matches = (_CLASS.fullmatch(line) for line in text.splitlines())
    return "".join(f"{match[1] or match[0]}\n" for match in matches if match)
