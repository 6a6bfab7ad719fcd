"""The prompt for approvals: who has the focus, what a key decides, and what is shown."""

import random

import attrs
import pytest
from hilum_terminal.approval_items import (
    Answer,
    EditCall,
    PlanDecision,
    QuestionAnswer,
    ShowWhole,
    WaitingCall,
    WaitingPlan,
    WaitingQuestion,
)
from hilum_terminal.approval_texts import describe_item, whole_rows
from hilum_terminal.approvals import FOCUS_KEY, SELECTED_NOTE, ApprovalPrompt, route_key
from hilum_terminal.keys import Key, Paste
from hilum_terminal.row_layout import exact_rows
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells

FOCUS = Key(FOCUS_KEY)
ENTER = Key("enter")
ESC = Key("esc")


def letter(text):
    return Key("text", text)


def call(number=1, **more):
    values = {
        "id": f"a{number}",
        "tool": "run_command",
        "title": "Run a command",
        "description": f"git push origin branch-{number}",
        "response": "m1",
        "scope": f"run_command(tool-{number} *)",
        "covers": f"tool-{number} *",
    }
    return WaitingCall(**{**values, **more})


def question(**more):
    values = {"id": "q1", "question": "Which one?", "options": ("Postgres", "SQLite")}
    return WaitingQuestion(**{**values, **more})


class User:
    """A prompt with a clock, and the keys that reached the composer."""

    def __init__(self, *items, width=80, max_rows=12):
        self.prompt = ApprovalPrompt()
        self.now = 100.0
        self.size = (width, max_rows)
        self.composer = []
        self.results = []
        self.returned = []
        self.show(*items)

    def show(self, *items, **more):
        self.take(self.prompt.update(items, self.now, **more))
        return self.rows()

    def rows(self):
        return self.prompt.rows(*self.size, PLAIN, self.now)

    @property
    def screen(self):
        return "\n".join(self.rows())

    def wait(self, seconds, draft_empty=True):
        self.now += seconds
        self.take(self.prompt.tick(self.now, draft_empty=draft_empty))
        self.rows()
        return self

    def press(self, *keys, after=0.5):
        """Press keys, each after some time; return the results of the last one."""
        last = ()
        for key in keys:
            self.now += after
            last = self.take(route_key(self.prompt, key, self.now))
            self.rows()
        return last

    def take(self, routed):
        self.composer += routed.composer
        self.results += routed.results
        if routed.returned:
            self.returned.append(routed.returned)
        return routed.results

    @property
    def typed(self):
        return "".join(key.text for key in self.composer)


def focused(*items, **more):
    user = User(*items, **more)
    user.press(FOCUS)
    return user.wait(0.5)


# The focus


def test_keys_go_to_the_composer_until_the_prompt_has_the_focus():
    user = User(call())
    assert user.press(letter("y"), ENTER, Key("up"), Paste("y\n")) == ()
    assert user.composer == [letter("y"), ENTER, Key("up"), Paste("y\n")]
    assert user.results == []


def test_the_focus_key_gives_the_focus_and_takes_it_back():
    user = User(call())
    user.press(FOCUS)
    assert user.prompt.focused
    user.press(FOCUS)
    assert not user.prompt.focused
    assert user.composer == []


def test_the_focus_key_after_the_pause_keeps_the_focus():
    """The user pressed it for a question that has just taken the focus itself."""
    user = User(call())
    user.wait(0.5)
    assert user.prompt.focused
    user.press(FOCUS)
    assert user.prompt.focused
    # It is the user's now, so Enter chooses; the next one takes it away.
    user.wait(0.5)
    assert "[y] yes, once" in user.screen
    user.press(FOCUS)
    assert not user.prompt.focused
    user.press(FOCUS)
    user.wait(0.5)
    assert user.press(ENTER) == (Answer("a1", True),)
    # After a while, the user knows that the question has the focus.
    user = User(call())
    user.wait(0.5).wait(1.0)
    user.press(FOCUS)
    assert not user.prompt.focused


def test_a_notice_about_keys_ends_with_its_step():
    user = User(call(1), call(2))
    user.wait(0.5)
    user.press(letter("a"))
    user.wait(0.75)
    assert SELECTED_NOTE in user.screen
    user.press(ENTER)
    assert "allow these 2 calls" in user.screen
    assert SELECTED_NOTE not in user.screen
    # A list of calls is not headed by one of them.
    assert user.rows()[0] == "● 2 calls of this response"
    user.press(letter("n"))
    assert SELECTED_NOTE not in user.screen


def test_a_text_field_says_what_it_is_for():
    for key, item, label in (
        ("n", call(), "reason (may be empty)> "),
        ("c", call(), "comment (may be empty)> "),
        ("n", WaitingPlan(id="p1", text="Do it."), "reason (may be empty)> "),
        ("o", question(), "answer> "),
    ):
        user = focused(item)
        user.press(letter(key))
        user.press(letter("x"))
        assert f"{label}x" in user.screen
        row, column = user.prompt.cursor
        assert user.rows()[row][:column] == f"{label}x"
    user.size = (30, 12)
    user.show(question())
    assert "\n> x" in user.screen


def test_a_question_with_several_answers_says_how_they_are_sent():
    user = focused(question(options=("red", "green", "blue"), multiple=True))
    assert "[Enter] send the selected answer" in user.screen
    user.press(letter("2"))
    assert "[Enter] send this answer" in user.screen
    user.press(letter("3"))
    assert "[Enter] send these 2 answers" in user.screen
    assert SELECTED_NOTE not in user.screen
    assert user.press(ENTER) == (QuestionAnswer("q1", ("green", "blue")),)


def test_a_call_that_was_read_on_the_whole_screen_is_approved_there():
    user = focused(call(1), call(2))
    assert user.press(letter("w")) == (ShowWhole("a1", full_screen=True),)
    assert user.take(user.prompt.answer_viewed(user.now)) == (Answer("a1", True),)
    # Only what was read is approved, and only once.
    assert user.take(user.prompt.answer_viewed(user.now)) == ()
    user = focused(call(1))
    user.press(letter("w"))
    user.show(call(1, description="rm -rf /"))
    assert user.take(user.prompt.answer_viewed(user.now)) == ()
    assert "Not approved" in user.screen
    plan = focused(WaitingPlan(id="p1", text="Do it."))
    plan.press(letter("w"))
    assert plan.take(plan.prompt.answer_viewed(plan.now)) == (PlanDecision("p1", "accept"),)


