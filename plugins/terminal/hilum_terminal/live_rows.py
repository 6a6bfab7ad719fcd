"""The live rows: everything below the scrollback that is redrawn."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio
from hilum import BackgroundCommands, Session, find_branch
from hilum.events import FINAL
from hilum_view import Actor, AgentView, Answer, Card, Outcome, SessionView, Todo, TodoList

from hilum_terminal.agent_report import agent_report_rows
from hilum_terminal.approvals import FOCUS_KEY
from hilum_terminal.call_descriptions import describe_action
from hilum_terminal.cards import card_rows, ended_call_rows, streaming_call_rows
from hilum_terminal.drawing import Layout
from hilum_terminal.full_view import FullView, Page
from hilum_terminal.markdown_rows import render_tail
from hilum_terminal.panels import OPEN_STATUSES, agent_rows, queue_rows, thinking_rows, todo_rows
from hilum_terminal.prompts import key_label
from hilum_terminal.second_terminal import is_joined
from hilum_terminal.status import State, StatusFacts, status_row
from hilum_terminal.styles import SPINNER, Theme
from hilum_terminal.text_width import cut, escape_text, one_line
from hilum_terminal.transcript import Block, looks_like_ours

if TYPE_CHECKING:
    from hilum_terminal.face import Face

# A taller live region would be pushed into the scrollback when the window shrinks.
TAIL_ROWS = 8
TAIL_COLUMNS = 110
MAX_CARDS = 8
MAX_AGENTS = 6
# Number of characters from a command's output that are searched for its last lines.
SHELL_TAIL = 4_000
_STATES: dict[str, State] = {
    "preparing": "preparing",
    "thinking": "thinking",
    "answering": "answering",
    "working": "working",
}
SPINNER_SECONDS = 0.12
# Number of rows below which a question gets the rows of the status line and of an empty input.
SMALL_ROWS = 12
# Number of rows that a question leaves for the input at most.
MAX_RESERVED_ROWS = 3
# Seconds between checks of the repository's branch.
BRANCH_SECONDS = 3.0


def _expanded_rows(
    item: Card | AgentView, view: SessionView, width: int, theme: Theme, *, whole: bool
) -> list[str]:
    """Return the rows of a call or an agent in full.

    Args:
        item: The call or the agent.
        view: The session.
        width: Available width in columns.
        theme: The styles.
        whole: Whether to also show an agent's calls in full.
    """
    if isinstance(item, Card):
        return ended_call_rows(item, view, width=width, theme=theme, unfolded=True)
    return agent_report_rows(item, view, width=width, theme=theme, now=time.time(), unfolded=whole)


def _make_page(item: Card | AgentView, view: SessionView) -> Page:
    """Return a call or an agent in full as a page of the full-screen view."""

    def make(width: int, theme: Theme) -> list[str]:
        return _expanded_rows(item, view, width, theme, whole=True)

    if isinstance(item, Card):
        action = describe_action(item.call.name, item.arguments)
        return Page(str(action), make, len(item.text) + len(item.arguments))
    texts = [card.text for card in view.cards if card.agent == item.actor]
    size = len(item.answer) + sum(map(len, texts))
    return Page(f"agent {one_line(item.name)}", make, size)


class LiveRows:
    """The builder of the live rows for each frame.

    Args:
        face: The face whose state is drawn.
    """

    def __init__(self, face: Face) -> None:
        self._face = face
        self._branch = ""
        self._sandbox: str | None = None
        self._newest_unfolded: Card | AgentView | None = None
        self._unfolded = 0
        self._services_of: Session | None = None
        self._background: BackgroundCommands | None = None
        self._shows_all = False
        # The items of a finished list that was shown when its run ended.
        self._old_todos: list[Todo] = []

    # --- state ------------------------------------------------------------------------------------

    @property
    def is_animated(self) -> bool:
        """Whether something changes over time without an event, such as a spinner."""
        conversation = self._face.conversation
        if conversation.session is None:
            return True
        return (
            conversation.is_working or bool(conversation.shells) or bool(conversation.open_agents)
        )

    async def watch(self) -> None:
        """Keep track of the repository's branch and of the sandbox, until cancelled."""
        while True:
            await self._face.conversation.opened.wait()
            session = self._face.conversation.session
            if session is not None:
                folder = session.workspace.root
                branch = await trio.to_thread.run_sync(find_branch, folder)
                sandbox = self._face.commands.find_sandbox()
                if (branch, sandbox) != (self._branch, self._sandbox):
                    self._branch = branch
                    self._sandbox = sandbox
                    self._face.drawing.redraw()
            await trio.sleep(BRANCH_SECONDS)

    def toggle_panels(self) -> None:
        """Toggle between all todo items and agents, and only the next ones."""
        self._shows_all = not self._shows_all

    def unfold_last(self) -> None:
        """Write the last call or agent again in full; at the next key press, the one before it."""
        conversation = self._face.conversation
        items = list(conversation.transcript.expandable)
        if not items:
            self._face.show_notice("There is no call yet.")
            return
        if self._newest_unfolded is not items[-1]:
            self._newest_unfolded = items[-1]
            self._unfolded = 0
        if self._unfolded >= len(items):
            self._face.show_notice("There is no earlier call.")
            return
        self._unfolded += 1
        item = items[-self._unfolded]
        self._face.show_notice("Ctrl-O again: the call before it.")
        view = conversation.view

        def make(width: int, theme: Theme) -> list[str]:
            return _expanded_rows(item, view, width, theme, whole=False)

        self._face.commit(Block("card", make, _make_page(item, view).size))

    def open_last(self) -> None:
        """Open the call that was unfolded last, or the last call, in the full-screen view.

        The pages after it are the agents that are still running.
        """
        conversation = self._face.conversation
        ended = list(conversation.transcript.expandable)
        view = conversation.view
        running = [agent for agent in conversation.open_agents if agent.actor != view.lead]
        if not ended and not running:
            self._face.show_notice("There is no call yet.")
            return
        index = max(len(ended) - 1, 0)
        # Ctrl-O may have chosen an earlier call.
        if ended and self._newest_unfolded is ended[-1] and self._unfolded:
            index = len(ended) - self._unfolded
        pages = [_make_page(item, view) for item in (*ended, *running)]
        self._face.open_full_view(FullView(pages, index))

    # --- frames -----------------------------------------------------------------------------------

    def layout(self, size: tuple[int, int], now: float) -> Layout:
        """Return the live rows for a size in columns and lines.

        The rows are, from the top: the end of the streaming answer, calls, agents, the todo list,
        queued messages, the current question, a notice, the input, the menu, and the status line.
        """
        width, lines = size
        max_rows = max(lines - 1, 1)
        theme = self._face.theme
        bottom, cursor = self._bottom(width, max_rows, now)
        share = lines - 8 if self._shows_all else lines // 2 - 4
        room = min(max_rows - len(bottom), max(share, 2))
        upper = self._upper(width, theme)
        if len(upper) > room:
            upper = upper[-room:] if room > 0 else []
        rows = [*upper, *bottom]
        place = None
        if cursor is not None:
            place = (len(upper) + cursor[0], cursor[1])
        asks = self._face.approvals.current is not None or self._face.overlays.is_open
        return Layout(rows, place, parked=self._is_streaming, whole=asks)

    @property
    def _is_streaming(self) -> bool:
        conversation = self._face.conversation
        return conversation.is_working or bool(conversation.shells)

    def _upper(self, width: int, theme: Theme) -> list[str]:
        """Return the rows that show the running work."""
        conversation = self._face.conversation
        view = conversation.view
        spinner = self._spinner()
        clock = time.time()
        rows = self._answer_rows(width, theme, clock, spinner)
        asked = self._asked_call()
        # Calls in a run that was cut off are open in the log, but nothing is running.
        alive = [card for card in view.open_cards if conversation.is_alive(card)]
        shown = [card for card in alive if (card.agent, card.call.id) != asked]
        hidden = len(shown) - MAX_CARDS
        if hidden > 0:
            calls = "1 more call" if hidden == 1 else f"{hidden} more calls"
            rows.append(theme.paint(cut(f"  {calls}", width), "dim"))
        for card in shown[-MAX_CARDS:]:
            rows += card_rows(card, view, width=width, now=clock, theme=theme, spinner=spinner)
        rows += self._shell_rows(width, theme, clock, spinner)
        others = [each for each in conversation.open_agents if each.actor != view.lead]
        rows += agent_rows(
            others,
            width=width,
            theme=theme,
            now=clock,
            spinner=spinner,
            max_rows=100 if self._shows_all else MAX_AGENTS,
        )
        todos = view.lead_actor.todos
        if self._shows_all or not self._is_old(todos):
            rows += todo_rows(todos, width=width, theme=theme, unfolded=self._shows_all)
        rows += queue_rows(
            list(view.lead_actor.steering.values()),
            [*conversation.waiting_prompts, *self._face.unsent_messages],
            width=width,
            theme=theme,
            edit_key="alt-up",
            edits_queued=conversation.is_last_queued,
        )
        return rows

    def _is_old(self, todos: TodoList) -> bool:
        """Return whether a todo list was finished in an earlier run."""
        if any(item.status in OPEN_STATUSES for item in todos.items):
            return False
        if not self._face.conversation.is_working:
            self._old_todos = list(todos.items)
        return self._old_todos == list(todos.items)

    def _asked_call(self) -> tuple[str, str] | None:
        """Return the agent and id of the call in the current question, which needs no card."""
        current = self._face.approvals.current
        if current is None:
            return None
        for waiting in self._face.conversation.view.waiting:
            if waiting.id == current.id:
                return waiting.agent, waiting.call_id
        return None

    def _answer_rows(self, width: int, theme: Theme, clock: float, spinner: str) -> list[str]:
        """Return the rows for the end of the streaming answer or reasoning, and for its calls."""
        conversation = self._face.conversation
        answer = conversation.view.streaming()
        if not isinstance(answer, Answer):
            return []
        rows: list[str] = []
        tail = conversation.transcript.tail
        if tail.strip():
            columns = min(width, TAIL_COLUMNS)
            tail_rows = render_tail(tail, columns, theme, TAIL_ROWS)
            if looks_like_ours(tail_rows):
                narrower = render_tail(tail, max(columns - 2, 2), theme, TAIL_ROWS)
                tail_rows = [f"  {row}" for row in narrower]
            rows += tail_rows
        elif len(answer.thinking) and not len(answer.text):
            seconds = max(clock - answer.at, 0.0)
            rows += thinking_rows(answer.thinking, width=width, theme=theme, seconds=seconds)
        for call_id, arguments in answer.arguments.items():
            rows += streaming_call_rows(
                call_id,
                arguments,
                width=width,
                theme=theme,
                spinner=spinner,
                name=answer.tools.get(call_id, ""),
            )
        return rows

    def _shell_rows(self, width: int, theme: Theme, clock: float, spinner: str) -> list[str]:
        rows: list[str] = []
        for line in self._face.conversation.shells:
            head = f"{spinner} ! {one_line(line.command)}  {clock - line.began:.0f} s"
            rows.append(cut(head, width))
            for text in escape_text(line.output[-SHELL_TAIL:]).rstrip("\n").split("\n")[-3:]:
                if text.strip():
                    rows.append(theme.paint(cut(f"    {text}", width), "dim"))
        return rows

    def _bottom(
        self, width: int, max_rows: int, now: float
    ) -> tuple[list[str], tuple[int, int] | None]:
        """Return the rows for question, input and status line, and the cursor position."""
        face = self._face
        is_asked = face.approvals.current is not None and face.overlays.current is None
        is_small = is_asked and max_rows < SMALL_ROWS
        # The question itself says that hilum waits for the user.
        status = [] if is_small else [self._status(width)]
        room = max(max_rows - len(status), 1)
        overlay = face.overlays.current
        if overlay is not None:
            rows = overlay.rows(width, room, face.theme, now)
            return [*rows, *status], getattr(overlay, "cursor", None)
        notice = self._backlog_rows(width)
        if face.overlays.is_waiting:
            text = f"● A command has a question · {key_label(FOCUS_KEY)} to answer"
            notice.append(face.theme.paint(cut(text, width), "warning"))
        if face.notice:
            notice.append(face.theme.paint(cut(face.notice, width), "dim"))
        reserved = self._reserve_input(width, is_small) + len(notice)
        head = face.approvals.rows(width, max(room - reserved, 1), face.theme, now)
        question_cursor = face.approvals.cursor
        head += notice
        if is_small and len(head) >= room:
            return [*head[:room], *status], question_cursor
        composer, cursor = face.composer.rows(width, max(room - len(head), 1), face.theme)
        rows = [*head, *composer, *status]
        if question_cursor is not None:
            return rows, question_cursor
        if cursor is None:
            return rows, None
        return rows, (len(head) + cursor[0], cursor[1])

    def _backlog_rows(self, width: int) -> list[str]:
        """Return a row with the end of the last run, while a slow terminal shows earlier rows."""
        conversation = self._face.conversation
        if conversation.is_working or not self._face.drawing.is_behind:
            return []
        text = "Earlier output is still being written."
        view = conversation.view
        for entry in reversed(view.entries):
            if isinstance(entry, Outcome) and entry.agent == view.lead:
                text = f"{entry.end.state.replace('_', ' ')} · {text[0].lower()}{text[1:]}"
                break
        return [self._face.theme.paint(cut(text, width), "warning")]

    def _reserve_input(self, width: int, is_small: bool) -> int:
        """Return the number of rows that a question must leave for the input.

        In a small window, an empty input has no row while keys go to the question, and any other
        input has one.
        """
        face = self._face
        if not is_small:
            rows, _ = face.composer.rows(width, MAX_RESERVED_ROWS, face.theme)
            return len(rows)
        return 0 if face.approvals.focused and face.composer.is_empty else 1

    def _status(self, width: int) -> str:
        face = self._face
        conversation = face.conversation
        session = conversation.session
        if session is None:
            return face.theme.paint(cut("starting …", width), "dim")
        view = conversation.view
        actor = view.lead_actor
        agent = session.agents.get(view.lead)
        others = [each for each in conversation.open_agents if each.actor != view.lead]
        retry = conversation.retry
        is_busy = conversation.is_working or bool(conversation.shells)
        facts = StatusFacts(
            state=self._state(len(others)),
            agents=len(others),
            attempt=retry.attempt if retry else 0,
            retry_in=max(retry.at - time.time(), 0.0) if retry else 0.0,
            elapsed=measure_run(actor) if conversation.is_working else 0.0,
            stop_key="esc" if is_busy and not face.approvals.focused else "",
            spinner=self._spinner() if is_busy else "",
            mode=self._describe_mode(session),
            model=_find_model(session, view.lead) or actor.model,
            turn=actor.turn if conversation.is_working else 0,
            turns=int(agent.limit("turns") or 0) if agent else 0,
            usage=view.totals.usage,
            budget=view.budgets.tightest,
            context_left=face.commands.context_left,
            branch=self._branch,
            sandbox=None if self._sandbox is None else bool(self._sandbox),
            background=self._count_background(),
            is_joined=is_joined(session),
        )
        return status_row(facts, width=width, theme=face.theme)

    def _describe_mode(self, session: Session) -> str:
        """Return the mode and, unless it is ``ask_first``, the approval policy."""
        if session.approve == "ask_first":
            return session.mode.name
        return f"{session.mode.name}, {session.approve}"

    def _spinner(self) -> str:
        return SPINNER[int(trio.current_time() / SPINNER_SECONDS) % len(SPINNER)]

    def _state(self, others: int) -> State:
        conversation = self._face.conversation
        actor = conversation.view.lead_actor
        # The view is not used here, because questions from a run that was cut off are still open in
        # the log.
        if self._face.approvals.waiting:
            return "waiting"
        if not conversation.is_working and conversation.shells:
            return "working"
        if not conversation.is_working:
            return "waiting_for_agents" if others else "idle"
        if conversation.retry is not None:
            return "retry"
        if actor.activity == "thinking" and conversation.transcript.is_streaming:
            return "answering"
        return _STATES.get(actor.activity, "working")

    def _count_background(self) -> int:
        session = self._face.conversation.session
        # Looking up a service takes longer than drawing a frame.
        if session is not self._services_of:
            self._services_of = session
            self._background = session.plugin(BackgroundCommands) if session else None
        return len(list(self._background.running())) if self._background else 0


def measure_run(actor: Actor) -> float:
    """Return the seconds since an agent's run began; 0 as long as the store has not got its start."""
    if not actor.began or actor.state in ("idle", *FINAL):
        return 0.0
    return time.time() - actor.began


def _find_model(session: Session, lead: str) -> str:
    """Return the name of the model that the next turn uses; empty if there is none.

    A model that the user has just chosen is shown at once, although it has not been called yet.
    """
    agent = session.agents.get(lead)
    return session.kernel.router.current(agent) if agent is not None else ""
