"""The composer: what is sent, the menu of completions, and what must not be lost."""

import threading
from contextlib import asynccontextmanager
from pathlib import Path

import hilum_prompt
import pytest
import trio
import trio.testing
from hilum import UsageError, workspace_files
from hilum_terminal import composer, slash, slash_settings
from hilum_terminal.chat_protocol import Choice
from hilum_terminal.composer import Composer
from hilum_terminal.history import History
from hilum_terminal.keys import Key, Paste
from hilum_terminal.styles import PLAIN
from hilum_view.fuzzy_index import FuzzyIndex

from .slash_chat import open_chat

LONG = "!rm -rf build\n" * 30


class FakeFace:
    """A face without a terminal.

    Attributes:
        sent: The texts that were sent, each with "typed" or "pasted", and "afterwards" if it waits.
        edited: What the user's editor returns; an error if it fails.
    """

    def __init__(self, chat, nursery):
        self.commands = chat
        self.nursery = nursery
        self.is_working = False
        self.sent = []
        self.errors = []
        self.notices = []
        self.edited = ""
        self.drafts = []
        self.leave_editor = trio.Event()
        self.running = 0
        self.held = 0
        self.ended = trio.Event()

    def submit(self, text, *, afterwards=False, is_typed=True):
        facts = [text, "typed" if is_typed else "pasted"]
        self.sent.append((*facts, "afterwards") if afterwards else tuple(facts))

    def spawn(self, action):
        self.running += 1
        self.nursery.start_soon(self.run, action)

    async def run(self, action):
        await action()
        self.running -= 1
        self.ended.set()

    def changed(self):
        pass

    def show_keys(self):
        pass

    def hold_keys(self):
        self.held += 1

    def release_keys(self):
        self.held -= 1

    def remember_images(self, paths):
        self.images = paths

    async def save_clipboard(self):
        return "/tmp/clipboard-1.png"

    def show_error(self, error):
        self.errors.append(error)

    def show_notice(self, text, seconds=3.0):
        self.notices.append(text)

    async def edit_draft(self, text):
        self.drafts.append(text)
        await self.leave_editor.wait()
        if isinstance(self.edited, Exception):
            raise self.edited
        return self.edited

    @property
    def opened_session(self):
        return self.commands.session


class Typist:
    """A user at a composer.

    Keys are given as one text: ``<tab>`` is a key by its name, and other characters are typed.
    """

    def __init__(self, composer, face):
        self.composer = composer
        self.face = face

    def press_at_once(self, keys):
        """Press keys that arrive together, so that completions cannot be shown in between."""
        while keys:
            if keys.startswith("<"):
                name, _, keys = keys[1:].partition(">")
                self.composer.handle(Key(name))
            else:
                self.composer.handle(Key("text", keys[0]))
                keys = keys[1:]

    async def press(self, keys):
        """Press keys, and wait after each until the composer is idle."""
        while keys:
            length = keys.index(">") + 1 if keys.startswith("<") else 1
            self.press_at_once(keys[:length])
            keys = keys[length:]
            await self.settle()

    async def settle(self):
        """Wait until every action has ended, also those that use a thread."""
        with trio.fail_after(10):
            while self.face.running:
                self.face.ended = trio.Event()
                await self.face.ended.wait()

    def paste(self, text):
        self.composer.handle(Paste(text))

    @property
    def text(self):
        """The draft with a bar at the cursor."""
        editor = self.composer.editor
        return f"{editor.text[: editor.cursor]}|{editor.text[editor.cursor :]}"

    @property
    def menu(self):
        """The first row of the menu; empty if it is closed."""
        rows, _ = self.composer.rows(60, 20, PLAIN)
        shown = [row for row in rows if row.startswith("▸")]
        return shown[0].split()[1] if shown else ""


@asynccontextmanager
async def open_typist(tmp_path, *plugins):
    async with open_chat(*plugins) as chat, trio.open_nursery() as nursery:
        face = FakeFace(chat, nursery)
        composer = Composer(face, History(tmp_path / "prompts.jsonl", "/home/me/app"))
        composer.keeps_history = False
        yield Typist(composer, face)
        nursery.cancel_scope.cancel()


# --- commands -------------------------------------------------------------------------------------