def test_the_focus_key_is_the_composers_if_nothing_waits():
    user = User()
    user.press(FOCUS)
    assert user.composer == [FOCUS]
    assert not user.prompt.focused


def test_the_prompt_takes_the_focus_after_a_pause_without_a_key_and_a_draft():
    user = User()
    user.press(letter("x"))
    user.show(call())
    assert not user.wait(0.4).prompt.focused
    assert not user.wait(0.2, draft_empty=False).prompt.focused
    assert user.wait(0.0).prompt.focused


def test_keys_before_a_question_opens_are_no_pause():
    """The program notes every key, also while nothing waits."""
    user = User()
    user.wait(60)
    user.prompt.note_key(user.now)
    user.wait(0.1).show(call())
    assert not user.wait(0.0).prompt.focused
    user.press(letter("y"), after=0.1)
    assert user.typed == "y"
    assert user.wait(0.6).prompt.focused
    assert user.results == []


def test_the_focus_is_for_one_item_only():
    """The next item needs the focus key, or a pause, again."""
    user = focused(call(1), call(2), call(3))
    assert user.press(letter("y")) == (Answer("a1", True),)
    assert not user.prompt.focused
    assert user.press(letter("y"), ENTER, after=0.4) == ()
    assert user.typed == "y"
    user.press(FOCUS)
    assert user.press(letter("y")) == (Answer("a2", True),)
    # The same if the prompt took the focus itself.
    assert user.wait(0.5).prompt.focused
    user = User(call(1), call(2)).wait(5)
    user.press(letter("y"))
    user.wait(0.75)
    assert user.results == [Answer("a1", True)]
    assert not user.prompt.focused
    user.press(letter("y"), after=0.15)
    assert user.results == [Answer("a1", True)]


@pytest.mark.parametrize("key", ["s", "a", "f"])
def test_a_letter_that_covers_more_than_one_call_needs_enter(key):
    """If the prompt took the focus itself, such a letter only selects the choice."""
    user = User(call(1), call(2)).wait(5)
    user.press(letter(key))
    user.wait(0.75)
    assert user.results == []
    assert f"▸[{key}]" in user.screen
    assert "Press Enter to choose this." in user.screen
    user.press(ENTER)
    if key == "s":
        assert user.results == [Answer("a1", True, remember="session")]
    else:
        assert "▸[n] no, back" in user.screen
    # With the focus key, the letter chooses.
    user = focused(call(1), call(2))
    user.press(letter(key))
    assert "▸[n] no, back" in user.screen or user.results


def test_only_a_count_is_shown_while_the_user_types():
    user = User(call(1), call(2))
    user.press(letter("x"))
    assert user.rows() == ["● 2 waiting · Shift-Tab to answer"]
    user.wait(1.0, draft_empty=False)
    assert "git push origin branch-1" in user.screen
    assert "Shift-Tab to answer" in user.screen


def test_keys_right_after_the_focus_answer_nothing():
    user = User(call())
    user.wait(5)
    user.press(ENTER, after=0.29)
    user.press(letter("y"), after=0.005)
    assert user.results == []
    # It is the beginning of a text.
    assert user.typed == "y"
    assert not user.prompt.focused


def test_keys_before_the_prompt_was_drawn_answer_nothing():
    prompt = ApprovalPrompt()
    prompt.update([call()], 0.0)
    prompt.handle(FOCUS, 1.0)
    assert prompt.handle(ENTER, 50.0).results == ()
    prompt.rows(80, 10, PLAIN, 50.0)
    assert prompt.handle(ENTER, 50.2).results == ()
    assert prompt.handle(ENTER, 50.4).results == (Answer("a1", True),)


def test_pastes_never_answer():
    user = focused(call())
    assert user.press(Paste("y")) == ()
    assert user.composer == [Paste("y")]
    assert not user.prompt.focused


def test_a_key_that_is_no_choice_goes_to_the_composer_with_the_focus():
    wrong = []
    for key in (letter("p"), letter("1"), letter("yes"), Key("backspace"), Key("ctrl-c")):
        user = focused(call())
        user.press(key)
        if user.composer != [key] or user.prompt.focused or user.results:
            wrong.append(key)
    assert wrong == []


def test_escape_gives_the_focus_back_without_an_answer():
    user = focused(call())
    assert user.press(ESC) == ()
    assert not user.prompt.focused
    assert user.composer == []
    # The user has declined: waiting does not give the focus again, and the prompt stays readable.
    assert not user.wait(60).prompt.focused
    assert "git push" in user.screen
    user.press(FOCUS)
    assert user.prompt.focused


def test_a_word_after_a_pause_is_no_answer():
    """The prompt took the focus while nobody typed; then somebody begins to type."""
    wrong = []
    for word in ("yes", "all", "show", "fix", "edit", "no", "view", "y n"):
        user = User(call(1), call(2))
        user.wait(5)
        user.wait(0.5)
        assert user.prompt.focused
        for char in word:
            user.press(letter(char), after=0.15)
        if user.results or user.typed != word or user.prompt.focused:
            wrong.append(word)
    assert wrong == []


def test_a_letter_alone_after_a_pause_is_an_answer():
    user = User(call())
    user.wait(5)
    user.press(letter("y"))
    assert user.results == []
    due = user.prompt.next_tick(user.now)
    assert due == pytest.approx(user.now + 0.75)
    user.wait(0.75)
    assert user.results == [Answer("a1", True)]


def test_a_letter_with_enter_after_a_pause_is_an_answer():
    user = User(call())
    user.wait(5)
    assert user.press(letter("n")) == ()
    user.press(ENTER, after=0.1)
    user.wait(0.25)
    assert "Enter: deny" in user.screen


