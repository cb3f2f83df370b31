"""What an agent may try: it starts the pages itself, goes through the link, and approves its own call.

python opens_the_pages.py CALL
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from http.cookiejar import CookieJar
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

WORDS = [sys.executable, "-m", "stator.surfaces.cli.main", "web"]


def main(call: str) -> None:
    service = subprocess.Popen(
        [*WORDS, "--port", "0", "--no-browser", "--json"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert service.stdout is not None
        shown = json.loads(service.stdout.readline())
        browser = build_opener(HTTPCookieProcessor(CookieJar()))
        browser.open(shown["link"]).read()
        sent = urlencode({"form": "mine", "call": call, "verdict": "approved"}).encode()
        request = Request(f"{shown['address']}/act/answer", sent, {"Origin": shown["address"]})
        text = browser.open(request).read().decode()
        print(" ".join(re.sub(r"<[^>]*>", " ", text).split()))
    finally:
        service.terminate()
        service.wait()


if __name__ == "__main__":
    main(sys.argv[1])