async def test_commands_are_completed_by_tab_and_sent_by_enter(tmp_path):
    table = {
        # keys: the draft afterwards, and what was sent
        "/help<enter>": ("|", "/help"),
        "/help <enter>": ("|", "/help "),
        "/hel<tab>": ("/help |", None),
        "/help<tab>": ("/help |", None),
        "/hel<tab><enter>": ("|", "/help "),
        "/hel<enter>": ("/help |", None),
        "/hel<enter><enter>": ("|", "/help "),
        "/mode<enter>": ("|", "/mode"),
        "/exit<enter>": ("|", "/exit"),
        "/exi<tab>": ("/quit |", None),
        "/mode pl<tab>": ("/mode plan |", None),
        "/mode pl<tab><enter>": ("|", "/mode plan "),
        "/mode pl<enter>": ("/mode plan |", None),
        "/mode plan<enter>": ("|", "/mode plan"),
        "/mode  pl<tab>": ("/mode  plan |", None),
        "/new<home><right>x<backspace><end><enter>": ("|", "/new"),
        "/mode <enter>": ("|", "/mode "),
        "/mode <down><enter>": ("/mode ask |", None),
        "/help  re<tab>": ("/help  resume |", None),
        "/mode pl<esc><tab>": ("/mode plan |", None),
        "/xyzzy<enter>": ("|", "/xyzzy"),
    }
    wrong = []
    async with open_typist(tmp_path, hilum_prompt) as user:
        for keys, (draft, sent) in table.items():
            user.face.sent.clear()
            user.composer.editor.clear()
            await user.press(keys)
            found = user.face.sent[0][0] if user.face.sent else None
            if (user.text, found) != (draft, sent):
                wrong.append((keys, user.text, found))
            user.composer.put_away()
    assert not wrong


async def test_keys_that_are_faster_than_the_menu_corrupt_nothing(tmp_path):
    async with open_typist(tmp_path, hilum_prompt) as user:
        await user.press("/hel")
        assert user.menu == "/help"
        user.press_at_once("p<enter>")
        assert user.face.sent == [("/help", "typed")]
        await user.settle()
        assert (user.text, user.menu) == ("|", "")
        await user.press("/mode p")
        user.press_at_once("l<tab>")
        await user.settle()
        assert user.text == "/mode plan |"
        user.press_at_once("<ctrl-u>/mode pl<tab>")
        await user.settle()
        assert user.text == "/mode plan |"


async def test_a_completer_that_fails_says_why(tmp_path, monkeypatch):
    async def fail(chat, typed):
        raise UsageError("The provider does not respond.")

    monkeypatch.setattr(slash_settings, "complete_models", fail)
    async with open_typist(tmp_path) as user:
        await user.press("/model ")
        assert any("The provider does not respond." in text for text in user.face.notices)


async def test_a_completion_keeps_the_rest_of_the_draft(tmp_path):
    async with open_typist(tmp_path, hilum_prompt) as user:
        user.face.commands.bench.workspace.joinpath("notes.md").write_text("")
        await user.press("see  later<alt-b><left>@note<tab>")
        assert user.text == "see @notes.md |later"
        await user.press("<ctrl-_>")
        assert user.text == "see @note| later"


async def test_a_shell_line_means_what_it_says(tmp_path):
    async with open_typist(tmp_path) as user:
        user.face.commands.bench.workspace.joinpath("makefile.txt").write_text("")
        await user.press("!ls ma")
        assert user.menu == "makefile.txt"
        await user.press("<enter>")
        assert user.face.sent == [("!ls ma", "typed")]
        await user.press("!ls ma<tab>")
        assert user.text == "!ls makefile.txt |"


async def test_models_are_requested_once_per_menu_and_block_nothing(tmp_path, monkeypatch):
    requests = []
    answer = trio.Event()

    async def list_models(session, *, only_usable):
        requests.append(session)
        await answer.wait()
        return [Choice("big/one", "big/one"), Choice("big/two", "big/two")]

    monkeypatch.setattr(slash_settings, "list_models", list_models)
    async with open_typist(tmp_path) as user:
        await user.press("/model")
        user.press_at_once(" big/t")
        await trio.testing.wait_all_tasks_blocked()
        # The menu of the command's name is not shown while the models are being requested.
        assert user.menu == ""
        assert user.text == "/model big/t|"
        answer.set()
        await user.settle()
        assert user.menu == "big/two"
        await user.press("<backspace>on")
        assert user.menu == "big/one"
        assert len(requests) == 1
        await user.press("<ctrl-u>/model b")
        assert len(requests) == 2


