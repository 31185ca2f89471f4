"""Commits of these tests name files that were written."""

from __future__ import annotations

import pytest


@pytest.fixture
def named_files_are_made() -> None:
    """Nothing is made up here."""