@pytest.mark.parametrize("after", [0.01, 0.24])
def test_a_letter_and_enter_at_the_beginning_of_a_paste_are_no_answer(after):
    """A paste without brackets, of which each line arrives alone."""
    for text in ("y\n\nthanks\n", "s\ny\n", "y\ny\n"):
        user = User(call()).wait(5)
        for char in text:
            user.press(ENTER if char == "\n" else letter(char), after=after)
        user.wait(1)
        assert user.results == []
        assert user.composer == [ENTER if char == "\n" else letter(char) for char in text]


@pytest.mark.parametrize("keys", ["y\n", "\ny", "\n\ny", "s\ny", "f\ny", "vy", "ud\n", "yes"])
@pytest.mark.parametrize("is_focused", [True, False])
def test_keys_in_one_read_answer_nothing(keys, is_focused):
    user = focused(call()) if is_focused else User(call()).wait(5).wait(0.5)
    user.prompt.note_burst(user.now)
    named = {"\n": ENTER, "u": Key("up"), "d": Key("down")}
    for char in keys:
        user.press(named.get(char) or letter(char), after=0.0)
    user.wait(1)
    assert user.results == []
    assert user.typed == "".join(char for char in keys if char not in "\nud")


@pytest.mark.parametrize("after", [0.3, 0.35, 0.4, 0.6, 0.7])
@pytest.mark.parametrize("text", ["you", "aye aye", "can you also fix it?", "no", "send"])
def test_slow_typing_is_no_answer(text, after):
    user = User(call(1), call(2)).wait(5).wait(0.5)
    for char in text:
        user.press(letter(char), after=after / 2)
        user.wait(after / 2, draft_empty=not user.typed)
    assert user.results == []
    assert user.typed == text


def test_after_a_letter_that_only_selected_the_next_one_only_selects():
    """Until Enter; a text that goes on after all is not lost."""
    user = User(call(1), call(2)).wait(5).wait(0.5)
    for char in "aye":
        user.press(letter(char))
        user.wait(0.75)
        assert user.results == []
        assert f"▸[{char}]" in user.screen
    user.press(letter("?"))
    assert user.typed == "aye?"
    assert user.results == []


def test_the_letter_of_a_comment_only_selects_in_a_prompt_that_took_the_focus():
    """Otherwise, a text that begins with it would be the comment, and Enter would run the call."""
    user = User(call(1)).wait(5).wait(0.5)
    user.press(letter("c"))
    user.wait(0.75)
    assert "▸[c]" in user.screen
    user.press(letter("a"), letter("n"), letter("?"), ENTER)
    assert user.results == []
    assert user.typed == "can?"


@pytest.mark.parametrize("size", [(19, 12), (80, 2), (1, 1), (2, 40), (12, 4), (0, 0)])
def test_a_question_that_is_not_visible_is_not_answered(size):
    for by_key in (True, False):
        user = User(call(1), width=size[0], max_rows=size[1]).wait(5).wait(0.5)
        if by_key:
            user.press(FOCUS)
        user.press(letter("y"), after=1.0)
        user.wait(1.0)
        user.press(ENTER)
        assert user.results == []
    assert size[0] < 50 or "enlarge the window to answer" in user.screen


def test_a_letter_is_not_an_answer_if_the_window_becomes_too_small():
    user = User(call(1)).wait(5).wait(0.5)
    user.press(letter("y"))
    user.size = (10, 3)
    user.wait(0.1)
    user.wait(1.0)
    assert user.results == []
    assert user.typed == "y"


def test_a_tick_at_the_announced_time_is_not_too_early():
    """A letter that is held must not stay so because of a rounding error."""
    wrong = []
    for number in range(500):
        start = 100.0 + number * 0.1001
        user = User()
        user.now = start
        user.press(letter("x"), after=0.0)
        user.show(call())
        user.now = user.prompt.next_tick(user.now)
        if not user.wait(0.0).prompt.focused:
            wrong.append(("focus", start))
        user.press(letter("y"), after=0.3001)
        user.now = user.prompt.next_tick(user.now)
        if not user.wait(0.0).results:
            wrong.append(("letter", start))
    assert wrong == []


def test_a_clock_that_jumps_back_locks_nothing():
    user = focused(call())
    user.now -= 1000
    assert user.press(ENTER) == ()
    assert user.press(ENTER) == (Answer("a1", True),)
    user = User(call())
    user.press(letter("x"))
    user.now -= 1000
    user.wait(0.0)
    assert user.wait(1.0).prompt.focused


# Choices for calls


def test_the_choices_of_a_call():
    """Each is reached by its key, and by the arrows and Enter."""
    calls = (call(1), call(2, scope="run_command(tool-1 *)"), call(3), call(4, response="m2"))
    first = Answer("a1", True)
    table = {
        "y": (0, "", (first,)),
        "a": (1, "y", (first, Answer("a2", True), Answer("a3", True))),
        "s": (2, "", (Answer("a1", True, remember="session"), Answer("a2", True))),
        "f": (3, "y", (Answer("a1", True, remember="always"), Answer("a2", True))),
        "e": (4, "", (EditCall("a1"),)),
        "n": (5, ENTER, (Answer("a1", False),)),
        "c": (6, ENTER, (first,)),
        "v": (7, "", (ShowWhole("a1"),)),
        "w": (8, "", (ShowWhole("a1", full_screen=True),)),
    }
    wrong = []
    for key, (steps, confirm, expected) in table.items():
        for keys in ([letter(key)], [*[Key("right")] * steps, ENTER]):
            user = focused(*calls)
            more = [confirm] if confirm == ENTER else map(letter, confirm)
            results = user.press(*keys, *more)
            if results != expected:
                wrong.append((keys, results))
    assert wrong == []


def test_no_with_a_reason():
    user = focused(call())
    user.press(letter("n"))
    assert user.results == []
    user.press(letter("use "), Paste("the other\nremote"), Key("left"), Key("backspace"), after=0.0)
    assert "> use the other remoe" in user.screen
    assert user.prompt.cursor is not None
    # Enter within the first moment would be a key that was meant for something else.
    assert user.press(ENTER, after=0.01) == ()
    assert user.press(ENTER) == (Answer("a1", False, "use the other remoe"),)
    assert user.composer == []


