"""Whether a schema can be loaded is the same to this server, which is asked when it is made, and to Java, which asks at every load."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from model.errors import LakeError
from model.schema.loadable import check_loadable
from model.schema.schema import Schema
from server.paimon.messages.schemas import schema_of
from tests import java
from tests.interop.asked import Asked
from tests.interop.spark_paimon import given
from tests.model.loadable_cases import LOADED, UNLOADED, Case
from tests.model.test_loadable import schema_of as as_it_is

pytestmark = pytest.mark.interop
SEEDS = range(400)


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Java's check of schemas."""
    class_path, log = java.compiled("SchemaLoader", given()[1], f"{java.spark_jars()}/*"), tmp_path_factory.mktemp("schema-loader") / "log"
    asked = Asked(["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", class_path, "SchemaLoader"], log)
    yield asked
    asked.close()


def refusal(loader: Asked, schema: Schema) -> str:
    """What Java says against a schema; nothing where it loads it."""
    return str(loader.ask(json.dumps(schema.to_json() | {"version": 3}))["refusal"])


def ours(case: Case) -> str:
    """What this server says against it, as a client of the REST catalog creates the table."""
    try:
        check_loadable(schema_of(case.body())[0])
    except LakeError as problem:
        return problem.message
    return ""


@pytest.mark.parametrize("case", [*LOADED, *UNLOADED], ids=repr)
def test_java_says_the_same(loader: Asked, case: Case) -> None:
    said, told = refusal(loader, as_it_is(case)), ours(case)
    assert bool(said) == bool(told), f"Java: {said or 'loads it'}; here: {told or 'takes it'}"


@pytest.mark.parametrize("seed", SEEDS)
def test_java_loads_what_is_taken(loader: Asked, seed: int) -> None:
    """Columns of one case with options of two others: what is taken here Java loads, and it loads none that is refused for its sake."""
    chance = random.Random(seed)
    columns, first, second = (chance.choice([*LOADED, *UNLOADED]) for _ in range(3))
    names = [*columns.columns]
    partition = columns.partition or (names[-1:] if len(names) > 1 and chance.random() < 0.2 else ())
    case = Case("", {**columns.columns, **(first.columns if chance.random() < 0.5 else {})}, {**first.options, **second.options}, partition)
    schema = as_it_is(case)
    told, said = ours(case), refusal(loader, schema)
    if not told:
        assert not said, f"{case}: {said}"
    elif "Java clients" in told:
        assert said, f"{case}: {told}"
