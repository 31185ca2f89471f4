"""The image, the compose file, CI and the lock files say what the Makefile and pyproject.toml say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from server.settings.options import DRAIN, LISTEN

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


def instructions(word: str) -> list[str]:
    """The Dockerfile's instructions of a kind, continued lines joined."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.removeprefix(f"{word} ") for line in text.splitlines() if line.startswith(f"{word} ")]


def test_the_image_is_built_by_the_makefile() -> None:
    steps = [step.strip() for run in instructions("RUN") for step in re.split(r"&&|;", run)]
    made = [re.sub(r"^(\w+=\S+ )*make ", "", step) for step in steps if re.match(r"(\w+=\S+ )*make ", step)]
    assert made == ["java", "install"]
    assert set(made) <= TARGETS
    assert not [step for step in steps if re.search(r"\b(pip|uv|python|curl|wget)\b", step)], "steps of its own drift away"


def test_what_make_starts_keeps_its_compiled_code() -> None:
    """Without it every process, Spark's too, compiles all it loads anew: a start takes twice as long."""
    command = ["make", "-s", "--eval", "shown:; @echo [$$PYTHONDONTWRITEBYTECODE]", "shown"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.stdout == "[]\n"


def test_the_image_holds_the_servers_own_code_compiled(tmp_path: Path) -> None:
    """Its user may not write there, and what is installed to be edited is compiled by no installer."""
    rule = MAKEFILE[MAKEFILE.index("$(VENV)/.run:") :].split("\n\n")[0]
    step = next(line for line in rule.splitlines() if "compileall" in line)
    tree = {"server/here.py": True, "clients/python/sluice/here.py": True, ".venv/lib/not.py": False, "web/node_modules/x/not.py": False}
    for name in tree:
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    (tmp_path / "Makefile").write_text(f"BIN := {Path(sys.executable).parent}\nmade:\n{step}\n")
    for setting, compiled in (("", False), ("1", True)):
        subprocess.run(["make", "-s", "made"], cwd=tmp_path, check=True, env={**os.environ, "UV_COMPILE_BYTECODE": setting})
        for name, ours in tree.items():
            assert (tmp_path / name).parent.joinpath("__pycache__").exists() is (ours and compiled), name


def test_the_image_has_what_the_make_targets_read() -> None:
    copied = {name for line in instructions("COPY") for name in line.split()[:-1]}
    for name in ("scripts", "Makefile", "pyproject.toml", "requirements-run.txt", "README.md"):
        assert name in copied
        assert (ROOT / name).exists()
    allowed = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    packages = re.search(r"include = \[(.*)\]", (ROOT / "pyproject.toml").read_text())
    assert packages is not None
    assert {name.strip(' "*') for name in packages[1].split(",")} | copied - {"."} | {"clients"} == allowed


def test_the_image_serves_as_a_user_and_hears_signals() -> None:
    assert instructions("USER")[-1] not in ("root", "0")
    assert instructions("CMD")[-1] == '[".venv/bin/sluice", "serve"]'


def test_a_linter_finds_nothing_in_the_dockerfile() -> None:
    hadolint = shutil.which("hadolint", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if hadolint is None and sys.platform != "linux":
        pytest.skip("hadolint has no wheel for this platform.")
    assert hadolint is not None
    done = subprocess.run([hadolint, "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_compose_sets_only_settings_that_there_are() -> None:
    from server.settings.options import SERVER_OPTIONS
    from server.settings.settings import read_settings, variable

    text = (ROOT / "compose.yaml").read_text()
    used = dict(re.findall(r"^\s+(SLUICE_\w+): (.+)$", text, re.MULTILINE))
    assert set(used) <= {variable(option) for option in SERVER_OPTIONS}
    image = dict(setting.split("=", 1) for line in instructions("ENV") for setting in line.split())
    settings = read_settings(image | used | {"SLUICE_TOKEN": "t"})
    assert settings[LISTEN] == ("0.0.0.0", 8083)
    assert "stop_grace_period: 60s" in text
    assert settings[DRAIN] < 60


def test_ci_runs_the_make_targets() -> None:
    steps = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]
    assert steps == ["make check", "make test"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_help_tells_every_target() -> None:
    done = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {line.split()[0] for line in done.stdout.splitlines()} == TARGETS


def pins(file: str) -> dict[str, str]:
    """Names and versions of a lock file, whose every line must have a hash."""
    found: dict[str, str] = {}
    for entry in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)(.*(?:\n +.*)*)", (ROOT / file).read_text(), re.MULTILINE):
        assert "--hash=sha256:" in entry[2], entry[0]
        found[entry[0]] = entry[1]
    return found


def test_the_lock_files_agree_and_hold_every_dependency() -> None:
    import tomllib

    everything, run = pins("requirements.txt"), pins("requirements-run.txt")
    assert run.items() <= everything.items()
    assert pins("scripts/requirements-uv.txt") == {"uv": everything["uv"]}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for needed, locked in ((project["dependencies"], run), (project["optional-dependencies"]["dev"], everything)):
        names = {re.split(r"[\[<>=;~ ]", line)[0].lower().replace("_", "-") for line in needed}
        assert names <= set(locked)


def test_no_lock_file_names_a_host() -> None:
    for file in ("requirements.txt", "requirements-run.txt", "scripts/requirements-uv.txt"):
        assert "://" not in (ROOT / file).read_text()