def test_a_call_is_allowed_with_a_comment():
    user = focused(call(1), call(2))
    user.press(letter("c"))
    user.press(Paste("only this time"))
    assert "Enter: allow" in user.screen
    assert user.press(ENTER) == (Answer("a1", True, comment="only this time"),)
    # Esc goes back without an answer, and the comment is kept.
    user.press(FOCUS)
    user.press(letter("c"), Paste("and this"), Key("esc"))
    assert user.results[-1].id == "a1"
    assert user.press(letter("c"), ENTER)[0].comment == "and this"


def test_a_comment_does_not_allow_a_call_that_has_changed():
    user = focused(call(1))
    user.press(letter("c"), Paste("fine"))
    user.show(call(1, description="rm -rf build", arguments='{"command": "rm -rf build"}'))
    assert user.returned == ["fine"]
    assert user.press(ENTER) == ()
    assert user.results == []


def test_once_is_selected_for_every_call():
    user = focused(call(1), call(2))
    user.press(Key("right"), Key("right"))
    assert "▸[s]" in user.screen
    user.press(letter("y"), FOCUS)
    assert "▸[y] yes, once" in user.screen


def test_enter_does_not_answer_a_prompt_that_took_the_focus():
    """People press Enter without looking; a letter, or a choice that they moved to, is a decision."""
    user = User(call(1), call(2)).wait(2.0)
    assert user.prompt.focused
    assert user.press(ENTER, ENTER, after=1.0) == ()
    assert "Enter does not answer yet" in user.screen
    # An answer does not make Enter count for the next call.
    user.press(letter("y"))
    assert user.wait(0.75).results == [Answer("a1", True)]
    assert user.wait(0.5).prompt.focused
    assert user.press(ENTER) == ()
    user.press(Key("right"), Key("left"))
    assert user.press(ENTER) == (Answer("a2", True),)


@pytest.mark.parametrize("max_rows", range(3, 13))
@pytest.mark.parametrize("width", [20, 40, 60, 100])
def test_a_small_window_shows_that_a_call_is_dangerous(width, max_rows):
    """The window may have room for no more than three rows."""
    long = "\n".join(f"line {number}" for number in range(50))
    risky = call(1, dangerous=True, marks=("deletes everything",), description=long)
    user = focused(risky, width=width, max_rows=max_rows)
    assert "dangerous" in user.screen
    assert len(user.rows()) <= max_rows
    if max_rows >= 4:
        assert "! deletes" in user.screen
        assert "line 0" in user.screen


@pytest.mark.parametrize(
    ("width", "max_rows"), [(60, 12), (40, 7), (40, 4), (40, 3), (24, 4), (20, 3)]
)
@pytest.mark.parametrize("count", [1, 3])
def test_a_small_window_shows_every_choice(width, max_rows, count):
    """Words are left out before choices are."""
    long = "\n".join(f"line {number}" for number in range(50))
    calls = [call(number + 1, description=long) for number in range(count)]
    user = focused(*calls, width=width, max_rows=max_rows)
    choices = "".join(user.rows()[-4:])
    for key in "ysfencvw" if count == 1 else "yasfencvw":
        assert f"[{key}]" in choices or f" {key}" in choices or f"▸{key}" in choices, key
    assert "line 0" in user.screen


def test_a_lasting_choice_whose_label_is_left_out_is_confirmed():
    """The user has not read what it covers."""
    user = focused(call(1), width=60, max_rows=12)
    assert "for this session" in user.screen
    assert len(user.press(letter("s"))) == 1
    user = focused(call(1), width=40, max_rows=4)
    assert "for this session" not in user.screen
    assert user.press(letter("s")) == ()
    assert "This allows" in user.screen
    assert len(user.press(letter("y"))) == 1


def test_the_whole_item_is_shown_in_full():
    """Even in the middle of a description that is too long for the prompt."""
    lines = [f"line {number}" for number in range(20_000)]
    marks = ("deletes everything",)
    item = call(1, description="\n".join(lines), dangerous=True, marks=marks, folder="/shop")
    item = attrs.evolve(item, why="It changes files.")
    rows = whole_rows(item, 60, PLAIN)
    # In the scrollback, nothing else says what is called and why hilum asks.
    assert rows[:5] == [
        "Run a command",
        "tool: run_command",
        "Why: It changes files.",
        "! deletes everything",
        "in /shop",
    ]
    assert rows[6:] == lines
    assert "characters left out" in "\n".join(describe_item(item, 60, PLAIN))


def test_a_dangerous_call_has_no_lasting_choice():
    risky = call(2, dangerous=True, marks=("deletes everything",))
    user = focused(risky, call(1), call(3))
    assert "[s]" not in user.screen
    assert "[a]" not in user.screen
    assert "[f]" not in user.screen
    assert "! deletes everything" in user.screen
    assert "dangerous" in user.rows()[0]
    user.press(letter("s"))
    assert user.results == []
    # Nor is it allowed together with others.
    user = focused(call(1), risky, call(3, scope=call(1).scope), call(4, dangerous=True))
    user.press(letter("a"))
    assert "branch-2" not in user.screen
    assert [each.id for each in user.press(letter("y"))] == ["a1", "a3"]


@pytest.mark.parametrize("key", ["s", "f"])
def test_a_lasting_approval_does_not_cover_a_dangerous_call(key):
    """Although it has the same scope and waits at the same time."""
    scope = call(1).scope
    risky = call(2, scope=scope, dangerous=True)
    user = focused(call(1), risky, call(3, scope=scope, arguments="{}"), call(4, scope=scope))
    assert "(also 1 waiting)" in user.screen
    user.press(letter(key))
    if key == "f":
        assert "branch-2" not in user.screen
        user.press(letter("y"))
    assert [each.id for each in user.results] == ["a1", "a4"]


def test_a_lasting_approval_covers_only_what_was_drawn():
    """A call that arrives between the drawing and the key is asked about."""
    scope = call(1).scope
    user = focused(call(1), call(2, scope=scope))
    user.prompt.update([call(1), call(2, scope=scope), call(3, scope=scope)], user.now)
    user.now += 0.5
    assert [each.id for each in route_key(user.prompt, letter("s"), user.now).results] == [
        "a1",
        "a2",
    ]


