"""The catalog: databases, tables, their schemas and latest snapshots, in Postgres. No files, no Spark, no HTTP."""

from catalog.beside_store import is_held as is_held
from catalog.beside_store import waited_in_vain as waited_in_vain
from catalog.store import TURN_CONNECTIONS as TURN_CONNECTIONS
from catalog.store import CatalogStore as CatalogStore
from catalog.store import CatalogTransaction as CatalogTransaction

__all__ = ["TURN_CONNECTIONS", "CatalogStore", "CatalogTransaction", "is_held", "waited_in_vain"]
