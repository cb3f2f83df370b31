"""The owner's key: from the environment or a private file, made once, never one that another user could know."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from stator.errors import NoOwner
from stator.owner.key import FILE, owner_key


@pytest.fixture
def environ(home):
    return {"HOME": str(home)}


def file_of(home):
    return home / ".local" / "share" / "stator" / FILE


def test_a_key_is_made_once_and_only_its_user_can_read_it(environ, home):
    key = owner_key(environ, make=True)
    assert key is not None
    assert len(key) == 32
    assert owner_key(environ, make=True) == owner_key(environ, make=False) == key
    assert stat.S_IMODE(os.stat(file_of(home)).st_mode) == 0o600


def test_reading_makes_no_key(environ, home):
    assert owner_key(environ, make=False) is None
    assert list(home.iterdir()) == []


def test_processes_that_make_the_key_at_once_get_the_same(environ):
    program = "import os; from stator.owner.key import owner_key; print(owner_key(os.environ, make=True).hex())"
    started = [
        subprocess.Popen([sys.executable, "-c", program], env=environ, stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    assert len({one.communicate()[0] for one in started}) == 1


def test_a_key_in_the_environment_comes_first(environ):
    made = owner_key(environ, make=True)
    given = owner_key({**environ, "STATOR_OWNER_KEY": "a team's long secret"}, make=True)
    assert given not in (made, None)
    assert given == owner_key({"STATOR_OWNER_KEY": "a team's long secret"}, make=False)


def test_a_short_key_in_the_environment_is_refused():
    with pytest.raises(NoOwner, match="shorter than 16"):
        owner_key({"STATOR_OWNER_KEY": "secret"}, make=False)


def test_without_a_home_folder_the_error_says_what_to_set():
    with pytest.raises(NoOwner, match="STATOR_OWNER_KEY"):
        owner_key({}, make=True)


def test_a_home_folder_that_cannot_be_written_has_no_key():
    with pytest.raises(NoOwner):
        owner_key({"HOME": "/proc/nowhere"}, make=True)


def test_a_key_file_that_others_can_write_is_refused(environ, home):
    owner_key(environ, make=True)
    os.chmod(file_of(home), 0o660)
    with pytest.raises(NoOwner, match="other users can write it"):
        owner_key(environ, make=False)


def test_a_key_file_of_another_user_is_refused(environ, home):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    owner_key(environ, make=True)
    os.chown(file_of(home), 12345, -1)
    with pytest.raises(NoOwner, match="another user"):
        owner_key(environ, make=False)


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff" * 64, b"00" * 31])
def test_a_damaged_key_file_is_refused_and_kept(environ, home, content):
    file_of(home).parent.mkdir(parents=True)
    file_of(home).write_bytes(content)
    os.chmod(file_of(home), 0o600)
    with pytest.raises(NoOwner, match="does not hold a key"):
        owner_key(environ, make=True)
    assert file_of(home).read_bytes() == content
