"""Only the authority for locations and what it guards joins, normalizes or opens paths of tables: held over the syntax trees.

Each module listed says in a word which paths it has; a new one belongs behind `TableFiles`, whose files are checked as they are used.
"""

from __future__ import annotations

import ast
from itertools import pairwise

import pytest

from tests.test_architecture import MAY_IMPORT, ROOT, files

OPENING = {
    "catalog/backup/archive.py": "a backup, where the operator wants it",
    "clients/python/sluice/command.py": "files its user names",
    "lake/process_name.py": "/proc",
    "server/__main__.py": "the operator's own settings",
    "server/access/tls.py": "the operator's certificate",
    "server/commands/backup.py": "a backup, where the operator wants it",
    "server/commands/backup_file.py": "a backup, where the operator wants it",
    "server/flight/peer_channels.py": "authorities that the machine trusts",
    "server/pages/shell.py": "the server's own program files",
    "server/pages/sql.py": "the server's own program files",
    "server/process/postgres_log.py": "the embedded Postgres",
    "server/settings/settings.py": "the operator's own settings",
    "sql/spark/driver/archive.py": "the server's own archive of modules",
    "sql/spark/driver/launch.py": "the JVM's own directory",
    "sql/spark/driver/start_failure.py": "Spark's own log",
    "sql/spark/scheduling/scheduling_clock.py": "/proc",
    "workers/spool.py": "the spool's own directory",
    "table/format/io/on_disk.py": "whether a file is still the one that was looked at: its path comes from the guard",
    "workers/memory.py": "/proc",
    "lake/reserve.py": "disks of the machine",
    "server/process/postgres_space.py": "the embedded Postgres",
    "table/scan/planning/column_cache.py": "the server's own cache",
    "table/format/io/directory.py": "a directory that is open, by plain names",
    "table/format/io/durability.py": "what the stores wrote",
    "table/format/io/file_io.py": "the store of local files",
    "table/format/io/object_store.py": "the store of objects",
    "table/format/io/reach.py": "the guard itself looks for links",
    "sql/connectors/filesystem.py": "import directories",
    "sql/spark/driver/class_archive.py": "the server's own archives of classes",
    "sql/spark/driver/jvm.py": "the JVM's own directory",
    "server/process/data_directory.py": "the data directory",
    "server/commands/doctor.py": "programs and disks of the machine",
    "server/commands/replaced_rights.py": "a file beside a backup",
    "server/process/postgres.py": "the embedded Postgres",
    "server/process/postgres_upgrade.py": "the embedded Postgres",
    "server/process/postmaster.py": "the embedded Postgres",
}
NORMALIZING = {
    "server/commands/command_line.py": "files the operator names",
    "table/format/io/links.py": "follows links for the guard",
    "sql/connectors/filesystem.py": "import directories",
    "server/settings/settings.py": "the operator's own settings",
    "sql/spark/driver/class_archive.py": "which Java runs",
}
JOINING = {
    "server/pages/shell.py": "the server's own program files",
    "server/pages/sql.py": "the server's own program files",
    "server/paimon/routes.py": "addresses of the REST catalog",
    "server/process/data_directory.py": "the data directory",
    "server/process/postgres.py": "the embedded Postgres",
    "server/process/postgres_space.py": "the embedded Postgres",
    "server/process/postgres_upgrade.py": "the embedded Postgres",
    "server/process/postmaster.py": "the embedded Postgres",
    "server/settings/settings.py": "the data directory",
    "sql/spark/driver/class_archive.py": "the server's own archives of classes",
    "sql/spark/driver/jvm.py": "the JVM's own directory",
    "sql/spark/driver/launch.py": "the JVM's own directory",
    "sql/spark/session/settings.py": "the JVM's own directory",
    "sql/spark/streaming/agreement.py": "how a message calls a checkpoint",
    "table/scan/planning/column_cache.py": "the server's own cache",
    "table/format/layout.py": "the layout of a table",
    "table/format/io/reach.py": "the guard",
    "table/format/io/directory.py": "a directory that is open, by plain names",
    "table/format/io/durability.py": "directories of what was written",
    "table/format/io/file_io.py": "entries of a directory that is open",
    "table/index/build.py": "an index beside its data file",
    "table/index/checksum.py": "an index beside its data file, read through the guard",
    "table/index/skip.py": "an index beside its data file, read through the guard",
    "table/write/writer.py": "names this server gives to data files",
    "lake/register/restored/after_restore.py": "tables found in a warehouse's listing",
    "lake/commit/decided.py": "a probe of its own in a directory",
    "lake/rewrite/file_index.py": "an index beside its data file",
    "lake/register/copied/contents.py": "copies of a backup, at the operator's place",
    "lake/register/copied/copies.py": "copies of a backup, at the operator's place",
    "lake/register/copied/places.py": "copies of a backup, at the operator's place",
    "lake/register/copied/record.py": "what a copy says of its backups",
    "lake/register/belonging.py": "the warehouse's mark",
    "lake/inspect/checked.py": "the server's own directory in the warehouse",
    "lake/register/changed.py": "snapshots set aside",
    "sql/connectors/filesystem.py": "import directories",
    "gateway/health.py": "the server's own directory in the warehouse",
    "model/work/work_limits.py": "the server's own directory in the warehouse",
    "jobs/maker.py": "checkpoints of a job",
    "sql/spark/streaming/checkpoints.py": "checkpoints of a job",
    "sql/spark/streaming/kept_state.py": "checkpoints of a job",
    "sql/spark/connectors/datagen.py": "columns",
    "sql/spark/streaming/partitions.py": "a note among results",
    "sql/spark/write/writes.py": "the staging directory",
    "sql/execution/spool.py": "results",
    "sql/execution/held_results.py": "results that found no space in memory",
    "sql/statements/procedures/calls.py": "what a repair tells",
    "pyspark_sluice/catalog.py": "addresses of the REST catalog",
    "server/access/data_tokens.py": "patterns of a policy",
    "server/commands/doctor.py": "a probe of its own",
    "server/paimon/databases.py": "what the protocol calls a database's location",
}
_OPENS = frozenset(
    [
        "open",
        "unlink",
        "remove",
        "rename",
        "replace",
        "link",
        "symlink",
        "makedirs",
        "mkdir",
        "rmdir",
        "removedirs",
        "scandir",
        "listdir",
        "stat",
        "lstat",
        "walk",
        "truncate",
        "chmod",
    ]
)
_STORE = frozenset({"open_input_stream", "open_output_stream", "open_append_stream", "get_file_info", "delete_file", "delete_dir"})
_PATHS = frozenset(["join", "normpath", "realpath", "abspath", "relpath", "commonpath", "commonprefix"])
_OF_FILES = frozenset(
    ["read_bytes", "read_text", "write_bytes", "write_text", "unlink", "iterdir", "rglob", "symlink_to", "hardlink_to", "rmdir"]
)
"""What nothing but a `Path` does."""
_OF_PATHS = frozenset(
    ["open", "glob", "touch", "mkdir", "rename", "replace", "exists", "stat", "lstat", "chmod", "is_file", "is_dir", "is_symlink", "walk"]
)
"""What a `Path` does, and others do as well."""
_CALLED = ("location", "path", "directory", "root", "prefix", "place", "warehouse", "folder", "dir")
"""What a variable is called that holds a directory."""


