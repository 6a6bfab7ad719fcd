"""Formats tool calls for the terminal: one card per call, in every state of the call.

A card never reports anything before it has happened. It shows a success mark only for a success: a
command with a nonzero exit code has failed, even if its call has completed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from hilum.errors import E_TIMEOUT, RULE
from hilum_view import (
    Action,
    Card,
    SessionView,
    StreamedText,
    format_count,
    format_duration,
    parse_arguments,
)

from hilum_terminal.call_descriptions import (
    describe_action,
    describe_streaming,
    short_line,
    unwrap_call,
)
from hilum_terminal.diff_rows import diff_rows, format_counts, paint_counts
from hilum_terminal.styles import Style, Theme
from hilum_terminal.text_width import cells, cut, cut_middle, escape_text, one_line, wrap_text

COMMAND_TOOLS = ("run_terminal_cmd", "read_service", "write_service", "stop_service")
UNFOLD_KEY = "ctrl-o"
MAX_LIVE_LINES = 2
"""Number of output lines to show for a running call."""
MAX_OUTPUT_LINES = 3
"""Number of lines of a command's output to show in a collapsed card."""
MAX_ANSWER_LINES = 8
"""Number of lines to show from the user's answer to a question."""
MAX_HITS = 3
"""Number of search results to show in a collapsed card."""
MAX_REASON_ROWS = 3
"""Number of rows to show for the reason of a failure in a collapsed card."""
MAX_DIFF_ROWS = 12
"""Number of diff rows to show in a collapsed card."""
MAX_AGENT_NAME = 24
MIN_SECONDS = 0.05
"""Minimum duration to show."""
MIN_SUBJECT = 10
"""Minimum width, in columns, of a call's subject; narrower cards leave out the details."""
MIN_WIDE = 40
"""Minimum width, in columns, at which the rows below the first one are indented by four columns."""
HINT_SECONDS = 5.0
"""Seconds after which the card of a command names the key that moves it to the background."""
NOTHING_PRINTED = "[no output]"
_EXIT_LINE = re.compile(r"\A(?:E_[A-Z_]+: )?[^\n]*(?:\n|\Z)")
_HIT = re.compile(r"^(\d+):(.*)$", re.MULTILINE)


@attrs.frozen
class _Status:
    """The state of a call, or how it ended.

    Attributes:
        mark: The character that begins the card.
        text: The state in words; empty for a success.
        style: Style of the mark and, except for a success, of the words.
        seconds: Duration in seconds; 0 if there is none.
    """

    mark: str
    text: str
    style: Style
    seconds: float = 0.0

    def words(self, width: int) -> str:
        """Return the state in words and, if the card is wide enough, the duration."""
        # The state is more important than the duration.
        if self.seconds < MIN_SECONDS or (self.text and width < MIN_WIDE):
            return self.text
        return " · ".join(filter(None, (self.text, format_duration(self.seconds))))


# --- cards ----------------------------------------------------------------------------------------


def is_shown(card: Card, view: SessionView) -> bool:
    """Return whether a card is shown in the conversation.

    A call whose effect is shown elsewhere, such as in the todo list, has no card. Other
    agents' calls are shown only if they are running, wait for the user or have failed.
    """
    if view.is_covered(card):
        return False
    if card.agent == view.lead or card.code:
        return True
    return card.state in ("running", "waiting_for_approval")


def card_rows(
    card: Card,
    view: SessionView,
    *,
    width: int,
    now: float,
    theme: Theme,
    spinner: str,
    unfolded: bool = False,
    unfold_key: str = UNFOLD_KEY,
) -> list[str]:
    """Return the rows of a call in any state; none if the call is not shown.

    Args:
        card: The call.
        view: The session.
        width: Available width in columns.
        now: Unix time.
        theme: The styles.
        spinner: The current frame of the progress spinner.
        unfolded: Whether to show all arguments and the whole result.
        unfold_key: Name of the key that shows the whole result.
    """
    if card.ended or card.state == "interrupted":
        return finished_card_rows(
            card, view, width=width, theme=theme, unfolded=unfolded, unfold_key=unfold_key
        )
    if not unfolded and not is_shown(card, view):
        return []
    painter = _Painter(width, theme, unfold_key)
    action = describe_action(card.call.name, card.arguments)
    rows = [painter.head(_live_status(card, now, spinner), action, _agent_name(card, view))]
    rows += painter.rewritten(card)
    if unfolded:
        rows += painter.arguments(card)
        rows += painter.text(card.output)
    elif card.output:
        lines = _last_lines(card.output, MAX_LIVE_LINES)
        rows += painter.lines(lines)
    return rows


