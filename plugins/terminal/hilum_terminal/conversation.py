"""The session of a conversation: opens it, follows its events and sends the user's prompts.

A ``Conversation`` draws nothing. A face reads its attributes and implements ``FaceProtocol``.
"""

from __future__ import annotations

import gc
import os
import time
from contextlib import suppress
from pathlib import Path

import attrs
import trio
from hilum import HilumError, Session, StoreError, UsageError, open_standard_session
from hilum.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Delta,
    ErrorRaised,
    Event,
    ModelAnswered,
    ModelFailed,
    ModelStarted,
    PromptQueued,
    RunEnded,
    SteeringQueued,
)
from hilum.journal import report_delays
from hilum.module_archive import end_start
from hilum.sharing import JoinedSession
from hilum.shell_lines import ShellLine, attach_output, note_end, run_shell_line
from hilum.store import MemoryStore
from hilum_view import (
    AgentView,
    Answer,
    Card,
    Changes,
    Notice,
    Outcome,
    Prompt,
    SessionView,
    format_count,
)

from hilum_terminal.approval_rules import inline
from hilum_terminal.call_descriptions import describe_action
from hilum_terminal.ended_items import describe_place, is_answered_elsewhere
from hilum_terminal.face_protocol import FaceProtocol
from hilum_terminal.left_prompts import (
    LeftPrompt,
    describe_left_prompts,
    drop_left_prompts,
    find_left_prompts,
    leave_prompts,
    take_waiting_prompts,
)
from hilum_terminal.options import ChatOptions
from hilum_terminal.prompt_images import PromptImages
from hilum_terminal.second_terminal import offer_takeover, refuse_joined, report_problems
from hilum_terminal.settings import TerminalSettings
from hilum_terminal.text_width import one_line
from hilum_terminal.transcript import HOLD_SECONDS, Transcript

OLD_IMAGE = (
    "! An image in this message is not sent, because it was pasted before hilum started. Paste its"
    " path again to send it."
)
# The parts of the view that determine which items wait for the user.
_WAITING_PARTS = ("waiting", "proposal", "actors")
# Number of calls to name that were running when an earlier process ended.
MAX_CUT_OFF = 5
# Number of entries to show again when a session is resumed.
SHOWN_AGAIN = 30
# Time limit, in seconds, for a session's runs to end when the user leaves the session.
MAX_STOP = 5.0


@attrs.frozen
class Retry:
    """The next attempt at a model call.

    Attributes:
        attempt: Number of the attempt.
        at: Unix time of the attempt.
    """

    attempt: int
    at: float


@attrs.frozen
class Start:
    """How to open the next session.

    Attributes:
        resume: Id of the session; empty for a new one, ``last`` for the last one in the folder.
        draft: Text to insert into the input.
        mode: Mode of the session; None for the configured mode, or for that of the resumed session.
        model: Model of the session; empty for the configured model, or for that of the resumed
            session.
        approve: Its approval policy; likewise.
        takes_over: Whether the terminal showed this session until now, while another one had it
            open.
        repairs: Whether the terminal showed this session until its log could no longer be written.
    """

    resume: str = ""
    draft: str = ""
    mode: str | None = None
    model: str = ""
    approve: str | None = None
    takes_over: bool = False
    repairs: bool = False


@attrs.define
class _Repair:
    """An attempt to open a session again whose log could not be written.

    Attributes:
        done: Event that is set when the attempt has ended.
        error: Why the session cannot be opened; None if it is open.
    """

    done: trio.Event = attrs.field(factory=trio.Event)
    error: HilumError | None = None