def dotted(node: ast.expr) -> str:
    """``os.path.join`` as it stands; empty for what is no name."""
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    return node.id if isinstance(node, ast.Name) else ""


def opens(node: ast.AST, paths: frozenset[str]) -> bool:
    """Whether it opens, lists, looks at or removes a file by its path."""
    if not isinstance(node, ast.Call):
        return False
    of_path = isinstance(node.func, ast.Attribute) and node.func.attr in _OF_PATHS and _is_path(node.func.value, paths)
    if of_path or (isinstance(node.func, ast.Attribute) and node.func.attr in _OF_FILES):
        return True
    package, _, name = dotted(node.func).rpartition(".")
    if not package:
        return name == "open"
    return (package == "os" and name in _OPENS) or package in ("shutil", "glob") or name in _STORE


def normalizes(node: ast.AST, paths: frozenset[str]) -> bool:
    """Whether it takes a path apart or puts one together by the rules of this machine."""
    if isinstance(node, ast.Call):
        package, _, name = dotted(node.func).rpartition(".")
        of_path = isinstance(node.func, ast.Attribute) and node.func.attr in ("resolve", "absolute") and _is_path(node.func.value, paths)
        return of_path or (package in ("os.path", "posixpath") and name in _PATHS)
    return isinstance(node, ast.Import | ast.ImportFrom) and "posixpath" in ast.unparse(node)


def joins(node: ast.AST, paths: frozenset[str]) -> bool:
    """Whether it is a directory, a slash, and more: as a text, however it is put together, or as a `Path`."""
    match node:
        case ast.JoinedStr(values=values):
            return any(isinstance(one, ast.FormattedValue) and _begins(then) and _directory(one.value) for one, then in pairwise(values))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _begins(right) and _directory(left)
        case ast.BinOp(left=left, op=ast.Div()):
            return _is_path(left, paths) or (isinstance(left, ast.Attribute) and left.attr == "parent")
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod(), right=right):
            return "s/" in text and _directory(right)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="join"), args=[parts]):
            of_partition = isinstance(parts, ast.Call) and dotted(parts.func).endswith("partition_dirs")  # its name, by the layout
            return text == "/" and not of_partition and _directory(parts)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format"), args=args, keywords=keywords):
            return "}/" in text and any(_directory(one) for one in (*args, *(keyword.value for keyword in keywords)))
        case ast.Call(func=ast.Attribute(value=value, attr="joinpath")):
            return _is_path(value, paths)
    return False


