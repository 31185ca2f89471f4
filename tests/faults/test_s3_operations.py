"""Each request of each operation to its store fails, once or from then on: nothing acknowledged is lost, nothing doubled, all goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.below import each, one_of
from tests.faults.operation import Operation
from tests.faults.operations import BY_NAME, NO_FILES, OPERATIONS
from tests.faults.s3_campaign import ONCE, SINCE, STRIKES, S3Campaign, Strike
from tests.short import one_in

_SHORT = ("insert with a key", "overwrite", "compaction", "alter", "commit of a client")


def striking(campaign: S3Campaign, operation: Operation, strike: Strike) -> Callable[[int], tuple[bool, bool]]:
    """Strikes at the request of a number."""
    return lambda number: campaign.run(operation, strike, at=number)


def reported(operation: Operation, strike: Strike, requests: int, faults: int) -> None:
    print(f"{operation.name}, {strike.name}: {requests} requests, {faults} faults", flush=True)
    assert requests == faults
    assert requests or operation.name in NO_FILES


@pytest.mark.parametrize("name", one_in(2, _SHORT))
def test_some_requests_of_some_operations_fail(s3_campaign: S3Campaign, name: str) -> None:
    """One of the first, and all from two thirds of the way on."""
    operation = BY_NAME[name]
    s3_campaign.run(operation, ONCE, at=10**9)
    requests = s3_campaign.requests
    for strike, share in ((ONCE, 0.15), (SINCE, 0.7)):
        reported(operation, strike, *one_of(striking(s3_campaign, operation, strike), requests, share=share))


@pytest.mark.torture
@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.name)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_request_of_every_operation_fails(s3_campaign: S3Campaign, operation: Operation, strike: Strike) -> None:
    reported(operation, strike, *each(striking(s3_campaign, operation, strike), every=strike.every, tries=1))
