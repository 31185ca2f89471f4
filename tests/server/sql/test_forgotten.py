"""Records of texts that erase rows say nothing of what they named."""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta

from catalog import CatalogStore
from gateway.operation import Operation, OperationState
from gateway.recent import RecentStatements
from lake.access.audit import AuditLog
from model.errors import AnalysisError
from model.options.masking import masked_text
from server.access.audit import named_by, row_of
from sql.execution.results import ResultSet


def test_what_was_to_be_forgotten_is_in_no_record() -> None:
    text = "DELETE FROM `t 4711` WHERE name = 'O''Hara \\' 4711' AND id IN (4711, 1.5e3) -- 4711"
    stars = "******"
    assert masked_text(text) == f"DELETE FROM `t 4711` WHERE name = {stars} AND id IN ({stars}, {stars}) {stars}"
    call = "CALL sys . `erase`(`table` => 't', `where` => 'id = 4711"
    assert masked_text(call) == f"CALL sys . `erase`(`table` => {stars}, `where` => {stars}"
    assert "4711" not in masked_text("SELECT 1;\ndelete  from t where id = 4711; SELECT 2")
    for words in (
        "DELETE/**/FROM t WHERE",
        "UPDATE t /* it's; */ SET s =",
        "UPDATE `a;b` SET s =",
        "UPDATE t --)\n SET s =",
        "MERGE --'\n INTO t ON",
    ):
        assert "4711" not in masked_text(f"{words} '4711'"), words
    operation = Operation("DELETE FROM t WHERE name LIKE 'O''Hara%' AND id = '4711'")
    operation.begin()
    operation.fail(AnalysisError("Value '4711' is no INT at O''Hara%."))
    kept = RecentStatements()
    kept.note(operation)
    (ended,) = kept.newest()
    assert ended.text == f"DELETE FROM t WHERE name LIKE {stars} AND id = {stars}"
    assert ended.error == f"Value '{stars}' is no INT at {stars}."
    assert row_of(operation).action.startswith(f"{ended.text} /* rows: unknown, keyed digest: ")


def test_how_many_rows_were_erased_is_told() -> None:
    operation = Operation("CALL sys.erase('t', 'id = 4711')")
    operation.move(OperationState.PENDING)
    operation.begin()
    result = ResultSet.ok()
    result.erased_rows = 2
    operation.succeed(result)
    assert row_of(operation).action.startswith("CALL sys.erase(******, ******) /* rows: 2, keyed digest: ")


def test_the_audit_log_keeps_what_was_named_where_it_shall() -> None:
    operation = Operation("DELETE FROM t WHERE id = 4711; SET 'db.password' = 'hush'")
    operation.begin()
    operation.fail(AnalysisError("no"))
    action = row_of(operation, erasures=True).action
    assert action.startswith("DELETE FROM t WHERE id = 4711; SET 'db.password' = '******' /* rows: unknown, keyed digest: ")
    assert "4711" not in operation.masked


def test_statements_in_memory_forget_what_they_named() -> None:
    kept = RecentStatements()
    for text in ("SELECT * FROM t WHERE name = 'Erika'", "SELECT * FROM other WHERE name = 'Erika'"):
        operation = Operation(text)
        operation.begin()
        operation.fail(AnalysisError("No column x beside 'Erika'."))
        kept.note(operation)
    assert kept.forget(lambda text, _: text.replace("'Erika'", "******") if " t " in text else text) == 1
    assert [(ended.text, ended.error) for ended in kept.newest()] == [
        ("SELECT * FROM other WHERE name = 'Erika'", "No column x beside 'Erika'."),
        ("SELECT * FROM t WHERE name = ******", "No column x beside '******'."),
    ]


def test_the_digest_of_an_erasure_tells_its_parameters_and_cannot_be_tried_without_the_key(catalog: CatalogStore) -> None:
    log = AuditLog(catalog, kept=timedelta(days=1))

    def digest(text: str, values: bytes = b"") -> str:
        operation = Operation(text)
        operation.values = lambda: values
        return row_of(operation, digest=log.digest).action.rpartition("keyed digest: ")[2].removesuffix(" */")

    text = "DELETE FROM t WHERE email = ?"
    one, other = digest(text, b"('erika',)"), digest(text, b"('ada',)")
    assert len({one, other, digest("DELETE FROM u WHERE email = ?", b"('erika',)")}) == 3
    assert digest(text, b"('erika',)") == one
    with catalog.reading() as tx:
        key = tx.state.erasure_key()
    assert len(key) == 32
    assert hmac.new(key, named_by(text, b"('erika',)"), "sha256").hexdigest() == one
    assert one != hashlib.sha256(named_by(text, b"('erika',)")).hexdigest()
