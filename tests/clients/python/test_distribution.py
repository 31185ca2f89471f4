"""The client as people install it: built as a wheel, in an environment of its own, with nothing of the server beside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UV = str(Path(sys.executable).parent / "uv")
MEGABYTE = 1_000_000


def run(*command: str, **environment: str) -> str:
    """What a command prints; it must succeed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's wheel, built from the repository without looking anything up."""
    place = tmp_path_factory.mktemp("wheel")
    run(
        UV,
        "build",
        "--quiet",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        str(place),
        str(ROOT / "clients" / "python"),
    )
    (built,) = place.glob("sluice_client-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the client and what it asks for, in the versions that the server's lock file pins."""
    place = tmp_path_factory.mktemp("environment")
    pins = place / "pins.txt"
    pins.write_text("\n".join(re.findall(r"^[A-Za-z0-9._-]+==[^\s\\;]+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)))
    venv = place / "venv"
    run(UV, "--quiet", "venv", "--python", sys.executable, str(venv))
    run(UV, "--quiet", "pip", "install", "--constraints", str(pins), str(wheel), VIRTUAL_ENV=str(venv))
    return venv


def test_it_adds_one_name_to_an_environment(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {name for name in tops if not name.endswith(".dist-info")} == {"sluice"}


def test_it_is_light(environment: Path) -> None:
    """Beside pyarrow, which takes 171 MB by itself in version 26."""
    (packages,) = environment.glob("lib/python3*/site-packages")
    sizes = {
        part.name: sum(file.stat().st_size for file in part.rglob("*") if file.is_file() and file.suffix != ".pyc")
        for part in packages.iterdir()
        if part.is_dir()
    }
    arrow = sum(size for name, size in sizes.items() if name.startswith("pyarrow"))
    assert arrow > 0
    assert sum(sizes.values()) - arrow < 20 * MEGABYTE


def test_it_connects_without_the_server_beside_it(environment: Path) -> None:
    text = (
        "import sluice, importlib.util\n"
        "print([name for name in ('server', 'sql', 'model', 'table', 'catalog', 'lake') if importlib.util.find_spec(name)])\n"
        "try:\n    sluice.connect('http://127.0.0.1:1').execute('SELECT 1')\n"
        "except sluice.OperationalError as failure:\n    print('cannot be reached' in str(failure))\n"
    )
    assert run(str(environment / "bin" / "python"), "-I", "-c", text).splitlines() == ["[]", "True"]


def test_the_command_without_its_libraries_says_what_is_missing(environment: Path) -> None:
    done = subprocess.run([str(environment / "bin" / "sluice"), "sql", "SELECT 1"], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "sluice: The command needs click, which is part of sluice-client[command].\n")


def test_commands_of_the_server_are_named_as_such_where_it_is_not_installed(wheel: Path, environment: Path) -> None:
    """With the libraries of the command on the path, and no entry points of the server."""
    libraries = next((Path(sys.executable).parents[1]).glob("lib/python3*/site-packages"))
    text = (
        f"import sys; sys.path.append({str(libraries)!r}); import click, rich; sys.path.pop()\n"
        "from sluice.command import main\nmain(['serve'])"
    )
    done = subprocess.run([str(environment / "bin" / "python"), "-I", "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("'serve' is a command of the server, which is not installed in this environment.\n")
