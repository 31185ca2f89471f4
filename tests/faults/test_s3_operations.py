"""Each request of each operation to its store fails, once or from then on: nothing acknowledged is lost, nothing doubled, all goes on."""

from __future__ import annotations

import pytest

from tests.faults.below import each
from tests.faults.operation import Operation
from tests.faults.operations import BY_NAME, NO_FILES, OPERATIONS
from tests.faults.s3_campaign import ONCE, SINCE, STRIKES, S3Campaign, Strike
from tests.short import one_in

_SHORT = ("insert with a key", "overwrite", "compaction", "alter", "commit of a client")


def struck(campaign: S3Campaign, operation: Operation, strike: Strike, *, every: int, begin: int = 1) -> None:
    """Strike at request after request, and tell how many came and failed."""
    requests, faults = each(lambda number: campaign.run(operation, strike, at=number), every=every, begin=begin, tries=1)
    print(f"{operation.name}, {strike.name}: {requests} requests, {faults} faults", flush=True)
    assert requests == faults
    assert requests or operation.name in NO_FILES


@pytest.mark.parametrize("name", one_in(2, _SHORT))
def test_some_requests_of_some_operations_fail(s3_campaign: S3Campaign, name: str) -> None:
    for begin, strike in ((2, ONCE), (4, SINCE)):
        struck(s3_campaign, BY_NAME[name], strike, every=36, begin=begin)


@pytest.mark.torture
@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.name)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_request_of_every_operation_fails(s3_campaign: S3Campaign, operation: Operation, strike: Strike) -> None:
    struck(s3_campaign, operation, strike, every=strike.every)
