"""Repeats what the user did in a recorded session, at the same points of the replayed one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import trio
import trio.testing
from hilum import FileHistory, Plans, Session, ToolError, UsageError, UserQuestions, make_id
from hilum.events import (
    AnyEvent,
    ApprovalAsked,
    CompactionRequested,
    Event,
    GrantRevoked,
    PluginEvent,
    PromptQueued,
    RunEnded,
    RunRetried,
    SessionChanged,
    SessionReopened,
    SteeringQueued,
    SteeringWithdrawn,
    StopAsked,
)
from hilum.shell_lines import ENDED, attach_output

from hilum_replay.sessions.contained_files import ContainedFiles
from hilum_replay.sessions.guest_log import is_guest_event
from hilum_replay.sessions.guest_programs import GuestPrograms
from hilum_replay.sessions.recorded_calls import RecordedCalls, apply_edit
from hilum_replay.sessions.recorded_log import (
    OUTPUT_ATTACHED,
    QUESTION_ASKED,
    Milestone,
    RecordedCall,
    RecordedLog,
    UserAction,
    is_milestone,
)
from hilum_replay.sessions.recording import FileEdit

_SCOPES = ("call", "turn", "run", "session", "undo", "since")
# Seconds that a model or a tool waits for an action of the user. The wait is only this long if the
# replay differs from the recording, so that the action cannot come.
MAX_WAIT = 5.0
# The same for an action of the user, while no agent works.
MAX_IDLE = 0.5


class UserActions:
    """The actions of the user, and how far the replay has come.

    Args:
        log: The recorded log.
        root: The workspace of the replay.
        objects: The contents of files that others changed.
        programs: The programs of guests, which act at the same time as the user.

    Attributes:
        changes_model: Whether to repeat the user's changes of the model.
        crashed_at: Number of the last event before a crash of hilum that is being repeated; 0 if
            there is none.
        make_state: A function that returns the state of the user's workspace for a prompt, given the
            id of the recorded run and the session of the replay.
    """

    def __init__(
        self,
        log: RecordedLog,
        root: Path,
        objects: Mapping[str, bytes],
        programs: GuestPrograms,
    ) -> None:
        self._log = log
        self._programs = programs
        self._ended_runs: set[str] = set()
        self.crashed_at = 0
        self._files = ContainedFiles(root)
        self._objects = objects
        self._left = list(log.actions)
        self._counts: dict[tuple[str, type[Event]], int] = {}
        self._progress = trio.Event()
        self._runs: dict[str, str] = {}
        self._calls: RecordedCalls | None = None
        self.changes_model = True
        self.make_state: Callable[[str, Session], dict[str, object]] = lambda _run, _session: {}
        self._clock = log.opened.at
        self._clock_set = time.monotonic()

    def read_clock(self) -> float:
        """Return the time of day: that of the user's last action, and the time since then."""
        return self._clock + time.monotonic() - self._clock_set

    def _set_clock(self, at: float) -> None:
        self._clock = max(at, self.read_clock())
        self._clock_set = time.monotonic()

    async def wait(self, seq: int) -> None:
        """Wait until all actions before an event of the recorded log have been repeated."""
        with trio.move_on_after(MAX_WAIT):
            while self._left and self._is_before(self._left[0], seq):
                await self._progress.wait()

    def _is_before(self, action: UserAction, seq: int) -> bool:
        # A change of a file has the number of the event that it precedes.
        if isinstance(action.event, FileEdit):
            return action.seq <= seq
        return action.seq < seq

    def _wake(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    async def repeat(self, session: Session, calls: RecordedCalls) -> SessionReopened | None:
        """Repeat all actions, and wait until all runs have ended.

        Returns:
            The event with which the recorded session was opened again; ``None`` if all actions have
            been repeated. The remaining ones are repeated in the next call.
        """
        self._calls = calls
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, session, nursery)
            while self._left:
                action = self._left[0]
                event = action.event
                if not isinstance(event, FileEdit) and is_guest_event(event):
                    await self._repeat_program(session, action, event, nursery)
                    continue
                await self._reach(session, action.after)
                if isinstance(event, SessionReopened):
                    if not event.interrupted:
                        await self._idle(session)
                    if event.seq in self._log.crashes:
                        # What hilum writes while it is closed, it has not written.
                        await self._programs.cut_off(self._log.crashes[event.seq])
                        self.crashed_at = session.journal.last
                    nursery.cancel_scope.cancel()
                    return event
                # An action that is not possible any more is a consequence of an earlier
                # difference, which the comparison of both logs shows.
                with suppress(UsageError, ToolError):
                    await self._carry_out(session, action)
                self._left.pop(0)
                self._wake()
            await self._idle(session)
            nursery.cancel_scope.cancel()
        return None

    async def _repeat_program(
        self, session: Session, action: UserAction, event: AnyEvent, nursery: trio.Nursery
    ) -> None:
        """Repeat what the program of a guest did, unless the run of the guest ended differently."""
        is_reached = await self._reach(session, action.own, event.run)
        # Agents that work at the same time see each other's files.
        is_reached = is_reached and await self._reach(session, action.after)
        agent = session.agents.get(event.agent)
        has_work = agent is not None and self._log.has_work(agent.conversation.messages)
        with suppress(UsageError, ToolError):
            if is_reached and has_work:
                await self._programs.repeat(session, event, nursery)
            else:
                await self._programs.drop(event)
        self._left.pop(0)
        self._wake()

    def pass_reopening(self) -> None:
        """Continue with the actions after the session was opened again."""
        self.crashed_at = 0
        self._set_clock(self._left.pop(0).event.at)  # type: ignore[union-attr]
        self._wake()

    async def _reach(self, session: Session, milestone: Milestone | None, run: str = "") -> bool:
        """Wait until the replay has come as far as the recording, or does nothing any more.

        Args:
            session: The session of the replay.
            milestone: What the recording had reached.
            run: A run whose end ends the wait as well.

        Returns:
            Whether the replay has come as far.
        """
        if milestone is None:
            return True
        key = (milestone.agent, milestone.kind)
        while self._counts.get(key, 0) < milestone.count:
            if run in self._ended_runs:
                return False
            # Without a run, only a compaction or a plugin's prompt can still come.
            with trio.move_on_after(MAX_WAIT if session.runs else MAX_IDLE) as scope:
                await self._progress.wait()
            if scope.cancelled_caught and not session.runs:
                return False
        return True

    async def _idle(self, session: Session) -> None:
        while session.runs:
            await self._progress.wait()
        # The plugins react to the end of the last run, for example with a notice.
        await trio.testing.wait_all_tasks_blocked(0.01)
        if session.runs:
            await self._idle(session)

    async def _watch(self, session: Session, nursery: trio.Nursery) -> None:
        """Count the events of the replay, and answer its questions."""
        self._counts.clear()
        async for event in session.events():
            if isinstance(event, Event) and is_milestone(event):
                key = (event.agent, type(event))
                self._counts[key] = self._counts.get(key, 0) + 1
            if isinstance(event, RunEnded):
                self._ended_runs.add(event.run)
            is_new = isinstance(event, Event) and event.seq > session.began_at
            if not is_new:
                pass  # it was answered before the session was opened again
            elif isinstance(event, ApprovalAsked):
                nursery.start_soon(self._answer_approval, session, event)
            elif isinstance(event, PluginEvent) and event.name == QUESTION_ASKED:
                nursery.start_soon(self._answer_question, session, event)
            self._wake()

    def _find(self, session: Session, agent: str, call: str) -> RecordedCall | None:
        if self._calls is None or agent not in session.agents:
            return None
        return self._calls.find(session.agents[agent], call)

    def _is_cut_off_after(self, event: Event | None) -> bool:
        """Return whether runs are still to be interrupted, after an event of the recorded log."""
        if event is None:
            return False
        return any(
            isinstance(action.event, SessionReopened)
            and bool(action.event.interrupted)
            and action.seq > event.seq
            for action in self._left
        )

    async def _answer_approval(self, session: Session, event: ApprovalAsked) -> None:
        recorded = self._find(session, event.agent, event.call.id)
        answer = recorded.answer if recorded is not None else None
        if answer is None:
            self._answer_new_approval(session, event, recorded)
            return
        await self.wait(answer.seq)
        if answer.by == "stop":
            return  # the user's stop is repeated
        with suppress(UsageError):  # nobody is present, or the run was stopped
            session.answer(
                event.id,
                answer.accepted,
                reason=answer.reason,
                remember=answer.remember,
                by=answer.by,
                arguments=answer.arguments,
                user=answer.user,
            )

    def _answer_new_approval(
        self, session: Session, event: ApprovalAsked, recorded: RecordedCall | None
    ) -> None:
        """Answer a request for which the recording has no answer."""
        if recorded is not None and self._is_cut_off_after(recorded.asked):
            return  # nobody had answered when hilum ended
        ran = recorded is not None and recorded.started is not None
        reason = "" if ran else "The recorded session has no answer to this."
        with suppress(UsageError):
            session.answer(event.id, ran, reason=reason)

    async def _answer_question(self, session: Session, event: PluginEvent) -> None:
        recorded = self._find(session, event.agent, str(event.data.get("call", "")))
        service = session.plugin(UserQuestions)
        if service is None:
            return
        answers: tuple[str, ...] = ()
        by = "headless"
        if recorded is not None and recorded.questions:
            answer = recorded.questions.pop(0)
            await self.wait(answer.seq)
            answers = tuple(answer.data.get("answers", ()))
            by = str(answer.data.get("by", "user"))
        elif recorded is not None and self._is_cut_off_after(recorded.started):
            return
        if by == "stop":
            return
        with suppress(UsageError):
            service.answer(str(event.data["id"]), answers, by=by)

    async def _carry_out(self, session: Session, action: UserAction) -> None:
        event = action.event
        if not isinstance(event, FileEdit):
            self._set_clock(event.at)
        if isinstance(event, FileEdit):
            await trio.to_thread.run_sync(apply_edit, event, self._files, self._objects)
        elif isinstance(event, PromptQueued):
            await self._prompt(session, action, event)
        else:
            await self._act(session, event)

    async def _prompt(self, session: Session, action: UserAction, event: PromptQueued) -> None:
        if event.repeats is not None:
            run = await session.repeat_call(event.repeats.previous)
            self._runs[event.run] = run.id
            return
        if self._log.waits_for_reopening(event):
            # The session was closed with this prompt in the queue.
            self._runs[event.run] = make_id("run")
            session.emit(event, session.agents[event.agent], self._runs[event.run])
            return
        if event.run in self._log.expanded and event.agent in session.agents:
            # The command's shell inserts ran before the prompt, and must not run again.
            self._runs[event.run] = make_id("run")
            session.emit(event, session.agents[event.agent], self._runs[event.run])
            session.resume()
            return
        plans = session.plugin(Plans)
        if action.decides in ("accepted", "rejected") and plans is not None:
            if action.decides == "accepted":
                await plans.accept(agent=event.agent)
            else:
                await plans.reject(action.reason, agent=event.agent)
            return
        if action.decides == "edited":
            session.set(mode="agent")
        attached, has_outputs = self._log.find_attached(event)
        if not has_outputs:
            session.unread_outputs.remove(event.outputs)
        run = await session.prompt(
            event.typed or event.text,
            agent=event.agent,
            state=self.make_state(event.run, session),
            piped=event.piped,
            attached=attached,
            images=event.images,
        )
        self._runs[event.run] = run.id

    async def _undo(self, session: Session, event: PluginEvent) -> None:
        """Undo the changes that the user undid; the ids of their runs are the same."""
        history = session.plugin(FileHistory)
        scope, _, name = str(event.data.get("what", "")).removeprefix("undo ").partition(" ")
        if history is not None and scope in _SCOPES:
            await history.undo(scope, name, keep_going=True)  # type: ignore[arg-type]

    async def _act(self, session: Session, event: AnyEvent) -> None:
        match event:
            case SteeringQueued():
                await session.steer(event.text, agent=event.agent)
            case SteeringWithdrawn():
                session.withdraw(event.id, agent=event.agent)
            case RunRetried():
                run = await session.retry(event.agent)
                self._runs[event.run] = run.id
            case CompactionRequested():
                session.compact(event.agent, focus=event.focus)
            case GrantRevoked():
                session.revoke(event.scope)
            case PluginEvent() if event.name == OUTPUT_ATTACHED:
                attach_output(session, event.data["identity"], event.data["text"])
            case PluginEvent() if event.name == ENDED:
                session.emit(PluginEvent(name=event.name, data=event.data))
            case PluginEvent():
                await self._undo(session, event)
            case SessionChanged():
                model = event.model if self.changes_model else None
                session.set(mode=event.mode, model=model, approve=event.approve)
            case StopAsked() | RunEnded():
                session.stop(event.agent, run=self._runs.get(event.run, ""))
