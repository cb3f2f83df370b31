"""Hashes are the same whichever code makes them, and little data does not load OpenSSL."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.fresh_process import printed
from stator.model.values.digest import MUCH, SHORT, blake2b, keyed, sha256

EDGES = sorted({0, 1, 63, 64, 65, SHORT - 1, SHORT, SHORT + 1, MUCH - 1, MUCH, MUCH + 1})


@pytest.mark.parametrize("size", EDGES)
def test_a_hash_is_that_of_the_standard_library_for_every_size(size: int) -> None:
    data = bytes(n % 251 for n in range(size))
    assert sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()
    assert sha256(data).digest() == hashlib.sha256(data).digest()


@given(st.lists(st.binary(max_size=4 * SHORT), max_size=200))
def test_a_hash_does_not_depend_on_what_was_hashed_before(parts: list[bytes]) -> None:
    assert [sha256(part).digest() for part in parts] == [
        hashlib.sha256(part).digest() for part in parts
    ]


@given(st.binary(min_size=1, max_size=64), st.binary(max_size=4 * SHORT))
def test_a_keyed_hash_is_that_of_the_standard_library(key: bytes, data: bytes) -> None:
    assert keyed(key, data) == hmac.digest(key, data, "sha256")
    assert (
        blake2b(data, key=key, digest_size=16).digest()
        == hashlib.blake2b(data, key=key, digest_size=16).digest()
    )


def test_little_data_does_not_load_openssl_and_much_does() -> None:
    program = f"""
import sys
from stator.model.values.digest import sha256
seen = []
for _ in range({MUCH} // 1000 + 2):
    sha256(b"x" * 1000)
    seen.append("_hashlib" in sys.modules)
sha256(b"short")
print(seen[0], seen[-1], sum(seen))
"""
    assert printed(program).split() == [b"False", b"True", b"2"]
