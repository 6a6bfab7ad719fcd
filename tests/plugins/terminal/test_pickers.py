"""The picker: filter, movement, preview, actions, and its rows in every window."""

import time

import attrs
import pytest
from hilum_terminal.keys import Key, Paste
from hilum_terminal.pickers import Picked, Picker
from hilum_terminal.prompts import Cancelled
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells


@attrs.frozen
class Entry:
    label: str
    hint: str = ""
    preview: object = ""


FRUIT = [Entry("Apple"), Entry("Banana", "yellow"), Entry("Cherry"), Entry("Pineapple")]
DOWN = Key("down")
ENTER = Key("enter")


def typed(text):
    return [Key("text", char) for char in text]


def pick(*keys, entries=FRUIT, **more):
    picker = Picker("Fruit", entries, **more)
    picker.rows(40, 4, PLAIN)
    return [picker.handle(key, 0.0) for key in keys][-1]


def test_the_keys_of_a_picker():
    table = (
        ([ENTER], "Apple"),
        ([DOWN, ENTER], "Banana"),
        ([Key("up"), ENTER], "Pineapple"),
        ([DOWN] * 4 + [ENTER], "Apple"),
        ([Key("end"), ENTER], "Pineapple"),
        ([Key("end"), Key("home"), ENTER], "Apple"),
        ([Key("page-down"), ENTER], "Pineapple"),
        ([Key("page-down"), Key("page-up"), ENTER], "Apple"),
        ([*typed("che"), ENTER], "Cherry"),
        ([*typed("apple"), ENTER], "Apple"),
        ([*typed("apple"), DOWN, ENTER], "Pineapple"),
        ([*typed("yellow"), ENTER], "Banana"),
        ([Paste("cherry\n"), ENTER], "Cherry"),
        ([*typed("chx"), Key("backspace"), ENTER], "Cherry"),
    )
    wrong = []
    for keys, expected in table:
        result = pick(*keys)
        index = [fruit.label for fruit in FRUIT].index(expected)
        if result != Picked(FRUIT[index], index):
            wrong.append((keys, result))
    assert wrong == []
    assert pick(Key("esc")) == Cancelled()
    assert pick(*typed("zzz"), ENTER) is None
    assert pick(ENTER, selected=2).entry.label == "Cherry"
    assert pick(ENTER, selected=99).entry.label == "Pineapple"


def test_an_empty_list():
    picker = Picker("Fruit", [], empty="No fruit yet.")
    assert "No fruit yet." in "\n".join(picker.rows(40, 5, PLAIN))
    assert picker.handle(ENTER, 0.0) is None
    assert picker.handle(DOWN, 0.0) is None
    assert picker.handle(Key("text", "a"), 0.0) is None
    assert picker.selected is None


def test_the_rows_of_a_picker():
    picker = Picker("Fruit", FRUIT)
    assert picker.rows(40, 8, PLAIN) == [
        "Fruit (4): type to filter",
        "▸ Apple",
        "  Banana  yellow",
        "  Cherry",
        "  Pineapple",
        "Enter: choose · Esc: cancel",
    ]
    for key in typed("app"):
        picker.handle(key, 0.0)
    assert picker.rows(40, 8, PLAIN)[0] == "Fruit (2 of 4): app"
    assert picker.cursor == (0, 19)


def test_hints_begin_in_the_same_column():
    entries = [
        Entry("a", "long hint of this entry"),
        Entry("much longer label", "b"),
        Entry("an entry without a hint, which needs no second column"),
        Entry("c", "d"),
    ]
    picker = Picker("List", entries)
    assert picker.rows(80, 8, PLAIN)[1:5] == [
        "▸ a                  long hint of this entry",
        "  much longer label  b",
        "  an entry without a hint, which needs no second column",
        "  c                  d",
    ]
    # A long label is cut for the longest hint, but never to less than half of the row.
    rows = picker.rows(36, 8, PLAIN)
    assert rows[2] == "  much longer l…  b"
    assert rows[1] == "▸ a               long hint of this…"
    long = Picker("List", [Entry("title " * 20, "now"), Entry("short", "an hour ago")])
    rows = long.rows(60, 8, PLAIN)
    assert rows[1].index("now") == rows[2].index("an hour ago") == 49


