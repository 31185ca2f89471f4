"""The SQL page without scripts: what a form sends runs, is explained, is refused at its place, and comes back as a file."""

from __future__ import annotations

import io
import json
from html import unescape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from gateway.gateway import Gateway
from model.identifier import Identifier
from tests.server.pages.conftest import Visitor


class Asker(Visitor):
    """A visitor who mostly asks for things below ``/ui/``, and reads texts as a browser shows them."""

    def page(self, path: str) -> str:
        return unescape(self.get(f"/ui/{path}"))

    def post(self, path: str, *, status: int = 303, **form: str) -> TestResponse:
        answer = self.send(f"/ui/{path}", page="/ui/sql", **form)
        assert answer.status_code == status, answer.text
        return answer

    def ask(self, statement: str, *, status: int = 200, **form: str) -> str:
        return unescape(self.post("sql", status=status, statement=statement, action=form.pop("action", "run"), **form).text)


@pytest.fixture
def visitor(client: FlaskClient) -> Asker:
    return Asker(client)


@pytest.fixture
def orders(gateway: Gateway) -> Gateway:
    gateway.run("CREATE TABLE orders (day DATE, id BIGINT, note STRING) PARTITIONED BY (day)").close()
    for day in (1, 2, 3):
        gateway.run(
            f"INSERT INTO orders VALUES (DATE '2026-01-0{day}', {day}, '<b>{day}</b>'), (DATE '2026-01-0{day}', NULL, NULL)"
        ).close()
    return gateway


def test_rows_come_as_a_table_with_types_and_escaped_text(visitor: Asker, orders: Gateway) -> None:
    answer = visitor.post("sql", status=200, statement="SELECT id, note FROM orders WHERE id = 2").text
    assert '<th scope="col" class="n">id<small>BIGINT</small></th>' in answer
    assert "&lt;b&gt;2&lt;/b&gt;" in answer
    assert "<b>2</b>" not in answer
    assert "1\xa0row<small>" in answer
    assert '<span class="null">NULL</span>' in visitor.ask("SELECT id FROM orders WHERE id IS NULL")


def test_what_is_to_be_known_of_a_table_stands_above_its_rows(visitor: Asker, orders: Gateway) -> None:
    lake = orders.lake
    with lake.catalog.transaction() as tx:
        tx.tables.set_diverged(tx.tables.lock(Identifier("default", "orders")).table_id, "snapshot-9")
    lake.standing.look_around(tables=0)
    notice = "Table default.orders is shown as the catalog knows it: snapshot-9 is not the catalog's"
    assert notice in visitor.ask("SELECT id FROM orders")
    assert notice not in visitor.ask("SELECT 1")


def test_a_refusal_marks_its_place_and_keeps_the_text(visitor: Asker) -> None:
    page = visitor.ask("SELECT *\nFROM ordrs", status=404)
    assert '<span class="where">2:6</span> <code>FROM <mark>ordrs</mark></code>' in page
    assert "SELECT *\nFROM ordrs</textarea>" in page
    assert "Table default.ordrs does not exist." in page
    assert "There is no statement" in visitor.ask("  ", status=400)
    assert '<span class="where">2:6</span>' in visitor.ask("SELECT *\nFROM ordrs", status=404, action="explain")
    assert '<span class="where">1:15</span>' in visitor.ask("SELECT * FROM ordrs", status=404, action="explain")


def test_a_plan_is_a_picture_of_files_read_and_skipped(visitor: Asker, orders: Gateway) -> None:
    page = visitor.ask("SELECT id FROM orders WHERE day = DATE '2026-01-02';", action="explain")
    assert "Answered in the gateway, without Spark" in page
    assert page.count('<svg class="file kept"') == 1
    assert page.count('<svg class="file partition"') == 2
    assert "1\xa0file read" in page
    assert "2\xa0files skipped by partition" in page
    assert "day = '2026-01-02'" in page
    assert "day=2026-01-02" in page
    assert "Answered from metadata" in visitor.ask("SELECT COUNT(*) FROM orders", action="explain")


def test_all_rows_of_a_query_come_as_a_file_and_nothing_else_runs_twice(visitor: Asker, orders: Gateway) -> None:
    text = "SELECT id, note FROM orders WHERE id > 1"
    csv = visitor.post("sql/download", status=200, statement=text, format="csv")
    assert csv.headers["Content-Disposition"] == 'attachment; filename="result.csv"'
    assert sorted(csv.text.splitlines()) == ["2,<b>2</b>", "3,<b>3</b>", "id,note"]
    parquet = visitor.post("sql/download", status=200, statement=text, format="parquet")
    assert sorted(pq.read_table(io.BytesIO(parquet.data)).column("id").to_pylist()) == [2, 3]
    arrow = visitor.post("sql/download", status=200, statement=text, format="arrow")
    assert pa.ipc.open_stream(arrow.data).read_all().num_rows == 2
    visitor.post("sql/download", status=400, statement=text, format="xls")
    for refused in ("INSERT INTO orders VALUES (DATE '2026-01-01', 9, 'x')", "SELECT 1; SELECT 2", "DROP TABLE orders"):
        visitor.post("sql/download", status=400, statement=refused, format="csv")
    visitor.post("sql/download", status=413, statement="SELECT " + "1," * 60_000 + "1", format="csv")
    with orders.run("SELECT COUNT(*) FROM orders") as result:
        assert result.collect() == [(6,)]


def test_a_stream_without_scripts_shows_what_comes_in_its_first_moments(visitor: Asker, orders: Gateway) -> None:
    page = visitor.ask("SELECT id FROM orders WHERE id > 1", live="yes")
    assert "2\xa0rows<small>" in page
    assert "first moments" in page


def test_a_live_query_that_fails_says_so_in_a_line(visitor: Asker) -> None:
    told = json.loads(visitor.post("sql/live", status=200, statement="SELECT id FROM ordrs").text)["$error"]
    assert (told["errorClass"], told["line"], told["column"], told["fragment"]) == ("TableNotExist", 1, 16, "ordrs")


def test_completion_comes_from_the_catalog(visitor: Asker, orders: Gateway) -> None:
    answer = visitor.client.get("/ui/sql/complete?text=SELECT+*+FROM+or&position=16")
    assert answer.get_json() == {"candidates": ["orders"]}
    assert visitor.client.get("/ui/sql/complete?text=x").status_code == 400


def test_the_history_holds_ones_own_statements_each_once(visitor: Asker, client: FlaskClient) -> None:
    for text in ("SHOW TABLES", "SHOW TABLES", "SELECT * FROM nowhere", "SET 'a.password' = 'hush'"):
        client.post("/sql", json={"statement": text})
    history = visitor.page("sql").partition('id="history"')[2]
    assert history.count("<code>SHOW TABLES</code>") == 1
    assert "Table default.nowhere does not exist." in history
    assert "hush" not in history
    assert 'href="/ui/sql?statement=SHOW+TABLES"' in history
