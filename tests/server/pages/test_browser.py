"""The pages in real Chromium: their main actions, axe-core's rules, a clean console, and no request to anybody else."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from gateway.gateway import Gateway
from tests.short import short
from tests.waiting import eventually

_PATIENCE = 120_000
expect.set_options(timeout=_PATIENCE)
ROOT = Path(__file__).parents[3]
_AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
SWITCHES = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
_WITHOUT_PATHS = r"""() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const path = /\/\S*(pytest-of|sluice-tests)[^\s']*?(?=\/warehouse|[\s']|$)/g;
  while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replaceAll(path, "/srv/sluice");
}"""
_OUT_OF_SIGHT = """() => [...document.querySelectorAll("nav [aria-current=page]")]
  .filter((one) => one.getBoundingClientRect().left < 0 || one.getBoundingClientRect().right > window.innerWidth)
  .map((one) => one.textContent)"""
_SHAPES = {"desktop": (1280, 860), "phone": (390, 844)}
_PLACES = (
    "/ui/", "/ui/catalog?q=region", "/ui/catalog", "/ui/nowhere", "/ui/tables/shop/orders",
    *(f"/ui/tables/shop/orders/{side}" for side in ("data", "schema", "snapshots", "files?bucket=0", "options?edit=bucket", "maintenance",
                                                     "consumers", "access", "connect", "preview/rollback?snapshot=3", "preview/compact")),
    "/ui/tables/shop/empty", "/ui/tables/shop/empty/files", "/ui/tables/shop/days/files",
)  # fmt: skip


def chromium() -> str | None:
    """The browser's executable; None where it cannot be had."""
    found = subprocess.run([ROOT / "scripts" / "chromium"], capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, where it can be had."""
    executable = chromium()
    if executable is None:
        pytest.skip("Chromium cannot be had here: the pages are not tried in a browser.")
    if not _AXE.exists():
        pytest.skip("axe-core cannot be had here: the pages are not tried in a browser.")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=SWITCHES, timeout=_PATIENCE)
        yield launched
        launched.close()


@pytest.fixture
def shop(url: str) -> str:
    """The address of a server with some tables."""

    def sql(text: str) -> None:
        assert httpx.post(f"{url}/sql", content=text.encode(), timeout=60).status_code == 200, text

    sql(
        "CREATE DATABASE shop; CREATE TABLE shop.empty (id BIGINT);"
        "CREATE TABLE shop.days (day STRING, n INT) PARTITIONED BY (day) WITH ('bucket' = '-1');"
        "CREATE TABLE shop.orders (id BIGINT NOT NULL, region STRING, placed TIMESTAMP(3)) COMMENT 'Every order as it was placed'"
        " WITH ('bucket' = '4', 'bucket-key' = 'id', 'write-only' = 'true')"
    )
    sql("INSERT INTO shop.days VALUES " + ", ".join(f"('2026-11-{day:02d}', {day})" for day in range(1, 20)))
    for i in range(6):
        rows = ", ".join(f"({40 * i + j}, '{'north' if j % 3 else 'south'}', TIMESTAMP '2026-11-{i + 1:02d} 10:00:00')" for j in range(40))
        sql(f"INSERT INTO shop.orders VALUES {rows}")
    sql("ALTER TABLE shop.orders ADD (note STRING); CALL sys.create_tag('shop.orders', 'first', 1)")
    sql("CALL sys.reset_consumer('shop.orders', 'billing', 2)")
    return url


class Watched:
    """A browser's page that notes what it complains of and whom it asks."""

    def __init__(self, browser: Browser, url: str, shape: str, scheme: str = "light", *, scripts: bool = True) -> None:
        width, height = _SHAPES[shape]
        self._context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": height}, java_script_enabled=scripts
        )
        self._context.set_default_timeout(_PATIENCE)
        self.page: Page = self._context.new_page()
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda asked: None if asked.url.startswith(url) else self.strangers.append(asked.url))

    def close(self) -> None:
        """End it; raises where it complained or asked anybody else."""
        self._context.close()
        assert not self.strangers
        assert not self.complaints


def in_every_look(shape: str, scheme: str) -> pytest.MarkDecorator:
    """One look in `make test`, and all others in `make torture` only."""
    return pytest.mark.parametrize(("shape", "scheme"), short(product(_SHAPES, ("light", "dark")), [(shape, scheme)]))


