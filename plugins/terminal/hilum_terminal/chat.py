"""The implementation of the ``Chat`` protocol for both faces."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import trio
from hilum import (
    Confinement,
    HilumError,
    Plans,
    Session,
    UsageError,
    UserQuestions,
    __version__,
    home_folder,
)
from hilum.processes import Command
from hilum_view import Question, SessionView

from hilum_terminal import slash
from hilum_terminal.approval_items import (
    Answer,
    EditCall,
    Item,
    PlanDecision,
    QuestionAnswer,
    Result,
    ShowWhole,
    WaitingCall,
    WaitingPlan,
)
from hilum_terminal.approval_rows import COUNTDOWN
from hilum_terminal.approval_texts import MAX_DESCRIPTION, title_of, whole_rows
from hilum_terminal.call_editing import read_form, write_again, write_form
from hilum_terminal.chat_protocol import Choice, CommandOutput
from hilum_terminal.face_protocol import FaceProtocol
from hilum_terminal.full_view import FullView, Page
from hilum_terminal.row_layout import exact_rows
from hilum_terminal.second_terminal import is_joined
from hilum_terminal.setup import describe_policy, ensure_model
from hilum_terminal.styles import Style, Theme
from hilum_terminal.text_editor import edit_text
from hilum_terminal.transcript import Block
from hilum_terminal.trust_question import ask_trust
from hilum_terminal.waiting_items import WaitingItems

# Number of bytes of a command's output to keep, half from its beginning and half from its end.
MAX_OUTPUT = 8_000_000
PROGRAM = "from hilum.__main__ import main; raise SystemExit(main())"
# What the key ``y`` answers in the full-screen view; a question of the agent has several answers.
VIEW_ANSWERS: dict[type[Item], str] = {WaitingCall: "yes, once", WaitingPlan: "carry it out"}


class ChatCommands:
    """The object that carries out commands and decisions in a conversation.

    Args:
        face: The face that shows the conversation.
    """

    def __init__(self, face: FaceProtocol) -> None:
        self._face = face
        self._waiting: WaitingItems | None = None
        self._waiting_of: Session | None = None
        self._waiting_changed = trio.Event()
        # The texts of edited calls that could not be read, by the id of the approval.
        self._forms: dict[str, str] = {}

    # --- the protocol -----------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The open session.

        Raises:
            UsageError: The session is not open yet.
        """
        session = self._face.conversation.session
        if session is None:
            raise UsageError("The session is not open yet.", hint="Try again in a moment.")
        return session

    @property
    def view(self) -> SessionView:
        """The view of the session."""
        return self._face.conversation.view

    @property
    def has_keys(self) -> bool:
        """Whether single keys have a meaning, unlike in plain lines."""
        return self._face.has_keys

    def say(self, text: str, *, style: Style = "plain") -> None:
        """Write text above the input."""
        self._face.conversation.transcript.note(text, style)

    def say_markdown(self, text: str) -> None:
        """Write Markdown above the input."""
        self._face.conversation.transcript.write_markdown(text)

    def say_rows(self, make_rows: Callable[[int, Theme], list[str]]) -> None:
        """Write rows that are laid out for the current width."""
        self._face.commit(Block("note", make_rows))

    def show_error(self, error: HilumError) -> None:
        """Show an error with its code and hint."""
        self._face.show_error(error)

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        selected: int = 0,
        empty: str = "",
        has_filter: bool = True,
    ) -> Choice | None:
        """Return the user's choice, or ``None`` if the user pressed Esc."""
        return await self._face.choose(
            title, choices, selected=selected, empty=empty, has_filter=has_filter
        )

    async def confirm(self, question: str, *, yes: str, no: str = "No", details: str = "") -> bool:
        """Ask a yes-or-no question; "no" is selected."""
        return await self._face.confirm(question, yes=yes, no=no, details=details)

    async def ask(self, question: str, *, default: str = "", secret: bool = False) -> str | None:
        """Ask for a line of text; return ``None`` if the user pressed Esc."""
        return await self._face.ask(question, default=default, secret=secret)

    async def edit(self, text: str, suffix: str = ".md") -> str:
        """Let the user edit text in an editor, and return the edited text."""
        self._face.hold_keys()
        try:
            return await edit_text(text, suffix, self._face.lend(), self._environ)
        finally:
            self._face.release_keys()

    async def run_hilum(self, arguments: Sequence[str]) -> CommandOutput:
        """Run a ``hilum`` command as a child process in the session's folder."""
        # With -P, no file in the folder can shadow a module.
        argv = [sys.executable, "-P", "-c", PROGRAM, *arguments]
        # The session's own processes run in the sandbox, which hides the user's settings. Its
        # warden starts the command as it is, and ends it when hilum ends.
        session = self.session
        command = Command(tuple(argv), str(session.workspace.root), dict(self._environ))
        done = await session.kernel.warden.run(command, limit=MAX_OUTPUT)
        out = done.stdout.decode(errors="replace")
        err = done.stderr.decode(errors="replace")
        return CommandOutput(done.returncode, out, err)

    @property
    def _environ(self) -> Mapping[str, str]:
        return self._face.conversation.options.environ

    async def reopen(self, *, resume: str = "", draft: str = "", same: bool = False) -> None:
        """Close this session, open another one in its place, and wait until that session is open.

        Args:
            resume: Id of the session; empty for a new one.
            draft: Text to insert into the input.
            same: Whether the new session is a copy of this session, which keeps the mode, model and
                policy.

        Raises:
            UsageError: The session cannot be opened; the conversation shows why, and the previous
                session is open again.
        """
        conversation = self._face.conversation
        conversation.reopen(resume, draft, same=same or not resume)
        await conversation.opened.wait()
        if resume and self.session.id != resume:
            raise UsageError(
                f"Session {resume} was not opened; this is still {self.session.id}.",
                hint="/resume lists the conversations in this folder.",
            )

    def set_draft(self, text: str) -> None:
        """Insert text into the input."""
        self._face.give_back([text])

    async def copy(self, text: str) -> str:
        """Copy text to the clipboard, and return how it was copied."""
        return await self._face.copy(text)

    def quit(self) -> None:
        """End the program."""
        self._face.leave()

    async def continue_run(self) -> None:
        """Continue the last run if it was cut off, stopped or failed."""
        await self._face.conversation.continue_run()

    # --- the first minute -------------------------------------------------------------------------

    async def ask_trust(self, folder: str) -> str | None:
        """Ask whether the user trusts a folder; return the resulting approval policy, if any."""
        return await ask_trust(self, folder)

    async def welcome(self) -> None:
        """Greet the user in a new session, and help them choose a model if there is none."""
        session = self.session
        if is_joined(session):
            return
        if not session.began_at:
            folder = describe_folder(session.workspace.root)
            self.say(f"hilum {__version__} · {folder} · ? shows the keys, /help the commands")
            self.say(describe_policy(session), style="dim")
        try:
            model = await ensure_model(self)
            if model and not session.model:
                session.set(model=model)
        except HilumError as error:
            self.show_error(error)

    # --- commands ---------------------------------------------------------------------------------

    async def run(self, text: str) -> None:
        """Run a command; send any other text as a prompt."""
        conversation = self._face.conversation
        if conversation.is_lost:
            await conversation.wait_until_open()
        await conversation.opened.wait()
        if not await slash.run_command(self, text):
            await self._face.conversation.prompt(text)

    def keeps_conversation(self, text: str) -> bool:
        """Return whether a command only shows something, so that messages need not wait for it."""
        session = self._face.conversation.session
        found = slash.find_command(session, text) if session is not None else None
        return found is not None and found[0].keeps_conversation

    async def remember(self, text: str) -> None:
        """Add a sentence to the memory for later sessions, as ``hilum memory add`` does."""
        done = await self.run_hilum(["memory", "add", text])
        if done.code:
            self.say(done.err.strip() or "The sentence could not be remembered.", style="bad")
        else:
            self.say(done.out.strip() or f"Remembered: {text}", style="dim")

    def calls_agent(self, text: str) -> bool:
        """Return whether a text calls another agent, which only a prompt can do."""
        if not text.strip().startswith("@"):
            return False
        name = text.split(None, 1)[0].removeprefix("@")
        session = self._face.conversation.session
        return session is not None and any(
            mention.text == name for mention in slash.list_mentions(session)
        )

    def next_mode(self) -> None:
        """Switch to the next mode."""
        try:
            session = self.session
            names = list(session.modes)
            position = names.index(session.mode.name) if session.mode.name in names else -1
            session.set(mode=names[(position + 1) % len(names)])
        except HilumError as error:
            self.show_error(error)

    def find_sandbox(self) -> str:
        """Return the kind of sandbox that the session's commands run in; empty if there is none."""
        session = self._face.conversation.session
        if session is None:
            return ""
        service = session.plugin(Confinement)
        return service.describe_confinement() if service is not None else ""

    @property
    def context_left(self) -> float | None:
        """The free share of the model's context window, from 0 to 1; None if unknown."""
        session = self._face.conversation.session
        if session is None:
            return None
        agent = session.agents.get(self.view.lead)
        used = self._face.conversation.used_context
        if agent is None or not used:
            return None
        try:
            window = session.kernel.router.model(session.kernel.router.current(agent)).info.window
        except HilumError:
            return None
        return max(1 - used / window, 0.0) if window else None

    # --- what waits for the user ------------------------------------------------------------------

    def note_waiting(self) -> None:
        """Request a new check of the items that wait for the user."""
        self._waiting_changed.set()

    async def watch_waiting_items(self) -> None:
        """Show every change in the items that wait for the user, until cancelled."""
        while True:
            await self._waiting_changed.wait()
            self._waiting_changed = trio.Event()
            session = self._face.conversation.session
            if session is None:
                self._face.show_waiting([])
                continue
            if self._waiting is None or self._waiting_of is not session:
                self._waiting = WaitingItems(session, self.view, self.find_sandbox)
                self._waiting_of = session
                # The ids of approvals restart in the next session.
                self._forms = {}
            await self._waiting.describe()
            open_ids = {each.id for each in self.view.waiting}
            self._forms = {key: text for key, text in self._forms.items() if key in open_ids}
            # Another session may have been opened in the meantime.
            if self._face.conversation.session is session:
                self._face.show_waiting(self._waiting.items(clock_offset()))

    def decide(self, result: Result) -> None:
        """Carry out the user's decision about an item."""
        try:
            self._decide(result)
        except HilumError as error:  # the item expired, or was answered in another terminal
            self.show_error(error)
            self._face.reopen_item(result.id)
            self.note_waiting()

    def start_clock(self, identity: str) -> None:
        """Start the time limit of an approval that the user now sees."""
        with suppress(HilumError):  # the item is a question or a plan, or was just answered
            self.session.approval_shown(identity)

    def _decide(self, result: Result) -> None:
        match result:
            case Answer() if result.comment:
                self._face.spawn(lambda: self._answer_with_comment(result))
            case Answer():
                self._answer_call(result)
            case ShowWhole():
                self._show_whole(result)
            case EditCall():
                # Released by ``_end_edit``.
                self._face.hold_keys()
                self._face.spawn(lambda: self._edit_call(result.id))
            case QuestionAnswer():
                self._answer_question(result)
            case PlanDecision():
                if result.decision == "edit":
                    self._face.hold_keys()
                self._face.spawn(lambda: self._decide_plan(result))

    def _answer_call(self, answer: Answer) -> None:
        self.session.answer(
            answer.id,
            answer.accepted,
            reason=answer.reason,
            remember=answer.remember,
            arguments=answer.arguments,
        )

    async def _answer_with_comment(self, answer: Answer) -> None:
        """Send the comment on a call, and then allow the call.

        In this order, the agent reads the comment together with the result of the call. A call
        whose comment cannot be delivered does not run, because the comment may be a condition. If
        the call cannot be allowed, the comment is withdrawn, because it is about this call.
        """
        agent = next((each.agent for each in self.view.waiting if each.id == answer.id), None)
        if agent is None:  # the call no longer waits
            self._face.give_back([answer.comment])
            return
        message = ""
        try:
            message = await self.session.steer(answer.comment, agent=agent)
            self._answer_call(answer)
        except HilumError as error:
            # A comment that the agent has read must not be sent again with the next answer.
            if not message or self.session.withdraw(message, agent=agent):
                self._face.give_back([answer.comment])
            self.show_error(error)
            self._face.reopen_item(answer.id)
            self.note_waiting()

    def _find(self, identity: str) -> Item | None:
        if self._waiting is None:
            return None
        items = self._waiting.items(clock_offset())
        return next((item for item in items if item.id == identity), None)

    def _show_whole(self, request: ShowWhole) -> None:
        """Show a call, a question or a plan in full, in the scrollback or on the whole screen."""
        item = self._find(request.id)
        if item is None:
            return

        def make(width: int, theme: Theme) -> list[str]:
            if request.text:
                return exact_rows(request.text, width)
            return whole_rows(item, width, theme)

        size = len(item.description) if isinstance(item, WaitingCall) else MAX_DESCRIPTION
        size = max(size, len(request.text))
        if request.full_screen:
            answer = "" if request.text else VIEW_ANSWERS.get(type(item), "")
            page = Page(title_of(item), make, size, lambda: self._describe_wait(item), answer)
            self._face.open_full_view(FullView([page]))
        else:
            self._face.commit(Block("note", make, size))

    def _describe_wait(self, item: Item) -> str:
        """Return how long an item still waits, for the full-screen view."""
        if self._find(item.id) is None:
            return "no longer waiting"
        left = item.deadline - trio.current_time()
        if item.deadline and left <= COUNTDOWN:
            return f"{math.ceil(left)} s left" if left > 0 else "time is up"
        return ""

    async def _edit_call(self, identity: str) -> None:
        """Let the user edit a call's arguments; the edited call still needs approval."""
        try:
            await self._edit_arguments(identity)
        finally:
            await self._end_edit(identity)

    async def _end_edit(self, identity: str) -> None:
        """Show an item as edited, and let the user answer it again."""
        waiting = self._waiting
        try:
            if waiting is not None and self._waiting_of is self._face.conversation.session:
                await waiting.describe()
                self._face.show_waiting(waiting.items(clock_offset()))
        finally:
            self._face.end_edit(identity)
            self._face.release_keys()

    async def _edit_arguments(self, identity: str) -> None:
        item = self._find(identity)
        if not isinstance(item, WaitingCall) or self._waiting is None:
            return
        approval = next((each for each in self.view.waiting if each.id == identity), None)
        if approval is None or isinstance(approval, Question):
            return
        before = item.arguments or approval.call.arguments
        try:
            edited = await self._edit_form(identity, approval.call.name, before)
        except HilumError as error:
            self.show_error(error)
            return
        if edited is None:
            self._face.show_notice("The call was not changed.")
        else:
            self._waiting.edit(identity, edited)

    async def _edit_form(self, identity: str, tool: str, arguments: str) -> str | None:
        """Let the user edit arguments as a form; return None if nothing was changed.

        Raises:
            UsageError: The arguments cannot be edited, or the edited form is not valid. The text of
                an invalid form is kept, and opened again at the next edit.
        """
        form = await trio.to_thread.run_sync(write_form, tool, arguments)
        opened = self._forms.pop(identity, form.text)
        self._face.hold_keys()
        try:
            terminal = self._face.lend()
            text = await edit_text(opened, ".txt", terminal, self._environ, "call", is_exact=True)
        finally:
            self._face.release_keys()
        if not text.strip():
            # An emptied file discards the edit.
            return None
        if text.rstrip("\n") == opened.rstrip("\n"):
            if opened != form.text:
                self._forms[identity] = opened
            return None
        try:
            return await trio.to_thread.run_sync(read_form, text, form)
        except UsageError as error:
            self._forms[identity] = write_again(text, error, form)
            raise

    def _answer_question(self, result: QuestionAnswer) -> None:
        questions = self.session.plugin(UserQuestions)
        # If the question is not open, it has just expired.
        if questions is not None and questions.is_open(result.id):
            questions.answer(result.id, result.answers)

    async def _decide_plan(self, decision: PlanDecision) -> None:
        try:
            await self._carry_out_decision(decision)
        finally:
            if decision.decision == "edit":
                await self._end_edit(decision.id)
        self.note_waiting()

    async def _carry_out_decision(self, decision: PlanDecision) -> None:
        plans = self.session.plugin(Plans)
        waiting = self._waiting
        if plans is None or waiting is None:
            return
        try:
            match decision.decision:
                case "accept":
                    await plans.accept(waiting.plan or None)
                case "reject":
                    await plans.reject(decision.reason)
                case "edit":
                    proposal = plans.proposal() or self.view.lead_actor.proposal
                    if proposal is not None:
                        edited = await self.edit(waiting.plan or proposal.text)
                        if edited.strip():
                            waiting.edit_plan(edited.strip())
        except HilumError as error:
            self.show_error(error)
            # The plan still waits.
            self._face.reopen_item(decision.id)


def describe_folder(folder: Path) -> str:
    """Return a folder's display name, relative to the home folder."""
    home = home_folder()
    if folder == home or home in folder.parents:
        return str(Path("~") / folder.relative_to(home))
    return str(folder)


def clock_offset() -> float:
    """Return the difference between Unix time and trio's clock, which does not jump."""
    return time.time() - trio.current_time()
