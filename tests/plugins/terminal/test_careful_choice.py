"""The list without a filter: only deliberate keys decide whether a folder is trusted."""

import pytest
import trio
from hilum_terminal.careful_choice import PASTE_NOTE, QUICK_NOTE, CarefulChoice
from hilum_terminal.chat_protocol import Choice
from hilum_terminal.face import Face
from hilum_terminal.keys import Key, Paste
from hilum_terminal.options import ChatOptions
from hilum_terminal.pickers import Picked
from hilum_terminal.prompts import TOO_SMALL, Cancelled, Passed
from hilum_terminal.styles import PLAIN
from hilum_terminal.trust_question import ask_trust

CHOICES = [Choice("look", "No, look"), Choice("without", "No, without"), Choice("trust", "Yes")]
ENTER = Key("enter")
DOWN = Key("down")


def letter(text):
    return Key("text", text)


class User:
    """A list on the screen, with a clock."""

    def __init__(self, size=(80, 20)):
        self.choice = CarefulChoice("Trust?", CHOICES)
        self.size = size
        self.now = 100.0
        self.results = []
        self.rows()

    def rows(self):
        return self.choice.rows(*self.size, PLAIN, self.now)

    def press(self, *keys, after=0.6):
        for key in keys:
            self.wait(after)
            self.take(self.choice.handle(key, self.now))
            self.rows()
        return self

    def wait(self, seconds):
        self.now += seconds
        self.take(self.choice.tick(self.now))
        return self

    def take(self, result):
        if result is not None:
            self.results.append(result)

    @property
    def decisions(self):
        self.wait(1.0)
        return [each.entry.value for each in self.results if isinstance(each, Picked)]

    @property
    def passed(self):
        keys = [key for each in self.results if isinstance(each, Passed) for key in each.keys]
        return "".join(key.text for key in keys)


def test_arrow_keys_or_a_digit_and_then_enter_decide():
    table = (
        ([ENTER], ["look"]),
        ([DOWN, ENTER], ["without"]),
        ([DOWN, DOWN, ENTER], ["trust"]),
        ([Key("up"), ENTER], ["trust"]),
        ([letter("3"), ENTER], ["trust"]),
        ([letter("3"), letter("2"), ENTER], ["without"]),
        ([letter("3")], []),
        ([letter("4"), ENTER], ["look"]),
    )
    wrong = [line for line in table if User().press(*line[0]).decisions != line[1]]
    assert wrong == []
    assert User().press(Key("esc")).results == [Cancelled()]


@pytest.mark.parametrize("word", ["y", "e", "use", "the", "know", "author", "read it", "3 files"])
@pytest.mark.parametrize("after", [0.0, 0.06, 0.3, 0.6])
def test_typed_text_selects_nothing_and_is_passed_on(word, after):
    user = User()
    user.wait(1.0)
    # A digit that stands alone for half a second selects, but does not decide.
    word = word if after < 0.5 else word.lstrip("3")
    user.press(*map(letter, word), after=after)
    assert user.passed == word
    user.press(ENTER, after=after)
    assert "trust" not in user.decisions


@pytest.mark.parametrize(
    ("keys", "after"),
    [
        ([letter("3"), ENTER], 0.1),
        ([DOWN, DOWN, ENTER], 0.3),
        ([ENTER, ENTER], 0.0),
        ([ENTER, letter("x")], 0.2),
        ([Paste("3"), ENTER], 0.2),
        ([letter("3"), Paste("yes"), ENTER], 0.2),
    ],
)
def test_quick_keys_decide_nothing(keys, after):
    """Neither before nor after another key, nor next to a paste."""
    user = User()
    user.wait(1.0)
    assert user.press(*keys, after=after).decisions == []


def test_keys_right_after_the_list_appeared_decide_nothing():
    user = User()
    assert user.press(ENTER, after=0.4).decisions == []
    assert QUICK_NOTE in user.rows()
    user.choice.hide()
    user.rows()
    assert user.press(ENTER, after=0.4).decisions == []


def test_a_paste_is_ignored_with_a_notice():
    user = User().press(Paste("yes\n"))
    assert PASTE_NOTE in user.rows()
    assert user.passed == ""


@pytest.mark.parametrize("size", [(19, 20), (80, 3), (1, 1), (0, 0)])
def test_a_list_that_is_not_visible_decides_nothing(size):
    user = User(size).press(DOWN, ENTER)
    assert user.decisions == []
    assert "".join(user.rows()) in TOO_SMALL or "…" in user.rows()[0]


async def test_typing_does_not_trust_a_folder(autojump_clock, tmp_path, nursery):
    """In the terminal, the word is in the input, and the list appears again later."""
    (tmp_path / ".hilum" / "plugins").mkdir(parents=True)
    (tmp_path / ".hilum" / "plugins" / "deploy.py").write_text("")
    face = Face(ChatOptions(workspace=tmp_path, environ={}))
    sent = []
    face.submit = lambda text, **_: sent.append(text)
    shown = trio.Event()
    face.overlays._changed = shown.set
    nursery.start_soon(face._run_clock)
    nursery.start_soon(ask_trust, face, tmp_path)
    await shown.wait()
    face._layout((80, 24))
    await trio.sleep(1.0)
    for char in "use them":
        face._handle(letter(char))
        face._layout((80, 24))
        await trio.sleep(0.06)
    face._handle(ENTER)
    assert sent == ["use them"]
    await trio.sleep(2.0)
    assert isinstance(face.overlays.current, CarefulChoice)
