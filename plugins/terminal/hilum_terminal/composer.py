"""The composer: the user's draft, with history, search and completion."""

from __future__ import annotations

import os
from collections.abc import Sequence

import attrs
import trio
from hilum import HilumError, Session, UsageError, WorkspaceFiles
from hilum_view.fuzzy_index import FuzzyIndex

from hilum_terminal import slash
from hilum_terminal.completion import (
    Accept,
    Candidate,
    Close,
    CompletionMenu,
    CompletionRequest,
    complete,
    parse_completion,
    rank_candidates,
)
from hilum_terminal.editor import Editor
from hilum_terminal.face_protocol import FaceProtocol
from hilum_terminal.history import History
from hilum_terminal.history_search import HistorySearch
from hilum_terminal.input_kinds import read_input
from hilum_terminal.key_bindings import find_key
from hilum_terminal.keys import Key, Paste
from hilum_terminal.styles import Theme

MAX_INPUT_ROWS = 10
MAX_MENU_ROWS = 8
MAX_SEARCH_ROWS = 12
MAX_FILES = 50
# Seconds for which the reason is shown why there are no completions.
ERROR_SECONDS = 6.0
_NEWLINE_KEYS = ("enter", "alt-enter", "shift-enter", "ctrl-j")
PLACEHOLDER = "What shall we do?   / commands · @ files · ! shell · ? keys"


