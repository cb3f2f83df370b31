"""An agent at work: opens a session, and makes a turn for each line that it reads.

python agent_at_work.py STORE
"""

from __future__ import annotations

import sys

import stator


def look(path: str) -> str:
    return f"text of {path}"


def main(place: str) -> None:
    with stator.connect(place, durability="relaxed") as store, store.open("at-work") as s:
        print(s.id, flush=True)
        for line in sys.stdin:
            with s.turn(line.strip()) as t:
                t.call(look, path="src/login.py")
                t.say(f"Done: {line.strip()}")
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
