"""Where catalog and table meet: what SQL and REST both call."""

from lake.idempotency import IdempotencyClaim as IdempotencyClaim
from lake.idempotency import Replay as Replay
from lake.lake import Lake as Lake
from lake.partitions import Partition as Partition
from lake.repair import Repair as Repair
from lake.table import LakeTable as LakeTable

__all__ = ["IdempotencyClaim", "Lake", "LakeTable", "Partition", "Repair", "Replay"]
