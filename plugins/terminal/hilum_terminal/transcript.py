"""The transcript, which writes the finished parts of a session to the scrollback, in order.

Text in the scrollback is never changed. Streaming text is therefore written in finished blocks of
Markdown, and a tool call is written once it has ended.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from typing import Literal

import attrs
from hilum.events import FINAL, Delta, Event
from hilum.shell_lines import ATTACHED_MARK, ShellLine
from hilum_view import (
    AgentView,
    Answer,
    AnyEntry,
    Card,
    Changes,
    Notice,
    Outcome,
    Prompt,
    SessionView,
    describe_end,
    format_cost,
    format_count,
    format_duration,
    format_tokens,
)

from hilum_terminal.cards import UNFOLD_KEY, finished_card_rows
from hilum_terminal.markdown_blocks import MarkdownBlocks
from hilum_terminal.markdown_rows import render_markdown
from hilum_terminal.panels import ended_agent_rows
from hilum_terminal.prompt_images import shorten_references
from hilum_terminal.slash_names import name_next_step, name_slash_commands
from hilum_terminal.styles import SPINNER, Style, Theme
from hilum_terminal.text_width import cut, escape_text, one_line, without_colors, wrap_text

Kind = Literal["prompt", "text", "card", "note"]
MakeRows = Callable[[int, Theme], list[str]]

# Number of calls and agents that can be shown again in full.
MAX_EXPANDABLE = 50
# Seconds for which the card of an ended call waits for the earlier calls of the same answer, so that
# calls that end at about the same time are written in the model's order.
HOLD_SECONDS = 0.05
# Number of output lines to show from the user's own command.
MAX_SHELL_ROWS = 40
MAX_PROMPT_ROWS = 12
# Number of characters in which the first line of the attached text begins.
MAX_BLOCK_HEAD = 200
MAX_PROMPT_CHARACTERS = 4_000
# The marks of cards, questions, notices, prompts and the status line.
OUR_MARKS = ("✓", "✗", "?", "❯", "▸", "⊘", "●", "∴", "·", "!", "–", *SPINNER)
PROMPT_MARK = "❯ "
# These notices are redundant: the card of a call reports its rejection, and the undo command reports
# the undo.
_UNPRINTED = ("rejected", "undo")
# Seconds of reasoning below which the reasoning is not worth a line.
_SHORT_THOUGHT = 2.0


# Number of characters in the source above which rows are laid out in a thread.
THREAD_SIZE = 1_000


@attrs.frozen
class Block:
    """A finished part of the transcript.

    Attributes:
        kind: Kind of the block; a blank line separates blocks of different kinds, and paragraphs of
            text.
        make: Function that returns the block's rows for a width and a theme.
        size: Number of characters in the source. The rows of a large block are rendered in a
            thread.
        continues: Whether the block continues the previous one, without a blank line.
    """

    kind: Kind
    make: MakeRows
    size: int = 0
    continues: bool = False


class Transcript:
    """The writer of a session's finished parts.

    Args:
        view: The view of the session.
        commit: Function to call with each finished part, in order.
        unfold_key: Name of the key that shows a call or an agent in full; empty for none.

    Attributes:
        turn_times_from: Minimum duration, in seconds, of a model call whose duration is written.
        expandable: The calls and ended agents written last, oldest first; the user can show them in
            full.
        answered_run: Id of the last run in which the agent wrote text.
        echoed: The prompt that the terminal itself has just shown while the user typed it, and that
            is therefore not written again; empty if there is none.
        held: The ended calls that wait to be written, because an earlier call of the same answer is
            still running; see ``write_held``.
    """

    def __init__(
        self,
        view: SessionView,
        commit: Callable[[Block], None],
        *,
        unfold_key: str = UNFOLD_KEY,
    ) -> None:
        self.expandable: deque[Card | AgentView] = deque(maxlen=MAX_EXPANDABLE)
        self.answered_run = ""
        self.echoed = ""
        self.held: list[Card] = []
        self._early_notices: list[Notice] = []
        self._skipped: set[int] = set()
        self.turn_times_from = 1.0
        self._view = view
        self._commit = commit
        self._unfold_key = unfold_key
        self._blocks: MarkdownBlocks | None = None
        self._pieces: list[str] = []
        self._streamed_answer = -1
        self._streamed_attempt = 0
        self._last_command = ""
        self._begun: set[str] = set()
        self._written: set[int] = set()
        self._written_agents: set[str] = set()

    @property
    def is_streaming(self) -> bool:
        """Whether the text of an answer is currently arriving."""
        return self._blocks is not None

    @property
    def tail(self) -> str:
        """The part of the streaming answer's source that is not written yet."""
        return self._blocks.tail if self._blocks is not None else ""

    def apply(self, item: Event | Delta, changes: Changes, now: float) -> None:
        """Write the parts that an event has finished.

        Args:
            item: The event or the chunk of output.
            changes: The changes that the event caused in the view.
            now: Unix time.
        """
        if isinstance(item, Delta):
            is_text = item.kind == "text" and item.agent == self._view.lead
            entry = changes.entries[0] if changes.entries else None
            if is_text and isinstance(entry, Answer):
                if self._blocks is None:
                    self._write_thought(entry, now - entry.at)
                self.answered_run = item.run
                self._feed(entry, item.text)
            return
        for entry in changes.entries:
            self._apply_entry(entry)
        if changes.agent is not None and changes.agent.ended:
            self._write_agent(changes.agent)

    def _write_agent(self, agent: AgentView) -> None:
        """Write how an agent ended, with the beginning of its answer."""
        if agent.actor == self._view.lead or agent.id in self._written_agents:
            return
        self._written_agents.add(agent.id)
        self.expandable.append(agent)
        key = self._unfold_key

        def make(width: int, theme: Theme) -> list[str]:
            return ended_agent_rows(agent, width=width, theme=theme, unfold_key=key)

        self._commit(Block("card", make, len(agent.answer)))

    def replay(self, entries: list[AnyEntry]) -> None:
        """Write the entries of an earlier session that is resumed."""
        for entry in entries:
            self._apply_entry(entry)
        self.write_held()

    def write_held(self) -> None:
        """Write the ended calls that waited for earlier ones, although those are still running."""
        held = sorted(self.held, key=lambda card: card.id)
        self.held = []
        for card in held:
            self._write_card(card)

    def skip(self, seq: int) -> None:
        """Do not write the entry of an event, whose subject is written in another way."""
        self._skipped.add(seq)

    def _apply_entry(self, entry: AnyEntry) -> None:
        if isinstance(entry, Answer):
            self._apply_answer(entry)
            return
        if isinstance(entry, Card):
            self._apply_card(entry)
            return
        if entry.id in self._written or entry.seq in self._skipped:
            return
        self._written.add(entry.id)
        if isinstance(entry, Prompt):
            self._write_prompt(entry)
            self._write_early_notices()
        elif isinstance(entry, Notice):
            self._write_notice(entry)
        else:
            self._write_early_notices()
            self._write_outcome(entry)

    def _write_early_notices(self) -> None:
        notices = self._early_notices
        self._early_notices = []
        for notice in notices:
            self._write_notice_text(notice)

    # --- answers ----------------------------------------------------------------------------------

    def _feed(self, entry: Answer, text: str) -> None:
        if self._blocks is None:
            self._blocks = MarkdownBlocks()
            self._pieces = []
            self._streamed_answer = entry.id
            self._streamed_attempt = entry.attempt
        self._pieces.append(text)
        for source in self._blocks.feed(text):
            self._write_markdown(source)

    def _apply_answer(self, answer: Answer) -> None:
        if answer.agent != self._view.lead:
            return
        if answer.state == "streaming":
            if self._blocks is not None and answer.attempt != self._streamed_attempt:
                self._finish_stream()
                self.note("The answer broke off; the model is called again.", "warning")
            return
        if answer.id not in self._written:
            self._written.add(answer.id)
            self._end_answer(answer)
            self._write_turn(answer)

    def _write_turn(self, answer: Answer) -> None:
        """Write how long a model call took, and its tokens."""
        if answer.state != "done" or answer.seconds < self.turn_times_from:
            return
        # The summary of a run with a single turn, which follows immediately, has the same figures.
        if answer.turn == 1 and not answer.calls:
            return
        facts = [
            f"turn {answer.turn}",
            format_duration(answer.seconds),
            format_tokens(answer.usage),
        ]
        self.note(" · ".join(filter(None, facts)), "dim")

    def _end_answer(self, answer: Answer) -> None:
        """Write the rest of an answer that is complete or will not be completed."""
        streamed = "".join(self._pieces)
        is_streaming = self._blocks is not None and self._streamed_answer == answer.id
        final = str(answer.text)
        if answer.state in ("dropped", "cut_off"):
            text = streamed if is_streaming else final
            if is_streaming:
                self._finish_stream()
            else:
                self.write_markdown(text)
            if text.strip():
                self.note("(cut off here)", "dim")
            return
        if not is_streaming:
            self._write_thought(answer, answer.seconds)
            self.write_markdown(final)
        elif final.startswith(streamed):
            self._feed(answer, final[len(streamed) :])
            self._finish_stream()
        else:
            self._finish_stream()
            # The complete text in the log may differ, because secrets have been replaced.
            if final.split() != streamed.split():
                self.note("Parts of this answer were replaced in the log.", "dim")

    def _write_thought(self, answer: Answer, seconds: float) -> None:
        if len(answer.thinking) and seconds >= _SHORT_THOUGHT:
            self.note(f"∴ thought for {format_duration(seconds)}", "dim")

    def _finish_stream(self) -> None:
        if self._blocks is not None:
            for source in self._blocks.finish():
                self._write_markdown(source)
        self._blocks = None
        self._pieces = []

    def _write_markdown(self, source: str) -> None:
        if source.strip():
            continues = getattr(source, "continued", False)
            self._commit(Block("text", _MarkdownRows(source), len(source), continues))

    def write_markdown(self, text: str) -> None:
        """Write a complete Markdown text."""
        blocks = MarkdownBlocks()
        for source in [*blocks.feed(text), *blocks.finish()]:
            self._write_markdown(source)

    # --- calls, prompts and notices ---------------------------------------------------------------

    def _apply_card(self, card: Card) -> None:
        has_ended = card.ended or card.state == "interrupted"
        if not has_ended or card.id in self._written:
            return
        if self._view.is_covered(card):
            self._write_agent_of(card)
            return
        # Other agents' calls are summarized in the agent's line, unless they failed.
        if card.agent != self._view.lead and not card.code:
            return
        self._written.add(card.id)
        self.held.append(card)
        if not self._is_ahead(card):
            # The held calls that come after it may wait for further calls, but not for long.
            self.write_held()

    def _is_ahead(self, card: Card) -> bool:
        """Return whether an earlier call of the same answer has not ended."""
        for other in reversed(self._view.cards):
            if (other.run, other.turn, other.agent) != (card.run, card.turn, card.agent):
                if other.agent == card.agent:
                    return False
                continue
            if other.id < card.id and not other.ended and not self._view.is_covered(other):
                return True
        return False

    def _write_card(self, card: Card) -> None:
        self.expandable.append(card)
        view = self._view
        key = self._unfold_key

        def make(width: int, theme: Theme) -> list[str]:
            return finished_card_rows(card, view, width=width, theme=theme, unfold_key=key)

        self._commit(Block("card", make, len(card.text)))

    def _write_agent_of(self, card: Card) -> None:
        """Write the agent that a call started, unless it was written when it ended.

        In a resumed session, only the entries are shown again, which do not contain the agents.
        """
        agent = self._view.agents.all.get(str(card.data.get("agent_id", "")))
        if agent is not None and agent.ended:
            self._write_agent(agent)

    def _write_prompt(self, prompt: Prompt) -> None:
        if prompt.agent != self._view.lead:
            return
        self._begun.add(prompt.run)
        if prompt.retries:
            self.note("Continuing where the run ended.", "dim")
            return
        attached = prompt.attached
        shown = prompt.typed or prompt.text
        if prompt.images:
            shown = shorten_references(shown)
        # A command was written when the user entered it.
        is_written = bool(prompt.typed) and prompt.typed == self._last_command
        is_written |= bool(self.echoed) and shown.strip() == self.echoed

        def make(width: int, theme: Theme) -> list[str]:
            rows = [] if is_written else prompt_rows(shown, width, theme)
            if prompt.typed.startswith("/"):
                lines = prompt.text.count("\n") + 1
                sent = "1 line" if lines == 1 else f"{lines:,} lines"
                rows.append(theme.paint(cut(f"  sent as {sent} of instructions", width), "dim"))
            if attached:
                rows.append(theme.paint(cut(_describe_attached(attached), width), "dim"))
            if prompt.images:
                number = len(prompt.images)
                images = "1 image" if number == 1 else f"{number} images"
                rows.append(theme.paint(f"  + {images}", "dim"))
            return rows

        self._commit(Block("prompt", make, len(prompt.text)))

    def _write_notice(self, notice: Notice) -> None:
        if notice.about in _UNPRINTED or notice.is_in_outcome:
            return
        actor = self._view.lead_actor
        if notice.level == "info" and actor.queued and actor.state in ("idle", "preparing", *FINAL):
            # A run is being prepared: the notice is about its prompt, which is written first.
            self._early_notices.append(notice)
            return
        self._write_notice_text(notice)

    def _write_notice_text(self, notice: Notice) -> None:
        text = f"{notice.text}\n{notice.hint}" if notice.hint else notice.text
        text = name_slash_commands(text)
        mark = "·" if notice.level == "info" else "!"
        # Only the first line has the mark, so the others are indented below it.
        text = re.sub(r"\n(?=[^ \n])", "\n  ", text)
        self.note(f"{mark} {text}", "dim" if notice.level == "info" else "warning")

    def _write_outcome(self, outcome: Outcome) -> None:
        if outcome.agent != self._view.lead or outcome.run not in self._begun:
            return
        end = outcome.end
        facts = [
            f"{end.turns} turns" if end.turns != 1 else "1 turn",
            format_tokens(end.usage),
            format_cost(end.usage),
            format_duration(end.seconds),
        ]
        summary = " · ".join(filter(None, facts))
        if end.state == "completed":
            self.note(summary, "dim")
            return
        style: Style = "warning" if end.state in ("stopped", "partial_success") else "bad"
        text = name_next_step(end.code, describe_end(end))
        if outcome.next_step == "retry":
            text += "\n/continue continues this run."
        self.note(text, style)
        self.note(summary, "dim")

    def write_command(self, text: str) -> None:
        """Write a command that the user entered."""
        self._last_command = text

        def make(width: int, theme: Theme) -> list[str]:
            return prompt_rows(text, width, theme)

        self._commit(Block("prompt", make, len(text)))

    def write_shell_line(self, line: ShellLine, seconds: float) -> None:
        """Write a command that the user ran, with its output."""

        def make(width: int, theme: Theme) -> list[str]:
            return shell_line_rows(line, seconds, width, theme)

        self._commit(Block("card", make, len(line.output)))

    def note(self, text: str, style: Style = "plain", *, kind: Kind = "note") -> None:
        """Write plain text, with wrapped lines."""

        def make(width: int, theme: Theme) -> list[str]:
            rows = wrap_text(escape_text(text), width, "  ")
            return [theme.paint(row, style) for row in rows]

        self._commit(Block(kind, make, len(text)))


