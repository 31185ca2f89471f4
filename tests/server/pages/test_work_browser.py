"""The SQL page and the pages of work, access and settings in real Chromium: see `test_browser`, whose browser and watch they use."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

import server.pages.sql as sql_page
from catalog.records import CompactionRunRow
from gateway.gateway import Gateway
from model.identifier import Identifier
from model.work.job import JobLease, JobState
from model.work.job_lag import JobLag
from tests.running import RunningServer
from tests.server.pages.test_browser import Watched, faults, in_every_look, keep
from tests.server.pages.test_browser import browser as browser

_RUN, _EXPLAIN = "button[value=run]", "button[value=explain]"


def sql(url: str, text: str) -> None:
    assert httpx.post(f"{url}/sql", content=text.encode(), timeout=60).status_code == 200, text


@pytest.fixture
def shop(url: str, gateway: Gateway) -> str:
    """The address of a server with something of everything to look at."""
    sql(
        url,
        "CREATE TABLE orders (day DATE, id BIGINT, city STRING, amount DOUBLE) PARTITIONED BY (day) WITH ('bucket'='2','bucket-key'='id')",
    )
    for day in range(1, 8):
        cities = ("Oslo", "Lima", "Kyoto", "Accra")
        rows = ", ".join(f"(DATE '2026-11-0{day}', {10 * day + n}, '{cities[n % 4]}', {day * 37 % 11 + n}.5)" for n in range(6))
        sql(url, f"INSERT INTO orders VALUES {rows}")
    sql(url, "CREATE ROLE analyst; GRANT ROLE analyst TO ada; GRANT SELECT ON orders TO analyst; GRANT SELECT (id, city) ON orders TO bob")
    httpx.post(f"{url}/sql", content=b"SELECT * FROM ordrs")
    httpx.post(f"{url}/v1/sessions", json={"sessionName": "etl", "properties": {"pipeline.name": "nightly"}})
    _jobs(gateway)
    _compactions(gateway)
    return url


def _compactions(gateway: Gateway) -> None:
    """What the orders' buckets were merged from, an hour ago and just now; nobody merges in these tests."""
    lake = gateway.lake
    now = dt.datetime.now(dt.UTC)
    for ago, outcome, after in ((3600, "done", 4), (40, "lost", 0), (2, "running", 0)):
        began = now - dt.timedelta(seconds=ago)
        run = CompactionRunRow(
            started_at=began,
            ended_at=began + dt.timedelta(seconds=1),
            reason="files",
            outcome=outcome,
            message=None,
            snapshot_id=None,
            tasks=2,
            files_before=60,
            files_after=after,
            bytes_before=4_700_000,
            bytes_after=after * 1_050_000,
            row_count=61_000,
            server="here:1",
        )
        with lake.catalog.transaction() as tx:
            tx.compactions.add(lake.open(Identifier("default", "orders")).table_id, run)


def _jobs(gateway: Gateway) -> None:
    """One that catches up, and one that failed."""
    lake = gateway.lake
    for name in ("orders to warehouse", "clicks to sessions"):
        lake.jobs.create(name=name, statement="INSERT INTO u SELECT * FROM orders", database="default", settings={}, tables={})
    with lake.catalog.transaction() as tx:
        good, bad = sorted(tx.jobs.take(UUID(int=7), "here/1", most=2, seconds=600), key=lambda job: job.name, reverse=True)
    lease = JobLease(job_id=good.job_id, epoch=good.epoch)
    for batch, lag in enumerate((12, 14, 9, 11, 6, 3, 5, 1, 2, 0)):
        with lake.catalog.transaction() as tx:
            tx.jobs.commit(lease, "0", checkpoint="c", batch=batch, rows=400 + 97 * batch % 211, watermark=1_790_000_000_000)
            tx.jobs.progress(
                lease,
                source={"0": [{"description": "orders", "numInputRows": 40, "endOffset": {"snapshot": 7}}]},
                lag=JobLag(snapshots=lag),
            )
        gateway.jobs.points.look()
    with lake.catalog.transaction() as tx:
        error = "Table default.clicks was dropped.\nCaused by: There is no snapshot 12 any more."
        tx.jobs.end(JobLease(job_id=bad.job_id, epoch=bad.epoch), JobState.FAILED, error=error)


