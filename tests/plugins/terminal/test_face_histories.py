"""Random histories of the full terminal: whatever opens while the user types, nothing is answered.

Unlike the histories in ``test_approvals``, these drive the whole key handling of the face: the
input, the questions of agents and commands, the full-screen view, editors and suspensions.
"""

import random

import pytest
import trio
from hilum_terminal.approval_items import (
    Answer,
    EditCall,
    PlanDecision,
    ShowWhole,
    WaitingCall,
    WaitingPlan,
    WaitingQuestion,
)
from hilum_terminal.chat_protocol import Choice
from hilum_terminal.face import Face
from hilum_terminal.full_view import FullView, Page
from hilum_terminal.keys import Key, Paste
from hilum_terminal.options import ChatOptions
from hilum_terminal.prompts import Confirmed, ConfirmPrompt

FOCUS = Key("shift-tab")
ENTER = Key("enter")
WORDS = ("please", "yes", "no", "yn", "1", "y", "n", "a", "always", "sure", "fix", "q", "e", "w")
CHOICES = ("y", "a", "s", "f", "e", "n", "c", "v", "w", "l", "o", "1", "2", " ")
SIGCONT = 18
SIZE = (80, 24)
# Seconds after a question is drawn in which no key answers it.
GUARD = 0.3


def squeeze(text):
    """The characters of a text in a fixed order, without blanks."""
    return sorted("".join(text.split()))