def finished_card_rows(
    card: Card,
    view: SessionView,
    *,
    width: int,
    theme: Theme,
    unfolded: bool = False,
    unfold_key: str = UNFOLD_KEY,
) -> list[str]:
    """Return the rows of a call that has ended; none if the call is not shown.

    Args:
        card: The call.
        view: The session.
        width: Available width in columns.
        theme: The styles.
        unfolded: Whether to show all arguments and the whole result.
        unfold_key: Name of the key that shows the whole result.
    """
    if not unfolded and not is_shown(card, view):
        return []
    return ended_call_rows(
        card, view, width=width, theme=theme, unfolded=unfolded, unfold_key=unfold_key
    )


def ended_call_rows(
    card: Card,
    view: SessionView,
    *,
    width: int,
    theme: Theme,
    unfolded: bool = False,
    unfold_key: str = "",
) -> list[str]:
    """Return the rows of a call that has ended, even if the conversation does not show the call.

    Args:
        card: The call.
        view: The session.
        width: Available width in columns.
        theme: The styles.
        unfolded: Whether to show all arguments and the whole result.
        unfold_key: Name of the key that shows the whole result; empty for none.
    """
    painter = _Painter(width, theme, unfold_key)
    action = describe_action(card.call.name, card.arguments)
    counts = card.line_counts if card.diff else None
    status = _ended_status(card)
    rows = [painter.head(status, action, _agent_name(card, view), counts=counts)]
    rows += painter.rewritten(card)
    if unfolded:
        return rows + _unfolded(card, painter)
    return rows + _folded(card, painter)


def streaming_call_rows(
    call_id: str,
    arguments_so_far: StreamedText,
    *,
    width: int,
    theme: Theme,
    spinner: str,
    name: str = "",
    agent: str = "",
    unfolded: bool = False,
) -> list[str]:
    """Return the rows of a call whose arguments are still arriving.

    Args:
        call_id: Id of the call, which is shown if nothing else is known.
        arguments_so_far: The beginning of the arguments.
        width: Available width in columns.
        theme: The styles.
        spinner: The current frame of the progress spinner.
        name: Name of the tool; empty if it is unknown.
        agent: Display name of the agent; empty for the one that the user talks to.
        unfolded: Whether to show the last lines of the arguments.
    """
    painter = _Painter(width, theme, "")
    action = describe_streaming(arguments_so_far, name)
    if not arguments_so_far and not name:
        action = Action("a call", short_line(call_id))
    size = format_count(len(arguments_so_far), "character")
    status = _Status(spinner, f"being written, {size}", "accent")
    rows = [painter.head(status, action, one_line(agent, MAX_AGENT_NAME))]
    if unfolded:
        # JSON escapes the newlines in arguments.
        tail = arguments_so_far.tail(2_000).replace("\\n", "\n")
        rows += painter.lines(_last_lines(tail, MAX_LIVE_LINES))
    return rows


def _agent_name(card: Card, view: SessionView) -> str:
    return one_line(view.name_of(card.agent), MAX_AGENT_NAME)


# --- states ---------------------------------------------------------------------------------------


def _live_status(card: Card, now: float, spinner: str) -> _Status:
    """Return the state of a call that has not ended."""
    if card.state == "waiting_for_approval":
        return _Status("?", "waiting for your approval", "warning")
    if card.state == "running":
        words = _elapsed(card, now)
        if _tool(card) == "run_terminal_cmd" and card.began and now - card.began >= HINT_SECONDS:
            words += " · Ctrl-B: background"
        return _Status(spinner, words, "accent")
    if card.decided_by == "user":
        return _Status("·", "you answered, not running yet", "dim")
    return _Status("·", "not running yet", "dim")


def _elapsed(card: Card, now: float) -> str:
    """Return how long a call has been running, in whole seconds."""
    # The clock may jump, and a log may lack the beginning of a call.
    if not card.began or now < card.began:
        return "running"
    return format_duration(float(int(now - card.began))).replace(".0", "")


def _ended_status(card: Card) -> _Status:
    """Return how a call ended."""
    if card.was_stopped:
        words = "stopped" if card.began else "stopped, did not run"
        return _Status("–", words, "warning", card.seconds)
    if card.refused_by:
        return _Status("⊘", _REFUSALS[card.refused_by], "warning")
    if card.code == E_TIMEOUT:
        return _Status("✗", "timed out", "bad", card.seconds)
    if _has_failed_command(card):
        return _Status("✗", _describe_exit(card), "bad", card.seconds)
    if card.code:
        return _Status("✗", "failed", "bad", card.seconds)
    service = card.data.get("service")
    if _tool(card) == "run_terminal_cmd" and isinstance(service, str) and card.exit_code is None:
        words = f"still running in the background as {one_line(service, 20)}"
        return _Status("▸", words, "accent")
    if card.result is not None and not card.result.changed:
        return _Status("✓", "nothing changed", "good", card.seconds)
    return _Status("✓", "", "good", card.seconds)


