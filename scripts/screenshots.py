"""Takes the pictures of the inspector: `python scripts/screenshots.py [FOLDER]`.

Without a folder, it draws those that the documentation shows, in docs/images/inspector. With one, every page is
pictured there, light and dark, wide and narrow, to be looked at. The pages show a store that is made here in a time
of its own, so that anyone can make the same pictures again.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import Page, sync_playwright  # noqa: E402

from stator.runtime.facade.store import Store  # noqa: E402
from web.running import RunningInspector  # noqa: E402
from web.sample_store import at_work, fill, opened  # noqa: E402

OUT = ROOT / "docs" / "images" / "inspector"
HEIGHT = 860
WIDE, NARROW = 1280, 390
SCHEMES = ("light", "dark")
PAGES = {
    "needs": "/",
    "sessions": "/sessions",
    "session": "/s/{checkout}",
    "turn": "/s/{checkout}/t5",
    "call": "/s/{pay}/calls/{call}",
    "commit": "/s/{checkout}/@12",
    "strip": "/s/{checkout}/strip?at=t12",
    "files-of-session": "/s/{checkout}/files",
    "decisions": "/s/{checkout}/decisions",
    "out-of-view": "/s/{checkout}/evicted",
    "tree": "/s/{checkout}/tree",
    "proof": "/s/{checkout}/verify",
    "act": "/s/{checkout}/act",
    "compare": "/compare?a={checkout}&b={keys}",
    "compare-choose": "/compare?a={checkout}",
    "project": "/project",
    "recap": "/projects/shop/recap",
    "files": "/files",
    "file": "/files/of?path={charge}&root={root}",
    "search": "/search?q=charge",
    "cost": "/cost",
    "nothing-found": "/search?q=unheard",
    "not-found": "/s/s_nobody",
}


class Shot(NamedTuple):
    """One picture: its name, the page, the colour scheme, the width, and whether it shows the whole page."""

    name: str
    page: str
    scheme: str
    width: int
    whole: bool = False


DOCUMENTED = (
    Shot("needs-light", "needs", "light", WIDE),
    Shot("needs-narrow", "needs", "dark", NARROW),
    Shot("session-light", "session", "light", WIDE),
    Shot("strip-dark", "strip", "dark", WIDE),
    Shot("compare-light", "compare", "light", WIDE),
    Shot("project-light", "project", "light", WIDE),
)


def every() -> Iterator[Shot]:
    """Each page in both schemes and widths."""
    for page in PAGES:
        for scheme in SCHEMES:
            for width in (WIDE, NARROW):
                yield Shot(f"{page}-{width}-{scheme}", page, scheme, width, whole=True)


def main() -> None:
    """Fill a store, serve it, and take the pictures."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "store.db"
        clock = fill(path, hostile=False)
        with (
            opened(path, clock) as store,
            at_work(store, clock),
            RunningInspector(store) as running,
        ):
            take(every() if len(sys.argv) > 1 else DOCUMENTED, running, names(store), folder)


def names(store: Store) -> dict[str, str]:
    """What the addresses of the pages are filled with."""
    pay, checkout = store.read("pay-acme"), store.read("checkout")
    charge = next(one for one in checkout.files() if one.path.endswith("charge.py"))
    return {
        "checkout": checkout.id,
        "keys": store.read("checkout-keys").id,
        "pay": pay.id,
        "call": pay.calls()[0].call,
        "charge": charge.path,
        "root": charge.root,
    }


def take(
    shots: Iterator[Shot] | tuple[Shot, ...],
    running: RunningInspector,
    known: dict[str, str],
    folder: Path,
) -> None:
    """Take pictures with a browser that came through the link."""
    found = subprocess.run(
        ["sh", str(ROOT / "scripts/browser")], capture_output=True, text=True, check=True
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found.stdout.strip(), args=["--no-sandbox"]
        )
        page = browser.new_page(device_scale_factor=1)
        page.goto(running.link)
        for shot in shots:
            picture(page, running.address + PAGES[shot.page].format(**known), shot, folder)
        browser.close()


def picture(page: Page, address: str, shot: Shot, folder: Path) -> None:
    """Take one picture."""
    page.emulate_media(color_scheme=shot.scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": shot.width, "height": HEIGHT})
    page.goto(address)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=folder / f"{shot.name}.png", full_page=shot.whole)


if __name__ == "__main__":
    main()
