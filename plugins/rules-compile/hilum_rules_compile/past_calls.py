"""Tries checks on what agents did in the earlier sessions of a project."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import hilum
import msgspec
from hilum import StoreError
from hilum.events import CallDone, CallStarted, RunEnded
from hilum.messages import ToolResult
from hilum.store import Store, spell_folder, storage_plugins
from hilum_checks import Check, judge, judge_answer, needs_history
from hilum_checks.call_history import CallHistory
from hilum_rules.rule import Rule

from hilum_rules_compile.examples import make_tool

MAX_CALLS = 400
"""Maximum number of earlier calls on which a check is tried; the newest ones."""
MAX_SESSIONS = 50
MAX_SHOWN = 3
"""Maximum number of refused calls to show."""


@attrs.frozen
class PastCall:
    """A tool call of an earlier session.

    Attributes:
        name: The name of the tool.
        risk: The permission category of the tool.
        arguments: The arguments, as JSON.
        time: When it ran, as Unix time in seconds.
        session: The id of its session.
        result: What it returned; ``None`` if it never ended.
    """

    name: str
    risk: str
    arguments: str
    time: float
    session: str = ""
    result: ToolResult | None = None

    def __str__(self) -> str:
        day = time.strftime("%Y-%m-%d", time.localtime(self.time))
        return f"{self.name} {' '.join(_main_argument(self.arguments).split())[:100]} ({day})"


@attrs.frozen
class History:
    """What agents did in a project.

    Attributes:
        calls: The newest calls, newest first.
        answers: The newest final answers.
    """

    calls: tuple[PastCall, ...] = ()
    answers: tuple[str, ...] = ()


@attrs.frozen
class Trial:
    """What a check would have done in the past.

    Attributes:
        calls: The number of calls on which it was tried.
        refused: The calls that it would have refused or asked about.
        answers: The number of final answers on which it was tried.
        rejected: How many of them it would have rejected.
    """

    calls: int = 0
    refused: tuple[PastCall, ...] = ()
    answers: int = 0
    rejected: int = 0

    def __str__(self) -> str:
        if not self.calls and not self.answers:
            return "There are no earlier sessions on which to try it."
        text = f"It would have stopped {len(self.refused)} of your last {self.calls} calls"
        if not self.calls:
            text = "There are no stored calls yet on which to try it"
        if self.rejected and not self.calls:
            text = f"It would have rejected {self.rejected} of your last {self.answers} answers"
        elif self.rejected:
            text += f", and {self.rejected} of {self.answers} answers"
        listed = "; ".join(str(call) for call in self.refused[:MAX_SHOWN])
        more = len(self.refused) - MAX_SHOWN
        if listed:
            text += f": {listed}" + (f"; and {more} more" if more > 0 else "")
        return f"{text}."


def _main_argument(arguments: str) -> str:
    """Return the argument that tells a person most about a call."""
    try:
        data = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return ""
    if not isinstance(data, dict):
        return ""
    for name in ("command", "path", "url", "query"):
        if isinstance(data.get(name), str):
            return str(data[name])
    return next((value for value in data.values() if isinstance(value, str)), "")


async def read_history(workspace: Path) -> History:
    """Return what agents did in the earlier sessions of a folder.

    A store that cannot be read counts as one without sessions.

    Args:
        workspace: The folder.
    """
    try:
        async with hilum.open_kernel(storage_plugins(), workspace=workspace) as kernel:
            return await collect(kernel.store, workspace)
    except StoreError:
        return History()


async def collect(store: Store, workspace: Path) -> History:
    """Return the newest calls and answers in a store.

    Args:
        store: The store.
        workspace: The folder whose sessions are read, resolved.
    """
    calls: list[PastCall] = []
    answers: list[str] = []
    sessions = await store.list(spell_folder(workspace))
    for info in sessions[:MAX_SESSIONS]:
        found: dict[str, PastCall] = {}
        ended: list[str] = []
        last = 0
        while page := await store.read(info.id, last):
            last = page[-1].seq
            for event in page:
                if isinstance(event, CallStarted):
                    call = event.call
                    found[call.id] = PastCall(
                        call.name, event.risk, call.arguments, event.at, info.id
                    )
                elif isinstance(event, CallDone) and event.result.call_id in found:
                    started = found[event.result.call_id]
                    found[event.result.call_id] = attrs.evolve(started, result=event.result)
                elif isinstance(event, RunEnded) and event.text:
                    ended.append(event.text)
        calls += reversed(found.values())
        answers += reversed(ended)
        if len(calls) >= MAX_CALLS:
            break
    return History(tuple(calls[:MAX_CALLS]), tuple(answers[:MAX_CALLS]))


def try_checks(
    rules: Sequence[Rule], checks: Sequence[Check | None], history: History, root: Path
) -> list[Trial]:
    """Try checks on the past, with the code that judges live calls. Blocks.

    Args:
        rules: The sentences.
        checks: The check of each sentence.
        history: What agents did.
        root: The workspace.

    Returns:
        One trial for each sentence.
    """
    tried = [
        msgspec.structs.replace(rule, check=check)
        for rule, check in zip(rules, checks, strict=True)
    ]
    refused: list[list[PastCall]] = [[] for _ in tried]
    for call, earlier in _replay(history, root, remembers=needs_history(tried)):
        tool = make_tool(call.name, call.risk)
        # Most calls pass all checks, so they are judged by all of them at once.
        if judge(tried, call.arguments, tool, root, earlier) is None:
            continue
        for rule, stopped in zip(tried, refused, strict=True):
            if judge([rule], call.arguments, tool, root, earlier) is not None:
                stopped.insert(0, call)
    trials = []
    for rule, stopped in zip(tried, refused, strict=True):
        rejected = sum(judge_answer([rule], text) is not None for text in history.answers)
        trials.append(Trial(len(history.calls), tuple(stopped), len(history.answers), rejected))
    return trials


def _replay(
    history: History, root: Path, *, remembers: bool
) -> Iterator[tuple[PastCall, CallHistory]]:
    """Yield the past calls, each with what had succeeded before it in its session."""
    earlier = CallHistory()
    session = ""
    # The oldest call comes first, because a check may require that a command has run before.
    for call in reversed(history.calls):
        if call.session != session:
            earlier = CallHistory()
            session = call.session
        yield call, earlier
        if call.result is not None and remembers:
            earlier.add(make_tool(call.name, call.risk), call.arguments, root, call.result)
