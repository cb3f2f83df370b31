"""What a class is called must not reach the wire: a tag is written out, so that a class can be renamed."""

from __future__ import annotations

import ast
from pathlib import Path

import msgspec

from stator.model.exchange import items

SOURCE = Path(__file__).parents[2] / "src" / "stator"

ITEM_TAGS = {
    *("About", "Answered", "Began", "Called", "Compacted", "Configured", "Delivered"),
    *("Cursor", "Ended", "Flagged", "Item"),
    *("Noise", "Noted", "Offered", "Planned", "Prompted", "Returned", "Skipped", "Spawned"),
    *("Touched", "TurnEnded", "Unknown"),
}
"""As they have always been written."""


def tags_from_class_names(source: str) -> list[str]:
    """The classes whose tag is not a string in the source: `tag=True`, or a function of the name."""
    return [
        f"{node.name} (line {node.lineno})"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        for keyword in node.keywords
        if keyword.arg == "tag" and not _written_out(keyword.value)
    ]


def _written_out(value: ast.expr) -> bool:
    if not isinstance(value, ast.Constant):
        return False
    return isinstance(value.value, str | int) and not isinstance(value.value, bool)


def test_no_struct_takes_its_tag_from_its_class_name():
    wrong = [
        f"{path.relative_to(SOURCE)}: {found}"
        for path in sorted(SOURCE.rglob("*.py"))
        for found in tags_from_class_names(path.read_text(encoding="utf-8"))
    ]
    assert wrong == [], "write the tag out: tag='…'"


def test_a_tag_made_from_the_class_name_is_found():
    assert tags_from_class_names("class A(Struct, tag=True): ...") == ["A (line 1)"]
    assert tags_from_class_names("class A(Struct, tag=str.lower): ...") == ["A (line 1)"]
    assert tags_from_class_names("class A(Struct, tag=lambda name: name): ...") == ["A (line 1)"]


def test_a_tag_that_is_written_out_is_accepted():
    assert tags_from_class_names('class A(Struct, tag="a"): ...\nclass B(Struct): ...') == []


def test_every_item_keeps_its_own_tag():
    made = [
        value
        for value in vars(items).values()
        if isinstance(value, type) and issubclass(value, items.Item)
    ]
    tags = [kind.__struct_config__.tag for kind in made]
    assert set(tags) == ITEM_TAGS
    assert len(tags) == len(set(tags)), "a subclass without a tag of its own takes that of `Item`"


def test_an_item_is_encoded_under_its_tag():
    assert msgspec.json.decode(msgspec.json.encode(items.Noise(kind="x")))["type"] == "Noise"
