"""Reads the newest commits of a session as a story: requests, answers, calls and how they ended. Pure.

Nothing in it is judged true: answers are the model's words, results those of tools. What was repaired since, and what
only looked around, is told apart here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from stator.model.brief.command_words import (
    COMMAND_MAX,
    LOOKERS,
    QUOTED,
    check_in,
    gist,
    is_one_liner,
    parts,
)
from stator.model.brief.condense import beginning, plain
from stator.model.brief.envelope import without_notes
from stator.model.calls.sources import WEB_TOOLS
from stator.model.calls.vocabulary import Act, act_of, is_idle
from stator.model.exchange.check_lines import tidy
from stator.model.exchange.failures import SAYS_FAILURE
from stator.model.exchange.tool_files import words_of
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Put
from stator.model.records.text import arguments_text, prompt_text, value_text
from stator.model.records.types import FileRecord, file_key
from stator.model.views.recap import says_something, typed
from stator.model.views.why import settled_by
from stator.model.window.reply import text_of

TEXT_MAX = 60_000
"""Characters of one text that are looked at."""
SHOWN_MAX = 180
"""Characters of a call as it is shown."""
LATELY = 60
"""Calls at the end among which failures are looked for; what failed before was left behind."""
CODE_MAX = 120
"""Characters of a program that a call was given and that are shown; more of it is no line for a brief."""
MODEL = "model"
"""The tool by which a driver records that it asks the model."""
MESSAGE_MIN = 60
"""Characters from which on a message says more than its revision's subject."""
RESULT_MAX = 8_000
"""Characters at the end of a result in which counts are looked for."""
_WRITES = re.compile(
    r"git commit|gh (?:pr|issue) (?:create|comment|edit)|bd (?:close|create|update|comment)"
)
_HERE_TEXT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1\s*\n(.*?)\n\s*\2\b", re.DOTALL)
DOCUMENTS = (".md", ".rst", ".txt", ".adoc")
_COST = re.compile(r"(?:<usage>.*|agentId: .*|total_tokens: .*)\Z", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: code| status)?|code)[\"'=:\s]+([1-9]\d{0,2})\b", re.IGNORECASE
)
_PROMPT = re.compile(
    r"^(?:\((?:Open file|Current directory|Interactive session)\b.*\)|bash[-\w.]*\$.*|\S+@\S+:\S* [$#].*)\s*$",
    re.MULTILINE,
)
"""What a shell shows before it waits for the next command."""
_SPREAD = re.compile(r":\n\s*(?=\S)")
"""Where a line that announces something ends."""
_REFUSED = re.compile(r"\W{0,3}Your proposed edit has introduced new syntax error", re.IGNORECASE)
"""Results of edits that were not made though the call succeeded."""
_CALLED = re.compile(r"\s*([A-Za-z_]\w*)\(\s*['\"]([^'\"\n]{1,160})['\"]")
"""A program of one call that is about a file."""
_ABOUT = ("description", "query", "url")
"""Arguments that say what a call is about, whatever else it is given."""
_EMPTY_LINE = re.compile(
    r"(?:command failed|exit(?:ed)? (?:with )?(?:code|status)|output|error):?[\s\w().:]{0,30}\Z",
    re.IGNORECASE,
)
"""Lines that say only that something failed."""
_WORDS_OF_TOOL = ("result", "plan", "message", "summary", "text", "final_answer", "answer")
"""Arguments in which an agent says something by a call, as when it completes a task or hands over a plan."""
_PROGRAM = re.compile(
    r"^(?:This session is being continued from|If you need specific details from before|(?:Please )?[Cc]ontinue the"
    r" conversation from|Resume directly|The messages after this summary are).*$",
    re.MULTILINE,
)
"""Lines that an agent's program puts around the summary, for the model that goes on."""
REMINDER = re.compile(r"<(system-reminder|environment_details)>.*?(?:</\1>|\Z)", re.DOTALL)
"""What an agent's program puts between the texts, for the model."""
_COMPACT = re.compile(r"/compact\s+(\S[^\n]{0,400})")
_TRAILERS = re.compile(r"^\s*(?:Co-Authored-By:|Signed-off-by:|🤖|Generated with).*$", re.MULTILINE)
_FILE_WORDS = frozenset(
    "edit create open find search view read write scroll goto list ls glob grep apply str replace insert undo"
    " multi".split()
)
"""First words of tools that look at files or change them, whatever their arguments are called."""
_SUBAGENTS = frozenset(
    "task agent dispatch_agent spawn_agent subagent delegate new_task run_agent".split()
)
DID_NOT_WORK = frozenset({"error", "timeout", "denied"})
LOOKED_AT = ("read", "skipped")
"""What happens to a file that does not change it."""
CHANGED = "changed"
"""What became of a file of which it is not known whether this session created it."""
GONE_AGAIN = "created and deleted again"
COMPACTING = "compact: "
"""What the wish for a compaction begins with: it is about the conversation, and not about the work."""
CLEAN = re.compile(r"nothing to commit|working tree clean")
"""What git prints where the work is in a revision already. A commit that prints it fails, by its exit code."""