# --- outdated completions -------------------------------------------------------------------------


async def test_an_outdated_result_is_not_shown(tmp_path, monkeypatch):
    calls = []

    async def complete_slowly(chat, text, values=None):
        finished = trio.Event()
        calls.append((text, finished))
        await finished.wait()
        return [Choice(f"{text}-{len(calls)}", f"{text}-{len(calls)}")]

    monkeypatch.setattr(slash, "complete", complete_slowly)
    async with open_typist(tmp_path) as user:
        for key in ("/", "a", "b", "<backspace>"):
            user.press_at_once(key)
            await trio.testing.wait_all_tasks_blocked()
        assert [text for text, _ in calls] == ["/", "/a", "/ab", "/a"]
        calls[3][1].set()
        await trio.testing.wait_all_tasks_blocked()
        assert user.menu == "/a-4"
        # The first "/a" is the same text, but it is older.
        calls.append(("", trio.Event()))
        for _, finished in calls[:3]:
            finished.set()
            await trio.testing.wait_all_tasks_blocked()
            assert user.menu == "/a-4"
        user.press_at_once("c")
        await trio.testing.wait_all_tasks_blocked()
        user.composer.give_back(["returned"])
        calls[5][1].set()
        await user.settle()
        assert user.menu == ""


async def test_files_are_listed_and_prepared_once_for_many_keys(tmp_path, monkeypatch):
    lists = []
    ranked = []
    made = []

    async def list_files(session):
        lists.append(session)
        await trio.sleep(0.05)
        return ["src/session.py", "src/settings.py", "README.md"]

    class Index(FuzzyIndex):
        def __init__(self, texts):
            made.append(threading.current_thread())
            super().__init__(texts)

        def rank(self, query, max_rows=100):
            ranked.append(query)
            return super().rank(query, max_rows)

    monkeypatch.setattr(workspace_files, "_list_files", list_files)
    monkeypatch.setattr(composer, "FuzzyIndex", Index)
    async with open_typist(tmp_path) as user:
        user.press_at_once("@sett")
        await user.settle()
        assert user.menu == "@src/settings.py"
    assert (len(lists), len(made)) == (1, 1)
    assert made[0] is not threading.main_thread()
    # Only the newest query is of interest when the list is there.
    assert ranked == ["sett"]


# --- Esc ------------------------------------------------------------------------------------------


async def test_a_closed_menu_stays_closed_for_its_word(tmp_path):
    async with open_typist(tmp_path, hilum_prompt) as user:
        folder = user.face.commands.bench.workspace
        folder.joinpath("notes.md").write_text("")
        await user.press("see @n")
        assert user.menu == "@notes.md"
        await user.press("<esc>")
        assert user.menu == ""
        for key in ("o", "t", "<backspace>", "<left>", "<right>", "<home>", "<end>"):
            await user.press(key)
            assert user.menu == "", key
        await user.press(" and @n")
        assert user.menu == "@notes.md"
        # The word is deleted, and another one is typed in its place.
        await user.press("<ctrl-u>@n<esc>o<ctrl-u>@n")
        assert user.menu == "@notes.md"
        await user.press("<esc>o<tab>")
        assert user.text == "@notes.md |"
        # For a command and its argument, and in the next draft.
        await user.press("<ctrl-u>/mod<esc>e")
        assert user.menu == ""
        await user.press(" p")
        assert user.menu == "plan"
        await user.press("<esc>l<enter>")
        assert user.face.sent == [("/mode pl", "typed")]
        await user.press("/mod")
        assert user.menu == "/model"


# --- typed and pasted -----------------------------------------------------------------------------


