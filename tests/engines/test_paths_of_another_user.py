"""Engines and drivers open, make and change files of servers' users only as that user.

Whoever is that user can put a link at any name there (harness/supervise/user_files.py). So each
call of theirs that opens or changes a path is in ``with acting_as(…)``, or listed here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from harness.supervise import user_files

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("engines", "harness/drivers")

METHODS = {
    "chmod", "hardlink_to", "mkdir", "open", "read_bytes", "read_text", "rename", "rmdir",
    "symlink_to", "touch", "unlink", "write_bytes", "write_text",
}  # fmt: skip
OS = {
    "chmod", "chown", "lchown", "link", "listdir", "makedirs", "mkdir", "open", "remove", "rename",
    "replace", "rmdir", "scandir", "symlink", "truncate", "unlink", "utime", "walk",
}  # fmt: skip

ALLOWED = {
    "the harness's own files": {
        "engines/_listening.py _certify",
        "engines/spark/sql.py SqlOnSpark.start",
        "engines/voltdb/engine.py ManagedVoltDb._use",
    },
    "installations, which only root writes": {
        "engines/_innodb/cluster.py Cluster._system_tables",
        "engines/rocksdb/installation.py _digest",
        "engines/spark/configuration.py _output",
        "harness/drivers/hammerdb/installation.py _is_executable",
        "harness/drivers/hammerdb/installation.py _version",
        "harness/drivers/ycsb/build.py _build",
        "harness/drivers/ycsb/build.py _digest",
    },
    "datasets, which only root writes": {
        "engines/postgres/cluster.py Cluster.restore",
        "engines/postgres/cluster.py Cluster._strip",
    },
    "files named by the person who runs the harness, or made by it for a load": {
        "engines/_innodb/load.py Loader.run_dump",
        "engines/_loading.py columns_in",
        "engines/postgres/load.py Loader.run_dump",
        "engines/postgres/load.py _copy_file",
        "engines/rocksdb/installation.py read_options_file",
        "engines/spark/configuration.py _in_file",
        "engines/sqlserver/load.py insert",
        "engines/voltdb/load.py procedures_digest",
    },
    "below /proc": {
        "engines/_innodb/configuration.py _descriptors",
        "engines/_innodb/configuration.py _shared_mappings",
        "engines/duckdb/worker.py bind_file",
        "engines/duckdb/worker.py SpillMeter._file_bytes",
        "engines/voltdb/engine.py _free_ports",
    },
    "in a process of that user": {"engines/rocksdb/probe.py _text"},
    "no files, but conversations": {
        "harness/drivers/hammerdb/process.py build",
        "harness/drivers/hammerdb/process.py measure",
        "harness/drivers/ycsb/client.py run",
    },
}


def with_own_rights(node: ast.AST, where: str = "") -> Iterator[str]:
    """The functions that open or change a path outside of ``acting_as``."""
    if isinstance(node, ast.With) and any(map(_acts_as_another, node.items)):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}".removeprefix(".")
    if isinstance(node, ast.Call) and _uses_path(node.func):
        yield where
    for child in ast.iter_child_nodes(node):
        yield from with_own_rights(child, where)


def _acts_as_another(item: ast.withitem) -> bool:
    call = item.context_expr
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == user_files.acting_as.__name__
    )


def _uses_path(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return name in {"open", "opened", "open_regular"}
        case ast.Attribute(value=ast.Name(id="os"), attr=name):
            return name in OS
        case ast.Attribute(value=ast.Name(id="shutil"), attr=name):
            return name != "which"
        case ast.Attribute(attr=name):
            return name in METHODS
    return False


def test_every_path_is_used_as_its_user_or_is_none_that_another_user_can_exchange():
    functions = {
        f"{path.relative_to(ROOT)} {function}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for function in with_own_rights(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert functions == set().union(*ALLOWED.values())


def test_what_is_found():
    source = """
def start(self):
    with acting_as(self.user):
        log.unlink()
    {}
"""
    calls = ("log.unlink()", "os.chown(log, 1, 1)", "shutil.rmtree(folder)", "open(log)")
    for call in (*calls, "opened(log, flags)", "open_regular(log, flags)"):
        assert list(with_own_rights(ast.parse(source.format(call)))) == ["start"]
    for call in ("shutil.which('ssh')", "os.fchown(number, 1, 1)", "text.replace('a', 'b')"):
        assert list(with_own_rights(ast.parse(source.format(call)))) == []