@pytest.mark.parametrize(("key", "width", "max_rows"), [("a", 80, 10), ("a", 24, 30), ("f", 30, 7)])
def test_nothing_is_approved_that_was_not_shown(key, width, max_rows):
    """Neither calls below the last row nor the ends of long commands."""
    padding = "x" * 90
    calls = [
        call(number, description=f"cmd-{number} {padding} TAIL{number}", scope="same")
        for number in range(1, 13)
    ]
    user = focused(*calls, width=width, max_rows=max_rows)
    user.press(letter(key))
    assert "TAIL12" not in user.screen.replace("TAIL1 ", "") or "hidden" in user.screen
    assert user.press(letter("y")) == ()
    assert user.results == []
    # In a small window, there is no room for the reason.
    assert max_rows < 8 or "Press w to read" in user.screen
    (shown,) = user.press(letter("w"))
    assert shown.full_screen
    for number in range(1, 13):
        assert f"TAIL{number}" in shown.text
    assert "…" not in shown.text
    user.prompt.hide(ends_focus=False)
    user.wait(0.5)
    assert len(user.press(letter("y"))) == 12


def test_a_list_that_fits_is_approved_at_once():
    ends = [f"{'word ' * 20}END{number}" for number in (1, 2)]
    user = focused(call(1, description=ends[0]), call(2, description=f"a\n{ends[1]}"), max_rows=20)
    user.press(letter("a"))
    assert "END1" in user.screen
    assert "END2" in user.screen
    assert len(user.press(letter("y"))) == 2


def test_a_list_that_has_changed_is_read_again():
    long = "\n".join(f"line {number}" for number in range(50))
    user = focused(call(1, description=long), call(2), call(3))
    user.press(letter("a"), letter("v"))
    assert "line 25" in user.results[-1].text
    user.show(call(1, description=long), call(3))
    user.press(letter("y"))
    assert len(user.results) == 1


def test_always_shows_the_rule_and_what_it_covers():
    rule = call(1).scope
    user = focused(call(1), call(2, scope=rule))
    user.press(letter("f"))
    assert rule in user.screen
    assert "tool-1 *" in user.screen
    assert "branch-2" in user.screen
    assert "later sessions" in user.screen
    assert "▸[n] no, back" in user.screen
    assert user.press(ENTER) == ()
    assert "▸[y] yes, once" in user.screen
    user.press(letter("f"))
    # A second step needs its own look.
    assert user.press(letter("y"), after=0.1) == ()
    assert user.results == []


def test_a_call_without_a_scope_has_no_rule():
    user = focused(call(1, scope="", covers=""))
    assert "[f]" not in user.screen
    assert "all calls of run_command for this session" in user.screen


def test_a_long_scope_is_shown_before_it_is_granted():
    covers = "git push " + "--option " * 12 + "END"
    user = focused(call(1, covers=covers))
    assert user.press(letter("s")) == ()
    assert "END" in user.screen
    assert user.press(letter("y")) == (Answer("a1", True, remember="session"),)


def test_a_call_that_comes_after_the_list_is_not_allowed_with_it():
    user = focused(call(1), call(2))
    user.press(letter("a"))
    user.show(call(1), call(2, description="rm -rf /"), call(3))
    user.press(letter("y"))
    assert user.results == [Answer("a1", True)]


def test_an_edited_call_is_shown_again_and_runs_once():
    user = focused(call(1), call(2))
    assert user.press(letter("e")) == (EditCall("a1"),)
    # What the user types for the editor does not allow the call as it was.
    assert user.press(letter("y"), ENTER, Key("right"), ENTER) == ()
    assert user.composer == [letter("y")]
    user.composer.clear()
    user.show(call(1, description="git status", arguments='{"command": "git status"}'), call(2))
    assert user.press(letter("y")) == ()
    user.composer.clear()
    user.prompt.end_edit("a1")
    user.rows()
    assert user.prompt.focused
    assert "git status" in user.screen
    assert "edited" in user.screen
    assert "[s]" not in user.screen
    assert user.press(ENTER, after=0.1) == ()
    assert user.press(ENTER) == (Answer("a1", True, arguments='{"command": "git status"}'),)


def test_a_call_that_changes_under_the_users_eyes_needs_the_focus_again():
    user = focused(call(1))
    user.show(call(1, description="rm -rf /"))
    user.press(letter("y"))
    assert user.results == []
    assert user.typed == "y"


# Several items, and items that end


def test_several_items():
    user = focused(call(1), question(), call(3))
    assert user.rows()[0].startswith("● 1 of 3")
    user.press(Key("tab"))
    assert "Which one?" in user.screen
    user.press(Key("tab"), letter("y"))
    assert user.results == [Answer("a3", True)]
    # The oldest one is shown.
    assert user.press(FOCUS, letter("y")) == (Answer("a1", True),)
    assert "Which one?" in user.screen
    assert [user.prompt.waiting[0].id] == ["q1"]


def test_an_item_that_ends_takes_the_focus_away():
    table = {
        "": (call(1, deadline=50.0), "the time limit was reached"),
        " ": (call(1), "answered in another terminal"),
        "the run was stopped.": (call(1), "the run was stopped."),
    }
    wrong = []
    for ended, (item, text) in table.items():
        user = focused(item, call(2))
        user.show(call(2), ended=ended.strip())
        user.press(letter("y"))
        # The key was meant for the call that ended.
        if user.results or user.typed != "y":
            wrong.append(ended)
        user.wait(1.0, draft_empty=False)
        if text not in user.screen:
            wrong.append(user.screen)
        user.wait(10.0, draft_empty=False)
        if text in user.screen:
            wrong.append(user.screen)
    assert wrong == []


def test_a_reason_that_the_user_is_writing_is_not_lost():
    user = focused(call(1))
    user.press(letter("n"), letter("because it"))
    user.show()
    assert user.returned == ["because it"]
    assert user.rows() == ["No longer waiting: it was answered in another terminal."]