async def test_a_pasted_beginning_has_no_meaning(tmp_path):
    table = {
        # what is typed, what is pasted, what is typed afterwards: how it is sent
        ("", "", "!ls"): ("!ls", "typed"),
        ("", "", " !ls"): (" !ls", "typed"),
        ("", "", " /help"): (" /help", "typed"),
        ("", LONG, ""): (LONG, "pasted"),
        ("", "/help\n" * 30, ""): ("/help\n" * 30, "pasted"),
        ("", "#" + "x" * 3000, ""): ("#" + "x" * 3000, "pasted"),
        ("", "/" + "x" * 3000, ""): ("/" + "x" * 3000, "pasted"),
        ("", LONG, " why?"): (LONG + " why?", "pasted"),
        ("!cat ", LONG, ""): ("!cat " + LONG, "typed"),
        ("!", LONG, ""): ("!" + LONG, "typed"),
        (" ", LONG, ""): (" " + LONG, "pasted"),
        ("why? ", LONG, ""): ("why? " + LONG, "typed"),
        ("", "!ls", ""): ("!ls", "pasted"),
        ("", "#note", ""): ("#note", "pasted"),
        ("", "/help", ""): ("/help", "typed"),
        ("", "/help\n", ""): ("/help\n", "typed"),
        ("", "/mode plan", " x"): ("/mode plan x", "typed"),
        ("", "/help\nand more", ""): ("/help\nand more", "pasted"),
        ("!", "ls", ""): ("!ls", "typed"),
        ("#", "note", ""): ("#note", "typed"),
        ("", "/tmp/x.png", ""): ("[image #1: /tmp/x.png] ", "pasted"),
    }
    wrong = []
    async with open_typist(tmp_path) as user:
        user.composer.editor._file_exists = lambda path: path == "/tmp/x.png"
        for (before, pasted, after), expected in table.items():
            user.face.sent.clear()
            user.press_at_once(before)
            if pasted:
                user.paste(pasted)
            user.press_at_once(f"{after}<enter>")
            if user.face.sent != [expected]:
                wrong.append(((before, pasted[:20], after), user.face.sent))
            user.composer.editor.clear()
    assert not wrong


async def test_a_pasted_mark_gets_no_meaning_on_the_way(tmp_path):
    async with open_typist(tmp_path) as user:
        user.press_at_once("older<enter>")
        user.face.sent.clear()
        # The draft comes back from the history.
        user.paste("!ls")
        user.press_at_once("<up><down><enter>")
        assert user.face.sent.pop() == ("!ls", "pasted")
        # The sent text comes back from the history.
        user.press_at_once("<up><enter>")
        assert user.face.sent.pop() == (" !ls", "typed")
        # A search that is left changes nothing.
        user.paste("!ls")
        user.press_at_once("<ctrl-r>old<esc><enter>")
        assert user.face.sent.pop() == ("!ls", "pasted")
        # The agent had not read it, so it returns.
        user.composer.give_back(["!ls", "and more"])
        user.press_at_once("<enter>")
        assert user.face.sent.pop() == (" !ls\n\nand more", "typed")
        # hilum refused a typed shell line, which stays one.
        user.composer.give_back(["!ls"], is_typed=True)
        user.press_at_once("<enter>")
        assert user.face.sent.pop() == ("!ls", "typed")
        user.composer.give_back(["#note"])
        user.press_at_once("<enter>")
        assert user.face.sent.pop() == (" #note", "typed")
        pasted = "/help\nand more"
        user.paste(pasted)
        user.press_at_once("<enter>")
        assert user.face.sent.pop() == (pasted, "pasted")
        user.composer.give_back([pasted])
        assert user.text == f" {pasted}|"
        user.press_at_once("<ctrl-u><ctrl-u><ctrl-u>")
        # The prompt of a skill was typed.
        user.composer.give_back(["", "/pdf fill in\nthe form"])
        user.press_at_once("<enter>")
        assert user.face.sent.pop() == ("/pdf fill in\nthe form", "typed")
        # It has been edited.
        user.paste(LONG)
        user.face.leave_editor.set()
        user.face.edited = "!rm -rf build\n"
        await user.press("<ctrl-g>")
        assert user.text == "!rm -rf build|"
        user.press_at_once("<enter>")
        assert user.face.sent.pop() == ("!rm -rf build", "pasted")


async def test_tab_sends_afterwards_while_the_agent_works(tmp_path):
    async with open_typist(tmp_path) as user:
        user.face.is_working = True
        user.paste("!ls")
        user.press_at_once("<home><tab>")
        assert user.face.sent == [("!ls", "pasted", "afterwards")]