def test_a_preview_is_read_when_it_is_shown():
    read = []

    def preview_of(name):
        def read_preview():
            read.append(name)
            return f"all about\n{name}"

        return read_preview

    entries = [Entry(name, preview=preview_of(name)) for name in ("one", "two", "three")]
    picker = Picker("Numbers", entries)
    below = picker.rows(40, 12, PLAIN)
    assert read == ["one"]
    assert below[1:] == [
        "▸ one",
        "  two",
        "  three",
        "all about",
        "one",
        "Enter: choose · Esc: cancel",
    ]
    picker.handle(DOWN, 0.0)
    beside = picker.rows(120, 12, PLAIN)
    picker.rows(120, 12, PLAIN)
    assert read == ["one", "two"]
    assert "all about" in beside[1]
    assert beside[1].startswith("  one")
    # There is no room for it.
    picker.handle(DOWN, 0.0)
    picker.rows(40, 5, PLAIN)
    assert "all about" not in "\n".join(picker.rows(40, 5, PLAIN))


def test_a_tiny_window_shows_the_selected_entry():
    picker = Picker("Fruit", FRUIT)
    for expected in ("Apple", "Banana", "Cherry", "Pineapple"):
        for max_rows in (2, 3, 5):
            assert any(f"▸ {expected}" in row for row in picker.rows(20, max_rows, PLAIN))
        picker.handle(DOWN, 0.0)


def test_rows_fit_every_window():
    hostile = "evil\x1b[2J\u202e\x07 " + "中文" * 40 + "👩‍👩‍👧" * 5
    preview = f"{hostile}\r\n\ttext\n" * 20
    entries = [Entry(hostile, hostile, preview), Entry("plain", "now", lambda: preview)]
    entries += [Entry(f"entry {number}") for number in range(30)]
    wrong = []
    for width in (1, 2, 5, 20, 60, 120, 300):
        for max_rows in (0, 1, 2, 3, 5, 8, 20):
            picker = Picker(hostile, entries)
            for key in (DOWN, Key("text", "e"), Key("end")):
                rows = picker.rows(width, max_rows, Theme())
                text = "".join(rows)
                bad = any(char in text for char in ("\x1b[2J", "\u202e", "\x07", "\r", "\n"))
                if len(rows) > max_rows or any(cells(row) > width for row in rows) or bad:
                    wrong.append((width, max_rows, rows))
                if picker.cursor and picker.cursor[1] >= width:
                    wrong.append((width, max_rows, picker.cursor))
                picker.handle(key, 0.0)
    assert wrong == []


@pytest.mark.parametrize("word", ["session", "e", "fix the login"])
def test_five_thousand_entries_are_fast(word):
    labels = [
        f"fix the session {number} of the login page in {number % 97}" for number in range(5000)
    ]
    picker = Picker("Sessions", [Entry(label, "2 days ago", "preview") for label in labels])
    slowest = 0.0
    for key in [*typed(word), DOWN, Key("page-down"), Key("end"), *[Key("backspace")] * len(word)]:
        before = time.process_time()
        picker.handle(key, 0.0)
        picker.rows(120, 20, PLAIN)
        slowest = max(slowest, time.process_time() - before)
    # About 15 ms; the limit only notices another order of growth.
    assert slowest < 0.15


def test_enter_does_not_choose_before_the_picker_can_be_read():
    """It may have been typed ahead; the typed letters still filter."""
    picker = Picker("Trust?", [Entry("yes"), Entry("no")], is_guarded=True)
    picker.handle(Key("text", "y"), 100.0)
    assert picker.handle(Key("enter"), 100.0) is None
    picker.rows(40, 8, PLAIN, 100.1)
    assert picker.handle(Key("enter"), 100.2) is None
    assert picker.handle(Key("enter"), 100.5).entry.label == "yes"


def test_a_preview_is_wrapped_between_words():
    text = "a preview of several words that is longer than its column is wide"
    picker = Picker("Sessions", [Entry("one", preview=text)])
    shown = "\n".join(picker.rows(40, 12, PLAIN, 0.0))
    assert "a preview of several words that is" in shown
    assert "longer than its column is wide" in shown
