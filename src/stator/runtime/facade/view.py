"""A session as people look at it: what `store.read` returns, and the base of every driven `Session`.

The plain reads are `SessionReader`'s. The larger views are loaded when they are first asked for, so
that a program that only records does not load them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from stator.model.log.commit import Commit
from stator.model.log.delta import Version
from stator.model.records import app_state as app
from stator.runtime.base.arguments import text
from stator.runtime.tails.tail import Tailing, tail
from stator.runtime.views.ranges import common, points
from stator.runtime.views.refs import Point
from stator.runtime.views.session import SessionReader
from stator.store.port import StorePort

if TYPE_CHECKING:  # loaded when they are asked for
    from stator.model.brief.sections import Brief, Target
    from stator.model.views.compare import Comparison
    from stator.model.views.patch import FilePatch
    from stator.model.views.tree import Tree
    from stator.model.views.why import Why
    from stator.model.window.words import CountTokens
    from stator.runtime.views.artifacts import Artifact
    from stator.runtime.views.contents import Content
    from stator.runtime.window.recall import Evicted, Recalled


class SessionView(SessionReader):
    """A read-only view of a session; it needs no lease."""

    _run = ""
    """The run of the driver that reads through this; a view has none."""
    _began = 0

    def __init__(
        self,
        store: StorePort,
        session: str,
        *,
        app_type: Any = None,
        app_version: int = 1,
        upcasts: Mapping[int, app.Upcast] | None = None,
        sleep: Callable[[float], None] | None = None,
        root: str = "",
    ) -> None:
        super().__init__(store, session)
        self._app_type = app_type
        self._app_version = app_version
        self._upcasts = upcasts or {}
        self._sleep = sleep
        """How a tail waits, instead of for the watcher of the store."""
        self._root = root
        """The folder the session's files are in; empty where that is not here."""

    def __enter__(self) -> Self:
        """What `open(…, busy="read")` gives is used like any session; leaving it does nothing."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        return None

    @property
    def app(self) -> Any:
        """The user's own state, as the type the session was opened with."""
        entries = self._store.entries(self._id, "app")
        fields = app.fields_of(entries, self._app_version, self._upcasts)
        return app.load(self._app_type, fields)

    def tail(
        self,
        after: int | None = None,
        *,
        follow: bool = True,
        until: Callable[[], bool] | None = None,
        load: bool = True,
    ) -> Iterator[Commit]:
        """Yield every commit after a cursor, in order, exactly once, as it arrives; without a cursor, from
        now on. The cursor is the seq of the last commit you have seen, 0 for none. The iterator does not end by
        itself, even if the session is closed: leave the loop, or pass `until`.
        """
        tailing = self._tailing(after, follow=follow, until=until, load=load)
        return tail(tailing, self._sleep)

    def _tailing(self, after: int | None, **options: Any) -> Tailing:
        return Tailing(self._store, self._id, after, **options)

    def compare(self, a: str, b: str) -> Comparison:
        """Compare two attempts at a turn (`t5` and `t5.2`): answers, decisions, calls, files, and why."""
        from stator.runtime.views.compare import compare

        return compare(self._store, self._id, a, b)

    def tree(self, *, limit: int = 1000) -> Tree:
        """The tree this session belongs to: its parents, forks, retries and children."""
        from stator.runtime.views.tree import tree_of

        return tree_of(self._store, self._id, limit=limit)

    # -- files ------------------------------------------------------------------------------------

    def patch(self, start: str | None = None, end: str | None = None) -> list[FilePatch]:
        """The net change of each file this session wrote in a range, as a unified diff where its contents were
        recorded; ranges as in `diff`."""
        from stator.runtime.views import contents

        a, b = points(self._store, self._id, start, end)
        trunk = common(self._store, a, b)
        mine, theirs = (self._wrote(point, trunk) for point in (a, b))
        if trunk == a.seq:
            return contents.range_patches(self._store, b.session, theirs, trunk)
        return contents.fork_patches(self._store, a, b, mine, theirs)

    def contents(self, path: str, at: str = "head", *, root: str = ".") -> Content | None:
        """The exact content of a file at a position, if it was recorded; None if the file did not exist."""
        from stator.runtime.views import contents

        return contents.content(self._store, self.at(at), path, root)

    def _wrote(self, point: Point, after: int) -> list[Version]:
        return self._store.versions(
            point.session, after=after, upto=point.seq, collections=("files",)
        )

    def why(self, thing: str, *, root: str = ".", limit: int = 50, hunks: bool = False) -> Why:
        """Why something is as it is, as far as this session knows: a path, a decision's topic, the name of a fact, a
        preference or an artifact, a plan step, a revision, a call or a commit; lines of a file as `auth.py:10-20`.
        With `hunks`, what each turn changed in a file."""
        from stator.runtime.views.reasons.why import ask, places_in

        places = places_in(root, self._root)
        return ask(
            self._store, thing, session=self._id, places=places, limit=limit,
            folder=self._root, hunks=hunks,
        )  # fmt: skip

    # -- what left the view -----------------------------------------------------------------------

    def evicted(self, *, all: bool = False) -> list[Evicted]:
        """The keys that the current compaction evicted from the agent's view, most important first; or those
        of every compaction."""
        from stator.runtime.window import recall as recalling

        return recalling.evicted(self._store, self._id, all=all)

    def recall(self, key: str) -> Recalled:
        """The content behind a key such as `decision:auth`, `call:c_…` or `entry:@12`, with where it
        came from."""
        from stator.runtime.window import recall as recalling

        return recalling.recall(self._store, self._id, text(key, "key"))

    # -- for the next session ---------------------------------------------------------------------

    def brief(
        self,
        *,
        max_tokens: int = 2000,
        target: Target = "generic",
        since: str | None = None,
        count_tokens: CountTokens | None = None,
        disk: bool = True,
        own: bool = False,
    ) -> Brief:
        """A brief of what the next session or another agent must know, within a token budget. It speaks of "this
        session" only where the asker is that session: a driver, or who says so with `own`."""
        from stator.runtime.brief import gather as briefs

        here = briefs.Here(
            root=self._root if disk else "",
            run=self._run,
            began=self._began,
            own=own or bool(self._run),
        )
        return briefs.brief(
            self._store, self._id, here, self.at,
            max_tokens=max_tokens, target=target, since=since, count_tokens=count_tokens,
        )  # fmt: skip

    def artifacts(self) -> list[Artifact]:
        """The newest version of each named document, last changed first."""
        from stator.runtime.views import artifacts

        return artifacts.listed(self._store, self._id)

    def artifact_versions(self, name: str) -> list[Artifact]:
        """Every version of a named document, the newest first."""
        from stator.runtime.views import artifacts

        return artifacts.versions(self._store, self._id, name)

    def read_artifact(self, name: str, version: int | None = None) -> Any:
        """The content of a named document, exactly as it was recorded: the newest, or a version."""
        from stator.runtime.views import artifacts

        return artifacts.read(self._store, self._id, name, version).content

    def artifact_diff(self, name: str, a: int | None = None, b: int | None = None) -> str:
        """What changed from version `a` (default: the one before) to `b` (default: the newest)."""
        from stator.runtime.views import artifacts

        return artifacts.diff(self._store, self._id, name, a, b)
