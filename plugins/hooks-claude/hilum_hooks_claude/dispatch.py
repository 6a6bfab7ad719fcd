"""Runs the hooks of one event together, and writes what they answered to the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from hilum import FileChanges, RecordedResults
from hilum.events import PluginEvent

from hilum_hooks_claude.answers import Answer, describe_effect
from hilum_hooks_claude.approvals import JudgedHook
from hilum_hooks_claude.hook import PRE_TOOL_USE, Hook
from hilum_hooks_claude.runner import HookRunner
from hilum_hooks_claude.transcripts import Transcripts

if TYPE_CHECKING:
    from hilum import Agent, Session

RAN = "hooks_claude.ran"
"""The event that contains the answers of the hooks of one event."""
MAX_SHOWN = 300
"""Maximum number of characters of a reason in the line for the user."""


class Finished(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hook that has ended, as the log contains it.

    Attributes:
        title: The short name of the hook.
        place: File and line of its definition.
        source: Whose file that is.
        answer: What it answered.
        hook: The identity of the hook.
        job: The number of the job, counted from 0.
        code: Its exit code; ``None`` if it did not end by itself.
        seconds: How long it took.
    """

    title: str
    place: str
    source: str
    answer: Answer
    hook: str = ""
    job: int = 0
    code: int | None = None
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """The hook as a sentence names it."""
        return f"{self.title} ({self.place})"


class Job(msgspec.Struct, frozen=True):
    """A hook and what it is to read.

    Attributes:
        judged: The hook.
        values: The part of the input that other hooks of the event do not have.
    """

    judged: JudgedHook
    values: Mapping[str, Any] = {}