_REFUSALS = {
    "user": "rejected by you",
    "timeout": "not run: no answer in time",
    "nobody": "not run: nobody could approve it",
    "rule": "denied by a rule",
    "gate": "not run: a safety check is not working",
}


def _tool(card: Card) -> str:
    """Return the name of the called tool."""
    return unwrap_call(card.call.name, card.arguments)[0]


def _has_failed_command(card: Card) -> bool:
    # A service that was stopped on purpose was ended by a signal, which is not a failure.
    return bool(card.exit_code) and _tool(card) != "stop_service"


def _describe_exit(card: Card) -> str:
    code = card.exit_code or 0
    if code < 0:
        return f"killed by signal {-code}"
    return f"exit {code}"


# --- results --------------------------------------------------------------------------------------


def _folded(card: Card, painter: _Painter) -> list[str]:
    """Return the rows below the head of a collapsed card."""
    name = _tool(card)
    if card.refused_by:
        return _refusal(card, painter)
    if name in COMMAND_TOOLS and (card.exit_code is not None or not card.code):
        return painter.last_lines(_command_output(card), MAX_OUTPUT_LINES)
    if card.was_stopped or card.code:
        return painter.reason(card.user_text.removeprefix(f"{card.code}: ") if card.code else "")
    if card.diff:
        return painter.diff(card.diff, MAX_DIFF_ROWS)
    if name in _HIT_READERS:
        return painter.first_lines(*_HIT_READERS[name](card))
    if name in _QUIET_TOOLS:
        return []
    lines = _lines_of(card.user_text)
    # An answer that the user gave is shown with more lines than other results.
    count = MAX_ANSWER_LINES if name == "ask_question" else 1
    return painter.first_lines(lines[:count], len(lines) - count)


def _unfolded(card: Card, painter: _Painter) -> list[str]:
    """Return the rows below the head of an expanded card: everything about the call."""
    if card.diff:
        return painter.diff(card.diff)
    rows = painter.arguments(card)
    is_command = _tool(card) in COMMAND_TOOLS and card.exit_code is not None
    text = _command_output(card) if is_command else card.user_text
    return rows + painter.text(text)


# The heads of these tools' cards say everything, or the results repeat what the user already knows.
_QUIET_TOOLS = ("read_file", "list_directory", "todo_write", "use_skill", "recall_result")


# Notes of the shell tools that tell the model which tool to call next, each with the part that
# concerns the user.
_MODEL_NOTES = (
    (
        re.compile(r"^\[The output was cut\. In full it has ([^.;\n]+)[^\n]*\]$", re.MULTILINE),
        r"[The output was cut: \1.]",
    ),
    (
        re.compile(
            r"^\[The processes that it left running continue as ([^:\n]+):[^\n]*\]$", re.MULTILINE
        ),
        r"[Its processes continue as \1.]",
    ),
    (
        re.compile(
            r"^(The command has not ended after [^.\n]+)\. It still runs, now in the background as"
            r" ([^:\n]+):[^\n]*$",
            re.MULTILINE,
        ),
        r"\1; it runs in the background as \2.",
    ),
    (
        re.compile(r"^(The command runs in the background as [^,\n]+), [^\n]*$", re.MULTILINE),
        r"\1.",
    ),
)


def _command_output(card: Card) -> str:
    """Return a command's output without hilum's notes for the model.

    The line that says how the command ended is in the head of the card.
    """
    text = card.text
    for pattern, for_user in _MODEL_NOTES:
        text = pattern.sub(for_user, text)
    if card.exit_code is not None:
        text = _EXIT_LINE.sub("", text, count=1)
    return "" if text.strip() == NOTHING_PRINTED else text


def _refusal(card: Card, painter: _Painter) -> list[str]:
    """Return why a call was refused, and what the user can do."""
    if card.refused_by == "user":
        # The user knows that they gave no reason.
        return painter.reason(card.user_reason) if card.user_reason else []
    text = card.text.removeprefix(f"{card.code}: ")
    rows = painter.reason(text)
    rule = card.data.get(RULE)
    if isinstance(rule, str) and rule:
        # A truncated rule could not be copied, so a rule may take several rows.
        allow = f"To allow it: /permissions allow {shlex.quote(one_line(rule))}"
        return rows + painter.note(allow)
    return rows + painter.note(_NEXT_STEPS[card.refused_by])