# --- the user's editor ----------------------------------------------------------------------------


async def test_what_returns_while_the_editor_is_open_is_kept(tmp_path):
    async with open_typist(tmp_path) as user:
        user.press_at_once("draft<ctrl-g><ctrl-g>")
        await trio.testing.wait_all_tasks_blocked()
        user.composer.give_back(["first"])
        user.composer.give_back(["second"])
        assert user.text == "second\n\nfirst\n\ndraft|"
        assert user.face.held == 1
        user.face.edited = "edited draft\n"
        user.face.leave_editor.set()
        await user.settle()
        assert user.text == "second\n\nfirst\n\nedited draft|"
        assert user.face.held == 0
        # The editor was opened once only.
        assert user.face.drafts == ["draft"]


async def test_an_editor_that_fails_leaves_the_draft(tmp_path):
    async with open_typist(tmp_path) as user:
        user.press_at_once("draft<ctrl-x><ctrl-e>")
        await trio.testing.wait_all_tasks_blocked()
        user.composer.give_back(["returned"])
        user.face.edited = UsageError("It failed.")
        user.face.leave_editor.set()
        await user.settle()
        assert user.text == "returned\n\ndraft|"
        assert len(user.face.errors) == 1
        user.face.edited = "fine"
        await user.press("<ctrl-g>")
        assert user.text == "fine|"
        assert user.face.held == 0


async def test_what_was_typed_for_the_editor_is_added_to_the_draft(tmp_path):
    async with open_typist(tmp_path) as user:
        await user.press("draft")
        held = [Key("esc"), Key("text", "o"), Key("text", "k"), Key("enter"), Key("ctrl-c")]
        assert user.composer.add_typed_ahead([*held, Paste("pasted")])
        assert user.text == "draftok\npasted|"
        assert not user.composer.add_typed_ahead([Key("esc")])
        assert user.face.sent == []


async def test_the_editor_keeps_pastes_and_the_paths_of_images(tmp_path):
    async with open_typist(tmp_path) as user:
        image = Path(tmp_path) / "my plan.png"
        image.write_bytes(b"")
        user.press_at_once("see ")
        user.paste(str(image))
        user.paste("line\n" * 30)
        user.face.leave_editor.set()
        expanded = f"see [image #1: {image}] " + "line\n" * 30
        # Nothing is changed in the editor.
        user.face.edited = expanded
        await user.press("<ctrl-g>")
        assert user.face.drafts == [expanded]
        assert "[paste #1 · 30 lines" in user.composer.editor.shown_text
        user.face.edited = expanded.replace("see", "look at")
        await user.press("<ctrl-g>")
        assert user.composer.editor.text.startswith(f"look at [image #1: {image}] line\nline")
        user.press_at_once("<enter>")
        assert str(image) in user.face.sent[0][0]


# --- the history ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_kept", [True, False])
async def test_the_history_is_written_when_it_is_known_that_it_may_be(tmp_path, is_kept):
    async with open_typist(tmp_path) as user:
        file = tmp_path / "early.jsonl"
        composer = Composer(user.face, History(file, "/home/me/app"))
        user = Typist(composer, user.face)
        assert composer.keeps_history is None
        await user.press("early<enter>")
        assert not file.exists()
        composer.keeps_history = is_kept
        await user.settle()
        assert file.exists() == is_kept
        await user.press("late<enter>")
        await user.press("<up><up>")
        assert user.text == "early|"
        written = file.read_text().splitlines() if is_kept else []
        assert len(written) == (2 if is_kept else 0)


async def test_a_search_counts_as_a_draft(tmp_path):
    """A question must not take the focus while the user types a search."""
    async with open_typist(tmp_path) as user:
        assert user.composer.is_empty
        await user.press("<ctrl-r>")
        assert not user.composer.is_empty
        await user.press("<esc>")
        assert user.composer.is_empty


async def test_what_returns_ends_a_search(tmp_path):
    async with open_typist(tmp_path) as user:
        await user.press("older<enter>draft<ctrl-r>old")
        user.composer.give_back(["returned"])
        await user.press("!")
        assert user.text == "returned\n\ndraft!|"
