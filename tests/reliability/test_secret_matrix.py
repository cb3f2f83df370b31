"""No secret of any shape reaches the disk, through any field of any record or any argument of any method.

What is filled in comes from the types of the records, the fields of a draft and the signatures of the public methods,
so that a new one is tested by itself. One that cannot be filled in fails here and says what is missing.
"""

from __future__ import annotations

import contextlib
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import GeneratorType
from typing import Any, get_type_hints

import pytest

import stator
from reliability.planting import SHAPES, Planter, files, filled, filled_struct, tables
from stator.connect import connect
from stator.errors import StatorError
from stator.model.log.commit import Draft, Provenance, Upsert
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import SessionRecord
from stator.runtime.driving.loop import Stream
from stator.runtime.facade.contributor import Contributor
from stator.runtime.facade.outside import Approvals, Budgets, Doubts, Lifecycle

pytestmark = pytest.mark.usefixtures("uncompressed")


class Written:
    """A store, everything that was planted in it, and what it wrote."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.path = folder / "store.db"
        self.plant = Planter()
        self.options = options
        self.errors: list[tuple[str, str]] = []
        self.scenes = 0

    @contextlib.contextmanager
    def opened(self) -> Iterator[stator.Store]:
        with connect(self.path, project="test", durability="relaxed", **self.options) as store:
            yield store
            store.search("hunter2", project="test")
            self.during = files(self.path)
        self.after = files(self.path) + tables(self.path)

    def leaks(self) -> list[str]:
        return self.plant.leaks(self.during + self.after)

    def try_to(self, what: str, act: Callable[[], Any]) -> bool:
        """Do it. A refusal is as safe as redaction, if it does not repeat the secret."""
        try:
            act()
        except StatorError as error:
            self.errors.append((what, f"{error} {json.dumps(error.wire())}"))
            return False
        return True


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # What is said of a user for all projects is kept there: looked at too, and nobody else's.
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return Written(tmp_path)


# -- every field of every record, and of a draft --------------------------------------------------


def recorded(store: stator.Store, name: str) -> str:
    """The id of a recorded session, to which a test appends what it likes."""
    mint = store.context.mint
    record = SessionRecord(id=mint("session"), name=name, project="test", mode="recorded")
    first = Draft(
        id=mint("commit"), session=record.id, kind="open", key="ab" * 16,
        changes=(Upsert("session", record),),
    )  # fmt: skip
    store.port.create([first])
    return record.id


def append(store: stator.Store, session: str, **fields: Any) -> None:
    draft = Draft(id=store.context.mint("commit"), session=session, **{"kind": "raw"} | fields)
    store.port.append(session, [draft])


FIXED_IN_RECORDS: dict[str, dict[str, Any]] = {"decisions": {"supersedes": ""}}
"""What must name something that exists; it is not recorded unless it does."""


def test_no_field_of_a_record_leaks_a_secret(written):
    with written.opened() as store:
        session = recorded(store, "records")
        for name in sorted(set(COLLECTIONS) - {"session"}):
            fixed = FIXED_IN_RECORDS.get(name, {})
            record = filled_struct(COLLECTIONS[name].type, written.plant, name, **fixed)
            append(store, session, changes=(Upsert(name, record),))
            assert store.read(session).entries(name)
    assert written.leaks() == []


def test_no_field_of_a_session_leaks_a_secret(written):
    with written.opened() as store:
        mint = store.context.mint
        fixed = {"id": mint("session"), "lineage": [], "parent": None, "mode": "recorded"}
        fixed["aliases"] = [[written.plant.text("alias source"), written.plant.text("alias id")]]
        # The policy of a session is checked where it is set; here it is any JSON.
        fixed["retention"] = {written.plant.text("policy name"): [written.plant.text("policy")]}
        record = filled_struct(SessionRecord, written.plant, "session", **fixed)
        first = Draft(
            id=mint("commit"), session=record.id, kind="open", key="ab" * 16,
            changes=(Upsert("session", record),),
        )  # fmt: skip
        store.port.create([first])
    assert written.leaks() == []


TOKEN = "ghp_ZzaB3dE5gH7jK9mN1pQ2sT4vW6xY8zB0cD1e"

FIXED_IN_DRAFTS = {
    "data": "names of a few letters; its bytes are filled apart",
    "id": "an id",
    "session": "an id",
    "kind": "one of the kinds in the registry",
    "actor": "one of a few words",
    "call": "an id",
    "parent": "an id",
    "run": "an id",
    "provenance": "two of a few words",
    "changes": "records, which have a test of their own",
}
"""The fields of a draft that cannot hold a text."""


def test_no_field_of_a_draft_leaks_a_secret(written):
    hints = get_type_hints(Draft)
    with written.opened() as store:
        session = recorded(store, "drafts")
        for name in Draft.__struct_fields__:
            if name not in FIXED_IN_DRAFTS and hints[name] is not int:
                append(store, session, **{name: filled(hints[name], written.plant, name)})
        append(store, session, data={"page": filled(bytes, written.plant, "data")})
    assert written.leaks() == []


def test_the_name_of_some_bytes_that_is_a_secret_is_refused(written):
    with written.opened() as store:
        session = recorded(store, "drafts")
        for value in (b"page", "no bytes"):
            with pytest.raises(StatorError) as refused:
                append(store, session, data={TOKEN: value})
            assert TOKEN not in str(refused.value)
    assert TOKEN.encode() not in written.during + written.after


def test_a_field_of_a_draft_that_is_not_redacted_refuses_text(written):
    text = written.plant.text("fixed")
    with written.opened() as store:
        session = recorded(store, "drafts")
        for name in sorted(set(FIXED_IN_DRAFTS) - {"changes", "provenance"}):
            fields = {"id": store.context.mint("commit"), "session": session, "kind": "raw"}
            with pytest.raises(StatorError):
                store.port.append(session, [Draft(**fields | {name: text})])
        for pair in (("system", text), (text, "verified")):
            with pytest.raises(StatorError):
                append(store, session, provenance=Provenance(*pair))
    assert written.leaks() == []


# -- every argument of every public method --------------------------------------------------------


class Scene:
    """A store and one session of it, made for one call of one method."""

    def __init__(self, written: Written, store: stator.Store) -> None:
        self.written, self.store = written, store
        self.number = written.scenes = written.scenes + 1
        self.name = f"scene {self.number}"
        self._left = contextlib.ExitStack()

    def __enter__(self) -> Scene:
        self.session = self._left.enter_context(self.store.open(self.name))
        with self.session.turn("begin") as t:
            t.decide("start", topic="start")
            t.file("a.txt", "created")
            t.artifact("document", "text")
            t.end()
        return self

    def __exit__(self, *error: object) -> None:
        self._left.close()

    def of(self, kind: type, name: str) -> Any:
        """The object whose method is called."""
        if name in ("child", "wrap"):
            self._left.enter_context(self._turn())
        if kind is stator.Turn:
            return self._left.enter_context(self._turn())
        if kind is Contributor:
            self.session.pause()
            return self.store.contribute(self.name, principal=self.written.plant.text("principal"))
        made = {
            stator.Store: self.store,
            stator.Session: self.session,
            Approvals: self.store.approvals,
            Budgets: self.store.budgets,
            Lifecycle: self.store.lifecycle,
            Doubts: self.store.doubts,
        }
        return made[kind]

    @contextlib.contextmanager
    def _turn(self) -> Iterator[stator.Turn]:
        with contextlib.suppress(StatorError), self.session.turn("method") as t:
            yield t

    # -- what must exist ------------------------------------------------------

    def waiting(self) -> str:
        """The id of a call that waits for a person."""
        tool = stator.tool(lambda amount: amount, name="pay", approve=True)
        with contextlib.suppress(stator.ApprovalNeeded), self.session.turn("pay") as t:
            t.call(tool, amount=5)
        self.session.pause()
        return self.store.approvals.waiting(self.name)[0].call

    def doubt(self) -> str:
        """The id of a call in doubt."""

        def pay() -> None:
            raise stator.InDoubt("lost the connection")

        with self.session.turn("pay") as t:
            t.try_call(stator.tool(pay, name="pay"))
        self.session.pause()
        return self.store.doubts.open(self.name)[0].call

    def granted(self) -> str:
        return self.store.approvals.grant(self.gone(), "pay(amount<=100)").id

    def retried(self) -> str:
        """Another attempt at the first turn."""
        with self.session.retry("t1") as again:
            again.say("once more")
        return "t1.2"

    def pattern(self) -> str:
        """A pattern of arguments with secrets in it."""
        return f"pay(note={json.dumps(self.written.plant.text('pattern'))})"

    def gone(self) -> str:
        """A session that nobody drives."""
        self.session.pause()
        return self.name

    def response(self) -> dict[str, Any]:
        """What a provider answers, with secrets in what it says and in what it asks for."""
        plant = self.written.plant
        asked = {"type": "tool_use", "id": "call_1", "name": "work", "input": _json(plant)}
        said = {"type": "text", "text": plant.text("response")}
        return {"role": "assistant", "content": [said, asked], "model": plant.text("model")}

    def model(self) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.response()

    def tool(self) -> Callable[..., Any]:
        """A function whose result, or whose failure, has secrets."""
        plant, number = self.written.plant, self.number

        def work(*args: Any, **kwargs: Any) -> Any:
            if "fail" in kwargs:
                error = RuntimeError(plant.text("exception"), plant.value("exception argument"))
                error.add_note(plant.text("exception note"))
                raise error from ValueError(plant.text("cause of an exception"))
            return plant.value("result")

        work.__name__ = f"work_{number}"
        return work


def _json(plant: Planter) -> dict[str, Any]:
    """Arguments as a model gives them: JSON has no bytes."""
    return {
        plant.text("argument (key)"): [{"deep": plant.text("argument")}],
        "argv": ["login", "--token", plant.bare("argument (after a flag)")],
    }


TEXTS: dict[str, Callable[[Scene, str], Any]] = {
    "str": lambda scene, where: scene.written.plant.text(where),
    "str | None": lambda scene, where: scene.written.plant.text(where),
    "Sequence[str]": lambda scene, where: [scene.written.plant.text(where)],
    "str | Sequence[str]": lambda scene, where: [scene.written.plant.text(where)],
    "str | Sequence[str] | None": lambda scene, where: [scene.written.plant.text(where)],
    "str | PathLike[str]": lambda scene, where: scene.written.plant.text(where),
    "Any": lambda scene, where: scene.written.plant.value(where),
    "Mapping[str, Any] | None": lambda scene, where: {
        scene.written.plant.text(f"{where} (key)"): scene.written.plant.value(where)
    },
    "Mapping[str, str] | None": lambda scene, where: {
        scene.written.plant.text(f"{where} (key)"): scene.written.plant.text(where)
    },
    "Mapping[str, int] | None": lambda scene, where: {scene.written.plant.text(f"{where} (key)"): 1},
    "Sequence[tuple[str, str]]": lambda scene, where: [
        (scene.written.plant.text(where), scene.written.plant.text(where))
    ],
    "tuple[str, str] | None": lambda scene, where: (
        scene.written.plant.text(where), scene.written.plant.text(where),
    ),
    "Callable[..., Any]": lambda scene, where: scene.tool(),
    "Callable[..., Any] | Tool[..., Any]": lambda scene, where: scene.tool(),
    "Dispatch": lambda scene, where: {"work": scene.tool()},
    "Tools": lambda scene, where: {"work": scene.tool()},
    "Summary | None": lambda scene, where: scene.written.plant.text(where),
}  # fmt: skip
"""What an argument of each type is filled with."""

HOLD_NO_TEXT = frozenset(
    "int; int | None; bool; bool | None; float; float | None; tuple[int, ...] | None; Actor; ApproveMode; Changed;"
    " CountTokens | None; Dialect; DoubtMode; Effects | None; FileOp; From; Sources | None; HeldMode;"
    " HeldMode | Literal['read']; Knowledge;"
    " ParentKind; PriceTable | PriceFunction | None; Progress | None; RerunEffects; RetryEffects; Scope; Settlement;"
    " SearchProgress | None; Sequence[Level]; Sequence[Rule]; StepStatus; Target; UseKind; Verdict; Iterable[Commit];"
    " Mapping[int, Upcast] | None; Callable[[], bool] | None; Callable[[str], int] | None; Erasing; Plan;"
    " str | Callable[[], str] | None".split("; ")
)
"""Types that are numbers, one of a few words, or functions of the program."""

WITHOUT_DEFAULT: dict[str, Any] = {
    "op": "modified",
    "kind": "app",
    "provider": "plain",
    "verdict": "done",
    "value": 1.0,
    "commits": (),
}
"""Arguments that must be given and hold no text."""

SELECTORS: dict[str, Any] = {
    "at": "head",
    "ref": "head",
    "to": "t1",
    "turn": "t1",
    "span": None,
    "start": None,
    "end": None,
    "since": None,
    "project": None,
    "names": None,
    "collection": "facts",
    "collections": ("facts",),
    "supersedes": "",
    "statuses": (),
    "status": None,
    "cursor": None,
    "root": ".",
}
"""Arguments that name what is there already; nothing is recorded of them."""

REAL: dict[str, dict[str, Any]] = {
    "Store.artifact": {"name": "document"},
    "Store.blame": {"path": "a.txt", "session": None},
    "Store.contribute": {"name": Scene.gone},
    "Store.erase": {"plan": lambda scene: scene.store.erasing(scene.gone(), "t1")},
    "Store.erasing": {"name": Scene.gone, "fields": (), "record": None, "call": "", "path": "", "at": "t1"},
    "Store.collect": {"plan": lambda scene: scene.store.gc()},
    "Store.export": {"names": Scene.gone, "path": lambda scene: f"out-{scene.number}.stator", "passphrase": None},
    "Store.fork": {"name": Scene.gone},
    "Store.gc": {"max_size": ""},
    "Store.hold": {"name": Scene.gone},
    "Store.open": {"app": None, "budget": {"turns": 5}, "after": None},
    "Store.recap": {"sessions": (), "since": 0},
    "Store.read": {"name": Scene.gone, "app": {}},
    "Store.release": {"name": Scene.gone},
    "Store.restore": {"name": Scene.gone},
    "Store.retention": {"policies": ("archive=90d",)},
    "Store.search": {"session": None, "kinds": ()},
    "Store.verify": {"session": Scene.gone},
    "Store.why": {"session": None},
    "Session.adopt": {"ref": Scene.retried},
    "Session.artifact_diff": {"name": "document"},
    "Session.artifact_versions": {"name": "document"},
    "Session.beginning": {"turn": 1},
    "Session.child": {"budget": {"turns": 5}},
    "Session.compact": {"strategy": ("summarise",), "keep": 1},
    "Session.compare": {"a": "t1", "b": Scene.retried},
    "Session.contents": {"path": "none.txt"},
    "Session.erase": {"ref": "t1", "fields": (), "record": None},
    "Session.read_artifact": {"name": "document"},
    "Session.plan": {"status": "pending"},
    "Session.recall": {"key": "decision:start"},
    "Session.restore": {"paths": ("a.txt",), "root": ""},
    "Session.rewind": {"to": "t0"},
    "Session.track": {"root": "."},
    "Turn.plan": {"status": "pending"},
    "Contributor.adopt": {"ref": Scene.retried},
    "Contributor.approve": {"call": Scene.waiting, "pattern": ""},
    "Contributor.budget": {"amounts": ("turns=20",)},
    "Contributor.deny": {"call": Scene.waiting},
    "Contributor.erase": {"ref": "t1", "fields": (), "record": None},
    "Contributor.plan": {"status": "pending"},
    "Contributor.rewind": {"to": "t0"},
    "Contributor.restore": {"paths": ("a.txt",), "root": ""},
    "Contributor.settle": {"call": Scene.doubt},
    "Approvals.approve": {"call": Scene.waiting, "pattern": ""},
    "Approvals.deny": {"call": Scene.waiting, "pattern": ""},
    "Approvals.grant": {"session": Scene.gone, "verdict": "approved", "pattern": Scene.pattern},
    "Approvals.revoke": {"grant": Scene.granted},
    "Approvals.waiting": {"session": Scene.gone},
    "Approvals.grants": {"session": Scene.gone},
    "Budgets.change": {"session": Scene.gone, "amounts": ("turns=20",)},
    "Doubts.open": {"session": Scene.gone},
    "Doubts.settle": {"call": Scene.doubt, "session": None},
}  # fmt: skip
"""What single methods need in order to do something."""

LEFT_OUT = {
    "Store.attach": "follows a program that runs detached",
    "Store.close": "ends the test",
    "Store.import_bundle": "has a test of its own, with a bundle",
    "Store.copy_to": "writes to another store what is recorded here, as it is",
    "Store.push_to": "has a test of its own, with another store",
    "Store.pull_from": "has tests of its own, with another store",
    "Store.run": "starts a program; what it prints is kept in its owner's folder as it is",
}

REFUSED = {
    "Session.undo_compaction": "there is no compaction to undo",
    **{
        f"Store.{verb}": "a person's word, which has a test of its own: a program that drives is refused"
        for verb in ("confirm", "forget", "prefer")
    },
    **{
        f"{kind}.{verb}": "a reason is one of a few words"
        for kind in ("Contributor", "Lifecycle")
        for verb in ("archive", "close", "pause", "resume")
    },
}
"""Methods that do nothing here, and why."""


def public_methods() -> list[tuple[type, str]]:
    kinds = (stator.Store, stator.Session, stator.Turn, Contributor)
    return [
        (kind, name)
        for kind in (*kinds, Approvals, Budgets, Doubts, Lifecycle)
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and f"{kind.__name__}.{name}" not in LEFT_OUT
    ]


def given_to(scene: Scene, called: str, parameter: inspect.Parameter, *, real: bool) -> Any:
    """What a parameter is filled with."""
    name, hint = parameter.name, parameter.annotation
    if name == "follow":
        return False
    fixed = REAL.get(called, {})
    if real and name in fixed:
        return fixed[name](scene) if callable(fixed[name]) else fixed[name]
    if real and name in SELECTORS and called != "Session.turn":
        return SELECTORS[name]
    if real and called.startswith(("Budgets.", "Lifecycle.")) and name == "session":
        return scene.gone()
    if name in ("response", "reply") or (called == "Turn.model" and name == "function"):
        return scene.response() if name != "function" else scene.model()
    if hint in TEXTS:
        return TEXTS[hint](scene, f"{called}({name})")
    assert hint in HOLD_NO_TEXT, f"{called}({name}: {hint}) cannot be filled with secrets yet"
    if parameter.default is not parameter.empty:
        return parameter.default
    if name in fixed:
        return given_to(scene, called, parameter, real=True)
    return WITHOUT_DEFAULT[name]


def call(scene: Scene, kind: type, name: str, *, real: bool) -> Any:
    called = f"{kind.__name__}.{name}"
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in list(inspect.signature(getattr(kind, name)).parameters.values())[1:]:
        value = given_to(scene, called, parameter, real=real)
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value if isinstance(value, tuple) else [value]
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= value if isinstance(value, dict) and not value else {"given": value}
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            positional.append(value)
    return used(scene, getattr(scene.of(kind, name), name)(*positional, **named))


def used(scene: Scene, result: Any) -> None:
    """Use what a method gave, if there is more to come of it."""
    if isinstance(result, GeneratorType):
        list(result)
    elif isinstance(result, contextlib.AbstractContextManager):
        with result:
            pass
    elif inspect.isfunction(result):
        result("work", {"given": scene.written.plant.value("wrapped")})
    elif isinstance(result, Stream):
        list(result)


def test_no_argument_of_a_public_method_leaks_a_secret(written):
    did_nothing = []
    with written.opened() as store:
        for kind, name in public_methods():
            called = f"{kind.__name__}.{name}"
            do_in_a_scene(written, store, kind, name, real=False)
            if not do_in_a_scene(written, store, kind, name, real=True) and called not in REFUSED:
                did_nothing.append(written.errors[-1])
    assert did_nothing == []
    assert [error for error in written.errors if written.plant.leaks(error[1].encode())] == []
    assert written.leaks() == []


def test_what_a_person_says_of_a_project_leaks_no_secret(written):
    plant = written.plant
    with written.opened() as store:
        for user in (False, True):
            named = plant.text("Store.prefer(name)")
            store.prefer(
                named, plant.value("Store.prefer(value)"), user=user, why=plant.text("why")
            )
            store.prefer("tone", plant.text("Store.prefer(value)"), user=user)
            store.forget("preferences:tone", user=user, why=plant.text("Store.forget(why)"))
        assert store.state()["preferences"]
    assert written.leaks() == []


def do_in_a_scene(
    written: Written, store: stator.Store, kind: type, name: str, *, real: bool
) -> bool:
    """Call a method with all secrets in each text; if it refuses that, with one after another."""
    every = tuple(SHAPES)
    single = real and f"{kind.__name__}.{name}" not in REFUSED
    for shapes in (every, *((shape,) for shape in every)) if single else (every,):
        written.plant.shapes = shapes
        with Scene(written, store) as scene:
            done = written.try_to(
                f"{kind.__name__}.{name}",
                lambda: call(scene, kind, name, real=real),
            )
        written.plant.shapes = every
        if done and shapes is every:
            return True
    return done