def test_a_reason_that_was_left_with_escape_is_not_lost():
    """Neither that of the shown call nor that of another one."""
    user = focused(call(1), call(2))
    user.press(letter("n"), Paste("a long reason"), ESC)
    user.show(call(2))
    assert user.returned == ["a long reason"]
    user = focused(call(1), call(2))
    user.press(letter("n"), Paste("a long reason"), ESC, Key("tab"))
    user.show(call(2))
    assert user.returned == ["a long reason"]
    user.show()
    assert user.returned == ["a long reason"]


def test_a_held_letter_is_not_lost():
    user = User(call(1))
    user.wait(5).press(letter("y"))
    user.show()
    assert user.typed == "y"
    user.wait(1)
    assert user.results == []


def test_a_reason_goes_on_when_the_call_changes():
    user = focused(call(1))
    user.press(letter("n"), letter("oh "))
    user.show(call(1, why="found out"))
    user.press(letter("y"))
    assert "> oh y" in user.screen


def test_an_answer_that_could_not_be_delivered():
    user = focused(call(1))
    user.press(letter("y"))
    assert user.rows() == []
    user.prompt.reopen("a1")
    assert "git push" in user.screen


def test_time_limits_start_when_a_call_is_shown():
    user = User()
    user.press(letter("x"))
    user.show(call(1), call(2))
    assert user.prompt.take_shown() == []
    user.wait(1.5, draft_empty=False)
    assert user.prompt.take_shown() == ["a1"]
    assert user.prompt.take_shown() == []
    user.press(FOCUS, Key("tab"))
    assert user.prompt.take_shown() == ["a2"]


def test_no_key_answers_after_something_covered_the_prompt():
    """The user may have pressed the key for what covered it."""
    user = focused(call(1))
    user.prompt.hide(ends_focus=False)
    assert user.prompt.focused
    assert route_key(user.prompt, letter("y"), user.now + 1.0).results == ()
    user = focused(call(1))
    user.prompt.hide()
    user.wait(0.2)
    assert user.press(letter("y")) == ()
    # A letter that was held is not an answer, and is not lost.
    user = User(call(1)).wait(5)
    user.press(letter("y"))
    user.take(user.prompt.hide())
    assert user.typed == "y"
    user.wait(1.0, draft_empty=False)
    assert user.results == []


def test_the_countdown_is_shown_in_the_last_minute():
    user = User(call(1, deadline=200.0))
    user.wait(39, draft_empty=False)
    assert "left" not in user.screen
    assert user.prompt.next_tick(user.now) == pytest.approx(140.0)
    user.wait(1.5, draft_empty=False)
    assert "60 s left" in user.screen
    assert user.prompt.next_tick(user.now) == pytest.approx(141.0)
    user.wait(100, draft_empty=False)
    assert "time is up" in user.screen


# Questions and plans


def test_questions():
    leave = QuestionAnswer("q1", ())
    table = (
        (question(), [ENTER], QuestionAnswer("q1", ("Postgres",))),
        (question(), [letter("2"), ENTER], QuestionAnswer("q1", ("SQLite",))),
        (question(), [Key("down"), ENTER], QuestionAnswer("q1", ("SQLite",))),
        (question(), [letter("l")], leave),
        (question(), [letter("o"), letter("MySQL 8"), ENTER], QuestionAnswer("q1", ("MySQL 8",))),
        (question(), [letter("v")], ShowWhole("q1")),
        (question(), [letter("w")], ShowWhole("q1", full_screen=True)),
        (question(options=()), [ENTER, letter("42"), ENTER], QuestionAnswer("q1", ("42",))),
        (question(multiple=True), [ENTER], QuestionAnswer("q1", ("Postgres",))),
        (
            question(multiple=True),
            [Key("down"), letter(" "), Key("up"), letter(" "), ENTER],
            QuestionAnswer("q1", ("Postgres", "SQLite")),
        ),
        (
            question(multiple=True),
            [letter("1"), letter("2"), letter("1"), ENTER],
            QuestionAnswer("q1", ("SQLite",)),
        ),
        (
            question(multiple=True),
            [letter("2"), letter("o"), letter("x"), ENTER],
            QuestionAnswer("q1", ("SQLite", "x")),
        ),
    )
    wrong = []
    for item, keys, expected in table:
        results = focused(item).press(*keys)
        if results != (expected,):
            wrong.append((keys, results))
    assert wrong == []


def test_a_digit_alone_answers_no_question():
    user = focused(question())
    assert user.press(letter("2"), letter("3")) == ()
    assert user.composer == [letter("3")]


def test_a_digit_selects_in_a_question_that_took_the_focus():
    """The choice is visible, and Enter gives it."""
    user = User(question()).wait(5)
    user.press(letter("2"))
    user.wait(0.75)
    assert user.results == []
    assert "▸2. SQLite" in user.screen
    assert "Press Enter to choose this." in user.screen
    assert user.press(ENTER) == (QuestionAnswer("q1", ("SQLite",)),)
    user = User(question(multiple=True)).wait(5)
    for key in ("2", "1"):
        user.press(letter(key))
        user.wait(0.75)
    assert user.press(ENTER) == (QuestionAnswer("q1", ("Postgres", "SQLite")),)
    user = User(question(multiple=True)).wait(5)
    user.press(letter(" "))
    user.wait(0.75)
    assert user.press(ENTER) == (QuestionAnswer("q1", ("Postgres",)),)


def test_an_empty_own_answer_is_none():
    user = focused(question())
    assert user.press(letter("o"), letter(" "), ENTER) == ()
    user.press(ESC)
    assert user.prompt.focused
    assert "Postgres" in user.screen


def test_plans():
    table = (
        ([letter("y")], PlanDecision("p1", "accept")),
        ([ENTER], PlanDecision("p1", "accept")),
        ([letter("e")], PlanDecision("p1", "edit")),
        ([letter("l")], PlanDecision("p1", "later")),
        ([letter("v")], ShowWhole("p1")),
        ([letter("n"), ENTER], PlanDecision("p1", "reject")),
        ([letter("n"), letter("smaller"), ENTER], PlanDecision("p1", "reject", "smaller")),
    )
    wrong = []
    for keys, expected in table:
        results = focused(WaitingPlan(id="p1", text="1. Do it")).press(*keys)
        if results != (expected,):
            wrong.append((keys, results))
    assert wrong == []