class Dispatcher:
    """Runs hooks in a session.

    Args:
        session: The session.
        runner: Runs one hook.
        transcripts: Writes the conversations that hooks may read.
        nursery: The nursery for hooks that nothing waits for.

    Attributes:
        recorded: The answers of a recorded session, if this is a replay.
    """

    def __init__(
        self,
        session: Session,
        runner: HookRunner,
        transcripts: Transcripts,
        nursery: trio.Nursery,
    ) -> None:
        self._session = session
        self._runner = runner
        self._transcripts = transcripts
        self._nursery = nursery
        self.recorded: RecordedResults | None = session.kernel.plugin(RecordedResults)
        self._reported: set[tuple[str, str]] = set()

    async def run(
        self,
        event: str,
        jobs: Sequence[Job],
        given: Mapping[str, Any],
        agent: Agent | None = None,
        *,
        subject: str = "",
        about: str = "",
        limit: float = 0.0,
    ) -> list[Finished]:
        """Run hooks at the same time, and return their answers in the order of the hooks.

        Args:
            event: The event.
            jobs: The hooks.
            given: What all of them read.
            agent: The agent that the event is about.
            subject: What tells the events of an agent apart, such as the id of a call.
            about: What the event is about, in the line for the user.
            limit: Seconds that each hook may take, if that is not its own time limit.
        """
        owner = agent.name if agent is not None else ""
        key = f"{event} {owner} {subject}".strip()
        recorded = self.recorded
        if recorded is not None:
            data = await recorded.take_result(RAN, key)
            if data is None:
                return []
            self._note(dict(data), agent)
            return msgspec.convert(data.get("hooks", []), list[Finished])
        for job in jobs:
            if job.judged.hook.runs_async:
                self._nursery.start_soon(self._run_background, event, job, given)
        jobs = [job for job in jobs if not job.judged.hook.runs_async]
        if not jobs:
            return []
        finished = await self._run_all(event, jobs, given, agent, limit)
        data = {"event": event, "key": key, "hooks": msgspec.to_builtins(finished)}
        line = _make_line(event, self._leave_out_known(event, finished), about)
        if line:
            data["say"] = line
        self._note(data, agent)
        return finished

    def _leave_out_known(self, event: str, finished: Sequence[Finished]) -> list[Finished]:
        """Return the hooks without those whose failure has been reported and has no effect."""
        shown = []
        for each in finished:
            failure = (each.hook, each.answer.failure)
            is_known = event != PRE_TOOL_USE and failure in self._reported
            if each.answer.failure:
                self._reported.add(failure)
            if not is_known:
                shown.append(each)
        return shown

    async def _run_background(self, event: str, job: Job, given: Mapping[str, Any]) -> None:
        """Run a hook that nothing waits for, and whose decision has no effect."""
        finished = await self._run_all(event, [job], given, None, 0.0)
        data = {"event": event, "key": "", "hooks": msgspec.to_builtins(finished)}
        answer = finished[0].answer
        said = answer.failure or answer.message
        if said:
            data["say"] = f"Hook ({event}): {job.judged.hook.title}: {said}"
        self._note(data, None)

    async def _run_all(
        self,
        event: str,
        jobs: Sequence[Job],
        given: Mapping[str, Any],
        agent: Agent | None,
        limit: float,
    ) -> list[Finished]:
        found: dict[int, Finished] = {}
        shown: list[str] = []
        base = self._make_input(event, given, agent)
        if agent is not None:
            # A full disk must not keep hooks from running.
            with suppress(OSError):
                base["transcript_path"] = await self._transcripts.write(agent)
                shown.append(base["transcript_path"])

        async def run_one(number: int, job: Job) -> None:
            hook = job.judged.hook
            text = msgspec.json.encode({**base, **job.values})
            outcome = await self._runner.run(hook, text, shown, limit)
            found[number] = Finished(
                hook.title,
                hook.place,
                hook.source,
                outcome.answer,
                hook.identity,
                number,
                outcome.code,
                outcome.seconds,
            )

        async with AsyncExitStack() as stack:
            changes = self._session.plugin(FileChanges)
            if changes is not None and agent is not None:
                what = f"hook {jobs[0].judged.hook.title} ({event})"
                await stack.enter_async_context(changes.recording(agent, what))
            async with trio.open_nursery() as nursery:
                for number, job in enumerate(jobs):
                    nursery.start_soon(run_one, number, job)
        return [found[number] for number in sorted(found)]

    def _make_input(
        self, event: str, given: Mapping[str, Any], agent: Agent | None
    ) -> dict[str, Any]:
        """Return the part of the input that all hooks have."""
        session = self._session
        data: dict[str, Any] = {
            "session_id": session.id,
            "transcript_path": "",
            "cwd": str(session.workspace.root),
            "permission_mode": _name_permission_mode(session),
            "hook_event_name": event,
        }
        if agent is not None and agent.parent:
            data["agent_id"] = agent.name
            data["agent_type"] = agent.profile.name
        return {**data, **given}

    def _note(self, data: dict[str, Any], agent: Agent | None) -> None:
        self._session.emit(PluginEvent(name=RAN, data=data), agent)


def _name_permission_mode(session: Session) -> str:
    if session.mode.name == "plan":
        return "plan"
    return "acceptEdits" if session.approve == "auto" else "default"


def _make_line(event: str, finished: Sequence[Finished], about: str) -> str:
    """Return a line about the hooks that had an effect; empty if none had one."""
    parts = []
    for each in finished:
        answer = each.answer
        effect = describe_effect(event, answer)
        text = answer.failure or answer.message
        if effect and answer.decision != "none":
            text = answer.message or answer.reason
        if answer.is_quiet and not answer.failure and answer.decision in ("none", "allow"):
            continue
        if not effect and not text:
            continue
        said = " ".join(text.split())
        if len(said) > MAX_SHOWN:
            said = f"{said[: MAX_SHOWN - 1]}…"
        row = f"{each.title} {effect}".strip()
        parts.append(f"{row}: {said}" if said else row)
    if not parts:
        return ""
    what = f"{event}, {about}" if about else event
    return f"Hook ({what}): {'; '.join(parts)}"


def describe_place(hook: Hook) -> str:
    """Return a hook as a sentence names it."""
    return f"{hook.title} ({hook.place})"
