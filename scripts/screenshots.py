"""Draws the pictures of the inspector in docs/images/inspector: `python scripts/screenshots.py`.

The pages show a store that is made here, so that the pictures can be made again by anyone.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from playwright.sync_api import sync_playwright  # noqa: E402

import stator  # noqa: E402
from web.running import RunningInspector  # noqa: E402
from web.sample_store import fill  # noqa: E402

OUT = ROOT / "docs" / "images" / "inspector"
SHOTS = (
    ("needs", "/", "light", 1280),
    ("needs-narrow", "/", "dark", 390),
    ("session", "/s/{checkout}", "light", 1280),
    ("strip", "/s/{checkout}/strip?at=t9", "dark", 1280),
    ("compare", "/compare?a={checkout}&b={keys}", "light", 1280),
    ("project", "/project", "light", 1280),
)
HEIGHT = 860


def main() -> None:
    """Fill a store, serve it, and take a picture of each page."""
    OUT.mkdir(parents=True, exist_ok=True)
    browser = subprocess.run(
        ["sh", str(ROOT / "scripts/browser")], capture_output=True, text=True, check=True
    ).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        fill(path, hostile=False)
        with (
            stator.connect(path, project="shop") as store,
            RunningInspector(store) as running,
            sync_playwright() as playwright,
        ):
            opened = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            ids = {"checkout": store.read("checkout").id, "keys": store.read("checkout-keys").id}
            page = opened.new_page(device_scale_factor=1)
            page.goto(running.link)
            for name, address, scheme, width in SHOTS:
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                page.set_viewport_size({"width": width, "height": HEIGHT})
                page.goto(running.address + address.format(**ids))
                page.wait_for_load_state("networkidle")
                tone = "" if "narrow" in name else f"-{scheme}"
                page.screenshot(path=OUT / f"{name}{tone}.png")
            opened.close()


if __name__ == "__main__":
    main()
