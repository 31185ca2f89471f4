"""Where catalog and table meet: what SQL and REST both call."""

from lake.access.callers import ADMINISTRATOR as ADMINISTRATOR
from lake.access.callers import EVERYBODY as EVERYBODY
from lake.access.callers import AccessControl as AccessControl
from lake.access.callers import Caller as Caller
from lake.access.owner import Owner as Owner
from lake.commit.clients.commit import ClientCommit as ClientCommit
from lake.commit.idempotency import IdempotencyClaim as IdempotencyClaim
from lake.commit.idempotency import Replay as Replay
from lake.lake import Lake as Lake
from lake.register.repair import Repair as Repair
from lake.reserve import DiskSpace as DiskSpace
from lake.reserve import LogSpace as LogSpace
from lake.reserve import StorageReserve as StorageReserve
from lake.streams.snapshot_steps import StreamStep as StreamStep
from lake.streams.snapshot_steps import TableStream as TableStream
from lake.tables.handle import LakeTable as LakeTable
from lake.tables.partitions import Partition as Partition
from table.scan.planning.column_cache import COLUMNS as MANIFEST_CACHE

__all__ = [
    "ADMINISTRATOR",
    "EVERYBODY",
    "AccessControl",
    "Caller",
    "ClientCommit",
    "DiskSpace",
    "IdempotencyClaim",
    "Lake",
    "LakeTable",
    "MANIFEST_CACHE",
    "Owner",
    "Partition",
    "Repair",
    "Replay",
    "StorageReserve",
    "StreamStep",
    "TableStream",
]
