"""Completion in the composer: parses the typed text, ranks the candidates and draws the menu.

The candidates come from the caller: commands, files, agents and MCP resources. This module performs
no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import attrs
from hilum_view.fuzzy_index import MAX_RANKED, rank

from hilum_terminal.keys import Key, Paste
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import ELLIPSIS, cells, cut, one_line, pad

MAX_ROWS = 8
"""Maximum number of rows in the menu."""

Kind = Literal["command", "argument", "mention", "path"]

# A mention begins a word: an "@" within a word belongs to an email address or a package version.
_BEFORE_MENTION = re.compile(r"[\s(\[{<\"'`,;:=]")
_MENTION = re.compile(r'@(?:"(?P<quoted>(?:[^"\\\n]|\\.)*)|(?P<plain>[^\s"]*))\Z')
# The rest of a quoted mention after the cursor.
_QUOTED_REST = re.compile(r'(?:[^"\\\n]|\\.)*"')
_ESCAPED = re.compile(r"\\(.)")
_COMMAND = re.compile(r"/(?P<name>[^\s/]*)\Z")
_ARGUMENTS = re.compile(r"/(?P<name>[^\s/]+)[ \t]+(?P<rest>[^\n]*)\Z")
_NEEDS_QUOTES = re.compile(r"[\s\"']")
_SHELL_SPECIAL = re.compile(r"([^\w@%+=:,./~-])")
_SHELL_BREAKS = " \t|&;()<>="


@attrs.frozen
class CompletionRequest:
    """A request to complete the word that the user is typing.

    Attributes:
        kind: Kind of completion: ``command`` after a slash, ``argument`` for an argument of a
            command, ``mention`` for a file, an agent or a resource after "@", or ``path`` in a
            shell line after "!".
        query: The text to complete, without the leading "/" or "@" and without quotes.
        start: Index in the text at which an accepted candidate is inserted.
        end: Index up to which an accepted candidate replaces the text.
        command: Name of the command, if an argument is completed.
        before: The arguments of the command before the query.
    """

    kind: Kind
    query: str
    start: int
    end: int
    command: str = ""
    before: str = ""


@attrs.frozen
class Candidate:
    """A possible completion.

    Attributes:
        text: The text to insert, without a leading "/" or "@" and without quotes. A folder ends
            with a slash.
        description: Description for the user.
        label: Text to show in the menu instead of ``text``; empty to show ``text``.
        key: Key that does the same.
    """

    text: str
    description: str = ""
    label: str = ""
    key: str = ""


@attrs.frozen
class Completed:
    """The text and the cursor of the composer after a candidate was accepted."""

    text: str
    cursor: int


def parse_completion(text: str, cursor: int) -> CompletionRequest | None:
    """Return the completion request at the cursor, or None.

    Args:
        text: Text in the composer.
        cursor: Index of the cursor.
    """
    before = text[:cursor]
    if before.startswith("!"):
        return _parse_shell(text, cursor)
    mention = _parse_mention(text, cursor)
    if mention is not None:
        return mention
    command = _COMMAND.match(before)
    if command:
        end = _end_of_word(text, cursor)
        # "/usr/bin" is a path, not a command.
        if "/" in text[1:end]:
            return None
        return CompletionRequest("command", command["name"], 0, end)
    arguments = _ARGUMENTS.match(before)
    if arguments:
        rest = arguments["rest"]
        done, _, query = rest.rpartition(" ")
        start = cursor - len(query)
        end = _end_of_word(text, cursor)
        return CompletionRequest("argument", query, start, end, arguments["name"], done.strip())
    return None


def _parse_mention(text: str, cursor: int) -> CompletionRequest | None:
    # Search only the current line, because a mention contains no newline.
    line_start = text.rfind("\n", 0, cursor) + 1
    found = _MENTION.search(text, line_start, cursor)
    if found is None:
        return None
    start = found.start()
    if start > 0 and not _BEFORE_MENTION.match(text[start - 1]):
        return None
    quoted = found["quoted"]
    if quoted is None:
        return CompletionRequest("mention", found["plain"], start, _end_of_word(text, cursor))
    # The mention ends at the closing quote, if there is one in this line.
    closed = _QUOTED_REST.match(text, cursor)
    end = closed.end() if closed else cursor
    return CompletionRequest("mention", _ESCAPED.sub(r"\1", quoted), start, end)


def _parse_shell(text: str, cursor: int) -> CompletionRequest | None:
    """Return a request for the word at the cursor in a shell line; None for a program name."""
    start = 1
    word: list[str] = []
    quote = ""
    escaped = False
    is_first = True
    for index in range(1, cursor):
        char = text[index]
        if escaped:
            word.append(char)
            escaped = False
        elif char == "\\" and quote != "'":
            escaped = True
        elif quote:
            if char == quote:
                quote = ""
            else:
                word.append(char)
        elif char in "\"'":
            quote = char
        elif char in _SHELL_BREAKS or char == "\n":
            # A program name follows "|", "&", ";" or "(" and any blanks.
            is_first = char in "|&;(\n" or (is_first and not word)
            start = index + 1
            word = []
        else:
            word.append(char)
    query = "".join(word)
    if is_first and "/" not in query and not query.startswith(("~", ".")):
        return None
    end = cursor if quote else _end_of_word(text, cursor)
    return CompletionRequest("path", query, start, end)


def _end_of_word(text: str, cursor: int) -> int:
    end = cursor
    while end < len(text) and not text[end].isspace():
        end += 1
    return end


def complete(text: str, request: CompletionRequest, candidate: Candidate) -> Completed:
    """Insert an accepted candidate into the text.

    A space is added, so that the user can continue typing. No space is added after a folder,
    because the user may continue with a name in the folder.

    Args:
        text: Text in the composer.
        request: The request parsed from the text.
        candidate: The accepted candidate.
    """
    inserted = _insertion(request, candidate.text)
    is_open = candidate.text.endswith("/") and request.kind in ("mention", "path")
    rest = text[request.end :]
    if not is_open and not rest.startswith((" ", "\n")):
        inserted += " "
    cursor = request.start + len(inserted)
    if not is_open and rest.startswith(" "):
        cursor += 1
    return Completed(text[: request.start] + inserted + rest, cursor)


def _insertion(request: CompletionRequest, text: str) -> str:
    match request.kind:
        case "command":
            return f"/{text}"
        case "mention" if _NEEDS_QUOTES.search(text):
            # A folder's quote stays open.
            quoted = text.replace("\\", "\\\\").replace('"', '\\"')
            return f'@"{quoted}' if text.endswith("/") else f'@"{quoted}"'
        case "mention":
            return f"@{text}"
        case "path":
            # Escape with backslashes, as bash does: unlike a quoted folder, an escaped one can be
            # extended.
            return _SHELL_SPECIAL.sub(r"\\\1", text)
    return text


def rank_candidates(
    query: str, candidates: Sequence[Candidate], max_rows: int = MAX_RANKED
) -> list[Candidate]:
    """Return the candidates that match a query, best first.

    Candidates whose descriptions contain the query come after candidates whose names match it. An
    empty query keeps the order.
    """
    by_name = rank(query, [candidate.text for candidate in candidates], max_rows)
    found = [candidates[index] for index in by_name]
    wanted = query.lower()
    if len(wanted) >= 3:
        chosen = set(by_name)
        for index, candidate in enumerate(candidates):
            if index not in chosen and wanted in candidate.description.lower():
                found.append(candidate)
    return found[:max_rows]


# The menu


@attrs.frozen
class Accept:
    """A menu action: the user accepted a candidate."""

    candidate: Candidate


@attrs.frozen
class Close:
    """A menu action: the user closed the menu."""


@attrs.frozen
class Moved:
    """A menu action: the user selected another candidate."""


MenuAction = Accept | Close | Moved


class CompletionMenu:
    """The open menu of candidates for a request.

    Attributes:
        request: The request that the menu answers.
        candidates: The candidates, best first.
        selected: Index of the selected candidate.
    """

    def __init__(self, request: CompletionRequest, candidates: Sequence[Candidate]) -> None:
        self.request = request
        self.candidates = tuple(candidates)
        self.selected = 0
        # Whether the user has moved the selection, so that Enter accepts the selected candidate.
        self._has_moved = False

    def is_open(self) -> bool:
        """Return whether there is anything to choose from."""
        return bool(self.candidates)

    def update(self, request: CompletionRequest, candidates: Sequence[Candidate]) -> None:
        """Show other candidates after further typing, and select the best one."""
        if candidates and request == self.request and tuple(candidates) == self.candidates:
            return
        self.request = request
        self.candidates = tuple(candidates)
        self.selected = 0
        self._has_moved = False

    def handle(self, key: Key | Paste) -> MenuAction | None:
        """Apply a key; None means that the composer must handle it.

        An open menu handles Esc before anything else. Unless the user has selected a candidate with
        the arrow keys, Enter sends a text that needs no completion: a complete text, a command
        whose arguments have not been started, or a shell line. Tab always completes.
        """
        if isinstance(key, Paste) or not self.candidates:
            return None
        selected = self.candidates[self.selected]
        match key.name:
            case "esc":
                return Close()
            case "tab":
                return Accept(selected)
            case "enter" if self._enter_completes():
                return Accept(selected)
            case "up" | "ctrl-p":
                return self._move(self.selected - 1)
            case "down" | "ctrl-n":
                return self._move(self.selected + 1)
            case "page-up":
                return self._move(max(self.selected - MAX_ROWS, 0))
            case "page-down":
                return self._move(min(self.selected + MAX_ROWS, len(self.candidates) - 1))
        return None

    def _enter_completes(self) -> bool:
        """Return whether Enter completes the text instead of sending it."""
        query = self.request.query
        if self._has_moved:
            return self.candidates[self.selected].text != query
        if any(candidate.text == query for candidate in self.candidates):
            return False
        if self.request.kind == "argument":
            return bool(query) and not query[-1].isspace()
        # A similar file name must not replace a word that the user typed in a shell line.
        return self.request.kind != "path"

    def _move(self, index: int) -> Moved:
        self._has_moved = True
        self.selected = index % len(self.candidates)
        return Moved()

    def rows(self, width: int, max_rows: int, theme: Theme) -> list[str]:
        """Return the rows of the menu: at most ``max_rows``, and never more than ``MAX_ROWS``."""
        room = min(max_rows, MAX_ROWS, len(self.candidates))
        if room <= 0 or width <= 0:
            return []
        hidden = len(self.candidates) - room
        shows_hidden = hidden > 0 and room > 2
        if shows_hidden:
            room -= 1
        start = min(max(self.selected - room + 1, 0), len(self.candidates) - room)
        shown = self.candidates[start : start + room]
        mark = {"command": "/", "mention": "@"}.get(self.request.kind, "")
        labels = [mark + one_line(each.label or each.text or " ") for each in shown]
        column = min(max(cells(label) for label in labels), max(width // 2, 8))
        rows = []
        for number, candidate in enumerate(shown):
            is_selected = start + number == self.selected
            rows.append(_menu_row(labels[number], candidate, column, width, is_selected, theme))
        if shows_hidden:
            position = f"  {self.selected + 1} of {len(self.candidates)}"
            rows.append(theme.paint(cut(position, width), "dim"))
        return rows


def _menu_row(
    label: str, candidate: Candidate, column: int, width: int, is_selected: bool, theme: Theme
) -> str:
    name = f"{'▸' if is_selected else ' '} {label}"
    description = one_line(candidate.description)
    if not description:
        shown = _cut_start(name, width)
        return theme.paint(shown, "selected") if is_selected else shown
    name = pad(cut(name, min(column + 2, width)), min(column + 2, width))
    room = width - cells(name) - 2
    key = candidate.key
    # The key is more useful than the end of a long description.
    key_room = cells(key) + 2 if key else 0
    if key_room and room - key_room > 3:
        description = f"{cut(description, room - key_room)}  {key}"
    description = cut(description, room) if room > 3 else ""
    if is_selected:
        return theme.paint(f"{name}  {description}".rstrip(), "selected")
    return f"{name}  {theme.paint(description, 'dim')}" if description else name.rstrip()


def _cut_start(name: str, width: int) -> str:
    """Truncate a path to a width, keeping the end, which is more informative than the beginning."""
    if cells(name) <= width:
        return name
    tail = name[4:]
    while tail and cells(tail) > width - 4:
        tail = tail[1:]
    return cut(f"{name[:3]}{ELLIPSIS}{tail}", width)
