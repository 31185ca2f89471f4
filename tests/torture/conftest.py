"""Fixtures of the instruments."""

from tests.faults.below import below as below
from tests.faults.shim import shim_library as shim_library