def write(page: Page, text: str) -> None:
    """Put a statement into the editor, as somebody who types."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(text)


def _asked(page: Page) -> None:
    write(page, "SELECT day, city, amount FROM orders WHERE amount > 3")
    page.click(_RUN)
    page.get_by_role("button", name="Chart").click()


def _refused(page: Page) -> None:
    write(page, "SELECT id, city\nFROM ordrs")
    page.click(_RUN)
    page.locator(".trouble").wait_for()


def _planned(page: Page) -> None:
    write(page, "SELECT id, city FROM orders\nWHERE day >= DATE '2026-11-06' AND id = 62")
    page.click(_EXPLAIN)
    page.locator(".plan").wait_for()


def _opened(page: Page) -> None:
    page.locator("tbody tr").filter(has_text="ordrs").locator("a").first.click()
    page.locator(".trouble").wait_for()


_VIEWS: tuple[tuple[str, str, Callable[[Page], None] | None], ...] = (
    ("sql-empty", "/ui/sql", None),
    ("sql", "/ui/sql", _asked),
    ("sql-error", "/ui/sql", _refused),
    ("sql-plan", "/ui/sql", _planned),
    ("jobs", "/ui/jobs", None),
    ("job", "/ui/jobs", lambda page: page.get_by_role("link", name="orders to warehouse").click()),
    ("statements", "/ui/statements", None),
    ("statement", "/ui/statements", _opened),
    ("sessions", "/ui/sessions", None),
    ("compactions", "/ui/compactions", None),
    ("access", "/ui/access", None),
    ("settings", "/ui/settings", None),
)


@in_every_look("desktop", "light")
def test_every_page_is_accessible_and_fits(browser: Browser, shop: str, shape: str, scheme: str) -> None:
    watched = Watched(browser, shop, shape, scheme)
    page = watched.page
    found: list[tuple[str, str]] = []
    for name, place, go in _VIEWS:
        page.goto(shop + place)
        if place == "/ui/sql":
            page.locator(".cm-content").wait_for()
        if go is not None:
            go(page)
            page.wait_for_load_state()
        found += [(name, one) for one in faults(page)]
        keep(page, f"{name}-{shape}-{scheme}")
    watched.close()
    assert not found


def test_a_statement_is_written_completed_run_drawn_and_taken_home(browser: Browser, shop: str, tmp_path: Path) -> None:
    watched = Watched(browser, shop, "desktop")
    page = watched.page
    page.goto(f"{shop}/ui/sql")
    page.locator(".cm-content").click()
    page.keyboard.type("SELECT city, amount FROM ord")
    page.locator(".cm-tooltip-autocomplete li", has_text="orders").click()
    expect(page.locator(".cm-content")).to_have_text("SELECT city, amount FROM orders")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result-head")).to_contain_text("42 rows")
    expect(page.locator("th", has_text="amount")).to_have_text(re.compile(r"^\s*amount\s*DOUBLE\s*$"))
    page.get_by_role("button", name="Chart").click()
    expect(page.locator("figure.chart rect.fill")).to_have_count(40)
    page.get_by_label("As").select_option("line")
    expect(page.locator("figure.chart path.stroke")).to_have_count(1)
    for ending in ("CSV", "Parquet", "Arrow"):
        with page.expect_download() as coming:
            page.locator("#outcome").get_by_role("button", name=ending).click()
        coming.value.save_as(tmp_path / ending)
        assert (tmp_path / ending).stat().st_size > 200
    assert (tmp_path / "CSV").read_text().splitlines()[0] == "city,amount"
    expect(page.locator("#history li").first).to_contain_text("SELECT city, amount FROM orders")
    watched.close()


def test_an_error_is_marked_at_its_place_also_in_a_selection(browser: Browser, shop: str) -> None:
    watched = Watched(browser, shop, "desktop")
    page = watched.page
    page.goto(f"{shop}/ui/sql")
    write(page, "SHOW TABLES;\nSELECT *\nFROM ordrs")
    page.click(_RUN)
    expect(page.locator(".place .where")).to_have_text("3:6")
    expect(page.locator(".cm-lintRange-error")).to_have_text("ordrs")
    page.locator(".cm-line", has_text="FROM ordrs").click()
    page.keyboard.press("Control+End")
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("Shift+Home")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".trouble .place mark")).to_have_text("ordrs")
    expect(page.locator(".place .where")).to_have_text("3:6")
    page.locator("#history a", has_text="SHOW TABLES").first.click()
    expect(page.locator(".cm-content")).to_contain_text("SHOW TABLES")
    watched.close()


def test_a_stream_is_followed_and_stopped(browser: Browser, shop: str) -> None:
    watched = Watched(browser, shop, "desktop")
    page = watched.page
    page.goto(f"{shop}/ui/sql")
    page.get_by_label("Live").check()
    write(page, "SELECT id, city FROM ordrs")
    page.click(_RUN)
    expect(page.locator(".trouble .place mark")).to_have_text("ordrs")
    write(page, "SELECT id, city FROM orders WHERE id > 900")
    page.click(_RUN)
    expect(page.locator("#result-head")).to_have_text("Waiting for rows")
    sql(shop, "INSERT INTO orders VALUES (DATE '2026-11-09', 901, 'Porto', 1.0)")
    expect(page.locator("table.data tbody")).to_contain_text("Porto")
    sql(shop, "INSERT INTO orders VALUES (DATE '2026-11-09', 902, 'Quito', 1.0)")
    expect(page.locator("table.data tbody tr").first).to_contain_text("Quito")
    expect(page.locator(".pulse .fill").nth(1)).to_be_attached()  # rows a second, for two seconds
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#result-head")).to_contain_text("stopped")
    watched.close()


@pytest.mark.spark
def test_a_query_on_spark_shows_its_stages_and_is_canceled(browser: Browser, server: RunningServer) -> None:
    server.wait_for_spark()
    watched = Watched(browser, server.url, "desktop")
    page = watched.page
    page.goto(f"{server.url}/ui/sql")
    # In many short tasks, which end when they are told to: others would make Spark start anew for who comes next.
    write(page, "SELECT count(*) FROM range(0, 20000000000, 1, 10000) WHERE sin(id) > 2")
    page.click(_RUN)
    stage = page.locator("#running .stages li").first
    expect(stage.locator(".name")).to_have_text(re.compile(r"^Stage \d+ \w"))
    expect(stage.locator(".n")).to_have_text(re.compile(r"^\d+ of [1-9]\d*$"))
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#outcome")).to_contain_text("The statement was canceled")
    page.goto(f"{server.url}/ui/statements")
    expect(page.locator("tbody tr", has_text="FROM range(0, 20000000000").first).to_contain_text("canceled")
    watched.close()


def test_a_text_area_does_where_the_editor_was_not_installed(browser: Browser, shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_page, "EDITOR", Path("/nowhere"))
    watched = Watched(browser, shop, "phone")
    page = watched.page
    page.goto(f"{shop}/ui/sql")
    page.get_by_label("Statement").fill("SELECT city FROM orders WHERE id = 61")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result-head")).to_contain_text("1 row")
    watched.close()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_work_is_steered_by_keyboard_and_without_scripts(browser: Browser, shop: str, scripts: bool) -> None:
    watched = Watched(browser, shop, "desktop", scripts=scripts)
    page = watched.page
    if not scripts:
        page.goto(f"{shop}/ui/sql")
        page.get_by_label("Statement").fill("SELECT city FROM orders WHERE id = 61")
        page.click(_RUN)
        expect(page.locator("table.data tbody td")).to_have_text("Lima")
    page.goto(f"{shop}/ui/jobs")
    page.locator("tr", has_text="clicks to sessions").get_by_role("button", name="Restart").click()
    expect(page.get_by_role("status").first).to_contain_text("RESTART")
    page.goto(f"{shop}/ui/sessions")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("main")).to_contain_text("No sessions")
    page.goto(f"{shop}/ui/access")
    page.get_by_label("New role").fill("reader")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("CREATE ROLE `reader`")
    page.goto(f"{shop}/ui/settings")
    page.get_by_label("Search names").fill("jobs_checkpoints")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/settings?q=*")
    expect(page.locator(".setting")).to_have_count(1)
    watched.close()