class Conversation:
    """The session that the user talks to; ``/resume``, ``/clear`` and others replace it.

    Args:
        options: The options of the conversation.
        face: The face that shows the conversation.

    Attributes:
        session: The open session; None while it opens or closes.
        view: The view of the session's events.
        transcript: The transcript of the session.
        shells: The shell lines that are running.
        stored_id: Id of the session if it is stored, so that it can be resumed; otherwise empty.
        opened: Event that is set while a session is open.
        retry: The next attempt at a failed model call; None if there is none.
        used_context: Tokens in the agent's last request and its answer, as counted by the provider.
        stops: Number of times that the user has stopped the agent.
    """

    def __init__(self, options: ChatOptions, face: FaceProtocol) -> None:
        self.options = options
        self.session: Session | None = None
        self.view = SessionView()
        self.transcript = face.make_transcript(self.view)
        self.shells: list[ShellLine] = []
        self.stored_id = ""
        self.opened = trio.Event()
        self.retry: Retry | None = None
        self.used_context = 0
        self.stops = 0
        self._face = face
        self._left = False
        self._leaving = trio.Event()
        self._next: Start | None = None
        self._repair: _Repair | None = None
        # Set when the user tries again to open a session; None unless an attempt has failed.
        self._attempt: trio.Event | None = None
        self.images = PromptImages()
        # The session that was open last, whose unread outputs a repair keeps.
        self._last: Session | None = None
        # The prompts of an earlier process that were given back, and are still in the queue.
        self._unsent: list[LeftPrompt] = []
        # The ids of the prompts and messages that were sent while the agent was working, in order.
        self._sent: list[str] = []
        # The messages that were sent in another terminal.
        self._foreign_texts: set[str] = set()
        # What a lasting approval of each call that needed approval covers.
        self._asked_scopes: dict[str, str] = {}
        # The ids of the agents that were open when an earlier process ended.
        self._cut_off_agents: frozenset[str] = frozenset()
        self._opening: trio.CancelScope | None = None
        self._shell_scopes: list[trio.CancelScope] = []
        # Why the log of the session that has ended could not be written.
        self._lost: HilumError | None = None
        self._nursery: trio.Nursery | None = None

    # --- opening ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run one session after another, until the user leaves.

        Raises:
            HilumError: A session cannot be opened, and there is no previous session to return to.
        """
        options = self.options
        start = Start(options.resume, "", options.mode, options.model, options.approve)
        stored = ""
        while not self._left:
            self._leaving = trio.Event()
            self._next = None
            self._lost = None
            try:
                await self._run_session(start)
            except HilumError as error:
                if start.repairs:
                    await self._wait_for_attempt(error)
                    continue
                if not stored or start.resume == stored:
                    raise
                self._face.show_error(error)
                # Return to the previous session, so that nothing is lost.
                start = Start(stored, start.draft)
                continue
            stored = self.stored_id or stored
            if self._next is None:
                if self._lost is not None:
                    # The exit code shows that the end of the conversation is not in the log.
                    raise self._lost
                return
            start = self._next
            if start.draft:
                self._face.give_back([start.draft])

    async def _run_session(self, start: Start) -> None:
        """Open a session, and serve it until the user leaves."""
        options = self.options
        with trio.CancelScope() as self._opening:
            approve = start.approve
            if not start.resume:
                approve = await self._face.ask_trust(options.workspace) or approve
            opening = open_standard_session(
                options.workspace,
                resume=start.resume,
                attended=True,
                mode=start.mode,
                model=start.model,
                approve=approve,
                plugins=options.plugins,
                extra_plugins=[Path(path) for path in options.plugin],
                without=options.no_plugin,
                settings=options.settings,
                environ=options.environ,
                # The conversation can open without a model, and helps the user set one up.
                needs_model=False,
                share=True,
            )
            async with opening as session:
                # From now on, leaving stops the runs before the session closes.
                self._opening = None
                _end_start()
                await self._work(session, start)
                last = session.journal.last
            # Not reached if the user left before the session opened.
            self._show_late_errors(session, last)

    def _show_late_errors(self, session: Session, last: int) -> None:
        """Show errors that were written while the session closed, which nobody has read."""
        if not session.journal.has_in_memory(last):
            return
        for event in session.journal.durable_since(last):
            if isinstance(event, ErrorRaised):
                error = HilumError(event.message, code=event.code, hint=event.hint)
                self._face.show_error(error)

    async def _wait_for_attempt(self, error: HilumError) -> None:
        """Report that a session cannot be opened again, and wait for the user's next attempt."""
        self._attempt = trio.Event()
        self._end_repair(error)
        await self._attempt.wait()
        self._attempt = None

    def _end_repair(self, error: HilumError | None = None) -> None:
        repair = self._repair
        self._repair = None
        if repair is not None:
            repair.error = error
            repair.done.set()

    async def _reopen_broken(self) -> None:
        """Open the session again, because its log could not be written.

        Raises:
            HilumError: The log still cannot be written. The next call tries again.
        """
        if self._repair is None:
            self._repair = _Repair()
            if self._attempt is not None:
                self._attempt.set()
            else:
                self._next = Start(self.stored_id, takes_over=True, repairs=True)
                self._end_session()
        repair = self._repair
        await repair.done.wait()
        if repair.error is not None:
            raise repair.error

    async def _work(self, session: Session, start: Start) -> None:
        """Serve an open session until the user leaves."""
        if start.repairs and self._last is not None:
            session.unread_outputs.put_back(self._last.unread_outputs.take())
        self._begin(session)
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._follow, session, start.takes_over)
                nursery.start_soon(report_delays, session.journal, self._tell_of_delay)
                if isinstance(session, JoinedSession):
                    report_problems(session, self._face, self.transcript)
                    nursery.start_soon(self._watch_owner, session)
                self.opened.set()
                self._end_repair()
                nursery.start_soon(self._face.welcome)
                await self._leaving.wait()
                await self._end_runs(session)
                nursery.cancel_scope.cancel()
        finally:
            self._nursery = None
            self._close()

    def _tell_of_delay(self, reason: StoreError | None) -> None:
        """Tell the user that the conversation waits for its store, or goes on."""
        if reason is None:
            self._face.say("The session is being stored again; the agents go on.")
        else:
            # Nothing has failed yet; if the store stays away, the error follows.
            self._face.say(f"{reason.message} The agents wait. {reason.hint}", style="warning")

    def _begin(self, session: Session) -> None:
        """Discard all state of the previous session."""
        self.session = session
        self.view = SessionView()
        self.retry = None
        self.used_context = 0
        self._last = session
        self._unsent = []
        self._sent = []
        self._foreign_texts = set()
        self._asked_scopes = {}
        self._cut_off_agents = frozenset()
        self.transcript = self._face.make_transcript(self.view)
        self.transcript.turn_times_from = session.settings(TerminalSettings).turn_times_from
        self.stored_id = "" if isinstance(session.kernel.store, MemoryStore) else session.id
        self._face.note_waiting()

    def _close(self) -> None:
        """Make everything that the user sends from now on wait for the next session."""
        self.session = None
        # An event that is not set is kept, because texts may already wait for it.
        if self.opened.is_set():
            self.opened = trio.Event()
        self._face.note_waiting()

    async def _watch_owner(self, session: JoinedSession) -> None:
        """Open the session here when the terminal that has it open leaves."""
        if await offer_takeover(session, self._face):
            self._next = Start(session.id, takes_over=True)
            self._end_session()

    async def _end_runs(self, session: Session) -> None:
        """Stop everything before the session closes, so that the log has an end for each run."""
        for scope in self._shell_scopes:
            scope.cancel()
        if isinstance(session, JoinedSession):
            # The work goes on in the other terminal.
            return
        if session.journal.broken is not None:
            # Nothing runs any more, and no end can be written.
            self._lost = session.journal.broken
            return
        with suppress(StoreError):
            await self._stop_and_keep_prompts(session)

    async def _stop_and_keep_prompts(self, session: Session) -> None:
        """Stop all runs, and keep the prompts and messages that no agent has read.

        Raises:
            StoreError: The log cannot be written.
        """
        waiting = take_waiting_prompts(session)
        if not self._unsent:
            session.stop()
        # The user has not decided about the prompts that were given back, so they are kept.
        for identity in list(session.runs) if self._unsent else ():
            session.stop(run=identity)
        with trio.move_on_after(MAX_STOP):
            for run in list(session.runs.values()):
                await run.wait()
        leave_prompts(session, waiting)

    def leave(self) -> None:
        """Close the session and end the conversation."""
        self._left = True
        self._next = None
        self._end_session()

    def reopen(self, resume: str = "", draft: str = "", *, same: bool = False) -> None:
        """Close the session, and open another one in its place.

        Args:
            resume: Id of the session; empty for a new one.
            draft: Text to insert into the input.
            same: Whether the new session keeps this session's mode, model and policy. Otherwise,
                the new session has its own.
        """
        session = self.session
        if session is None or not same:
            self._next = Start(resume, draft)
        else:
            mode = session.mode.name
            self._next = Start(resume, draft, mode, session.model, session.approve)
        self._end_session()

    def _end_session(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
        if self._left and self._attempt is not None:
            self._attempt.set()
        self._close()
        self._leaving.set()

    # --- events -----------------------------------------------------------------------------------

    async def _follow(self, session: Session, takes_over: bool) -> None:
        """Apply events to the view and the transcript, until the session closes."""
        view = self.view
        before = session.began_at
        count = 0
        shown_bugs: set[str] = set()
        async for item in session.events(deltas=True):
            is_earlier = isinstance(item, Event) and item.seq <= before
            try:
                changes = view.apply(item)
                if not is_earlier:
                    self._show(item, changes)
                elif isinstance(item, Event) and item.seq == before:
                    self._show_earlier(session, takes_over)
            except Exception as error:
                # An event that cannot be shown must not end the runs of the conversation. The same
                # error may follow with each piece of an answer.
                if repr(error) not in shown_bugs:
                    shown_bugs.add(repr(error))
                    self._face.show_bug(error)
            count += 1
            if is_earlier and count % 500 == 0:
                # Reading a long session must not delay the handling of keys.
                await trio.lowlevel.checkpoint()
        broken = session.journal.broken
        if broken is not None:
            self._face.show_error(broken)
            # The open questions can no longer be answered.
            self._face.note_waiting()
            self._face.changed()

    def _show(self, item: Event | Delta, changes: Changes) -> None:
        """Show a new event or chunk of output."""
        if any(part in _WAITING_PARTS for part in changes.parts):
            self._face.note_waiting()
        self.transcript.apply(item, changes, time.time())
        if self.transcript.held and self._nursery is not None:
            self._nursery.start_soon(self._write_held, self.transcript)
        self._react(item, changes)
        self._face.changed()

    async def _write_held(self, transcript: Transcript) -> None:
        """Write the ended calls that wait for earlier ones, after a short time."""
        await trio.sleep(HOLD_SECONDS)
        transcript.write_held()
        self._face.changed()

    def _show_earlier(self, session: Session, takes_over: bool) -> None:
        """Show the last entries of a resumed session, so that the user sees where it stopped."""
        entries = self.view.entries
        # A terminal that takes a session over has already shown its entries.
        shown = [] if takes_over else entries[-SHOWN_AGAIN:]
        if len(shown) < len(entries) and not takes_over:
            self.transcript.note(f"… {len(entries) - len(shown)} earlier entries", "dim")
        self.transcript.replay(shown)
        self.used_context = self._find_used_context()
        if not isinstance(session, JoinedSession):
            self._cut_off_agents = frozenset(each.id for each in self.view.agents.open())
        actor = self.view.lead_actor
        if session.agents[self.view.lead].conversation.run is not None and not self.is_working:
            self.transcript.note(
                "The last run was cut off. /continue continues it; a new prompt abandons it.",
                "warning",
            )
            self._note_cut_off()
        elif actor.proposal is not None:
            self.transcript.note("A plan is waiting for your decision.", "warning")
        self._note_unread_outputs(session)
        self._give_back_unsent(session)
        # The items were looked for before the log was read.
        self._face.note_waiting()
        self._face.changed()

    def _note_cut_off(self) -> None:
        """Name the calls that were running when the earlier process ended."""
        running = [card for card in self.view.open_cards if card.state == "running"]
        for card in running[:MAX_CUT_OFF]:
            name = self.view.name_of(card.agent)
            agent = f"{one_line(name)}: " if name else ""
            action = describe_action(card.call.name, card.arguments)
            self.transcript.note(
                f"Was running, and may have had an effect: {agent}{action}", "warning"
            )
        if len(running) > MAX_CUT_OFF:
            self.transcript.note(f"… and {len(running) - MAX_CUT_OFF} more calls", "warning")

    def _find_used_context(self) -> int:
        """Return the tokens of the last model call; 0 if the conversation was compacted since."""
        for entry in reversed(self.view.entries):
            if isinstance(entry, Notice) and entry.about == "compacted":
                return 0
            if isinstance(entry, Answer) and entry.agent == self.view.lead and entry.usage.total:
                return entry.usage.input + entry.usage.output
        return 0

    def _note_unread_outputs(self, session: Session) -> None:
        """Say that the agent will read outputs of commands that the user ran in an earlier process."""
        if isinstance(session, JoinedSession) or not session.unread_outputs:
            return
        commands = format_count(len(session.unread_outputs), "command")
        self.transcript.note(
            f"With your next prompt, the agent also reads the output of {commands} that you ran.",
            "dim",
        )

    def _give_back_unsent(self, session: Session) -> None:
        """Return the prompts that waited when an earlier process ended to the input."""
        if isinstance(session, JoinedSession):
            # The prompts wait in the other terminal.
            return
        self._unsent = find_left_prompts(session)
        if not self._unsent:
            return
        self.transcript.note(describe_left_prompts(self._unsent), "warning")
        for prompt in self._unsent:
            self.images.restore(prompt.text, prompt.images)
            if prompt.attached:
                session.unread_outputs.add(prompt.run, prompt.attached)
        self._face.give_back([prompt.text for prompt in self._unsent])

    def _drop_unsent(self, session: Session) -> None:
        """Remove the prompts that were given back from the queue."""
        left = self._unsent
        self._unsent = []
        drop_left_prompts(session, left)

    def _react(self, item: Event | Delta, changes: Changes) -> None:
        """Track state that the view does not contain, and notify the user."""
        if isinstance(item, ApprovalAnswered) and not self._is_own(item.id):
            place = describe_place(item.id, self.session, item.user)
            text = _describe_foreign_answer(item, changes, place)
            self.transcript.note(text + self._describe_lasting(item), "dim")
        if isinstance(item, ApprovalAsked):
            self._asked_scopes[item.id] = item.scope or f"all calls of {item.call.name}"
            self._face.call_attention("hilum is waiting for your approval")
        if isinstance(item, Delta) or item.agent != self.view.lead:
            return
        match item:
            case SteeringQueued(id=identity) if not self._is_own(identity):
                self._foreign_texts.add(item.text)
            case SteeringQueued(id=identity) | PromptQueued(run=identity):
                if self._is_own(identity):
                    self._sent.append(identity)
            case ModelFailed(action="retry"):
                self.retry = Retry(item.attempt + 1, item.at + item.wait)
            case ModelStarted() | ModelFailed():
                self.retry = None
            case ModelAnswered():
                used = item.usage.input + item.usage.output
                self.used_context = used or self.used_context
            case RunEnded():
                self.retry = None
                self._end_run(item, changes)

    def _describe_lasting(self, answer: ApprovalAnswered) -> str:
        """Return what a lasting approval that was given elsewhere covers, and for how long."""
        if not answer.accepted or answer.remember == "once":
            return ""
        scope = inline(self._asked_scopes.get(answer.id, "all calls like this one"))
        how_long = "until this session ends"
        if answer.remember == "always":
            how_long = "in later sessions"
        return f"\nAlso allowed {how_long}: {scope} (/permissions shows it)"

    def _is_own(self, identity: str) -> bool:
        """Return whether a prompt, message or answer was not given elsewhere."""
        return not is_answered_elsewhere(identity, self.session)

    def _end_run(self, end: RunEnded, changes: Changes) -> None:
        """Return unread messages to the draft, and notify the user that a long run has ended."""
        for entry in changes.entries:
            if isinstance(entry, Outcome):
                unread = [text for text in entry.unread if text not in self._foreign_texts]
                if unread:
                    self._face.give_back(unread)
        if end.state == "stopped" and self._is_own(end.run) and self._was_unanswered(end.run):
            self._face.give_back([self._prompt_of(end.run)])
        if not self.is_working:
            self._sent = []
        session = self.session
        if session is None:
            return
        if end.seconds >= session.settings(TerminalSettings).notify_after:
            self._face.call_attention(f"hilum: the run ended ({end.state.replace('_', ' ')})")

    def _was_unanswered(self, run: str) -> bool:
        """Return whether the model produced neither an answer nor a call in a run."""
        for entry in reversed(self.view.entries):
            if entry.run != run:
                continue
            if isinstance(entry, Card) or (isinstance(entry, Answer) and entry.state == "done"):
                return False
            if isinstance(entry, Prompt):
                return not entry.steers and run != self.transcript.answered_run
        return False

    def _prompt_of(self, run: str) -> str:
        for entry in reversed(self.view.entries):
            if isinstance(entry, Prompt) and entry.run == run:
                return entry.typed or entry.text
        return ""

    # --- what the user says -----------------------------------------------------------------------

    @property
    def is_working(self) -> bool:
        """Whether the agent that the user talks to has a run or a waiting prompt."""
        # If the log cannot be written, nothing runs.
        if self.session is None or self.is_broken:
            return False
        agent = self.session.agents.get(self.view.lead)
        # A run that was cut off when an earlier process ended is pending in the log, but is not
        # running.
        return agent is not None and any(
            run in self.session.runs for run in agent.conversation.pending
        )

    def is_alive(self, card: Card) -> bool:
        """Return whether an open call runs or waits, and was not cut off with an earlier process."""
        session = self.session
        if session is None or self.is_broken:
            return False
        if isinstance(session, JoinedSession):
            # The runs are in the other terminal.
            return self.is_working or bool(self.view.agents.open())
        agent = session.agents.get(card.agent)
        return agent is not None and any(run in session.runs for run in agent.conversation.pending)

    @property
    def open_agents(self) -> list[AgentView]:
        """The agents that run or wait, without those that ended with an earlier process."""
        session = self.session
        found = self.view.agents.open()
        if session is None or not self._cut_off_agents:
            return found
        return [
            each
            for each in found
            if each.id not in self._cut_off_agents
            or (each.actor in {run.agent for run in session.runs.values()})
        ]

    @property
    def is_broken(self) -> bool:
        """Whether the log can no longer be written, for example because the disk is full."""
        return self.session is not None and self.session.journal.broken is not None

    @property
    def is_lost(self) -> bool:
        """Whether the session could not be opened again after its log could not be written."""
        return self._attempt is not None

    @property
    def waiting_prompts(self) -> list[str]:
        """The prompts that wait for the end of the current run."""
        session = self.session
        if session is None:
            return []
        agent = session.agents.get(self.view.lead)
        starting = agent.starting if agent is not None else ""
        queued = self.view.lead_actor.queued
        return [text for run, text in queued.items() if run != starting and run in session.runs]

    @property
    def is_last_queued(self) -> bool:
        """Whether the text that was entered last waits for the end of the run."""
        actor = self.view.lead_actor
        for identity in reversed(self._sent):
            if identity in actor.steering:
                return False
            if identity in actor.queued:
                return True
        return True

    @property
    def has_prompts(self) -> bool:
        """Whether the user has sent a prompt in this session, which makes it worth resuming."""
        return any(isinstance(entry, Prompt) for entry in self.view.entries)

    async def prompt(self, text: str) -> None:
        """Send a prompt; it runs after the agent's current run."""
        try:
            session = await self.wait_until_open()
        except HilumError as error:
            self._face.show_error(error)
            self._face.give_back([text])
            return
        try:
            images = await self.images.read(text)
            if self.images.has_others(text):
                self.transcript.note(OLD_IMAGE, "warning")
            self._drop_unsent(session)
            run = await session.prompt(text, images=images)
        except HilumError as error:
            self._show_failure(error)
            # A rejected prompt must not be lost.
            self._face.give_back([text])
            return
        if run.reply is not None:
            self.transcript.write_markdown(run.reply)

    async def steer(self, text: str) -> None:
        """Send a message to a running agent; if the run has ended, send the text as a prompt."""
        stops = self.stops
        try:
            session = await self.wait_until_open()
            await session.steer(text)
        except UsageError:
            # The run has ended in the meantime. If the user stopped it, the text is not sent.
            if self.stops == stops:
                await self.prompt(text)
            else:
                self._face.give_back([text])
        except HilumError as error:
            self._show_failure(error)
            self._face.give_back([text])

    def _show_failure(self, error: HilumError) -> None:
        """Show an error, unless it is shown anyway because the log can no longer be written."""
        session = self.session
        if session is None or error is not session.journal.broken:
            self._face.show_error(error)

    async def wait_until_open(self) -> Session:
        """Return the session when it is open; open it again if its log could not be written.

        Raises:
            HilumError: The session cannot be opened again. The next call tries again.
        """
        if self.is_broken or self._attempt is not None or self._repair is not None:
            await self._reopen_broken()
        while self.session is None:
            await self.opened.wait()
        return self.session

    def stop(self) -> None:
        """Stop the running shell lines or, if there are none, the agent's run.

        Texts that the agent has not read return to the user's draft.
        """
        if self._shell_scopes:
            for scope in self._shell_scopes:
                scope.cancel()
            return
        session = self.session
        if session is None:
            return
        self.stops += 1
        try:
            queued = self.take_queued()
            session.stop(self.view.lead)
        except HilumError as error:
            # The log cannot be written, so the session no longer accepts anything.
            self._face.show_error(error)
            return
        if queued:
            self._face.give_back(queued)

    def take_queued(self) -> list[str]:
        """Remove all queued prompts and unread messages, and return their texts in order.

        Raises:
            StoreError: The log cannot be written.
        """
        texts = []
        for identity in list(self._sent):
            text = self._take(identity)
            if text:
                texts.append(text)
        return texts

    def take_last_queued(self) -> str:
        """Remove the message or prompt that was queued last, and return its text.

        Raises:
            StoreError: The log cannot be written.
        """
        for identity in reversed(self._sent):
            text = self._take(identity)
            if text:
                return text
        return ""

    def _take(self, identity: str) -> str:
        """Withdraw a message or prompt, and return its text; empty if it is too late."""
        session = self.session
        if session is None:
            return ""
        actor = self.view.lead_actor
        steering = actor.steering.get(identity, "")
        if steering:
            return steering if session.withdraw(identity, agent=self.view.lead) else ""
        queued = actor.queued.get(identity, "")
        if not queued or identity == session.agents[self.view.lead].starting:
            return ""
        session.stop(self.view.lead, run=identity)
        return queued

    async def continue_run(self) -> None:
        """Continue a run that was cut off, or start the last run again.

        Raises:
            HilumError: The session cannot be opened again after its log could not be written.
        """
        session = await self.wait_until_open()
        if self._nursery is None:
            return
        try:
            self._drop_unsent(session)
            resumed = session.resume()
        except HilumError as error:
            self._face.show_error(error)
            return
        if not resumed:
            self._nursery.start_soon(self._retry, session)

    async def _retry(self, session: Session) -> None:
        try:
            await session.retry(self.view.lead)
        except HilumError as error:
            self._face.show_error(error)

    async def run_shell(self, command: str) -> None:
        """Run a shell line; the agent reads its output with the next prompt."""
        try:
            session = await self.wait_until_open()
        except HilumError as error:
            self._face.show_error(error)
            self._face.give_back([f"!{command}"], is_typed=True)
            return
        try:
            refuse_joined(session, "A shell line (!)")
        except HilumError as error:
            self._face.show_error(error)
            self._face.give_back([f"!{command}"], is_typed=True)
            return
        line = ShellLine(command, began=time.time())
        self.shells.append(line)
        scope = trio.CancelScope()
        self._shell_scopes.append(scope)
        try:
            with scope:
                await run_shell_line(session, line, self._face.changed)
        finally:
            self._shell_scopes.remove(scope)
            self.shells.remove(line)
        # If another session has begun, its agent must not read the output of this command.
        if session is self.session:
            told = attach_output(session, os.urandom(6).hex(), line.attached)
            # Other terminals and pages show the note; this one shows the command and its output.
            self.transcript.skip(note_end(session, line, "The user", "in the terminal"))
            if told:
                self.transcript.note(told, "dim")
        self.transcript.write_shell_line(line, time.time() - line.began)


def _describe_foreign_answer(answer: ApprovalAnswered, changes: Changes, place: str) -> str:
    """Return which call was allowed or denied elsewhere, and where."""
    verdict = "Allowed" if answer.accepted else "Denied"
    for entry in changes.entries:
        if isinstance(entry, Card):
            action = describe_action(entry.call.name, entry.arguments)
            return f"{verdict} {place}: {action}"
    return f"{verdict} {place}."


def _end_start() -> None:
    """Compile as usual, and collect garbage often, but exclude the loaded modules.

    Collecting garbage while modules are loaded only costs time. In a long session, reference cycles
    that are rarely collected would take up 100 MB of memory.
    """
    gc.freeze()
    gc.set_threshold(5_000, 10, 10)
    end_start()
