"""Where catalog and table meet: what SQL and REST both call."""

from lake.access import ADMINISTRATOR as ADMINISTRATOR
from lake.access import EVERYBODY as EVERYBODY
from lake.access import AccessControl as AccessControl
from lake.access import Caller as Caller
from lake.commit.client import ClientCommit as ClientCommit
from lake.follow import StreamStep as StreamStep
from lake.follow import TableStream as TableStream
from lake.idempotency import IdempotencyClaim as IdempotencyClaim
from lake.idempotency import Replay as Replay
from lake.lake import Lake as Lake
from lake.partitions import Partition as Partition
from lake.register.repair import Repair as Repair
from lake.reserve import DiskRoom as DiskRoom
from lake.reserve import StorageReserve as StorageReserve
from lake.table import LakeTable as LakeTable
from table.column_cache import COLUMNS as MANIFEST_CACHE

__all__ = [
    "ADMINISTRATOR",
    "EVERYBODY",
    "AccessControl",
    "Caller",
    "ClientCommit",
    "DiskRoom",
    "IdempotencyClaim",
    "Lake",
    "LakeTable",
    "MANIFEST_CACHE",
    "Partition",
    "Repair",
    "Replay",
    "StorageReserve",
    "StreamStep",
    "TableStream",
]
