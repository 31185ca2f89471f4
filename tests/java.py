"""Java for tests: jars that Maven fetches once and the cache keeps, and our programs compiled against them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sql.spark.driver.class_archive import spark_home
from tests.fix_data import CACHE

PROGRAMS = Path(__file__).parent / "interop" / "java"
_BRIEFLY = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none")
"""What halves the work of a compiler that compiles one file."""
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


def jar(coordinates: str) -> Path:
    """The one jar of ``group:artifact:version``; skips the test where Maven cannot be had."""
    name = _file_name(coordinates)
    return kept(CACHE / "java" / name, lambda made: copy_jar(coordinates, made) / name)


def jars(*coordinates: str) -> Path:
    """The directory with jars and all they need to run, called after the first; skips the test where Maven cannot be had."""
    return kept(CACHE / _file_name(coordinates[0]).removesuffix(".jar"), lambda made: _with_dependencies(coordinates, made))


def copy_jar(coordinates: str, directory: Path) -> Path:
    """Copy a jar into a directory, which is returned; skips the test where it cannot be had."""
    directory.mkdir(parents=True, exist_ok=True)
    _maven(f"{_PLUGIN}:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={directory}", at=directory, what=coordinates)
    return directory


def spark_jars() -> Path:
    """Where PySpark keeps its jars."""
    return spark_home() / "jars"


def compiled(program: str, *libraries: str | Path) -> str:
    """The class path that one of our programs runs with, compiled once and kept. Skips the test where there is no javac."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip(f"javac cannot be had here: {program} is not run.")
    source, class_path = PROGRAMS / f"{program}.java", ":".join(map(str, libraries))
    made_of = "\0".join([source.read_text(), class_path, os.path.realpath(compiler)])
    key = hashlib.sha256(made_of.encode()).hexdigest()[:16]

    def compile_into(made: Path) -> Path:
        made.mkdir(parents=True)
        command = [compiler, *_BRIEFLY, "-nowarn", "-d", str(made), "-cp", class_path, str(source)]
        subprocess.run(command, check=True, capture_output=True)
        return made

    return f"{kept(CACHE / 'java-classes' / f'{program}-{key}', compile_into)}:{class_path}"


def _with_dependencies(coordinates: tuple[str, ...], made: Path) -> Path:
    wanted = []
    for one in coordinates:
        group, artifact, version = one.split(":")
        wanted.append(f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></dependency>")
    made.mkdir(parents=True, exist_ok=True)
    (made / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>sluice</groupId>'
        f"<artifactId>tests</artifactId><version>1</version><dependencies>{''.join(wanted)}</dependencies></project>"
    )
    _maven(f"{_PLUGIN}:copy-dependencies", "-DoutputDirectory=jars", at=made, what=coordinates[0])
    return made / "jars"


def kept(path: Path, fetch: Callable[[Path], Path]) -> Path:
    """What lies there, fetched on first use in a directory of its own, so that no other run sees half of it."""
    if not path.exists():
        made = CACHE / f"{path.name}.{os.getpid()}"
        try:
            fetched = fetch(made)
            path.parent.mkdir(parents=True, exist_ok=True)
            with _unless_there(path):
                fetched.replace(path)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return path


@contextlib.contextmanager
def _unless_there(path: Path) -> Iterator[None]:
    """Another worker of the run may have been first: no directory takes the place of one with files."""
    try:
        yield
    except OSError:
        if not path.exists():
            raise


def _maven(goal: str, *options: str, at: Path, what: str) -> None:
    if shutil.which("mvn") is None or subprocess.run(["mvn", "-q", "-B", goal, *options], cwd=at).returncode:
        pytest.skip(f"Maven cannot get {what} here: it is not run.")


def _file_name(coordinates: str) -> str:
    _, artifact, version = coordinates.split(":")
    return f"{artifact}-{version}.jar"