class History:
    """A random history, which checks every decision.

    Args:
        seed: The seed.
        folder: The workspace.
        nursery: A nursery for the commands that ask questions.
        decides: Whether the user also presses keys that are meant for questions.
    """

    def __init__(self, seed, folder, nursery, *, decides):
        self.random = random.Random(seed)
        self.nursery = nursery
        self.decides = decides
        self.face = Face(ChatOptions(workspace=folder, environ={}))
        self.face.commands.decide = self.take_decision
        self.face.submit = lambda text, **_: self.sent.append(text)
        self.face.tty.resume = lambda: True
        self.face.tty.enter_alternate = lambda: None
        self.face.tty.leave_alternate = lambda: None
        self.face.conversation.session = None
        self.items = []
        self.count = 0
        self.sent = []
        self.expected = ""
        self.decisions = []
        # The questions of commands, with the scopes that end them, and what was confirmed.
        self.overlays = []
        self.scopes = []
        self.confirmed = []
        self.edited = ""
        # When the visible question was drawn first, and when the sentence began.
        self.drawn = (None, 0.0)
        self.began = 0.0
        self.opened = 0
        show = self.face.overlays.show

        async def record(overlay):
            self.overlays.append(overlay)
            if isinstance(overlay, ConfirmPrompt):
                overlay.handle = self.checked(overlay, overlay.handle)
                overlay.tick = self.checked(overlay, overlay.tick)
            try:
                return await show(overlay)
            except trio.Cancelled:
                # What it contained is in the draft again.
                self.overlays.remove(overlay)
                raise

        self.face.overlays.show = record

    async def run(self):
        for _ in range(self.random.randint(5, 20)):
            await self.random.choice(self.actions())()
        self.close_full()
        self.close_editor()
        # A letter that is held may still arrive.
        await self.pass_time(1.0)

    def actions(self):
        actions = [self.write, self.write, self.write, self.paste, self.burst, self.pause]
        actions += [self.happen]
        actions += [self.read_whole, self.open_editor]
        if self.decides:
            actions += [self.choose, self.focus, *[self.decide] * 3, *[self.confirm] * 2]
        return actions

    # --- time and keys ----------------------------------------------------------------------------

    async def pass_time(self, seconds):
        end = trio.current_time() + seconds
        while True:
            self.draw()
            left = end - trio.current_time()
            if left <= 0:
                return
            await trio.sleep(min(left, self.random.choice((0.05, 0.2))))

    @property
    def visible(self):
        """The question that keys can answer now; None if there is none."""
        if self.face.drawing.full is not None or self.face.tty.is_lent:
            return None
        if self.face.overlays.current is not None:
            return self.face.overlays.current
        return self.face.approvals.current

    def draw(self):
        if self.face.drawing.full is not None or self.face.tty.is_lent:
            return
        if self.drawn[0] is not self.visible:
            self.drawn = (self.visible, trio.current_time())
        self.face._layout(SIZE)

    def cover(self):
        """Note that something has covered the question: it must be drawn again."""
        self.drawn = (None, 0.0)

    def press(self, key):
        text = key.text if isinstance(key, Paste) or key.name == "text" else ""
        question = self.visible
        is_overlay = question is not None and question is self.face.overlays.current
        is_held = self.face._holds_keys
        if is_overlay and text and not is_held and not isinstance(question, ConfirmPrompt):
            # A sentence that began before the question was shown is not written into it.
            assert self.decides or self.drawn[0] is question
            assert self.decides or self.drawn[1] <= self.began
        self.face._handle(key)
        if self.visible is not question:
            self.cover()
        self.draw()

    async def type(self, text):
        self.began = trio.current_time()
        # Some users need 0.3 to 0.6 seconds for each key.
        intervals = self.random.choice(((0.02, 0.24), (0.02, 0.24), (0.3, 0.6)))
        for char in text:
            self.expected += char
            self.press(Key("text", char))
            await self.pass_time(self.random.uniform(*intervals))
            if self.random.random() < 0.06:
                await self.happen()

    # --- what the user does -----------------------------------------------------------------------

    async def write(self):
        words = self.random.choices(WORDS, k=self.random.randint(1, 4))
        # A letter alone, after a pause, is a choice; a letter with a blank is text.
        await self.type(" ".join(words) + " ")
        if self.random.random() < 0.5:
            self.press(ENTER)
        await self.pause()

    async def paste(self):
        text = self.random.choice(("y", "yes\ny\n", "please yn 1\n", "1"))
        self.began = trio.current_time()
        self.expected += text
        self.press(Paste(text))
        await self.pause()

    async def burst(self):
        """Send several keys at once, as a paste without brackets or a slow connection does."""
        text = self.random.choice(("y\n", "\ny\n", "y\n\nthanks\n", "s\ny\n", "a\n\n", "1\n"))
        self.began = trio.current_time()
        self.expected += text
        pieces = [text]
        if not text.startswith("\n") and self.random.random() < 0.5:
            # Each line arrives alone. Enter alone would be the key, which answers "no".
            pieces = text.splitlines(keepends=True)
        for piece in pieces:
            keys = [ENTER if char == "\n" else Key("text", char) for char in piece]
            if len(keys) > 1:
                self.face._note_burst()
            for key in keys:
                self.press(key)
            await self.pass_time(self.random.choice((0.01, 0.1)))
        await self.pause()

    async def pause(self):
        await self.pass_time(self.random.choice((0.0, 0.1, 0.4, 1.2, 3.0)))

    async def focus(self):
        self.press(FOCUS)
        await self.pause()

    async def choose(self):
        await self.pass_time(self.random.choice((0.4, 1.0, 3.0)))
        keys = [Key("text", char) for char in CHOICES]
        keys += [ENTER, ENTER, Key("esc"), Key("right"), Key("tab"), FOCUS]
        for _ in range(self.random.randint(1, 3)):
            self.press(self.random.choice(keys))
            await self.pass_time(self.random.choice((0.02, 0.1, 0.35, 0.6, 0.9)))

    async def decide(self):
        self.open_item()
        self.press(FOCUS)
        await self.pass_time(self.random.choice((0.1, 0.4)))
        if self.random.random() < 0.3:
            await self.happen()
        await self.choose()

    async def confirm(self):
        self.press(ENTER)
        self.open_overlay()
        await self.pass_time(self.random.choice((0.1, 1.0)))
        for char in self.random.choice(("y", "yy", "n", "ny")):
            self.press(Key("text", char))
            await self.pass_time(self.random.choice((0.0, 0.02, 0.4, 0.9)))

    async def read_whole(self):
        """Read something in the full-screen view, and sometimes type on at once."""
        self.face.open_full_view(FullView([Page("title", lambda *_: ["row"] * 50)]))
        self.cover()
        await self.pause()
        for name in ("j", "k", "y"):
            self.press(Key("text", name))
        await self.pause()
        self.close_full()
        if self.random.random() < 0.5:
            await self.type("yes y ")

    def close_full(self):
        if self.face.drawing.full is not None:
            self.press(Key("text", "q"))
            self.cover()

    async def open_editor(self):
        """Open an editor, in which the user writes; keys before it opens are kept."""
        self.face.hold_keys()
        if self.random.random() < 0.5:
            await self.type("y yes ")
        self.face.tty.is_lent = True
        self.cover()
        await self.pause()
        self.close_editor()
        await self.pass_time(self.random.choice((0.0, 0.1)))

    def close_editor(self):
        if self.face.tty.is_lent:
            self.face.tty.is_lent = False
            self.face._redraw_after_return()
        while self.face._holds_keys:
            self.face.release_keys()
            self.cover()

    # --- what happens meanwhile -------------------------------------------------------------------

    async def happen(self):
        events = [self.open_item, self.open_item, self.end_item, self.change_item]
        events += [self.open_overlay, self.open_overlay, self.stop_command, self.suspend]
        self.random.choice(events)()
        await self.pass_time(self.random.choice((0.0, 0.05)))

    def open_item(self):
        self.count += 1
        name = f"a{self.count}"
        item = self.random.choice(
            (
                WaitingCall(id=name, description="git push", scope="same", response="m1"),
                WaitingCall(id=name, description="rm -r src", dangerous=True),
                WaitingQuestion(id=name, question="Which?", options=("a", "b")),
                WaitingQuestion(id=name, question="Which?", options=("a",), multiple=True),
                WaitingPlan(id=name, text="1. Do it"),
            )
        )
        self.items.append(item)
        self.opened += 1
        self.show_items()

    def end_item(self):
        if self.items:
            self.items.remove(self.random.choice(self.items))
            self.show_items()

    def change_item(self):
        for index, item in enumerate(self.items):
            if isinstance(item, WaitingCall):
                self.items[index] = WaitingCall(id=item.id, description=f"{trio.current_time()}")
        self.show_items()

    def show_items(self):
        self.face.show_waiting(self.items)

    def open_overlay(self):
        kind = self.random.choice(("confirm", "confirm", "choose", "ask"))
        scope = trio.CancelScope()
        self.scopes.append(scope)
        self.opened += 1

        async def ask():
            with scope:
                if kind == "confirm":
                    accepted = await self.face.confirm("Restore 3 files?", yes="Restore")
                    self.confirmed.append(accepted)
                elif kind == "choose":
                    choices = [Choice(1, "one"), Choice(2, "two")]
                    await self.face.choose("Which one?", choices)
                else:
                    await self.face.ask("Which name?", default="main")

        self.nursery.start_soon(ask)

    def stop_command(self):
        if self.scopes:
            self.random.choice(self.scopes).cancel()

    def suspend(self):
        """Return from the shell after Ctrl-Z, or after a stop from outside."""
        if self.random.random() < 0.5:
            self.face._redraw_after_return()
        else:
            self.face._handle_signal(SIGCONT)
        self.cover()

    # --- decisions --------------------------------------------------------------------------------

    def check_seen(self, question):
        """Check that the user could read a question before they answered it."""
        assert self.drawn[0] is question
        assert trio.current_time() - self.drawn[1] >= GUARD - 1e-9

    def checked(self, overlay, method):
        """Return a method of a question that also checks its answers."""

        def call(*arguments):
            result = method(*arguments)
            if isinstance(result, Confirmed):
                self.check_seen(overlay)
            return result

        return call

    def take_decision(self, result):
        self.decisions.append(result)
        assert self.face.overlays.current is None
        assert self.face.drawing.full is None
        assert not self.face.tty.is_lent
        assert self.drawn[0] is not None
        self.check_seen(self.drawn[0])
        if isinstance(result, ShowWhole):
            return
        if isinstance(result, EditCall) or result == PlanDecision(result.id, "edit"):
            self.nursery.start_soon(self.edit, result.id)
            return
        self.items = [item for item in self.items if item.id != result.id]
        self.nursery.start_soon(self.show_later)

    async def show_later(self):
        self.show_items()

    async def edit(self, identity):
        self.cover()
        await trio.sleep(self.random.choice((0.0, 0.3, 1.0)))
        self.face.end_edit(identity)
        self.cover()

    @property
    def received(self):
        """Everything that has arrived somewhere: sent, in the draft, or in a command's question."""
        fields = [overlay.typed for overlay in self.overlays]
        return "".join([*self.sent, *fields, self.face.composer.editor.expand()])


