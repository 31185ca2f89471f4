"""Classes of Spark's JVM that are kept in a file: made when Spark has nothing to do, mapped by the next JVM, never trusted when changed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from model.errors import StorageFull
from sql.spark.driver import class_archive
from sql.spark.driver.class_archive import ClassArchive
from sql.spark.driver.jvm import Jvm
from sql.spark.driver.launch import Launcher
from sql.spark.session.settings import SparkSettings
from tests.brief_jvm import OPTIONS, kept_archive
from tests.fix_server import StartServer
from tests.running import children_of
from tests.waiting import eventually


class Launched:
    """A JVM that writes its archive where it was told to, as one does when it ends."""

    gateway: Any = None

    def __init__(self, options: Sequence[str], content: bytes) -> None:
        self._archive = Path(options[-1].partition("=")[2])
        self._content = content
        self.lowered = False

    def lower_priority(self, niceness: int) -> None:
        self.lowered = True

    def kill(self) -> None:
        self._content = b""

    def end(self, seconds: float) -> None:
        if self._content:
            self._archive.write_bytes(self._content)


@pytest.fixture(autouse=True)
def nothing_to_run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("spark") is None:
        monkeypatch.setattr(class_archive, "_run_a_little", lambda gateway, directory: None)


def test_an_archive_is_used_as_it_was_written_and_not_otherwise(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "classes")
    assert archive.options() == []
    archive.make(lambda options: Launched(options, b"classes"))
    (path,) = tmp_path.glob("classes/*.jsa")
    assert archive.options()[-1] == f"-XX:SharedArchiveFile={path}"
    path.write_bytes(b"glasses")
    assert archive.options() == []
    assert not path.exists(), "it would be looked at before each start"


def test_an_archive_of_another_java_is_passed_over_and_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = ClassArchive(tmp_path / "classes")
    archive.make(lambda options: Launched(options, b"old"))
    (old,) = tmp_path.glob("classes/*.jsa")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive.path() is None
    archive.make(lambda options: Launched(options, b"new"))
    (new,) = tmp_path.glob("classes/*.jsa")
    assert archive.path() == new != old


def test_it_is_made_once_spark_has_nothing_to_do_and_the_disk_has_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_archive, "CALM_SECONDS", 0.01)
    asked: list[int] = []
    calm = iter([False, True, True])

    @contextlib.contextmanager
    def space(size: int) -> Iterator[None]:
        asked.append(size)
        if len(asked) == 1:
            raise StorageFull("No space.")
        yield

    archive = ClassArchive(tmp_path / "classes", space=space)
    archive.make_when_calm(lambda options: Launched(options, b"classes"), threading.Event(), lambda: next(calm))
    assert eventually(lambda: archive.path() is not None)
    assert asked == [class_archive.MOST_BYTES] * 2
    assert next(calm, None) is None


def test_a_stop_gives_up_one_that_is_being_made(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "classes")

    def launch(options: Sequence[str]) -> Launched:
        archive.close()
        return Launched(options, b"classes")

    with pytest.raises(InterruptedError):
        archive.make(launch)
    assert [path.name for path in tmp_path.glob("classes/*")] == ["making.lock"]


def test_two_do_not_make_it_at_once(tmp_path: Path) -> None:
    other = ClassArchive(tmp_path / "classes")

    def launch(options: Sequence[str]) -> Launched:
        other.make(lambda options: pytest.fail("a second one"))
        return Launched(options, b"classes")

    ClassArchive(tmp_path / "classes").make(launch)
    assert other.path() is not None


def test_one_with_which_no_jvm_comes_up_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = ClassArchive(tmp_path / "classes")
    archive.make(lambda options: Launched(options, b"classes"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nowhere"))
    monkeypatch.setattr(class_archive, "_key", lambda: next(tmp_path.glob("classes/*.jsa")).name.split("-")[1])
    with pytest.raises(OSError, match="nowhere"):
        Launcher(SparkSettings(classes=archive), tmp_path).launch()
    assert not list(tmp_path.glob("classes/*.jsa"))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.torture
def test_a_server_starts_with_the_classes_that_the_last_one_left(tmp_path: Path, start_server: StartServer) -> None:
    archive = kept_archive().path()
    assert archive is not None, "the run made one before its first test"
    classes = tmp_path / "server" / "data" / "spark-classes"
    classes.mkdir(parents=True)
    kept = classes / archive.name
    kept.symlink_to(archive)
    server = start_server(SLUICE_SPARK_KEEP_CLASSES="true")
    server.wait_for_spark()
    (java,) = children_of(server.process, lambda child: child.name() == "java")
    assert str(archive) in Path(f"/proc/{java.pid}/maps").read_text()
    assert server.sql("SELECT COUNT(*) FROM (SELECT EXPLODE(SEQUENCE(1, 10)))") == [[10]]


@pytest.mark.torture
@pytest.mark.spark
def test_a_jvm_keeps_its_classes_for_the_next_and_damaged_ones_harm_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", OPTIONS)  # without the archive of all tests
    archive = ClassArchive(tmp_path / "classes")
    launcher = Launcher(SparkSettings(classes=archive), tmp_path)
    launcher.set_environment()
    archive.make(launcher.launch_apart)
    path = archive.path()
    assert path is not None
    assert str(path) in _maps(launcher.launch())
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    assert ".jsa" not in _maps(launcher.launch()).replace("classes.jsa", "")


def _maps(java: Jvm) -> str:
    try:
        return Path(f"/proc/{java.gateway.proc.pid}/maps").read_text()
    finally:
        java.kill()
        java.end()
