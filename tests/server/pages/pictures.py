"""``python -m tests.server.pages.pictures``: take every page in light and dark, on a desktop and a phone, for docs/gallery.md.

The pictures are those of the tests that look at every page (`test_browser`, `test_work_browser`), four of a page in one.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.server.pages.test_browser import ROOT, SWITCHES, chromium

GALLERY = ROOT / "docs" / "gallery.md"
_PICTURES = ROOT / "docs" / "pages" / "all"
_SIDES = ("desktop-light", "desktop-dark", "phone-light", "phone-dark")
_WIDTHS = {"desktop": 760, "phone": 232}
_HIGHEST = 1100
_QUALITY = 55
_HEAD = """# Every page

Light and dark, on a desktop and on a phone, cut off where a page is long; what they are for is told in [pages.md](pages.md).
`python -m tests.server.pages.pictures` takes them anew, with the data of the tests that look at every page.
"""


def take(directory: Path) -> list[str]:
    """Let the tests put their pictures there; the names of the pages, in the order they were taken."""
    tests = [f"tests/server/pages/test_{name}.py" for name in ("browser", "work_browser")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "torture or not torture", "-k", "accessible", *tests]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "SLUICE_TEST_SCREENSHOTS": str(directory)})
    found = sorted(directory.glob(f"*-{_SIDES[0]}.png"), key=lambda path: path.stat().st_mtime)
    return [path.name.removesuffix(f"-{_SIDES[0]}.png") for path in found]


def _side(path: Path, width: int) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<div style="max-height:{_HIGHEST}px;overflow:hidden"><img width="{width}" src="data:image/png;base64,{data}"></div>'


def main() -> None:
    """Write the pictures and the page that shows them."""
    _PICTURES.mkdir(parents=True, exist_ok=True)
    for old in _PICTURES.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as made, sync_playwright() as playwright:
        names = take(Path(made))
        browser = playwright.chromium.launch(executable_path=chromium(), args=SWITCHES)
        page = browser.new_page(viewport={"width": 2 * sum(_WIDTHS.values()) + 60, "height": 200})
        session = page.context.new_cdp_session(page)
        for name in names:
            sides = "".join(_side(Path(made) / f"{name}-{side}.png", _WIDTHS[side.partition("-")[0]]) for side in _SIDES)
            page.set_content(f'<body style="margin:12px;background:#8a8f98"><div style="display:flex;gap:12px">{sides}</div>')
            height = page.evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": 2 * sum(_WIDTHS.values()) + 60, "height": height, "scale": 1}
            asked = {"format": "webp", "quality": _QUALITY, "clip": clip, "captureBeyondViewport": True}
            (_PICTURES / f"{name}.webp").write_bytes(base64.b64decode(session.send("Page.captureScreenshot", asked)["data"]))
        browser.close()
    GALLERY.write_text(_HEAD + "".join(f"\n## {name}\n\n![{name}](pages/all/{name}.webp)\n" for name in names))


if __name__ == "__main__":
    main()
