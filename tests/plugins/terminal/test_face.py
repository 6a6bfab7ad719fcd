"""The full terminal without a terminal: which part gets a key."""

import pytest
import trio
from hilum_terminal.approval_items import Answer, WaitingCall
from hilum_terminal.face import Face
from hilum_terminal.full_view import FullView, Page
from hilum_terminal.keys import Key, Paste
from hilum_terminal.options import ChatOptions
from hilum_terminal.styles import PLAIN

FOCUS = Key("shift-tab")
ENTER = Key("enter")
SIZE = (80, 24)


def letter(text):
    return Key("text", text)


class Terminal:
    """A face without a terminal: it draws when the test says so, and its clock is simulated."""

    def __init__(self, folder):
        self.face = Face(ChatOptions(workspace=folder, environ={}))
        self.decisions = []
        self.sent = []
        self.results = []
        self.face.commands.decide = self.decisions.append
        self.face.submit = lambda text, **_: self.sent.append(text)
        self.face.tty.enter_alternate = lambda: None
        self.face.tty.leave_alternate = lambda: None

    def open(self, *items):
        self.face.show_waiting(items)
        self.draw()

    def draw(self):
        if self.face.drawing.full is None:
            self.face._layout(SIZE)

    def press(self, *keys):
        """Press keys at the same moment, then draw."""
        for key in keys:
            self.face._handle(key)
        self.draw()

    async def wait(self, seconds):
        """Let time pass, in small steps after which the face draws."""
        await trio.testing.wait_all_tasks_blocked()
        end = trio.current_time() + seconds
        while True:
            self.draw()
            left = end - trio.current_time()
            if left <= 0:
                return
            await trio.sleep(min(left, 0.1))

    async def type(self, text, interval=0.06):
        for char in text:
            self.press(letter(char))
            await self.wait(interval)

    async def confirm(self):
        self.results.append(await self.face.confirm("Restore 3 files?", yes="Restore"))

    @property
    def draft(self):
        return self.face.composer.editor.text

    @property
    def screen(self):
        return "\n".join(self.face._layout(SIZE).rows)


@pytest.fixture
async def terminal(tmp_path, nursery):
    terminal = Terminal(tmp_path)
    nursery.start_soon(terminal.face._run_clock)
    await trio.testing.wait_all_tasks_blocked()
    return terminal


async def test_keys_before_a_question_opens_delay_its_focus(tmp_path):
    """Typing that began before the question must not answer it."""
    face = Face(ChatOptions(workspace=tmp_path, environ={}))
    face._handle(Key("text", "x"))
    face._handle(Key("backspace"))
    now = trio.current_time()
    face.show_waiting([WaitingCall(id="a1", description="git push")])
    face.approvals.rows(80, 12, PLAIN, now)
    face.approvals.tick(now + 0.4, draft_empty=True)
    assert not face.approvals.focused
    face.approvals.tick(now + 0.6, draft_empty=True)
    assert face.approvals.focused


CALL = WaitingCall(id="a1", description="git push")


@pytest.mark.parametrize("by_key", [True, False])
async def test_two_quick_keys_at_a_commands_question_answer_only_that(
    autojump_clock, terminal, nursery, by_key
):
    terminal.open(CALL)
    if by_key:
        terminal.press(FOCUS)
    await terminal.wait(1.0)
    assert terminal.face.approvals.focused
    nursery.start_soon(terminal.confirm)
    await terminal.wait(1.0)
    assert "Restore 3 files?" in terminal.screen
    terminal.press(letter("y"), ENTER)
    await terminal.wait(0.3)
    assert terminal.results == [True]
    terminal.press(letter("y"))
    await terminal.wait(1.0)
    assert terminal.decisions == []
    assert terminal.draft == "y"


async def test_two_quick_keys_after_the_full_view_answer_nothing(autojump_clock, terminal):
    """The call is drawn again before a key answers it, and keeps the focus."""
    terminal.open(CALL)
    terminal.press(FOCUS)
    await terminal.wait(1.0)
    view = FullView([Page("a", lambda *_: ["a"])])
    terminal.face.open_full_view(view)
    await terminal.wait(1.0)
    terminal.press(letter("q"), letter("y"))
    await terminal.wait(1.0)
    assert terminal.decisions == []
    assert terminal.draft == "y"
    # Without such a key, the question still has the focus.
    terminal.press(Key("backspace"), FOCUS)
    await terminal.wait(1.0)
    terminal.face.open_full_view(view)
    terminal.press(letter("q"))
    await terminal.wait(0.5)
    terminal.press(letter("y"))
    assert terminal.decisions == [Answer("a1", True)]


