"""Prompts: a line of text, and a question with yes or no."""

import random

from hilum_terminal.keys import Key, Paste
from hilum_terminal.prompts import (
    HOLD,
    Cancelled,
    Confirmed,
    ConfirmPrompt,
    Entered,
    LineField,
    Passed,
    TextPrompt,
    key_label,
)
from hilum_terminal.row_layout import choice_rows, exact_rows, fit_rows, paragraph
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells


def keys(*names):
    """Keys by name; other strings are typed."""
    known = ("left", "right", "home", "end", "backspace", "delete", "enter", "esc", "up", "tab")
    found = []
    for name in names:
        is_name = name in known or name.startswith(("ctrl-", "alt-"))
        found.append(Key(name) if is_name else Key("text", name))
    return found


def test_a_line_is_edited():
    family = "👩‍👩‍👧"
    table = {
        ("abc", "left", "X"): ("abXc", 3),
        ("abc", "home", "X", "end", "Y"): ("XabcY", 5),
        ("abc", "backspace"): ("ab", 2),
        ("abc", "left", "delete"): ("ab", 2),
        ("home", "backspace", "left"): ("", 0),
        (family, "backspace"): ("", 0),
        (f"a{family}", "left", "X"): (f"aX{family}", 2),
        (f"{family}a", "home", "right", "X"): (f"{family}Xa", len(family) + 1),
        ("one two", "ctrl-w"): ("one ", 4),
        ("one two", "alt-b", "X"): ("one Xtwo", 5),
        ("one two", "home", "alt-f", "X"): ("oneX two", 4),
        ("one two", "home", "alt-d"): (" two", 0),
        ("one two", "alt-b", "ctrl-u"): ("two", 0),
        ("one two", "alt-b", "ctrl-k"): ("one ", 4),
        ("ab", "ctrl-a", "X", "ctrl-e", "Y"): ("XabY", 4),
    }
    wrong = []
    for typed, expected in table.items():
        field = LineField()
        for key in keys(*typed):
            assert field.handle(key)
        if (field.text, field.cursor) != expected:
            wrong.append((typed, field.text, field.cursor))
    assert wrong == []
    assert not LineField().handle(Key("up"))


def test_a_paste_becomes_one_line_of_limited_length():
    field = LineField()
    field.handle(Paste("a\nb\r\nc\td"))
    assert field.text == "a b c d"
    field.handle(Paste("x" * 5_000_000))
    assert len(field.text) == 10_000
    assert field.clear() == "a b c d" + "x" * 9_993
    assert field.text == ""


def test_the_cursor_is_always_visible():
    chooser = random.Random(4)
    field = LineField()
    for _ in range(2000):
        names = ("left", "right", "home", "end", "backspace", "中", "a", "👩‍👩‍👧", "ctrl-w")
        for key in keys(chooser.choice(names)):
            field.handle(key)
        width = chooser.choice((2, 5, 20, 80))
        row, column = field.row(width)
        assert cells(row) <= width
        assert 0 <= column < width
        assert 0 <= field.cursor <= len(field.text)


def test_an_answer():
    prompt = TextPrompt("Name?", default="main")
    assert "main" in "\n".join(prompt.rows(40, 5, PLAIN, 0.0))
    assert prompt.handle(Key("enter"), 0.5) == Entered("main")
    for key in keys("a", "b", "left", "X"):
        assert prompt.handle(key, 0.0) is None
    assert prompt.rows(40, 5, PLAIN, 0.0) == ["Name?", "> aXb", "Enter: answer · Esc: cancel"]
    assert prompt.cursor == (1, 4)
    assert prompt.handle(Paste("\n"), 0.0) is None
    assert prompt.handle(Key("enter"), 0.5) == Entered("aXb")
    assert prompt.handle(Key("esc"), 0.0) == Cancelled()
    assert prompt.handle(Key("ctrl-c"), 0.0) == Cancelled()


def test_a_secret_is_not_shown():
    prompt = TextPrompt("Key?", default="sk-default", secret=True)
    assert "sk-default" not in "\n".join(prompt.rows(40, 5, PLAIN, 0.0))
    prompt.handle(Paste("sk-12345"), 0.0)
    rows = prompt.rows(40, 5, PLAIN, 0.0)
    assert "> ••••••••" in rows
    assert "sk-1" not in "\n".join(rows)
    assert prompt.handle(Key("enter"), 0.5) == Entered("sk-12345")


def confirm(*pressed, drawn=True, after=1.0):
    prompt = ConfirmPrompt("Delete it?", yes="Delete")
    if drawn:
        prompt.rows(80, 8, PLAIN, 0.0)
    results = [prompt.handle(key, after) for key in pressed]
    # A letter answers if no other key follows.
    return results[-1] or prompt.tick(after + HOLD)


