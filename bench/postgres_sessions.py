"""Many sessions in a PostgreSQL store, quickly: the store makes some, the others are copies of their rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers import load
from bench.peers.base import RELAXED
from bench.postgres_place import Place
from bench.workload import Workload

OURS = "bench.peers.stator_postgres:StatorPostgres"
MADE, PROJECTS = 200, 20
COPY = """
WITH made AS (
  SELECT x.*, n, ('\\x' || md5(x.s || '-' || n))::bytea AS new_id, nextval('stator.session_number') AS new_s
  FROM stator.session x CROSS JOIN generate_series(1, %(copies)s) n
  WHERE x.t = %(t)s
)
INSERT INTO stator.session ({columns})
SELECT {values} FROM made m
"""
NEW = {
    "s": "new_s",
    "id": "new_id",
    "called": "new_id",
    "name": "m.name || '-' || n",
    "record": """convert_to(replace(replace(convert_from(m.record, 'UTF8'), encode(m.id, 'hex'), encode(new_id, 'hex')),
                     '"name":"' || m.name || '"', '"name":"' || m.name || '-' || n || '"'), 'UTF8')""",
    "part_s": "ARRAY[new_s]",
}
"""What differs in a copy; times lie as far apart as those of sessions used one after the other."""
EARLIER = "- (n * 200000000::bigint + m.s * 1000000)"


def make_sessions(place: Place, folder: Path, workload: Workload, many: int) -> int:
    """A tenant `listing` with so many sessions in 20 projects."""
    peer: Any = load(OURS)
    peer.open(folder, RELAXED, url=place.url, tenant="listing")
    for number in range(MADE):
        session = peer._store.open(f"s{number}", agent="bench", project=f"p{number % PROJECTS}")
        with session.turn(f"do {number}") as t:
            t.say("done")
        session.pause()
    peer.close()
    t = place.one("SELECT t FROM stator.tenant WHERE name = %s", b"listing")
    columns = place.one(
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute"
        " WHERE attrelid = 'stator.session'::regclass AND attnum > 0 AND NOT attisdropped"
    )
    new = NEW | {
        name: f"m.{name} {EARLIER}" for name in ("updated", "seen", "created") if name in columns
    }
    text = COPY.format(
        columns=", ".join(columns), values=", ".join(new.get(name, f"m.{name}") for name in columns)
    )
    place.watch.execute(text, {"t": t, "copies": many // MADE - 1})  # type: ignore[arg-type]
    place.watch.execute("VACUUM ANALYZE stator.session")
    return int(place.one("SELECT count(*) FROM stator.session WHERE t = %s", t))