class PersonRequest(msgspec.Struct, frozen=True):
    """A request of a person."""

    text: str
    seq: int
    turn: int
    source: str = ""


class Said(msgspec.Struct, frozen=True):
    """Words of the model."""

    text: str
    seq: int
    turn: int
    last_of_turn: bool = False
    by: str = ""
    """The tool whose call they are in; empty of an answer."""


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """A call, and how it ended; `status` is empty while that is not known."""

    seq: int
    turn: int
    call: str
    tool: str
    arguments: Any = None
    status: str = ""
    result: str = ""
    source: str = ""
    ended: int = 0
    """The seq of its outcome."""
    settled: str = ""
    """Of a call that was in doubt: who settled it, and how they knew."""

    act: Act | None = None
    """What it does to files, or the command that it runs."""
    steps: list[list[str]] = []
    """The words of each command in it."""
    shown: str = ""
    """The call in few words: the command, the path or the question."""

    @property
    def gists(self) -> frozenset[str]:
        """What it does, so that later calls which succeed repair it: programs with their verbs, or the path."""
        if self.act is None:
            return frozenset({self.tool if _is_file_word(self.tool) else self.shown})
        if self.act.kind != "shell":
            look = "read" if self.act.effect == "read" else "write"
            return frozenset({f"{look} {self.act.path}"})
        return frozenset(gist(words) for words in self.steps if words[0] not in LOOKERS)

    @property
    def only_looks(self) -> bool:
        if self.act is None:
            return is_idle(self.tool)
        if self.act.kind == "shell":
            return all(words[0] in LOOKERS or is_one_liner(words) for words in self.steps)
        return self.act.effect == "read"

    @property
    def is_shell(self) -> bool:
        return self.act is not None and self.act.kind == "shell"


class NetFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file, its net change, and how often it was changed."""

    path: str
    root: str
    op: str
    edits: int
    seq: int
    """When it was read or changed last."""
    changed: int = 0
    """When it was changed last, and in which turn."""
    turn: int = 0
    after: str = ""
    first: int = 0
    """The commit that has its name first."""


class SessionStory(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in the newest commits of a session."""

    asked: list[PersonRequest]
    said: list[Said]
    summary: Said | None
    deeds: list[Deed]
    files: list[NetFile]
    turn: int = 0
    ended: str = ""
    """How the last turn ended; empty while nothing says so."""
    cause: str = ""
    """What it was left with, where it was interrupted."""
    answered: bool = False
    """Whether the model said something after the last call of its own work."""

    @property
    def last(self) -> Said | None:
        return self.said[-1] if self.said else None


def story(commits: Sequence[Commit]) -> SessionStory:
    """The story of commits, oldest first."""
    ends = {c.call: c for c in commits if c.kind in ("outcome", "settlement") and c.call}
    asked: list[PersonRequest] = []
    said: list[Said] = []
    deeds: list[Deed] = []
    summary: Said | None = None
    turn, ended, cause = 0, "", ""
    is_report = False
    for commit in commits:
        if commit.kind == "turn":
            turn, ended, cause = commit.turn, "", ""
            is_report = False
            asked.append(PersonRequest(_prompt(commit), commit.seq, commit.turn, _source(commit)))
        elif commit.kind == "turn_end":
            ended, cause = commit.status or "ok", commit.cause
        elif commit.kind == "entry" and commit.actor == "agent":
            is_report = (
                True  # of a task in the background, to which an agent answers something at once
            )
        elif commit.kind == "entry" and commit.actor == "model":
            if (words := answer_of(commit)) and not is_report:
                said.append(Said(words, commit.seq, commit.turn))
        elif commit.kind == "entry" and (words := _wish(commit)):
            asked.append(PersonRequest(words, commit.seq, commit.turn, _source(commit)))
        elif commit.kind == "compaction":
            summary = summary_of(commit) or summary
        elif commit.kind == "call":
            is_report = False
            deed = _deed(commit, ends.get(commit.call))
            deeds.append(deed)
            if words := _told_by(deed):
                said.append(Said(words, commit.seq, commit.turn, by=deed.tool))
    last = {one.turn: one.seq for one in said}
    return SessionStory(
        asked=asked,
        said=[msgspec.structs.replace(one, last_of_turn=last[one.turn] == one.seq) for one in said],
        summary=summary,
        deeds=deeds,
        files=_touched(commits),
        turn=turn,
        ended=ended,
        cause=cause,
        answered=_is_answered(asked, said, deeds),
    )