def _describe_attached(attached: str) -> str:
    """Return the row that says what was sent with a prompt."""
    # The text is wrapped in a block, whose first and last line the user did not write.
    first = attached.find(ATTACHED_MARK)
    if 0 <= first < MAX_BLOCK_HEAD:
        lines = format_count(max(attached.count("\n", first), 1), "line")
        return f"  + the output of your ! commands ({lines})"
    lines = format_count(attached.count("\n") + 1, "line")
    return f"  + {lines} attached"


def looks_like_ours(rows: Iterable[str]) -> bool:
    """Return whether a row of a model's text begins like a card or a prompt of hilum.

    Cards and prompts begin in the first column, so such a text must be indented.
    """
    return any(without_colors(row).startswith(OUR_MARKS) for row in rows)


@attrs.frozen
class _MarkdownRows:
    """A function object that renders a block of Markdown as rows.

    This is a class instead of a closure, because a large block is rendered in a thread.
    """

    source: str

    def __call__(self, width: int, theme: Theme) -> list[str]:
        rows = render_markdown(self.source, width, theme)
        if looks_like_ours(rows):
            rows = [f"  {row}" for row in render_markdown(self.source, max(width - 2, 2), theme)]
        return rows


def shell_line_rows(line: ShellLine, seconds: float, width: int, theme: Theme) -> list[str]:
    """Return the rows that show a user's shell command with the end of its output."""
    has_failed = bool(line.error) or line.status != 0
    mark = theme.paint("✗", "bad") if has_failed else theme.paint("✓", "good")
    if line.stopped:
        mark = theme.paint("–", "warning")
    head = f"{mark} ! {one_line(line.command)}"
    if line.stopped:
        head += theme.paint("  stopped", "warning")
    if line.status:
        head += theme.paint(f"  exit status {line.status}", "bad")
    head += theme.paint(f"  {format_duration(seconds)}", "dim")
    rows = [cut(head, width)]
    if line.error:
        reason = wrap_text(escape_text(line.error), max(width - 4, 2))
        rows += [theme.paint(cut(f"    {row}", width), "bad") for row in reason]
    output = escape_text(line.output.expandtabs()).rstrip("\n").split("\n") if line.output else []
    left_out = len(output) - MAX_SHELL_ROWS
    if left_out > 0:
        rows.append(theme.paint(cut(f"    … {left_out:,} lines above", width), "dim"))
    for text in output[-MAX_SHELL_ROWS:]:
        rows.append(cut(f"    {text}", width))
    if line.note:
        note = f"    ! {escape_text(line.note)}"
        rows += [theme.paint(row, "warning") for row in wrap_text(note, width, "    ")]
    return rows


def prompt_rows(text: str, width: int, theme: Theme) -> list[str]:
    """Return the rows that show the user's prompt in the transcript."""
    rows = []
    # A pasted file must not push everything else out of the scrollback.
    shown = text[:MAX_PROMPT_CHARACTERS]
    wrapped = wrap_text(escape_text(shown), max(width - 2, 1))
    left_out = text.count("\n") + 1 - shown.count("\n") - 1
    if len(wrapped) > MAX_PROMPT_ROWS or left_out > 0:
        left_out += max(len(wrapped) - MAX_PROMPT_ROWS, 0)
        wrapped = [*wrapped[:MAX_PROMPT_ROWS], f"… {max(left_out, 1):,} more lines"]
    for number, row in enumerate(wrapped):
        mark = PROMPT_MARK if number == 0 else "  "
        rows.append(theme.paint(mark, "accent") + theme.paint(row, "prompt"))
    return rows