def _begins(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and str(node.value).startswith("/") and isinstance(node.value, str)


def _is_path(node: ast.expr, paths: frozenset[str]) -> bool:
    """Whether it is a `Path`: made here, one of these names, or a part of another."""
    match node:
        case ast.Call(func=ast.Name(id="Path")) | ast.Call(func=ast.Attribute(value=ast.Name(id="Path"))):
            return True
        case ast.BinOp(left=left, op=ast.Div()):
            return _is_path(left, paths)
        case ast.Call(func=ast.Attribute(value=value, attr="with_name" | "with_suffix" | "joinpath" | "resolve" | "absolute")):
            return _is_path(value, paths)
        case ast.Attribute(value=value, attr="parent"):
            return _is_path(value, paths)
    return isinstance(node, ast.Name | ast.Attribute) and dotted(node).rpartition(".")[2] in paths


def paths_of(tree: ast.AST) -> frozenset[str]:
    """The names in a module, attributes among them, that are said to be a `Path` or are made as one."""
    names: set[str] = set()
    for _ in range(2):  # a name that is made of another
        for node in ast.walk(tree):
            match node:
                case ast.arg(arg=name, annotation=ast.expr() as said) if "Path" in ast.unparse(said).split(" | "):
                    names.add(name)
                case ast.AnnAssign(target=target, annotation=said) if "Path" in ast.unparse(said).split(" | "):
                    names.add(dotted(target).rpartition(".")[2])
                case ast.Assign(targets=[target], value=value) if _is_path(value, frozenset(names)):
                    names.add(dotted(target).rpartition(".")[2])
                case ast.FunctionDef(name=name, returns=ast.expr() as said, decorator_list=[ast.Name(id="property" | "cached_property")]):
                    names |= {name} if ast.unparse(said) == "Path" else set()
    return frozenset(names - {""})


def _directory(node: ast.expr) -> bool:
    names = [one.attr if isinstance(one, ast.Attribute) else one.id for one in ast.walk(node) if isinstance(one, ast.Attribute | ast.Name)]
    return any(word in name.lower() for name in names for word in _CALLED)


DOES = {"opens": opens, "normalizes": normalizes, "joins": joins}


def found(source: str) -> dict[str, list[str]]:
    """What a module does of each kind, with its lines."""
    tree = ast.parse(source)
    nodes, paths = list(ast.walk(tree)), paths_of(tree)
    return {
        what: [f"{getattr(node, 'lineno', 0)}: {ast.unparse(node)}" for node in nodes if does(node, paths)] for what, does in DOES.items()
    }


ALLOWED = {"opens": OPENING, "normalizes": NORMALIZING, "joins": JOINING}


def test_only_the_authority_for_locations_handles_paths_of_tables() -> None:
    packages = MAY_IMPORT.keys() - {"migrations"}
    all_ = {file.relative_to(ROOT).as_posix(): found(file.read_text()) for package in packages for file in files(package)}
    for what, allowed in ALLOWED.items():
        doing = {file: of[what] for file, of in all_.items() if of[what]}
        assert {file: where for file, where in doing.items() if file not in allowed} == {}
        assert set(allowed) - set(doing) == set(), "a module that does so no more leaves the list"


@pytest.mark.parametrize(
    ("what", "source"),
    [
        ("joins", "f'{table.location}/{name}'"),
        ("joins", "f'x{self.directory.rstrip()}/schema/{n}'"),
        ("joins", "location + '/snapshot'"),
        ("normalizes", "os.path.join(a, b)"),
        ("normalizes", "from posixpath import join"),
        ("opens", "open(path)"),
        ("opens", "os.unlink(path)"),
        ("opens", "shutil.rmtree(path)"),
        ("opens", "self.fs.open_input_stream(path)"),
        ("opens", "anything.write_bytes(data)"),
        ("opens", "Path(a).open()"),
        ("opens", "def f(a: Path | None): a.rename(b)"),
        ("opens", "a = Path(b) / c\nfor d in a.parent.glob('*'): pass"),
        ("normalizes", "Path(a).resolve()"),
        ("joins", "Path(a) / b"),
        ("joins", "class A:\n    at: Path\n    def f(self): return self.at / 'x'"),
        ("joins", "Path(a).joinpath(b)"),
        ("joins", "'/'.join([table.location, name])"),
        ("joins", "'%s/%s' % (location, name)"),
        ("joins", "'{}/{}'.format(location, name)"),
    ],
)
def test_what_the_rule_sees(what: str, source: str) -> None:
    assert found(source)[what]