# What is shown


def test_padding_cannot_hide_an_ending():
    bodies = (
        "ls" + "\n" * 500 + "rm -rf ~",
        "ls" + " " * 5000 + "; rm -rf ~",
        "ls\n" * 500 + "rm -rf ~",
        "echo " + "x" * 100_000 + "\nrm -rf ~",
        "ls" + "\t" * 900 + "; rm -rf ~",
    )
    wrong = []
    for body in bodies:
        for width, max_rows in ((80, 12), (20, 6), (200, 30)):
            user = focused(call(description=body), width=width, max_rows=max_rows)
            if "rm -rf ~" not in "".join(row.strip("│ ") for row in user.rows()):
                wrong.append((body[:20], width, user.screen))
    assert wrong == []


def test_a_folded_description_says_so():
    body = "\n".join(f"line {number}" for number in range(100))
    user = focused(call(description=body))
    assert "rows hidden · v shows all" in user.screen
    assert "line 99" in user.screen
    assert "line 0" in user.screen


def test_foreign_text_does_not_drive_the_terminal():
    hostile = "\x1b]0;title\x07\x1b[2J\u202eevil\x9b31m\r\n\b"
    item = call(
        title=hostile,
        description=hostile,
        why=hostile,
        folder=hostile,
        sandbox=hostile,
        agent=hostile,
        scope=hostile,
        covers=hostile,
        marks=(hostile,),
    )
    asked = question(question=hostile, options=(hostile, "b"), agent=hostile)
    plan = WaitingPlan(id="p1", text=hostile)
    for shown in (item, asked, plan):
        user = focused(shown, call(2, description=hostile, scope=hostile), max_rows=30)
        screens = [user.screen]
        for keys in ("f", "n", "a", "n", "n", "x"):
            user.press(letter(keys))
            screens.append(user.screen)
        for char in "\x1b\x07\x9b\r\b\u202e":
            assert char not in "".join(screens)


def test_rows_fit_every_window():
    long = "word " * 40 + "中文字" * 30 + "👩‍👩‍👧" * 10
    items = (
        call(1, description=long, why=long, folder=long, sandbox=long, marks=(long, long)),
        call(2, dangerous=True, description=long, marks=(long,), deadline=130.0),
        question(question=long, options=(long,) * 12, multiple=True),
        question(options=()),
        WaitingPlan(id="p1", text=long),
    )
    keys = (None, FOCUS, Key("down"), letter("f"), letter("y"), letter("n"), letter("o"))
    theme = Theme(depth="256")
    wrong = []
    for item in items:
        for width in (1, 3, 20, 80):
            for max_rows in (0, 1, 2, 3, 5, 9):
                user = User(item, call(9))
                for key in keys:
                    if key:
                        user.press(key)
                    rows = user.prompt.rows(width, max_rows, theme, user.now)
                    cursor = user.prompt.cursor
                    if len(rows) > max_rows or any(cells(row) > width for row in rows):
                        wrong.append((item.id, width, max_rows, key, rows))
                    if any("\n" in row for row in rows):
                        wrong.append((item.id, width, max_rows, key, rows))
                    if cursor and not (cursor[0] < len(rows) and cursor[1] < width):
                        wrong.append((item.id, width, max_rows, key, cursor))
    assert wrong == []


def test_rows_of_the_caller_are_shown():
    item = call(description="x", make_rows=lambda width, theme: ["+ added"])
    assert "+ added" in focused(item).screen


def test_exact_rows_keep_every_character():
    text = "a  b\tc中" + "x" * 30
    assert "".join(exact_rows(text, 7)) == text.replace("\t", "    ")


# Typing while prompts open, expire and are answered elsewhere

WORDS = ("please", "yes", "no", "yn", "1", "y", "n", "a", "always", "sure", "fix", "中文", "e", "v")
SEEDS = 1_000


class Composer:
    """The editor of the composer, reduced to text."""

    def __init__(self):
        self.draft = ""
        self.all = ""

    def handle(self, key):
        if isinstance(key, Paste) or key.name == "text":
            self.draft += key.text
            self.all += key.text
        elif key.name == "enter":
            self.draft = ""


