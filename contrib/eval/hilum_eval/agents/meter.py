"""Counts what an agent does by its requests to a model, in the same way for every agent.

The agent talks to an endpoint on the loopback interface. Each request contains the results of the
calls that the answer before made, in whatever words the agent puts them.
"""

from __future__ import annotations

import inspect
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum.errors import (
    E_BAD_ARGS,
    E_CMD_FAIL,
    E_FILE_NOT_FOUND,
    E_NOT_FOUND,
    E_REJECTED,
    E_REPEATED,
    E_TIMEOUT,
)
from hilum.messages import ToolCall, ToolMessage
from hilum_replay import Answer, WireRequest

from hilum_eval.agents.command_kinds import find_kind
from hilum_eval.attempt import Usage
from hilum_eval.simulation.outcomes import Outcome, read_outcome
from hilum_eval.simulation.toolbox import Role, Toolbox
from hilum_eval.transcript import Call, Transcript
from hilum_eval.transcript_reader import MAX_TEXT

Answerer = Callable[[WireRequest], Answer | Awaitable[Answer]]

_CODES = {
    "bad_arguments": E_BAD_ARGS,
    "command": E_CMD_FAIL,
    "no_file": E_FILE_NOT_FOUND,
    "outside": E_REJECTED,
    "rejected": E_REJECTED,
    "repeated": E_REPEATED,
    "timeout": E_TIMEOUT,
}
_ROLES: tuple[Role, ...] = ("read", "edit", "write", "search", "find", "finish")
# Folders whose files change without a change of the project.
_IGNORED_FOLDERS = frozenset({".git", "__pycache__", ".pytest_cache", ".mypy_cache"})


@attrs.define
class _MadeCall:
    """A call that the model made.

    Attributes:
        call: The call as far as it is known.
        identity: Its id in the conversation.
        conversation: The conversation.
        role: What it is for.
        is_open: Whether its result is still missing.
    """

    call: Call
    identity: str
    conversation: str
    role: str
    is_open: bool = True


class Meter:
    """Passes requests on to a model, and counts.

    Args:
        answer: Answers a request.
        workspace: The workspace, in which changes of files are noticed.
    """

    def __init__(self, answer: Answerer, workspace: Path) -> None:
        self.requests = 0
        self._answer = answer
        self._workspace = workspace
        self._state: object = None
        self._made: list[_MadeCall] = []
        self._answers: list[str] = []
        self._prompt = 0
        self._usages: list[Any] = []
        self._model_seconds = 0.0

    def begin_prompt(self) -> None:
        """Begin the next prompt, and drop the calls without a result."""
        self.end_prompt()
        self._prompt += 1
        self._answers.append("")

    def end_prompt(self) -> None:
        """End a prompt, and drop the calls without a result."""
        # A call without a result is the one by which some agents end their work, and no work.
        self._made = [made for made in self._made if not made.is_open]

    async def answer(self, request: WireRequest) -> Answer:
        """Answer a request, and note what it says about the calls before."""
        await self._read_results(request)
        begun = time.perf_counter()
        answer = self._answer(request)
        if inspect.isawaitable(answer):
            answer = await answer
        self._model_seconds += time.perf_counter() - begun
        self.requests += 1
        self._usages.append(answer.usage)
        if answer.message.text:
            self._answers[-1:] = [answer.message.text]
        toolbox = Toolbox(request.tool_specs)
        conversation = _find_conversation(request)
        now = time.time()
        for call in answer.message.calls:
            role = _find_role(toolbox, call)
            self._made.append(_MadeCall(self._make_call(call, now), call.id, conversation, role))
        return answer

    def make_transcript(self) -> Transcript:
        """Return what the agent did."""
        costs = [usage.cost for usage in self._usages]
        return Transcript(
            answers=tuple(self._answers),
            calls=tuple(made.call for made in self._made),
            usage=Usage(
                turns=self.requests,
                input_tokens=sum(usage.input for usage in self._usages),
                cached_tokens=sum(usage.cached for usage in self._usages),
                output_tokens=sum(usage.output for usage in self._usages),
                # A partial sum would look cheap.
                dollars=None if None in costs else sum(costs),
                model_seconds=self._model_seconds,
            ),
        )

    def _make_call(self, call: ToolCall, now: float) -> Call:
        return Call(
            tool=call.name,
            arguments=_read_arguments(call.arguments),
            turn=self.requests,
            prompt=self._prompt,
            started=now,
        )

    async def _read_results(self, request: WireRequest) -> None:
        state = await trio.to_thread.run_sync(_read_state, self._workspace)
        changed = self._state is not None and state != self._state
        self._state = state
        conversation = _find_conversation(request)
        opened = [made for made in self._made if made.is_open and made.conversation == conversation]
        if not opened:
            return
        results = _list_results(request)
        for made in opened:
            made.is_open = False
            made.call = _add_result(made, results.get(made.identity), changed)


def _find_role(toolbox: Toolbox, call: ToolCall) -> str:
    """Return what a call is for: of a shell, what its command is for."""
    for role in _ROLES:
        if toolbox.has(role) and toolbox.tool_of(role) == call.name:
            return role
    for value in _read_arguments(call.arguments).values():
        if isinstance(value, str):
            return find_kind(value)
    return "run"


def _read_arguments(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _list_results(request: WireRequest) -> dict[str, str]:
    """Return the results in a request by the ids of their calls."""
    results: dict[str, str] = {}
    for message in request.messages:
        if isinstance(message, ToolMessage):
            results.update({result.call_id: result.text for result in message.results})
    return results


def _find_conversation(request: WireRequest) -> str:
    """Return what distinguishes the conversations of an agent with sub-agents: their first message."""
    return str(request.messages[0]) if request.messages else ""


def _add_result(made: _MadeCall, text: str | None, changed: bool) -> Call:
    """Return a call with its result.

    Args:
        made: The call.
        text: The result; ``None`` if the agent's program did not even run the call.
        changed: Whether a file of the workspace has changed since the call was made.
    """
    if text is None:
        return attrs.evolve(made.call, code=E_BAD_ARGS, started=0.0)
    code = _find_code(read_outcome(text, made.role))
    writes = changed and made.role not in ("read", "search", "find")
    return attrs.evolve(
        made.call, code=code, text=text[:MAX_TEXT], ended=time.time(), writes=writes
    )


def _find_code(outcome: Outcome) -> str:
    """Return the error code that hilum would give; empty if the call succeeded."""
    if not outcome.failed:
        return ""
    return _CODES.get(outcome.kind, E_NOT_FOUND)


def _read_state(workspace: Path) -> frozenset[tuple[str, int, int]]:
    """Return something that differs after a change of a file in the workspace."""
    found = []
    for folder, folders, names in os.walk(workspace):
        folders[:] = [name for name in folders if name not in _IGNORED_FOLDERS]
        for name in names:
            path = os.path.join(folder, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue  # it was removed in the meantime
            found.append((path, status.st_mtime_ns, status.st_size))
    return frozenset(found)