def _is_answered(
    asked: Sequence[PersonRequest], said: Sequence[Said], deeds: Sequence[Deed]
) -> bool:
    worked = max((deed.seq for deed in deeds if not is_idle(deed.tool)), default=0)
    return bool(said) and said[-1].seq > max([worked, *(one.seq for one in asked)])


def answer_of(commit: Commit) -> str:
    """The words of an answer, without texts of ours."""
    said = _content(commit, "output")
    if said is None:
        return ""
    return beginning(without_notes(text_of(said)).strip(), TEXT_MAX)


def summary_of(commit: Commit) -> Said | None:
    """The summary that a compaction made."""
    given = _content(commit, "input")
    words = str(given.get("summary") or "") if isinstance(given, Mapping) else ""
    text = _PROGRAM.sub("", REMINDER.sub("", without_notes(words))).strip()
    thought, found, told = text.partition("\nSummary:\n")
    text = told.strip() if found and thought.startswith("Analysis:") else text
    return Said(beginning(text, TEXT_MAX), commit.seq, commit.turn) if text else None


def _content(commit: Commit, name: str) -> Any:
    """A content field; None where it was erased, or is too large to be at hand."""
    return None if isinstance(commit.content.get(name), Large) else commit.known(name)


def _prompt(commit: Commit) -> str:
    given = _content(commit, "input")
    return "" if given is None else beginning(without_notes(prompt_text(given)), TEXT_MAX)


def _wish(commit: Commit) -> str:
    """What a person typed after the command that compacts a session: what is to be kept."""
    said = _content(commit, "output") if commit.actor == "system" else None
    found = _COMPACT.fullmatch(said.strip()) if isinstance(said, str) else None
    return "" if found is None else f"{COMPACTING}{found[1]}"


def _source(commit: Commit) -> str:
    return commit.provenance.source


def _deed(commit: Commit, outcome: Commit | None) -> Deed:
    given = _content(commit, "input")
    output = None if outcome is None else _content(outcome, "output")
    shown = "" if output is None else result_text(output)
    act = act_of(commit.tool, given) if isinstance(given, Mapping) else None
    return Deed(
        seq=commit.seq,
        turn=commit.turn,
        call=commit.call,
        tool=commit.tool,
        arguments=given,
        status="" if outcome is None else _status(outcome, shown),
        result=shown,
        source="" if outcome is None else outcome.provenance.source,
        ended=0 if outcome is None else outcome.seq,
        settled=settled_by(outcome) if outcome is not None and outcome.kind == "settlement" else "",
        act=act,
        steps=parts(act.text) if act is not None and act.kind == "shell" else [],
        shown=_shown(commit.tool, given, act),
    )


def _status(outcome: Commit, shown: str) -> str:
    return "error" if outcome.status == "ok" and _REFUSED.match(shown) else outcome.status


def _shown(tool: str, given: Any, act: Act | None) -> str:
    """A call in few words."""
    if act is not None:
        if act.kind == "shell":
            return beginning(tidy(beginning(act.text, COMMAND_MAX).replace("\n", "; ")), SHOWN_MAX)
        if act.kind in ("grep", "glob"):
            return f"{tool} {beginning(act.text, 80)}" + (f" in {act.path}" if act.path else "")
        return f"{tool} {beginning(act.path or act.text, SHOWN_MAX)}".strip()
    if not isinstance(given, Mapping):
        return tool
    words = {
        name: value
        for name, value in given.items()
        if isinstance(value, (str, int, float)) and not isinstance(value, bool)
    }
    if called := _CALLED.match(str(words.get("code", ""))):
        return f"{called[1]} {called[2]}"
    about = next((words[name] for name in _ABOUT if isinstance(words.get(name), str)), None)
    if about is None and len(words) == 1:
        about = next(iter(words.values()))
    if about is not None:
        return f"{tool}: {beginning(value_text(about), SHOWN_MAX)}"
    return beginning(arguments_text(tool, words), SHOWN_MAX)