class Composer:
    """The user's draft, and the handling of the keys that edit it.

    Args:
        face: The face that shows the draft.
        history: The texts that the user sent earlier.

    Attributes:
        editor: The draft.
        history: The texts that the user sent earlier.
    """

    def __init__(self, face: FaceProtocol, history: History) -> None:
        self.editor = Editor(placeholder=PLACEHOLDER, file_exists=os.path.isfile)
        self._face = face
        self.history = history
        # Whether the history may be saved is only known once the session is open.
        self.history.is_kept = None
        self._search: HistorySearch | None = None
        self._menu: CompletionMenu | None = None
        # The text that the menu belongs to. If keys arrive together, the draft can be newer than
        # the menu.
        self._menu_for: _Typed | None = None
        # Number of the newest completion request; the results of earlier requests are outdated.
        self._newest = 0
        # The beginning of the word for which the user closed the menu, including the text before
        # the word: the menu does not open again for this word.
        self._closed_word: str | None = None
        self._values = slash.ArgumentValues()
        self._files = WorkspaceFiles(FuzzyIndex)
        self._after_control_x = False
        # Number of images that are being read from the clipboard.
        self._pastes = 0
        # Drafts that began with a paste, kept while the user browses the history.
        self._pasted_drafts: set[str] = set()
        # Prompts that begin with a slash but are not commands.
        self._pasted_slashes: set[str] = set()
        # Texts that were returned while the draft is open in the user's editor, newest first; None
        # if the editor is not open.
        self._returned_meanwhile: list[str] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the user has typed nothing, in the draft or in a search of the history."""
        return not self.editor.text and self._search is None

    @property
    def keeps_history(self) -> bool | None:
        """Whether sent texts are saved for later sessions; ``None`` while this is unknown.

        While this is unknown, texts are held back; setting the property saves or discards them.
        """
        return self.history.is_kept

    @keeps_history.setter
    def keeps_history(self, is_kept: bool | None) -> None:
        self.history.is_kept = is_kept
        if is_kept:
            self._face.spawn(self._save_history)

    def give_back(self, texts: Sequence[str], *, is_typed: bool = False) -> None:
        """Insert texts before the draft.

        Args:
            texts: The texts.
            is_typed: Whether the user typed the texts, so that a ``!`` at the beginning keeps its
                meaning. Other texts were sent as prompts, and stay prompts.
        """
        texts = [text for text in texts if text.strip()]
        if not texts:
            return
        returned = "\n\n".join(texts)
        if not is_typed and self._was_pasted(texts[0].strip()):
            # The text was sent as a prompt, and a leading space makes sure that it stays a prompt.
            returned = f" {returned}"
        if self._returned_meanwhile is not None:
            self._returned_meanwhile.insert(0, returned)
        # The search is closed, because its result would replace the draft.
        self._search = None
        if self.editor.text.strip():
            self.editor.replace(0, 0, f"{returned}\n\n")
            self.editor.cursor = len(self.editor.text)
        else:
            self.editor.set_text(returned)
        self._draft_changed()

    def _was_pasted(self, text: str) -> bool:
        """Return whether a text sent as a prompt would have another meaning if it were typed."""
        if text.startswith("/"):
            # Prompts that invoke skills also begin with a slash.
            return text in self._pasted_slashes
        return read_input(text).kind != "prompt"

    async def save_draft(self) -> None:
        """Keep the draft in the history when hilum ends, and save the history."""
        if self.editor.text.strip():
            self._pasted_drafts.clear()
            self.history.add(self.editor.expand(), is_typed=self._is_typed())
            self.editor.clear()
        if self.keeps_history:
            await trio.to_thread.run_sync(self.history.save)

    def put_away(self) -> None:
        """Clear the draft, and keep it in the history."""
        self._add_to_history(self.editor.expand(), is_typed=self._is_typed())
        self.editor.clear()
        self._draft_changed()

    def _is_typed(self) -> bool:
        """Return whether the user typed the first character of the draft.

        A pasted line that begins with a slash counts as typed, because commands are often copied.
        """
        text = self.editor.text.strip()
        if not self.editor.begins_with_paste:
            return True
        return text.startswith("/") and "\n" not in text

    def _add_to_history(self, text: str, *, is_typed: bool) -> None:
        self._pasted_drafts.clear()
        self.history.add(text, is_typed=is_typed)
        if self.keeps_history:
            self._face.spawn(self._save_history)

    async def _save_history(self) -> None:
        """Save new history entries; a problem is shown only once."""
        before = self.history.problem
        await trio.to_thread.run_sync(self.history.save)
        if self.history.problem and self.history.problem != before:
            self._face.show_notice(self.history.problem, 10.0)

    # --- keys -------------------------------------------------------------------------------------

    def handle(self, key: Key | Paste) -> bool:
        """Handle a key or a paste, and return whether it was used."""
        if self._search is not None:
            self._handle_search(key)
            return True
        if isinstance(key, Key):
            if self._handle_menu(key):
                return True
            if self._handle_command_key(key):
                return True
        elif not key.text:
            # Some terminals send an empty paste if the clipboard contains an image.
            self._face.spawn(self._paste_clipboard)
            return True
        if not self.editor.handle(key):
            return isinstance(key, Key) and self._browse(key)
        self._complete_soon()
        return True

    def _handle_command_key(self, key: Key) -> bool:
        """Handle a key that does not edit the text, and return whether it is such a key."""
        follows_control_x = self._after_control_x
        self._after_control_x = key.name == "ctrl-x"
        match key.name:
            case "enter" if not self.editor.enter_inserts_newline:
                self._send(afterwards=False)
            case "tab":
                self._tab()
            case "text" if key.text == "?" and self.is_empty:
                self._face.show_keys()
            case "ctrl-r":
                self._search = HistorySearch(self.history, self.editor.text)
                self._close_menu()
            case "ctrl-x":
                pass
            case "ctrl-v":
                self._face.spawn(self._paste_clipboard)
            case "ctrl-g":
                self._open_editor()
            case "ctrl-e" if follows_control_x:
                self._open_editor()
            case _:
                return False
        return True

    def _send(self, *, afterwards: bool) -> None:
        text = self.editor.expand()
        if not text.strip():
            return
        if self._pastes:
            self._face.show_notice("hilum is reading the clipboard …")
            return
        self._face.remember_images(self.editor.image_paths)
        is_typed = self._is_typed()
        if not is_typed and text.lstrip().startswith("/"):
            self._pasted_slashes.add(text.strip())
        self._add_to_history(text, is_typed=is_typed)
        self.editor.clear()
        self._draft_changed()
        self._face.submit(text, afterwards=afterwards, is_typed=is_typed)

    async def _paste_clipboard(self) -> None:
        """Insert the image in the clipboard."""
        self._pastes += 1
        try:
            path = await self._face.save_clipboard()
        finally:
            self._pastes -= 1
        self.editor.attach_image(path)
        self._draft_changed()
        self._face.changed()

    def _tab(self) -> None:
        """Complete the typed word; if there is none and the agent is working, queue the draft."""
        request = parse_completion(self.editor.text, self.editor.cursor)
        if request is not None:
            self._closed_word = None
            self._complete_soon(by_tab=True)
        elif self._face.is_working:
            self._send(afterwards=True)

    def _browse(self, key: Key) -> bool:
        """Browse the history with the arrow keys, and return whether the key was used."""
        draft = self.editor.text
        if key.name in ("up", "ctrl-p"):
            found = self.history.previous(draft)
        elif key.name in ("down", "ctrl-n"):
            found = self.history.next(draft)
        else:
            return False
        if self.editor.begins_with_paste:
            self._pasted_drafts.add(draft)
        if found is not None:
            self.editor.set_text(found, is_pasted=found in self._pasted_drafts)
            self._draft_changed()
        return True

    def _open_editor(self) -> None:
        """Start editing the draft in the user's editor."""
        self._face.hold_keys()
        self._face.spawn(self._edit)

    async def _edit(self) -> None:
        """Edit the draft in the user's editor, unless it is open."""
        try:
            if self._returned_meanwhile is None:
                await self._edit_text()
        finally:
            self._face.release_keys()

    async def _edit_text(self) -> None:
        text = self.editor.expand()
        self._returned_meanwhile = []
        try:
            edited = await self._face.edit_draft(text)
            returned = self._returned_meanwhile
        except UsageError as error:
            self._face.show_error(error)
            return
        finally:
            self._returned_meanwhile = None
        edited = edited.rstrip("\n")
        # An unchanged draft keeps its chips.
        if edited != text.rstrip("\n"):
            parts = [part for part in (*returned, edited) if part.strip()]
            keeps_beginning = edited[:1] == text[:1] and not returned
            is_pasted = self.editor.begins_with_paste and keeps_beginning
            self.editor.set_text("\n\n".join(parts), is_pasted=is_pasted)
            self._draft_changed()
        self._face.changed()

    def add_typed_ahead(self, keys: Sequence[Key | Paste]) -> bool:
        """Add what was typed while an editor was opening to the end of the draft.

        Only text, pastes and line breaks are added: other keys were commands for the editor. Enter
        does not send the draft.

        Returns:
            Whether there was anything to add.
        """
        if not keys:
            return False
        self._search = None
        self.editor.cursor = len(self.editor.text)
        before = self.editor.text
        for key in keys:
            if isinstance(key, Key) and key.name in _NEWLINE_KEYS:
                self.editor.handle(Key("ctrl-j"))
            elif isinstance(key, Paste) or key.name == "text":
                self.editor.handle(key)
        if self.editor.text == before:
            return False
        self._draft_changed()
        return True

    def _handle_search(self, key: Key | Paste) -> None:
        assert self._search is not None
        state = self._search.handle(key)
        if state == "taken":
            self.editor.set_text(self._search.text)
            self._draft_changed()
        if state != "open":
            self._search = None

    # --- completion -------------------------------------------------------------------------------

    def _handle_menu(self, key: Key) -> bool:
        """Pass a key to the menu, and return whether it used the key."""
        if self._menu is None:
            return False
        typed = _Typed(self.editor.text, self.editor.cursor)
        if key.name in ("enter", "tab") and self._menu_for != typed:
            # The candidates belong to an earlier text.
            return False
        action = self._menu.handle(key)
        if isinstance(action, Accept):
            is_command = self._menu.request.kind in ("command", "argument")
            self._accept(self._menu.request, action.candidate)
            if key.name == "enter" and is_command:
                # A command that was completed is not run at once, because it may be another one
                # than the user meant; without this note, it would seem to have been run.
                self._face.show_notice(f"Enter again runs {self.editor.text.strip()}")
        elif isinstance(action, Close):
            request = parse_completion(typed.text, typed.cursor)
            self._closed_word = None if request is None else _beginning(request, typed.text)
            self._close_menu()
        return action is not None

    def _accept(self, request: CompletionRequest, candidate: Candidate) -> None:
        """Insert a candidate."""
        text = self.editor.text
        completed = complete(text, request, candidate)
        end = len(completed.text) - len(text[request.end :])
        # Replace only the part that differs, so that the editor still knows which of the other
        # characters were pasted.
        start = _common_length(text[: request.end], completed.text[:end])
        self.editor.replace(start, request.end, completed.text[start:end])
        self.editor.cursor = completed.cursor
        self._close_menu()
        self._complete_soon()

    def _draft_changed(self) -> None:
        """Close the menu, because the draft was replaced."""
        self._closed_word = None
        self._close_menu()

    def _close_menu(self) -> None:
        self._menu = None
        self._menu_for = None
        # A search that is still running must not open the menu again.
        self._newest += 1
        self._values.forget()

    def _complete_soon(self, *, by_tab: bool = False) -> None:
        """Start looking for completions of the typed word, without waiting for the result.

        Args:
            by_tab: Whether the user pressed Tab, which inserts the candidate if there is only one.
        """
        typed = _Typed(self.editor.text, self.editor.cursor)
        request = parse_completion(typed.text, typed.cursor)
        if self._closed_word is not None and not typed.text.startswith(self._closed_word):
            self._closed_word = None
        if request is None or self._face.opened_session is None:
            self._close_menu()
            return
        beginning = _beginning(request, typed.text)
        if beginning == self._closed_word:
            self._close_menu()
            return
        shown = self._menu_for
        if shown is not None and beginning != shown.beginning:
            self._close_menu()
        self._newest += 1
        number = self._newest
        self._face.spawn(lambda: self._complete(number, request, typed, by_tab))

    async def _complete(
        self, number: int, request: CompletionRequest, typed: _Typed, by_tab: bool
    ) -> None:
        """Look for completions, and show them unless a later key has made them outdated."""
        try:
            candidates = await self._find(number, request, typed)
        except HilumError as error:
            candidates = []
            if number == self._newest:
                self._face.show_notice(f"{error.code}: {error.message}", ERROR_SECONDS)
        if number != self._newest:
            return
        if request.kind == "argument":
            # The candidates are whole texts; see ``_find_commands``.
            request = attrs.evolve(request, query=typed.text[: typed.cursor], start=0)
        # With an open menu, Tab accepts the best candidate, even if the menu opened late.
        if by_tab and candidates and (self._menu is not None or len(candidates) == 1):
            self._accept(request, candidates[0])
        elif self._menu is not None and candidates:
            self._menu.update(request, candidates)
            self._menu_for = typed
        elif candidates:
            self._menu = CompletionMenu(request, candidates)
            self._menu_for = typed
        else:
            self._menu = None
            self._menu_for = None
        self._face.changed()

    async def _find(
        self, number: int, request: CompletionRequest, typed: _Typed
    ) -> list[Candidate]:
        """Return the candidates for a request, best first."""
        session = self._face.opened_session
        if session is None:
            return []
        if request.kind in ("command", "argument"):
            return await self._find_commands(request, typed)
        mentions = []
        if request.kind == "mention":
            mentions = rank_candidates(request.query, slash.list_mentions(session), 5)
        return [*mentions, *await self._find_files(number, request, session)]

    async def _find_commands(self, request: CompletionRequest, typed: _Typed) -> list[Candidate]:
        """Return commands as names without the slash, and other candidates as whole texts."""
        before = typed.text[: typed.cursor]
        choices = await slash.complete(self._face.commands, before, self._values)
        found = []
        for choice in choices:
            whole = str(choice.value)
            label = choice.label
            if request.kind == "command":
                whole = whole.removeprefix("/")
                label = label.removeprefix("/")
            key = find_key(whole) if request.kind == "command" else ""
            found.append(Candidate(whole, choice.hint, label, key))
        return found

    async def _find_files(
        self, number: int, request: CompletionRequest, session: Session
    ) -> list[Candidate]:
        index = await self._files.index(session)
        if number != self._newest:
            # A later key has replaced this request, so ranking the candidates would be useless.
            return []
        found = await trio.to_thread.run_sync(index.rank, request.query, MAX_FILES)
        return [Candidate(index.texts[position]) for position in found]

    # --- drawing ----------------------------------------------------------------------------------

    def rows(
        self, width: int, max_rows: int, theme: Theme
    ) -> tuple[list[str], tuple[int, int] | None]:
        """Return the rows of the draft and of the menu, and the cursor position in these rows."""
        if self._search is not None:
            return self._search.rows(width, min(max_rows, MAX_SEARCH_ROWS), theme), None
        menu: list[str] = []
        if self._menu is not None:
            menu = self._menu.rows(width, min(MAX_MENU_ROWS, max(max_rows - 1, 0)), theme)
        room = max(min(MAX_INPUT_ROWS, max_rows - len(menu)), 1)
        shown = self.editor.rows(width, room, theme)
        return [*shown.rows, *menu], (shown.cursor_row, shown.cursor_column)


@attrs.frozen
class _Typed:
    """The draft and the cursor at one moment.

    Attributes:
        text: The text.
        cursor: Index of the cursor in the text.
    """

    text: str
    cursor: int

    @property
    def beginning(self) -> str | None:
        """The text up to the word that is being typed; None if there is nothing to complete."""
        request = parse_completion(self.text, self.cursor)
        return None if request is None else _beginning(request, self.text)


def _beginning(request: CompletionRequest, text: str) -> str:
    """Return the text up to the word being typed, with its "/" or "@". It identifies the word."""
    mark = 1 if request.kind in ("command", "mention") else 0
    return text[: request.start + mark]


def _common_length(one: str, other: str) -> int:
    """Return the length of the common prefix of two texts."""
    length = 0
    for character, expected in zip(one, other, strict=False):
        if character != expected:
            break
        length += 1
    return length
