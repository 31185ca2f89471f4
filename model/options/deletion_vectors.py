"""The options of deletion vectors, by which Paimon's own clients leave deleted rows out."""

from __future__ import annotations

ENABLED = "deletion-vectors.enabled"
MODIFIABLE = "deletion-vectors.modifiable"