def result_text(output: Any) -> str:
    """What a call gave, as text."""
    if isinstance(output, Mapping):
        parts = [
            str(output[name])
            for name in ("output", "stdout", "stderr", "message", "content", "text", "result")
            if isinstance(output.get(name), str) and output[name]
        ]
        return _as_shown("\n".join(parts) or value_text(output))
    return _as_shown(prompt_text(output))


def _as_shown(text: str) -> str:
    """A result without what only a terminal shows. Most have none of it, which is seen sooner than by a pattern."""
    text = _ESCAPES.sub("", text) if "\x1b" in text else text
    may_wait = (
        "bash" in text
        or "(Open file" in text
        or "(Current directory" in text
        or "(Interactive session" in text
        or ("@" in text and (" $" in text or " #" in text))
    )
    return _PROMPT.sub("", text) if may_wait else text


def _told_by(deed: Deed) -> str:
    """What an agent says by a call: that a task is complete, or a plan that it hands over."""
    if not is_idle(deed.tool) or not isinstance(deed.arguments, Mapping):
        return ""
    found = (deed.arguments.get(name) for name in _WORDS_OF_TOOL)
    words = next((value for value in found if isinstance(value, str) and value.strip()), "")
    return beginning(without_notes(words).strip(), TEXT_MAX)


# -- requests -------------------------------------------------------------------------------------


def requests(asked: Iterable[PersonRequest]) -> list[PersonRequest]:
    """Requests that say what is wanted, each once, in order; without those, any that has words."""
    typed_ones = [
        msgspec.structs.replace(one, text=words) for one in asked if (words := typed(one.text))
    ]
    found = [one for one in typed_ones if says_something(one.text)] or typed_ones
    seen: dict[str, PersonRequest] = {}
    for one in found:
        seen.setdefault(" ".join(one.text.casefold().split()), one)
    return list(seen.values())


# -- calls ----------------------------------------------------------------------------------------


def unrepaired(deeds: Sequence[Deed]) -> list[tuple[Deed, int]]:
    """Calls that failed and that no later ones repaired, the newest first, with how often each failed."""
    worked: dict[str, int] = {}
    for deed in deeds:
        if deed.status == "ok":
            worked.update(dict.fromkeys(deed.gists, deed.seq))
    times: Counter[str] = Counter()
    newest: dict[str, Deed] = {}
    for deed in deeds[-LATELY:]:
        if deed.status not in DID_NOT_WORK or deed.only_looks or is_idle(deed.tool):
            continue
        if CLEAN.search(deed.result):
            continue
        if all(worked.get(each, 0) > deed.seq for each in deed.gists):
            continue
        times[deed.shown] += 1
        newest[deed.shown] = deed
    ordered = sorted(newest.values(), key=lambda deed: -deed.seq)
    return [(deed, times[deed.shown]) for deed in ordered]


def failure(deed: Deed) -> str:
    """How a call failed, in the words of its result."""
    lines = [plain(line) for line in _SPREAD.sub(": ", deed.result).split("\n") if line.strip()]
    code = _EXIT.search(beginning(deed.result, RESULT_MAX))
    told = [line for line in lines if not _EMPTY_LINE.match(line)] or lines
    telling = next((line for line in told if SAYS_FAILURE.search(line)), told[-1] if told else "")
    how = f"exit code {code[1]}" if code and code[0] not in telling else ""
    return ": ".join(
        filter(
            None, [how or (deed.status if deed.status != "error" else ""), beginning(telling, 160)]
        )
    )


def is_check(deed: Deed) -> bool:
    """Whether a call runs tests, a linter, a type checker or a build."""
    return any(map(check_in, deed.steps))


def questions(deeds: Sequence[Deed]) -> list[Deed]:
    """Calls of other tools than shells and file tools, the newest of each kind and words first: searches of the web,
    tools of MCP servers, sub-agents."""
    found: dict[str, Deed] = {}
    for deed in deeds:
        if (
            deed.status != "ok"
            or deed.act is not None
            or _is_file_word(deed.tool)
            or deed.tool == MODEL
        ):
            continue
        if deed.shown == deed.tool or is_report(deed) or _is_file_word(deed.shown.split(" ")[0]):
            continue
        if (
            isinstance(deed.arguments, Mapping)
            and len(str(deed.arguments.get("code", ""))) > CODE_MAX
        ):
            continue
        if is_idle(deed.tool):
            continue
        found.pop(deed.shown, None)
        found[deed.shown] = deed
    return list(found.values())[::-1]


