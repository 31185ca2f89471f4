"""System tables: what is known of a table (``t$files``) or of all (``sys.tables``), as tables, spelled as Paimon spells them."""

from sql.system.base import SystemScan as SystemScan
from sql.system.base import SystemTable as SystemTable
from sql.system.names import find_system_table as find_system_table

__all__ = ["SystemScan", "SystemTable", "find_system_table"]
