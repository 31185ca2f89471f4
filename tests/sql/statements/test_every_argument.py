"""Every procedure takes or refuses whatever stands for an argument, and its table is as readable afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice

import pytest

import sql.statements.all  # noqa: F401 - procedures register themselves
from gateway.gateway import Gateway
from model.errors import LakeError
from sql.statements.procedures.calls import PROCEDURES, Procedure
from tests.short import one_in

_LONG = "y" * 5000
_TEXTS = (
    *(
        "''",
        "'x'",
        "'../..'",
        "'file:////'",
        f"'{_LONG}'",
        "'0001-01-01 00:00:00'",
        "'9999-12-31 23:59:59'",
        "'99999999999 d'",
        "'\0'",
        "NULL",
    ),
    *(
        "' '",
        "'t'",
        "'default.none'",
        "'a.b.c'",
        "'t$files'",
        "'t$branch_b'",
        "'/'",
        "'s3://b/w'",
        "'day=x'",
        "'day=x,day=y;day=z'",
        "'day='",
    ),
    *(
        "'none=1'",
        "'id > 1'",
        "'id >'",
        "'1 = 1 OR nope(1)'",
        "'2020-01-01'",
        "'2020-13-45 99:00:00'",
        "'999999-01-01 00:00:00'",
        "'1 d'",
        "'-1 d'",
    ),
    *("'1'", "'-1'", "'9223372036854775808'", "'full'", "'zorder'", "'*'", "'(a+)+$'", "'['", "'\U0001f600'", "'k=v'", "'k'", "'=v'"),
)
_NUMBERS = ("-1", "9223372036854775808", "1e400", "'x'", "NULL", "0", "1", "2147483648", "9223372036854775807", "0.5", "'1'")
_TRUTHS = ("'maybe'", "NULL", "1", "true", "'true'")
_SAMPLES: Mapping[type, tuple[Sequence[str], int]] = {str: (_TEXTS, 5), int: (_NUMBERS, 3), bool: (_TRUTHS, 1)}
"""What stands for an argument of a type, and how many of it in short: others for each argument."""
_USUAL = {"table": "'default.t'", "database": "'default'", "tag": "'tag1'", "branch": "'b'", "from_branch": "'b'", "where": "'id > 100'"}
_USUAL_BY_TYPE = {str: "'x'", int: "1"}


def _calls(procedure: Procedure, *, whole: bool) -> Iterator[str]:
    required = list(procedure.parameters.items())[: procedure.required]
    turn = sorted(PROCEDURES).index(procedure.name)
    for at, (name, kind) in enumerate(procedure.parameters.items(), turn):
        values, short = _SAMPLES.get(kind, _SAMPLES[str])
        for value in values if whole else islice(cycle(values), at * short % len(values), at * short % len(values) + short):
            arguments = {other: _USUAL.get(other, _USUAL_BY_TYPE.get(of, "false")) for other, of in required} | {name: value}
            yield f"CALL {procedure.name}(" + ", ".join(f"`{other}` => {text}" for other, text in arguments.items()) + ")"


def _made(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT, s STRING, day STRING) PARTITIONED BY (day)").close()
    gateway.run("INSERT INTO t VALUES (1, 'a', 'x')").close()
    gateway.run("CALL sys.create_branch('default.t', 'b')").close()


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["short", "whole"])
@pytest.mark.parametrize("name", one_in(3, sorted(PROCEDURES)))
def test_whatever_stands_for_an_argument(gateway: Gateway, name: str, whole: bool) -> None:
    _made(gateway)
    wrong: list[tuple[object, ...]] = []
    for call in _calls(PROCEDURES[name], whole=whole):
        try:
            gateway.run(call, timeout=60.0).collect()
        except LakeError as problem:
            if problem.status >= 500 and "no Spark in this test" not in problem.message:
                wrong.append((call[:200], problem.status, problem.message))
        except Exception as problem:
            wrong.append((call[:200], repr(problem)))
        try:
            gateway.run("SELECT * FROM t").collect()
        except LakeError as problem:
            if problem.status != 404:
                wrong.append((call[:200], "afterwards", problem.message))
            else:
                _made(gateway)
    assert not wrong, "\n".join(map(str, wrong))