def title(deeds: Sequence[Deed]) -> tuple[str, int]:
    """The title that the agent gave the conversation last, and the seq of the call; empty if it gave none."""
    for deed in reversed(deeds):
        given = deed.arguments if isinstance(deed.arguments, Mapping) else {}
        named = given.get("title")
        if is_idle(deed.tool) and deed.status == "ok" and isinstance(named, str):
            return beginning(plain(named), SHOWN_MAX), deed.seq
    return "", 0


def _is_file_word(tool: str) -> bool:
    """Whether a tool works with files, by its name; one of a server has a name of its own."""
    return (
        "__" not in tool
        and "web" not in tool.lower()
        and words_of(tool) != ()
        and words_of(tool)[0] in _FILE_WORDS
    )


def messages(deeds: Sequence[Deed]) -> list[tuple[str, Deed]]:
    """What the agent wrote for others by commands that succeeded: messages of revisions, texts of pull requests and of
    issues."""
    found: dict[str, tuple[str, Deed]] = {}
    for deed in deeds:
        act = deed.act
        if act is None or deed.status != "ok":
            continue
        if any(_WRITES.match(" ".join(words[:3])) for words in deed.steps):
            here = _HERE_TEXT.findall(act.text)
            texts = [text for _, _, text in here] or [
                text[1:-1] for text in QUOTED.findall(act.text)
            ]
            text = _TRAILERS.sub("", "\n\n".join(t for t in texts if len(t) >= MESSAGE_MIN)).strip()
            if text:
                found[text.partition("\n")[0]] = (text, deed)  # the last try of one message
    return list(found.values())


def commands(deeds: Sequence[Deed]) -> list[Deed]:
    """Commands that succeeded and did more than look or check, each once, the newest first."""
    found: dict[str, Deed] = {}
    for deed in reversed(deeds):
        if not deed.is_shell or deed.status != "ok" or deed.only_looks or is_check(deed):
            continue
        found.setdefault(deed.shown, deed)
    return list(found.values())


def is_report(deed: Deed) -> bool:
    """Whether a call had a sub-agent do something, and the result is its report."""
    return "_".join(words_of(deed.tool)) in _SUBAGENTS and deed.act is None


def reports(deeds: Sequence[Deed]) -> list[tuple[str, Deed]]:
    """The reports of sub-agents, without what their calls cost."""
    return [
        (_COST.sub("", deed.result), deed)
        for deed in deeds
        if is_report(deed) and deed.status == "ok" and deed.result
    ]


def is_web(deed: Deed) -> bool:
    return deed.source == "web" or deed.tool in WEB_TOOLS


# -- files ----------------------------------------------------------------------------------------


def _touched(commits: Sequence[Commit]) -> list[NetFile]:
    """The files that commits touched, with their net change, last touched first."""
    found: dict[str, NetFile] = {}
    came: set[str] = set()
    before: set[str] = set()
    for commit in commits:
        for op in commit.delta:
            record = op.record if isinstance(op, Put) and op.collection == "files" else None
            if not isinstance(record, FileRecord):
                continue
            key = file_key(record.root, record.path)
            known = found.pop(key, None)
            if known is None and isinstance(op, Put) and op.was:
                before.add(key)
            elif record.op == "created" and known is None:
                came.add(key)
            base = known or NetFile(
                path=record.path, root=record.root, op="", edits=0, seq=0, first=commit.seq
            )
            changes = record.op not in LOOKED_AT
            found[key] = msgspec.structs.replace(
                base, op=_net(known, record.op, key in came, key in before), edits=base.edits + changes,
                seq=commit.seq, after=record.after or base.after,
                changed=commit.seq if changes else base.changed, turn=commit.turn if changes else base.turn,
            )  # fmt: skip
    return list(found.values())[::-1]


def _net(known: NetFile | None, op: str, came: bool, before: bool) -> str:
    """What became of a file; `came`: it was created in these commits, `before`: earlier ones touched it, and may have
    created it."""
    if op in LOOKED_AT:
        return known.op if known is not None and known.op else op
    if op == "deleted":
        return GONE_AGAIN if came else "deleted"
    if came:
        return "created"
    if before and op in ("created", "modified"):
        return CHANGED
    return "modified" if op == "created" and known is not None and known.op != "deleted" else op
