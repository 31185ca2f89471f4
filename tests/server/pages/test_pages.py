"""What the pages show, and what their buttons do."""

from __future__ import annotations

import re
from html import unescape

import pytest
from flask.testing import FlaskClient

from lake import Lake
from model.access import ACCESSES, ResourceType
from model.identifier import Identifier
from model.schema.types import Field, parse_type
from model.view import View
from server.process.services import Services
from tests.server.pages.conftest import Visitor, table_path

_SIDES = ("", "/data", "/schema", "/snapshots", "/files", "/options", "/maintenance", "/consumers", "/access", "/connect")
_HOSTILE = "<b onclick=x>'\"&{{7*7}}`"


@pytest.fixture
def orders(visitor: Visitor) -> str:
    """A queue with a past, and its address."""
    visitor.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.orders (id BIGINT, region STRING) COMMENT 'All orders'"
        " WITH ('bucket' = '2', 'bucket-key' = 'id', 'write-only' = 'true')"
    )
    for i in range(12):
        visitor.sql("INSERT INTO shop.orders VALUES " + ", ".join(f"({8 * i + j}, '{'south' if j % 2 else 'north'}')" for j in range(8)))
    return table_path("shop", "orders")


def text_of(page: str) -> str:
    """A page's words in one line."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).replace("\u202f", "").replace("\xa0", " ").split())


def test_every_side_of_a_table_can_be_read(visitor: Visitor, orders: str) -> None:
    for side in _SIDES:
        assert "orders" in visitor.get(orders + side), side
    assert "96" in text_of(visitor.get(orders))
    assert visitor.client.get(f"{orders}/upkeep").headers["Location"].endswith("/maintenance"), "bookmarks of before lead on"
    assert "write-only" in visitor.get(f"{orders}/maintenance")
    assert "There is no page nothing" in visitor.get(f"{orders}/nothing", 404)


def test_hostile_names_are_text(visitor: Visitor) -> None:
    name = _HOSTILE.replace("`", "``")
    visitor.sql(f"CREATE TABLE `{name}` (`{name}` STRING COMMENT '<i>c</i>') COMMENT '<script>alert(1)</script>'")
    visitor.sql(f"INSERT INTO `{name}` VALUES ('<script>alert(2)</script>')")
    for path in ("/ui/catalog", "/ui/catalog?q=onclick", *(table_path("default", _HOSTILE, side) for side in _SIDES)):
        page = visitor.get(path)
        assert not re.search(r"<script>|<b onclick|<i>c", page), path
        assert "49" not in re.findall(r"&amp;\S{0,8}", page)
        assert "&lt;b onclick=x&gt;" in page, path


def test_the_catalog_finds_names_and_columns_and_pages_through_many(visitor: Visitor, orders: str) -> None:
    visitor.sql("CREATE DATABASE many;" + ";".join(f"CREATE TABLE many.t{i:03d} (id BIGINT, only_in_{i} STRING)" for i in range(60)))
    found = visitor.get("/ui/catalog?q=ONLY_IN_42")
    assert "1 table found" in text_of(found)
    assert "many.t042" in found
    assert "only_in_42" in found
    first = visitor.get("/ui/catalog?database=many")
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = visitor.get(following.group(1).replace("&amp;", "&"))
    assert len(set(re.findall(r">(t\d{3})</a>", first + second))) == 60
    assert re.search(r"sales|shop\.orders", visitor.get("/ui/catalog?order=size").split("<tbody>")[1].split("</tr>")[0])
    assert "No table, view or column" in visitor.get("/ui/catalog?q=%25")
    assert visitor.get("/ui/catalog?database=nowhere", 404)


def test_the_overview_says_what_needs_a_hand_and_mends_it(visitor: Visitor, orders: str, services: Services) -> None:
    visitor.sql("CALL sys.create_tag('shop.orders', 'before')")
    page = text_of(visitor.get("/ui/"))
    assert re.search(r"\d+ small files in shop.orders", page)
    assert "Spark Away" in page  # there is none in this test
    assert "CALL sys.compact" in visitor.act("/ui/fix/compact", database="shop", table="orders")


def test_a_reader_left_behind_is_told_and_moved_on(client: FlaskClient, visitor: Visitor, orders: str) -> None:
    hint = "/*+ OPTIONS('consumer-id' = 'billing', 'scan.mode' = 'from-snapshot', 'scan.snapshot-id' = '1') */"
    assert '"id":19' in client.post("/sql?mode=streaming", data=f"SELECT * FROM shop.orders {hint} LIMIT 20").text
    consumers = text_of(visitor.get(f"{orders}/consumers"))
    behind = re.search(r"billing \d+ (\d+) snapshots (\d+)", consumers)
    assert behind is not None
    assert int(behind.group(2)) == 8 * int(behind.group(1))
    assert f"Consumer billing is {behind.group(1)} snapshots behind" in text_of(visitor.get("/ui/"))
    moved = visitor.act(f"{orders}/do/reset-consumer", name="billing", next="13")
    assert "next_snapshot_id =&gt; 13" in moved
    assert "up to date" in moved
    assert "billing" not in text_of(visitor.get("/ui/"))
    assert "Nobody reads this table" in visitor.act(f"{orders}/do/forget-consumer", name="billing")


def test_a_rollback_shows_first_what_would_go(client: FlaskClient, visitor: Visitor, orders: str) -> None:
    made = visitor.act(f"{orders}/do/tag", name="late", snapshot="11", keep="30 d")
    assert "time_retained =&gt; &#39;30 d&#39;" in made
    preview = visitor.get(f"{orders}/preview/rollback?snapshot=10")
    assert "dry_run =&gt; true" in preview
    going = text_of(preview.split("Snapshots that would go")[1])
    assert re.search(r"12 append \+8 2 .* 11 append \+8 2 .* late", going)
    assert "+8 rows, now 96" in text_of(visitor.get(f"{orders}/snapshots"))
    after = text_of(visitor.act(f"{orders}/do/rollback", snapshot="10"))
    assert "previous snapshot id 12, current snapshot id 10" in after
    assert "now 80" in after
    assert "now 96" not in after
    assert "tag late" not in after


def test_a_rollback_takes_away_nothing_that_came_after_its_preview(visitor: Visitor, orders: str) -> None:
    preview = visitor.get(f"{orders}/preview/rollback?snapshot=10")
    shown = dict(re.findall(r'<input type="hidden" name="(snapshot|latest)" value="(\d+)">', preview))
    visitor.sql("INSERT INTO shop.orders VALUES (100, 'west')")
    assert shown == {"snapshot": "10", "latest": "12"}
    assert "no longer points at snapshot 12" in text_of(visitor.act(f"{orders}/do/rollback", **shown))
    assert "now 97" in text_of(visitor.get(f"{orders}/snapshots"))


def test_a_tag_is_deleted_after_a_preview(visitor: Visitor, orders: str) -> None:
    visitor.act(f"{orders}/do/tag", name="o'clock", snapshot="3")
    assert "keeps snapshot 3" in text_of(visitor.get(f"{orders}/snapshots"))
    assert "o&#39;&#39;clock" in visitor.get(f"{orders}/preview/delete-tag?name=o%27clock")
    assert "keeps snapshot 3" not in text_of(visitor.act(f"{orders}/do/delete-tag", name="o'clock"))


def test_options_are_set_and_taken_back_and_wrong_ones_refused(visitor: Visitor, orders: str) -> None:
    edited = visitor.get(f"{orders}/options?edit=snapshot.num-retained.min")
    assert 'value="10"' in edited
    done = visitor.act(f"{orders}/do/set-option", key="snapshot.num-retained.min", value="25")
    assert "ALTER TABLE `shop`.`orders` SET (&#39;snapshot.num-retained.min&#39; = &#39;25&#39;)" in done
    assert "snapshot.num-retained.min" in done.split("At their defaults")[0].split("Set on this table")[1]
    refused = visitor.act(f"{orders}/do/set-option", key="snapshot.num-retained.min", value="x'); DROP TABLE shop.orders --")
    assert "That did not work." in refused
    history = text_of(visitor.get(f"{orders}/schema"))
    assert "added option snapshot.num-retained.min 25" in history
    assert "RESET (&#39;snapshot.num-retained.min&#39;)" in visitor.act(f"{orders}/do/reset-option", key="snapshot.num-retained.min")


def test_the_schemas_history_says_what_changed(visitor: Visitor, orders: str) -> None:
    visitor.sql("ALTER TABLE shop.orders ADD (amount INT); ALTER TABLE shop.orders RENAME region TO area")
    visitor.sql("ALTER TABLE shop.orders MODIFY (amount BIGINT); ALTER TABLE shop.orders DROP amount")
    history = text_of(visitor.get(f"{orders}/schema").split("What changed when")[1])
    assert re.search(
        r"Version 4 .*removed column amount BIGINT Version 3 .*changed type of amount : INT → BIGINT "
        r"Version 2 .*changed name of a column : region → area Version 1 .*added column amount INT",
        history.replace("amount:", "amount :").replace("column:", "column :"),
    )


def test_files_show_their_sizes_and_statistics(visitor: Visitor, orders: str) -> None:
    page = visitor.get(f"{orders}/files?bucket=1")
    assert len(re.findall(r'<rect class="h\d"', page.split('<table class="heat">')[1])) == 2
    for by, darkest in (("rows", "rows"), ("files", "files"), ("age", "newest"), ("nonsense", "kB")):
        assert darkest in text_of(visitor.get(f"{orders}/files?by={by}").split('id="buckets"')[1].split("<tbody>")[0]), by
    assert re.search(r"files? from \S+ \wB to", page.replace("\xa0", " ").replace("\u202f", ""))
    assert re.search(r"id \d+ \d+ 0", text_of(page.split("Files of bucket 1")[1]))


def test_grants_are_given_and_taken(visitor: Visitor, orders: str) -> None:
    assert "GRANT SELECT ON `shop`.`orders` TO `ada`" in visitor.act(f"{orders}/do/grant", name="ada", value="SELECT")
    assert "ada SELECT" in text_of(visitor.get(f"{orders}/access"))
    assert "Nothing is granted" in visitor.act(f"{orders}/do/revoke", name="ada", value="SELECT")


def test_what_a_row_of_grants_says_is_revoked_and_nothing_else(visitor: Visitor, orders: str) -> None:
    """Revoke beside DELETE took SELECT away."""
    offered = re.findall(r"<option>(\w+)</option>", visitor.get(f"{orders}/access"))
    assert set(offered) == {access.value for access in ACCESSES[ResourceType.TABLE]}
    for word in offered:
        visitor.act(f"{orders}/do/grant", name="ada", value=word)
    left = set(offered)
    for word in offered:
        left.remove(word)
        page = text_of(visitor.act(f"{orders}/do/revoke", name="ada", value=word))
        assert set(re.findall(r"ada ([A-Z]+)", page)) == left
    answer = visitor.send(f"{orders}/do/grant", name="ada", value="SELECTT")
    assert (answer.status_code, "Did you mean SELECT" in text_of(answer.text)) == (400, True)
    assert "Nothing is granted" in visitor.get(f"{orders}/access")


def test_others_see_what_is_granted_to_them_and_no_more(client: FlaskClient, visitor: Visitor, orders: str) -> None:
    visitor.sql("CREATE TABLE shop.secret (id BIGINT); GRANT SELECT (id) ON shop.orders TO ada")
    admin = client.post("/tokens", json={"name": "root", "administrator": True}).get_json()["token"]
    token = client.post("/tokens", json={"name": "laptop", "principal": "ada"}, headers={"Authorization": f"Bearer {admin}"})
    visitor.send("/ui/login", token=token.get_json()["token"])
    catalog = visitor.get("/ui/catalog")
    assert "shop.orders" in catalog
    assert "secret" not in catalog
    assert visitor.get(table_path("shop", "secret"), 403)
    assert "sees only a part" in visitor.get(f"{orders}/files", 403)
    rows = visitor.get(f"{orders}/data")
    assert "south" not in rows
    assert "That did not work." in visitor.act(f"{orders}/do/set-option", key="write-only", value="false")


def test_whoever_is_logged_in_signs_commits(client: FlaskClient, visitor: Visitor, orders: str) -> None:
    visitor.sql("GRANT ALL ON shop.orders TO ada")
    admin = client.post("/tokens", json={"name": "root", "administrator": True}).get_json()["token"]
    token = client.post("/tokens", json={"name": "laptop", "principal": "ada"}, headers={"Authorization": f"Bearer {admin}"}).get_json()[
        "token"
    ]
    done = client.post("/sql", data="INSERT INTO shop.orders VALUES (1, 'x')", headers={"Authorization": f"Bearer {token}"})
    assert done.status_code == 200
    visitor.send("/ui/login", token=admin)
    assert "by ada, writer" in text_of(visitor.get(f"{orders}/snapshots"))


@pytest.mark.parametrize("name", ["a.b", "it's `odd`", "*", "my table"])
def test_every_button_works_for_odd_names(visitor: Visitor, name: str) -> None:
    table = Identifier("x.y", name).quoted()
    visitor.sql(f"CREATE DATABASE `x.y`; CREATE TABLE {table} (id BIGINT)")
    for _ in range(3):
        visitor.sql(f"INSERT INTO {table} VALUES (1)")
    address = table_path("x.y", name)
    for action in ("compact", "expire", "orphans", "rollback?snapshot=2"):
        assert "It cannot be done" not in visitor.get(f"{address}/preview/{action}"), action
    actions: tuple[tuple[str, dict[str, str]], ...] = (
        ("compact", {}), ("compact-minor", {}), ("expire", {}), ("orphans", {}), ("tag", {"name": "first", "snapshot": "1"}),
        ("delete-tag", {"name": "first"}), ("reset-consumer", {"name": "c", "next": "2"}), ("forget-consumer", {"name": "c"}),
        ("rollback", {"snapshot": "2"}), ("set-option", {"key": "write-only", "value": "true"}), ("reset-option", {"key": "write-only"}),
        ("grant", {"name": "ada", "value": "SELECT"}), ("revoke", {"name": "ada", "value": "SELECT"}),
    )  # fmt: skip
    for action, form in actions:
        assert "That did not work." not in visitor.act(f"{address}/do/{action}", **form), action
    assert "That did not work." not in visitor.act("/ui/fix/compact", database="x.y", table=name)
    offered = re.search(r'<datalist id="tables"><option value="([^"]+)">', visitor.get("/ui/compactions"))
    assert offered is not None
    assert "That did not work." not in visitor.act("/ui/compactions", table=unescape(offered.group(1)), whole="yes")
    visitor.sql(f"GRANT SELECT ON {table} TO bob")
    taken = re.search(r'name="on" value="([^"]+)"', visitor.get("/ui/access"))
    assert taken is not None
    done = visitor.act("/ui/access/grants/revoke", principal="bob", access="SELECT", kind="TABLE", on=unescape(taken.group(1)))
    assert "That did not work." not in done
    assert "Nothing is granted" in visitor.get("/ui/access")


def test_views_are_found_beside_tables_by_who_may_see_them(client: FlaskClient, visitor: Visitor, orders: str, lake: Lake) -> None:
    fields = (Field(id=0, name="region", type=parse_type("STRING")), Field(id=1, name="total_sold", type=parse_type("BIGINT")))
    query = "SELECT region, count(*) AS total_sold FROM orders GROUP BY region -- <b>"
    made = View(fields=fields, query=query, dialects={"sluice": query, "flink": "SELECT 1"}, comment="What each region sold")
    lake.views.create(Identifier("shop", "by_region"), made)
    lake.views.create(Identifier("shop", "not_for_ada"), made)
    every = text_of(visitor.get("/ui/catalog"))
    assert "1 table and 2 views" in every
    assert "shop (3)" in every
    by_column = visitor.get("/ui/catalog?q=TOTAL_s")
    assert "2 views found" in text_of(by_column)
    assert "total_sold" in by_column
    assert "1 view found" in text_of(visitor.get("/ui/catalog?database=shop&q=by_region"))
    page = visitor.get("/ui/views/shop/by_region")
    assert "What each region sold" in page
    assert "-- &lt;b&gt;" in page
    assert re.search(r"as flink reads it .*as sluice reads it", text_of(page))
    assert visitor.get("/ui/views/shop/nowhere", 404)
    visitor.sql("GRANT SELECT ON VIEW shop.by_region TO ada")
    admin = client.post("/tokens", json={"name": "root", "administrator": True}).get_json()["token"]
    token = client.post("/tokens", json={"name": "laptop", "principal": "ada"}, headers={"Authorization": f"Bearer {admin}"})
    visitor.send("/ui/login", token=token.get_json()["token"])
    hers = text_of(visitor.get("/ui/catalog?q=total_sold"))
    assert "1 view found" in hers
    assert "not_for_ada" not in hers
    assert visitor.get("/ui/views/shop/not_for_ada", 403)


def test_merges_by_hand_stand_among_the_compactions(visitor: Visitor, orders: str) -> None:
    assert "Nothing was merged yet" in text_of(visitor.get(f"{orders}/maintenance"))
    visitor.act(f"{orders}/do/compact")
    page = text_of(visitor.get(f"{orders}/maintenance"))
    assert re.search(r"1 merge: .* snapshot 13 done 2[34] → 2 .* 96 – by hand", page)


def test_open_streams_show_with_their_lag(visitor: Visitor, orders: str, services: Services) -> None:
    lake = services.gateway.lake
    assert "None is open" in visitor.get(f"{orders}/consumers")
    hint = {"scan.mode": "from-snapshot", "scan.snapshot-id": "10"}
    stream = lake.follow(lake.open(Identifier("shop", "orders")), hint)
    print(text_of(visitor.get(f"{orders}/consumers")))
    assert re.search(r"Open since .* 10 3 snapshots 24 ", text_of(visitor.get(f"{orders}/consumers")))
    steps = stream.steps()
    while stream.cursor.next_snapshot_id < 13:
        next(steps)
    assert re.search(r"Open since .* 13 up to date 0 ", text_of(visitor.get(f"{orders}/consumers")))
    stream.close()
    assert "None is open" in visitor.get(f"{orders}/consumers")