class History:
    """A random history of typing and of prompts, which checks every step.

    Args:
        seed: The seed.
        uses_prompt: Whether the user also presses keys that are meant for the prompt.
    """

    def __init__(self, seed, uses_prompt):
        self.random = random.Random(seed)
        self.uses_prompt = uses_prompt
        self.prompt = ApprovalPrompt()
        self.composer = Composer()
        self.items = []
        self.now = 0.0
        self.last_key_at = -100.0
        self.focused_at = 0.0
        self.drawn_at = {}
        self.expected = ""
        self.results = []
        self.count = 0

    def run(self):
        for _ in range(self.random.randint(5, 25)):
            self.random.choice(self.actions())()
        self.finish()

    def actions(self):
        actions = [self.write, self.write, self.paste, self.open, self.end, self.pause, self.change]
        if self.uses_prompt:
            actions += [self.focus, self.choose, self.decide, self.decide, self.pick]
        return actions

    def finish(self):
        """Type a word, so that a letter that is still held arrives."""
        self.pause()
        self.type("end", 0.1)

    # Time passes in small steps, in which the program draws.

    def pass_time(self, seconds):
        end = self.now + seconds
        while self.now < end:
            step = self.random.choice((0.05, 0.2, 0.5)) if self.items else seconds
            self.now = min(self.now + step, end)
            before = self.prompt.focused
            held = self.prompt._held.keys
            step = self.prompt._step
            routed = self.prompt.tick(self.now, draft_empty=not self.composer.draft)
            if self.prompt.focused and not before:
                assert self.composer.draft == ""
                assert self.now - self.last_key_at >= 0.5 - 1e-9
                self.focused_at = self.now
            if routed.results:
                assert held
                self.check_held_letter(step, routed.results)
            self.apply(routed)
            self.draw()

    def check_held_letter(self, step, results):
        """Check that a letter in a prompt that took the focus itself covers one call only."""
        if step == "choose":
            assert len(results) == 1
            assert getattr(results[0], "remember", "once") == "once"

    def draw(self):
        rows = self.prompt.rows(80, 12, PLAIN, self.now)
        current = self.prompt.current
        shown = current and (len(rows) > 1 or self.prompt.focused)
        if shown:
            self.drawn_at.setdefault((current.id, self.prompt._step), self.now)

    def apply(self, routed, typed=""):
        if routed.returned:
            self.composer.handle(Paste(routed.returned))
        for key in routed.composer:
            self.composer.handle(key)
        for result in routed.results:
            asks_for_more = isinstance(result, ShowWhole | EditCall)
            if not asks_for_more and result != PlanDecision(result.id, "edit"):
                self.items = [item for item in self.items if item.id != result.id]
            self.results.append(result)
            if isinstance(result, Answer | QuestionAnswer):
                # The next item needs its own focus.
                assert not self.prompt.focused
        if routed.results:
            self.apply(self.prompt.update(self.items, self.now))

    def key(self, key):
        if self.prompt.current is None:
            # As in the program: while nothing waits, the prompt is only told the time of a key.
            self.prompt.note_key(self.now)
            self.last_key_at = self.now
            self.composer.handle(key)
            return
        before = self.prompt.focused
        step = self.prompt._step
        held = self.prompt._held.keys
        current = self.prompt.current
        uses = before and isinstance(key, Key) and self.prompt._uses(key)
        in_field = before and step in ("reason", "own", "comment")
        routed = route_key(self.prompt, key, self.now)
        if self.prompt.focused and not before:
            assert key == FOCUS
            self.focused_at = self.now
        if routed.results:
            assert before
            assert isinstance(key, Key)
            assert key.name in ("text", "enter")
            assert self.now - self.focused_at >= 0.3 - 1e-9
            assert self.now - self.drawn_at[current.id, step] >= 0.3 - 1e-9
            if held:
                self.check_held_letter(step, routed.results)
        text = key.text if isinstance(key, Paste) or key.name == "text" else ""
        passed = "".join(each.text for each in routed.composer)
        if text and not passed:
            # Only a prompt with the focus may keep a character: as a choice, or as a reason.
            assert in_field or uses
        if held and not routed.results and key != ENTER:
            assert "".join(each.text for each in held) in passed
        self.last_key_at = self.now
        self.apply(routed)
        self.draw()

    # What the user does

    def type(self, text, interval):
        for char in text:
            self.expected += char
            self.key(letter(char))
            self.pass_time(self.random.uniform(0.02, interval))

    def write(self):
        words = self.random.choices(WORDS, k=self.random.randint(1, 4))
        # A letter alone, after a pause, is a choice; a letter with a blank is text.
        self.type(" ".join(words) + " ", self.random.choice((0.24, 0.65)))
        if self.random.random() < 0.4:
            self.key(ENTER)
        self.pause()

    def paste(self):
        text = self.random.choice(("y", "yes\ny\n", "please yn 1\n", "1"))
        self.expected += text
        self.key(Paste(text))
        self.pass_time(self.random.choice((0.0, 0.1, 2.0)))

    def pause(self):
        self.pass_time(self.random.choice((0.0, 0.1, 0.4, 1.2, 3.0)))

    def focus(self):
        self.key(FOCUS)
        self.pass_time(self.random.choice((0.0, 0.1, 0.4, 1.0)))

    def choose(self):
        keys = [letter(char) for char in "yasfencvwlo12 "]
        key = self.random.choice([*keys, ENTER, ESC, Key("right"), Key("tab")])
        self.key(key)
        self.pass_time(self.random.choice((0.0, 0.1, 0.4, 1.0)))

    def decide(self):
        self.open()
        self.key(FOCUS)
        self.pass_time(self.random.choice((0.2, 0.4)))
        self.choose()
        self.choose()

    def pick(self):
        """Press a letter alone, which may reach a prompt that took the focus itself."""
        self.pass_time(3.0)
        self.key(letter(self.random.choice("yasf")))
        self.pass_time(self.random.choice((0.1, 0.8)))
        if self.random.random() < 0.5:
            self.key(ENTER)

    # What happens elsewhere

    def open(self):
        self.count += 1
        number = self.count
        item = self.random.choice(
            (
                call(number, deadline=self.now + self.random.uniform(0, 5)),
                call(number, dangerous=True),
                call(number, scope="same"),
                question(id=f"a{number}", multiple=self.random.random() < 0.5),
                question(id=f"a{number}", options=()),
                WaitingPlan(id=f"a{number}", text="1. Do it"),
            )
        )
        self.items.append(item)
        self.update()

    def end(self):
        if self.items:
            self.items.remove(self.random.choice(self.items))
            self.update()

    def change(self):
        calls = [item for item in self.items if isinstance(item, WaitingCall)]
        if calls:
            index = self.items.index(calls[0])
            self.items[index] = call(int(calls[0].id[1:]), why=f"at {self.now}")
            self.update()

    def update(self):
        before = self.prompt.current
        self.apply(self.prompt.update(self.items, self.now))
        if self.prompt.current != before:
            self.drawn_at = {}
        self.pass_time(self.random.choice((0.0, 0.05)))


def test_typing_answers_nothing_and_loses_nothing():
    """Words, digits, Enter and pastes, while prompts open and end at random moments."""
    took_focus = 0
    for seed in range(SEEDS):
        history = History(seed, uses_prompt=False)
        history.run()
        assert history.results == [], seed
        assert history.composer.all == history.expected, seed
        took_focus += history.focused_at > 0
    # Otherwise the test would prove little.
    assert took_focus > SEEDS / 4


def test_only_a_choice_in_a_prompt_with_the_focus_answers():
    """The checks are in ``History.key``: each answer, and each character that a prompt kept."""
    answers = 0
    for seed in range(SEEDS // 4):
        history = History(seed, uses_prompt=True)
        history.run()
        answers += len(history.results)
    assert answers > SEEDS / 8
