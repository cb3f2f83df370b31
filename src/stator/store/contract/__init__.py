"""The contract suite: what every store must do, as tests that anyone's store can run.

It speaks only to `stator.store.port` and the model, and to the memory store where it needs another
one. What a store may lack it declares in `Capabilities`; see `fixtures` for the few lines a test
module needs, the first of which is

    from stator.store.contract import *
"""

import pytest

SUBJECTS = (
    "append bookmarks calls distance.lost_answers distance.tenants erasure fork idempotency ingest inputs"
    " lease paging projects purge rewind sessions state turns verify"
)
pytest.register_assert_rewrite(*(f"stator.store.contract.{name}" for name in SUBJECTS.split()))

from stator.store.contract.append import (  # noqa: E402
    TestAppend,
    TestData,
    TestDurability,
    TestRedaction,
)
from stator.store.contract.bookmarks import TestBookmarks  # noqa: E402
from stator.store.contract.calls import TestCalls  # noqa: E402
from stator.store.contract.distance.lost_answers import TestLostAnswers  # noqa: E402
from stator.store.contract.distance.tenants import TestTenants, tenants  # noqa: E402
from stator.store.contract.erasure import TestErasure  # noqa: E402
from stator.store.contract.fixtures import Capabilities, MakeStore, store, story  # noqa: E402
from stator.store.contract.fork import TestFork  # noqa: E402
from stator.store.contract.idempotency import TestIdempotency  # noqa: E402
from stator.store.contract.ingest import TestIngest, elsewhere  # noqa: E402
from stator.store.contract.inputs import TestInputs  # noqa: E402
from stator.store.contract.lease import TestLease, TestLifecycle  # noqa: E402
from stator.store.contract.pages import TestPaging, TestTogether  # noqa: E402
from stator.store.contract.projects import TestProjectIndex  # noqa: E402
from stator.store.contract.purge import TestPurge, TestUsage, project  # noqa: E402
from stator.store.contract.rewind import TestRewind, TestRewoundTurns  # noqa: E402
from stator.store.contract.sessions import TestHeads, TestSessions  # noqa: E402
from stator.store.contract.state import TestState  # noqa: E402
from stator.store.contract.turns import TestTurns  # noqa: E402
from stator.store.contract.verify import TestVerify  # noqa: E402

__all__ = [
    "Capabilities",
    "MakeStore",
    "TestAppend",
    "TestBookmarks",
    "TestCalls",
    "TestData",
    "TestDurability",
    "TestErasure",
    "TestFork",
    "TestHeads",
    "TestIdempotency",
    "TestIngest",
    "TestInputs",
    "TestLease",
    "TestLifecycle",
    "TestLostAnswers",
    "TestPaging",
    "TestProjectIndex",
    "TestPurge",
    "TestRedaction",
    "TestRewind",
    "TestRewoundTurns",
    "TestSessions",
    "TestState",
    "TestTenants",
    "TestTogether",
    "TestTurns",
    "TestUsage",
    "TestVerify",
    "elsewhere",
    "project",
    "store",
    "story",
    "tenants",
]
