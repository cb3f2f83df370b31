"""Which name counts for a value inside a container, where a name can tell that the value is a secret.

In a dict it is the key. Two more customs give a name elsewhere: `{"name": "API_KEY", "value": "…"}` names its value
beside it, and in a command line as a list, `["--token", "…"]`, a flag names the item after it. Imports nothing: the
hook uses it too.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from typing import Any

VALUES = {"value": ("name", "key"), "Value": ("Name", "Key")}
"""The key of a value that is named beside it, and the keys that may hold the name."""


def name_beside(holder: dict[Any, Any], key: str) -> str:
    """The name of the value under `key`: the key, or the text beside it that names it."""
    for other in VALUES[key]:
        name = dict.get(holder, other)
        if type(name) is str:
            return name
    return key


def name_after(flag: Any, item: Any, key: str | None) -> str | None:
    """The name of an item in a list that follows `flag`; `key` where that is no flag."""
    if type(flag) is type(item) is str and flag[:2] == "--" and item[:1] != "-":
        return flag
    return key