_NEXT_STEPS = {
    "timeout": "Tell the agent if it should ask again.",
    "nobody": "/permissions shows the rules; /approve changes what runs without approval.",
    "rule": "/permissions shows the rules.",
    "gate": "/doctor shows which plugin is not working.",
}

_Hits = tuple[list[str], int]
"""The first results of a search, and the number of remaining results."""


def _content_hits(card: Card) -> _Hits:
    """Return the number of matching lines, and the first matches with their locations."""
    places = _list(card.data.get("places"))
    hits = [f"{format_count(_integer(card.data.get('matches')), 'matching line')}"]
    found = _HIT.finditer(card.text)
    for place, match in zip(places[:MAX_HITS], found, strict=False):
        path = place[0] if isinstance(place, list | tuple) and place else ""
        hits.append(f"{path}:{match[1]}: {match[2].strip()}")
    return hits, _integer(card.data.get("matches")) - (len(hits) - 1)


def _name_hits(card: Card) -> _Hits:
    count = _integer(card.data.get("count"))
    paths = [str(path) for path in _list(card.data.get("paths"))[:MAX_HITS]]
    return [format_count(count, "file"), *paths], count - len(paths)


def _web_hits(card: Card) -> _Hits:
    results = _list(card.data.get("results"))
    titles = []
    for result in results[:MAX_HITS]:
        if isinstance(result, dict):
            titles.append(f"{result.get('title')} · {result.get('url')}")
    return [format_count(len(results), "result"), *titles], len(results) - len(titles)


def _page_title(card: Card) -> _Hits:
    title = card.data.get("title")
    return [title] if isinstance(title, str) and title else [], 0


_HIT_READERS = {
    "search_files": _content_hits,
    "glob_search": _name_hits,
    "web_search": _web_hits,
    "web_fetch": _page_title,
}


# A result's data comes from the log, so any plugin may have written it, in any form.
def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else []


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def _lines_of(text: str) -> list[str]:
    """Return the lines of a text without blank lines at the beginning and end."""
    stripped = text.strip("\n")
    return stripped.split("\n") if stripped.strip() else []


def _last_lines(text: str, max_rows: int) -> list[str]:
    """Return the last nonblank lines."""
    # Text after a carriage return overwrites the line, as in progress bars.
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    lines = [line for line in shown if line.strip()]
    return lines[-max_rows:]


def _format_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


# --- painting -------------------------------------------------------------------------------------