@in_every_look("phone", "dark")
def test_every_page_is_accessible_and_fits(browser: Browser, shop: str, gateway: Gateway, shape: str, scheme: str) -> None:
    found: list[tuple[str, str]] = []
    watched = Watched(browser, shop, shape, scheme)

    def look(place: str) -> None:
        watched.page.goto(shop + place)
        if place == "/ui/nowhere":  # Chromium itself notes an address that is answered 404
            assert watched.complaints.pop().startswith("Failed to load resource: the server responded with a status of 404")
        found.extend((place, one) for one in faults(watched.page))
        keep(watched.page, f"{place.removeprefix('/ui/').replace('/', '-').partition('?')[0] or 'overview'}-{shape}-{scheme}")

    for place in _PLACES:
        look(place)
    gateway.lake.permissions.create_token("root", administrator=True)
    look("/ui/login")
    assert watched.page.get_by_label("Token").is_visible()
    watched.close()
    assert not found


def keep(page: Page, name: str) -> None:
    """Take a picture of the page where somebody asked for pictures; it tells nothing of the machine it was taken on."""
    if directory := os.environ.get("SLUICE_TEST_SCREENSHOTS"):
        page.evaluate(_WITHOUT_PATHS)
        page.screenshot(path=f"{directory}/{name}.png", full_page=True)


def faults(page: Page) -> list[str]:
    """What axe-core finds, whether the page is wider than its window, and whether its menus show where one is."""
    page.evaluate(_AXE.read_text())
    rules = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    found = [f"{rule['id']}: {[node['html'][:200] for node in rule['nodes']][:3]}" for rule in rules]
    found += ["wider than the window"] * bool(page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))
    return found + [f"out of sight in its menu: {name}" for name in page.evaluate(_OUT_OF_SIGHT)]


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_the_main_actions_go_by_keyboard_and_without_scripts(browser: Browser, shop: str, scripts: bool) -> None:
    watched = Watched(browser, shop, "desktop", scripts=scripts)
    page = watched.page
    page.goto(f"{shop}/ui/")
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_text("Skip to content")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Catalog").click()
    page.get_by_label("Search tables and columns").fill("regio")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="shop.orders").click()
    page.get_by_role("link", name="Snapshots", exact=True).click()
    row = page.locator(".timeline > li", has_text="now 160")
    row.get_by_text("Tag it").click()
    row.get_by_label("Tag", exact=True).fill("fourth")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("CALL sys.create_tag")
    page.locator(".timeline > li", has_text="now 160").get_by_role("link", name="Roll back…").click()
    expect(page.locator("main")).to_contain_text("Snapshots that would go")
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("status")).to_contain_text("current snapshot id 4")
    page.get_by_role("link", name="Options", exact=True).click()
    page.get_by_role("link", name="Change write-only").click()
    page.get_by_label("Value").fill("false")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("ALTER TABLE `shop`.`orders` SET ('write-only' = 'false')")
    page.get_by_role("link", name="Consumers", exact=True).click()
    page.get_by_role("button", name="Forget").click()
    expect(page.locator("main")).to_contain_text("Nobody reads this table")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    watched.close()


def test_scripts_filter_copy_and_keep_fresh(browser: Browser, shop: str) -> None:
    watched = Watched(browser, shop, "desktop")
    page = watched.page
    page.goto(f"{shop}/ui/tables/shop/orders/options")
    page.keyboard.press("/")
    page.keyboard.type("tag.")
    shown = page.locator("tr.rest:visible")
    expect(shown).not_to_have_count(page.locator("tr.rest").count())
    expect(shown).not_to_have_count(0)
    page.goto(f"{shop}/ui/tables/shop/orders/connect")
    expect(page.get_by_role("button", name="Copy").nth(3)).to_be_visible()
    page.clock.install()
    page.goto(f"{shop}/ui/")
    page.locator("#now").get_by_text("24 small files").wait_for()
    statements = "; ".join(f"INSERT INTO shop.orders VALUES ({i}, 'x', NULL, NULL), ({i + 1}, 'x', NULL, NULL)" for i in range(1000, 1010))
    assert httpx.post(f"{shop}/sql", content=statements.encode(), timeout=60).status_code == 200
    more = page.locator("#now").get_by_text(re.compile(r"(2[5-9]|3\d|4\d)\ssmall files"))
    assert page.locator("#now").get_attribute("data-fresh") == "5"

    def fresh_after_five_seconds() -> bool:
        page.clock.run_for(5000)
        return more.count() > 0

    assert eventually(fresh_after_five_seconds)
    watched.close()