def test_a_question_with_yes_or_no():
    table = (
        (keys("y"), Confirmed(True)),
        (keys("n"), Confirmed(False)),
        (keys("enter"), Confirmed(False)),
        (keys("left", "enter"), Confirmed(True)),
        (keys("tab", "tab", "enter"), Confirmed(False)),
        (keys("esc"), Cancelled()),
        (keys("y", "enter"), Confirmed(True)),
        # The user is typing a message.
        (keys("x"), Passed((Key("text", "x"),))),
        (keys("yes"), Passed((Key("text", "yes"),))),
        (keys("y", "e"), Passed((Key("text", "y"), Key("text", "e")))),
        (keys("n", "backspace"), Passed((Key("text", "n"), Key("backspace")))),
        ([Paste("y")], Passed((Paste("y"),))),
    )
    assert [line for line in table if confirm(*line[0]) != line[1]] == []


def test_keys_typed_before_the_question_was_seen_do_not_answer_it():
    assert confirm(Key("text", "y"), after=0.2) == Passed((Key("text", "y"),))
    assert confirm(Key("text", "y"), drawn=False) == Passed((Key("text", "y"),))
    assert confirm(Key("enter"), after=0.2) is None
    assert confirm(Key("enter"), drawn=False) is None
    prompt = TextPrompt("Name?", default="main")
    assert prompt.handle(Key("enter"), 1.0) is None
    prompt.rows(80, 8, PLAIN, 1.0)
    assert prompt.handle(Key("enter"), 1.2) is None
    prompt.hide()
    assert prompt.handle(Key("enter"), 2.0) is None


def test_a_letter_that_is_held_does_not_answer_a_hidden_question():
    prompt = ConfirmPrompt("Delete it?", yes="Delete")
    prompt.rows(80, 8, PLAIN, 0.0)
    assert prompt.handle(Key("text", "y"), 1.0) is None
    assert prompt.next_tick() == 1.0 + HOLD
    assert prompt.tick(1.0 + HOLD / 2) is None
    assert prompt.hide() == (Key("text", "y"),)
    assert prompt.tick(2.0) is None
    assert prompt.handle(Key("enter"), 2.0) is None


def test_the_rows_of_a_question():
    prompt = ConfirmPrompt("Delete it?", yes="Delete", details="a.py\nb.py")
    assert prompt.rows(40, 8, PLAIN, 0.0) == [
        "Delete it?",
        "a.py",
        "b.py",
        " [y] Delete ▸[n] No",
    ]
    assert prompt.rows(40, 3, PLAIN, 0.0) == ["Delete it?", "a.py…", " [y] Delete ▸[n] No"]


def test_rows_fit_every_window():
    hostile = "word " * 30 + "中文" * 40 + "\x1b[2J\r\u202e\n\tend" + "👩‍👩‍👧" * 9
    text = TextPrompt(hostile, default=hostile)
    filled = TextPrompt(hostile)
    filled.handle(Paste(hostile), 0.0)
    asked = ConfirmPrompt(hostile, yes=hostile, no=hostile, details=hostile)
    wrong = []
    for prompt in (text, filled, asked):
        for width in (1, 2, 3, 10, 20, 60, 300):
            for max_rows in (0, 1, 2, 3, 5, 20):
                rows = prompt.rows(width, max_rows, Theme(), 0.0)
                text_of = "".join(rows)
                bad = "\x1b[2J" in text_of or "\r" in text_of or "\n" in text_of
                if len(rows) > max_rows or any(cells(row) > width for row in rows) or bad:
                    wrong.append((prompt, width, max_rows, rows))
                cursor = getattr(prompt, "cursor", None)
                if cursor and not (cursor[0] < len(rows) and cursor[1] < width):
                    wrong.append((prompt, width, max_rows, cursor))
    assert wrong == []


def test_helpers():
    assert paragraph("one two  three", 8) == ["one two", "three"]
    assert paragraph("abcdefghij kl", 4) == ["abcd", "efgh", "ij", "kl"]
    assert exact_rows("a\n\n\n\nb", 20) == ["a", "(3 blank rows)", "b"]
    assert exact_rows("abcdef", 4) == ["abcd", "ef"]
    assert fit_rows(["a", "b", "c"], 2, 20) == ["a", "… 2 more rows"]
    assert key_label("shift-tab") == "Shift-Tab"


def test_the_selected_choice_is_always_visible():
    labels = [f"choice number {number}" for number in range(12)]
    for width in (5, 20, 40, 200):
        for max_rows in (1, 2, 3):
            for selected in range(12):
                rows = choice_rows(labels, selected, width, max_rows, PLAIN)
                assert len(rows) <= max_rows
                assert any("▸" in row for row in rows)
