"""Measures hilum: a standard session with all plugins, the guard and the sandbox."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum import Session, UserQuestions, open_standard_session
from hilum.errors import E_TIMEOUT
from hilum.events import AnyEvent, ApprovalAsked, PluginEvent
from hilum.store import Store

from hilum_eval.agents.agent import Surroundings
from hilum_eval.arm import Arm
from hilum_eval.case import Case
from hilum_eval.regular_files import write_regular_file
from hilum_eval.simulation.user import Reply, User, make_user
from hilum_eval.transcript import Transcript
from hilum_eval.transcript_reader import read_transcript
from hilum_eval.worker_job import SESSION_FILE

PROVIDER = "simulated"
# As if the simulated model were one of middle price, in dollars per million tokens.
PRICE = {"input": 1.0, "output": 5.0, "cached": 0.1}
_RULES = "rules.text"
# How long the sources of context may take beside a simulated model, in seconds.
CONTEXT_TIMEOUT = 30.0
_QUESTION_ASKED = "plan.question_asked"
# How long a stopped session may take to end its calls, in seconds.
_STOP_TIMEOUT = 20.0


class HilumAgent:
    """hilum with the settings and plugins of an arm."""

    async def attempt(
        self, case: Case, arm: Arm, repeat: int, surroundings: Surroundings
    ) -> Transcript:
        """Let hilum work on a case, and return what it did. See ``Agent.attempt``."""
        user = make_user(case, arm.user, repeat)
        begun = time.perf_counter()
        is_late = False
        async with open_standard_session(
            surroundings.workspace,
            kind="main",
            attended=True,
            mode=case.mode or None,
            model=surroundings.model,
            approve=case.approve,
            extra_plugins=[_find_plugin(name) for name in arm.plugins],
            without=arm.without,
            settings=_make_settings(case, arm, surroundings),
            environ=surroundings.environ,
        ) as session:
            _note_session(surroundings, session.id)
            _hide_measurement(session, surroundings)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_answer_questions, session, user)
                with trio.move_on_after(case.timeout) as scope:
                    await _send_prompts(session, case, user)
                is_late = scope.cancelled_caught
                if is_late:
                    with trio.move_on_after(_STOP_TIMEOUT):
                        session.stop()
                        for run in list(session.runs.values()):
                            await run.wait()
                nursery.cancel_scope.cancel()
            events = await read_events(session.kernel.store, session.id)
            identity = session.id
        found = read_transcript(events, session=identity)
        usage = attrs.evolve(
            found.usage, seconds=time.perf_counter() - begun, peak_memory=_measure_memory()
        )
        found = attrs.evolve(found, usage=usage)
        if is_late:
            reason = f"The agent did not finish within {case.timeout:g} seconds."
            found = attrs.evolve(found, code=E_TIMEOUT, reason=reason)
        return found


def _hide_measurement(session: Session, surroundings: Surroundings) -> None:
    """Hide the case, the records of the measurement and the other attempts from commands.

    hilum's file tools are confined to the workspace.
    """
    # An arm may leave the guard out.
    from hilum_guard import Guard, ProtectedPaths

    guard = session.plugin(Guard)
    if guard is None:
        return
    own = os.path.realpath(surroundings.workspace)

    def find_hidden() -> ProtectedPaths:
        """Return the hidden folders; those that contain the workspace, entry by entry."""
        hidden = [os.path.realpath(surroundings.record)]
        for folder in map(os.path.realpath, surroundings.hidden):
            if not own.startswith(os.path.join(folder, "")):
                hidden.append(folder)
                continue
            # Attempts that run beside this one begin and end at any time.
            entries = [os.path.join(folder, name) for name in os.listdir(folder)]
            hidden += [path for path in entries if not own.startswith(os.path.join(path, ""))]
        return ProtectedPaths(hidden=tuple(path for path in hidden if os.path.isdir(path)))

    guard.protect("hilum eval", find_hidden)


async def read_events(store: Store, session: str) -> list[AnyEvent]:
    """Return all events of a session."""
    events: list[AnyEvent] = []
    while page := await store.read(session, events[-1].seq if events else 0):
        events += page
    return events


async def _send_prompts(session: Session, case: Case, user: User) -> None:
    for number, turn in enumerate(case.turns, 1):
        ended = await session.run(turn.prompt, state=_make_state(case))
        # A follow-up may lead to another one; ten are enough for any user.
        for _ in range(10):
            text = user.follow_up(number, ended.text)
            if not text:
                break
            ended = await session.run(text)
        if ended.state in ("failed", "stopped", "timed_out"):
            return


async def _answer_questions(session: Session, user: User) -> None:
    """Answer the questions of a session as the user does."""
    async with trio.open_nursery() as nursery:
        async for event in session.events():
            if isinstance(event, ApprovalAsked):
                reply = user.decide(event.call.name, event.call.arguments)
                nursery.start_soon(_answer_approval, session, event, reply)
            elif isinstance(event, PluginEvent) and event.name == _QUESTION_ASKED:
                options = [str(option) for option in event.data.get("options", ())]
                reply = user.answer(str(event.data.get("question", "")), options)
                nursery.start_soon(_answer_question, session, event, reply)


async def _answer_approval(session: Session, asked: ApprovalAsked, reply: Reply) -> None:
    await trio.sleep(reply.delay)
    session.answer(asked.id, reply.text != "reject", reason=reply.reason)
    if reply.message:
        await session.steer(reply.message)


async def _answer_question(session: Session, asked: PluginEvent, reply: Reply) -> None:
    await trio.sleep(reply.delay)
    questions = session.plugin(UserQuestions)
    identity = str(asked.data.get("id", ""))
    if questions is not None and questions.is_open(identity):
        questions.answer(identity, reply.text)


def _make_state(case: Case) -> Mapping[str, object]:
    """Return what the user's editor reports."""
    state: dict[str, object] = {}
    if case.open_files:
        state["open_files"] = [{"path": file.path} for file in case.open_files]
    for file in case.open_files:
        if file.active:
            state["active_file"] = file.path
            if file.line:
                state["cursor"] = {"path": file.path, "line": file.line}
    if not case.lints:
        # With a list of diagnostics, even an empty one, hilum runs no linter of the project.
        state["diagnostics"] = []
    return state


def _make_settings(case: Case, arm: Arm, surroundings: Surroundings) -> dict[str, Any]:
    settings = {f"models.{name}": table for name, table in surroundings.models.items()}
    if surroundings.base_url:
        settings["models.providers"] = {
            PROVIDER: {"base_url": f"{surroundings.base_url}/v1", "api": "chat"}
        }
        settings["models.models"] = {surroundings.model: {"price": PRICE}}
        # What a simulated model sees must not depend on how busy the machine is.
        settings["context.timeout"] = CONTEXT_TIMEOUT
        settings["context.search_timeout"] = CONTEXT_TIMEOUT
    found = {**settings, **case.settings, **arm.settings}
    if arm.instructions:
        # Not a file of the project, which would look like a change that the agent made.
        found[_RULES] = [*found.get(_RULES, []), arm.instructions]
    return found


def _find_plugin(name: str) -> object:
    """Return a plugin of an arm: the path of a file, or the name of a module."""
    if name.endswith(".py"):
        return Path(name)
    return name


def _note_session(surroundings: Surroundings, session: str) -> None:
    """Store the id of the session, so that its log can be read even if this process is killed."""
    write_regular_file(surroundings.record / SESSION_FILE, session)


def _measure_memory() -> int:
    """Return the highest memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts kilobytes, macOS bytes.
    return peak if sys.platform == "darwin" else peak * 1024
