"""Addresses of pages: what a name or a path holds never becomes another page."""

from __future__ import annotations

from stator.surfaces import web_addresses


def test_a_path_or_an_id_with_any_characters_stays_one_part_of_the_address() -> None:
    assert web_addresses.call("s_1", "a/../b?c#d") == "/s/s_1/calls/a%2F..%2Fb%3Fc%23d"
    assert web_addresses.file("s_1", "src/a b&c=d.py") == "/s/s_1/files?path=src/a%20b%26c%3Dd.py"
    assert web_addresses.decision("s_1", "<x>") == "/s/s_1/decisions#%3Cx%3E"


def test_turns_have_their_number_and_attempts_their_name() -> None:
    assert web_addresses.turn("s_1", 5) == "/s/s_1/t5"
    assert web_addresses.turn("s_1", "t5.2") == "/s/s_1/t5.2"
    assert web_addresses.at("http://127.0.0.1:8719/", "/s/s_1") == "http://127.0.0.1:8719/s/s_1"