async def test_keys_after_a_suspension_answer_nothing(autojump_clock, terminal, monkeypatch):
    """What is typed before hilum has drawn the question again was meant for the shell."""
    for resume in (terminal.face._redraw_after_return, lambda: terminal.face._handle_signal(18)):
        monkeypatch.setattr(terminal.face.tty, "resume", lambda: True)
        terminal.open(CALL)
        terminal.press(FOCUS)
        await terminal.wait(1.0)
        resume()
        terminal.press(letter("y"))
        await terminal.wait(1.0)
        assert terminal.decisions == []
        assert terminal.draft == "y"
        terminal.press(Key("backspace"))
        terminal.open()


async def test_a_commands_question_takes_no_keys_from_a_text(autojump_clock, terminal, nursery):
    """The question waits until the user asks for it, or has sent the text and paused."""
    await terminal.type("please c")
    nursery.start_soon(terminal.confirm)
    await terminal.type("heck the types again, yes", 0.4)
    assert terminal.draft == "please check the types again, yes"
    assert "A command has a question · Shift-Tab to answer" in terminal.screen
    await terminal.wait(60)
    assert "Restore 3 files?" not in terminal.screen
    terminal.press(ENTER)
    assert terminal.sent == ["please check the types again, yes"]
    await terminal.wait(0.6)
    assert "Restore 3 files?" in terminal.screen
    # The user begins to type again, and a paste is no answer either.
    await terminal.wait(1.0)
    await terminal.type("yes", 0.1)
    terminal.press(Paste("y\n"))
    await terminal.wait(1.0)
    assert terminal.results == []
    assert terminal.draft.strip() == "yesy"
    terminal.press(FOCUS)
    assert "Restore 3 files?" in terminal.screen
    # Enter must not answer a question that has just appeared.
    terminal.press(ENTER)
    assert terminal.results == []
    await terminal.wait(0.4)
    terminal.press(letter("y"))
    await terminal.wait(0.8)
    assert terminal.results == [True]
    assert terminal.draft.strip() == "yesy"


async def test_the_question_of_a_command_that_was_just_entered_opens_at_once(
    autojump_clock, terminal, nursery
):
    await terminal.type("/undo")
    terminal.press(ENTER)
    nursery.start_soon(terminal.confirm)
    await terminal.wait(0.01)
    assert "Restore 3 files?" in terminal.screen
    await terminal.wait(0.4)
    terminal.press(ENTER)
    await terminal.wait(0.0)
    assert terminal.results == [False]


async def test_a_commands_question_waits_while_a_reason_is_written(
    autojump_clock, terminal, nursery
):
    terminal.open(CALL)
    terminal.press(FOCUS)
    await terminal.wait(0.5)
    terminal.press(letter("n"))
    await terminal.type("use ")
    nursery.start_soon(terminal.confirm)
    await terminal.type("yarn")
    await terminal.wait(2.0)
    assert "> use yarn" in terminal.screen
    terminal.press(ENTER)
    assert terminal.decisions == [Answer("a1", False, "use yarn")]
    terminal.open()
    await terminal.wait(1.0)
    assert "Restore 3 files?" in terminal.screen


async def test_a_hidden_question_does_not_take_the_focus(autojump_clock, terminal, nursery):
    """Neither behind a command's question nor behind the full-screen view."""
    nursery.start_soon(terminal.confirm)
    await terminal.wait(1.0)
    terminal.open(CALL)
    await terminal.wait(5.0)
    assert not terminal.face.approvals.focused
    terminal.press(ENTER)
    await terminal.wait(0.3)
    assert not terminal.face.approvals.focused
    terminal.face.open_full_view(FullView([Page("a", lambda *_: ["a"])]))
    await terminal.wait(5.0)
    assert not terminal.face.approvals.focused
    terminal.press(Key("esc"))
    await terminal.wait(0.3)
    assert not terminal.face.approvals.focused
    await terminal.wait(0.6)
    assert terminal.face.approvals.focused


async def test_a_returned_reason_is_never_a_command(autojump_clock, terminal):
    """In an empty input, a question mark lists the keys."""
    terminal.open(CALL)
    terminal.press(FOCUS)
    await terminal.wait(0.5)
    terminal.press(letter("n"), letter("?"))
    terminal.open()
    assert terminal.draft == "?"


@pytest.mark.parametrize(
    "data", [b"y\r", b"\ry", b"y\r\rthanks\r", b"s\ry\r", b"\x0cy", b"\x1b[C\r"]
)
@pytest.mark.parametrize("by_key", [True, False])
async def test_bytes_that_arrive_together_answer_nothing(
    autojump_clock, terminal, nursery, monkeypatch, data, by_key
):
    terminal.open(CALL)
    if by_key:
        terminal.press(FOCUS)
    await terminal.wait(2.0)
    assert terminal.face.approvals.focused
    reads = [data]

    async def read():
        if not reads:
            await trio.sleep_forever()
        return reads.pop()

    monkeypatch.setattr(terminal.face.tty, "read", read)
    nursery.start_soon(terminal.face._read_keys)
    await terminal.wait(2.0)
    assert terminal.decisions == []
