"""What rows and columns take in memory, for whoever answers with them."""

from __future__ import annotations

from table.format.rows.array_memory import ARRAY_BYTES, BATCH_BYTES, memory_of, memory_of_columns

__all__ = ["ARRAY_BYTES", "BATCH_BYTES", "memory_of", "memory_of_columns"]