async def play(seed, folder, *, decides):
    async with trio.open_nursery() as nursery:
        history = History(seed, folder, nursery, decides=decides)
        nursery.start_soon(history.face._run_clock)
        await history.run()
        nursery.cancel_scope.cancel()
    return history


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("part", range(4))
async def test_typing_answers_nothing_and_loses_nothing(autojump_clock, tmp_path, trials, part):
    """Whatever opens, ends or covers the terminal at random moments."""
    count = trials(60, 1_000) // 4
    opened = 0
    for seed in range(part * count, (part + 1) * count):
        history = await play(seed, tmp_path, decides=False)
        assert history.decisions == [], seed
        assert history.confirmed == [], seed
        assert squeeze(history.received) == squeeze(history.expected), seed
        opened += history.opened
    # Otherwise the test would prove little.
    assert opened > count


async def test_only_a_question_that_was_read_is_answered(autojump_clock, tmp_path, trials):
    """The user also answers questions; the checks are in ``History.take_decision``."""
    answers = 0
    confirmed = 0
    count = trials(50, 1_000)
    for seed in range(count):
        history = await play(seed, tmp_path, decides=True)
        answers += sum(isinstance(each, Answer) for each in history.decisions)
        confirmed += len(history.confirmed)
    # Otherwise the test would prove little.
    assert answers > count / 25
    assert confirmed > count / 25