@attrs.frozen
class _Painter:
    """A builder of a card's rows.

    Attributes:
        width: Available width in columns.
        theme: The styles.
        unfold_key: Name of the key that shows the whole result.
    """

    width: int
    theme: Theme
    unfold_key: str

    @property
    def indent(self) -> str:
        """The beginning of each row below the head."""
        return " " * (4 if self.width >= MIN_WIDE else 2)

    @property
    def room(self) -> int:
        """Width, in columns, of the rows below the head, without the indentation."""
        return max(self.width - len(self.indent), 1)

    def head(
        self,
        status: _Status,
        action: Action,
        agent: str,
        *,
        counts: tuple[int, int] | None = None,
    ) -> str:
        """Return the first row: mark, agent, action and status.

        Args:
            status: The state of the call.
            action: What it does.
            agent: Display name of the agent; empty for the one that the user talks to.
            counts: Numbers of lines that an edit added and removed.
        """
        who = f"{cut(agent, self.width // 3)}: " if agent else ""
        ending = format_counts(*counts) if counts else ""
        words = status.words(self.width)
        # The name of an unknown tool may be longer than the row.
        verb = cut(action.verb, max(self.width // 2, MIN_SUBJECT))
        fixed = cells(status.mark) + 1 + cells(who) + cells(verb)
        fixed += sum(cells(part) + 2 for part in (ending, words) if part)
        room = self.width - fixed
        pieces = [self.theme.paint(status.mark, status.style), " ", self.theme.paint(who, "dim")]
        if verb:
            pieces.append(self.theme.paint(verb, "bold"))
        details = f" {action.details}" if action.details else ""
        if room - cells(details) < min(cells(action.subject) + 1, MIN_SUBJECT):
            details = ""
        subject_room = max(room - cells(details) - 1, MIN_SUBJECT // 2)
        if action.subject:
            shorten = cut_middle if action.verb == "$" else cut
            pieces.append(" " if verb else "")
            pieces.append(shorten(action.subject, subject_room))
        # Truncated details are still worth the room that is left.
        pieces.append(self.theme.paint(details, "dim"))
        if counts:
            pieces.append(f"  {paint_counts(*counts, self.theme)}")
        if words:
            style: Style = status.style
            if status.style in ("good", "accent"):
                style = "dim"
            pieces.append(f"  {self.theme.paint(words, style)}")
        return cut("".join(pieces), self.width)

    def rewritten(self, card: Card) -> list[str]:
        """Return a note that plugins changed the arguments."""
        if not card.rewritten:
            return []
        names = ", ".join(map(one_line, card.rewritten_by)) or "a plugin"
        return self.note(f"arguments changed by {names}")

    def lines(self, lines: Iterable[str], style: Style = "dim") -> list[str]:
        """Return a row for each line, truncated to the width."""
        rows = []
        for line in lines:
            # Indentation is kept, because it is part of a program's output.
            start = escape_text(line[: 8 * self.width + 200]).expandtabs(4).replace("\n", " ")
            text = cut(start, self.room)
            rows.append(self.indent + self.theme.paint(text.rstrip(), style))
        return [cut(row, self.width) for row in rows]

    def last_lines(self, text: str, max_rows: int) -> list[str]:
        """Return the last lines of a text, below a row with the number of hidden lines."""
        lines = _lines_of(text)
        hidden = len(lines) - max_rows
        if hidden <= 0:
            return self.lines(lines)
        return self.more(hidden) + self.lines(lines[-max_rows:])

    def first_lines(self, lines: Sequence[str], hidden: int) -> list[str]:
        """Return rows for the lines, and a row with the number of hidden lines."""
        rows = self.lines(lines)
        return rows + self.more(hidden) if hidden > 0 else rows

    def more(self, hidden: int) -> list[str]:
        """Return the row with the number of hidden lines and the key that shows them."""
        key = f" ({self.unfold_key})" if self.unfold_key else ""
        text = f"… {format_count(hidden, 'more line')}{key}"
        if cells(text) > self.room:
            text = f"… {hidden:,} more{key}"
        return self.lines([text])

    def note(self, text: str) -> list[str]:
        """Return rows with wrapped text that hilum wrote."""
        return self._indented(wrap_text(escape_text(text), self.room), "dim")

    def reason(self, text: str) -> list[str]:
        """Return rows with the reason for a failure."""
        start = text.strip()[: MAX_REASON_ROWS * self.width]
        rows = wrap_text(escape_text(start), self.room)
        left = len(rows) > MAX_REASON_ROWS or len(start) < len(text.strip())
        shown = [row for row in rows if row.strip()][:MAX_REASON_ROWS]
        if left and shown:
            shown[-1] = cut(f"{shown[-1]} …", self.room)
            key = f" ({self.unfold_key})" if self.unfold_key else ""
            shown.append(f"… more{key}")
        return self._indented(shown, "bad")

    def diff(self, diff: str, max_rows: int = 0) -> list[str]:
        """Return rows with a diff, without the name of the file, which is in the head."""
        rows = diff_rows(
            diff,
            width=self.room,
            theme=self.theme,
            max_rows=max_rows,
            header=False,
            hint=self.unfold_key,
        )
        return [cut(self.indent + row, self.width) for row in rows]

    def text(self, text: str) -> list[str]:
        """Return rows with a complete, wrapped text."""
        if not text.strip():
            return []
        return self._indented(wrap_text(escape_text(text.strip("\n")), self.room), "plain")

    def arguments(self, card: Card) -> list[str]:
        """Return rows with all arguments."""
        _, text = unwrap_call(card.call.name, card.arguments)
        parsed = parse_arguments(text)
        if parsed is None:
            return self._indented(wrap_text(escape_text(text), self.room), "dim")
        rows = []
        for key, value in parsed.items():
            shown = value if isinstance(value, str) else _format_json(value)
            shown = escape_text(shown)
            name = escape_text(key).replace("\n", " ")
            if "\n" in shown:
                rows.append(f"{name}:")
                rows += [f"  {row}" for row in wrap_text(shown, max(self.room - 2, 2))]
            else:
                rows += wrap_text(f"{name}: {shown}", self.room, "  ")
        return self._indented(rows, "dim")

    def _indented(self, rows: Iterable[str], style: Style) -> list[str]:
        painted = (self.indent + self.theme.paint(row, style) for row in rows)
        return [cut(row, self.width) for row in painted]
