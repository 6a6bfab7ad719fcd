"""The full-screen view: scrolling, search, pages and sizes."""

import pytest
import trio
from hilum_terminal.full_view import FullView, Page
from hilum_terminal.keys import Key, Paste
from hilum_terminal.row_layout import exact_rows
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells, without_colors, wrap_text

LINES = [f"line {number}" for number in range(100)]


def page(title="a call", lines=LINES):
    return Page(title, lambda width, theme: [f"{line} at {width}" for line in lines])


class Window:
    """A window of a size, in which a view is open."""

    def __init__(self, *pages, width=60, lines=12, theme=PLAIN, index=0):
        self.view = FullView(pages or [page()], index)
        self.width = width
        self.lines = lines
        self.theme = theme

    @property
    def rows(self):
        trio.run(self.view.prepare, self.width, self.theme)
        rows = self.view.rows(self.width, self.lines, self.theme)
        assert len(rows) == self.lines
        assert all(cells(row) <= self.width for row in rows)
        return [without_colors(row).rstrip() for row in rows]

    @property
    def top(self):
        """Number of the line at the top."""
        return int(self.rows[1].split()[1])

    def press(self, *names):
        assert self.rows
        for name in names:
            key = Key(name) if len(name) > 1 else Key("text", name)
            if self.view.handle(key):
                return "closed"
            assert self.rows
        return "open"


def test_the_first_row_is_the_title_and_the_last_says_where_and_how():
    window = Window()
    assert window.rows[0] == "a call"
    assert window.rows[1] == "line 0 at 60"
    assert window.rows[10] == "line 9 at 60"
    assert window.rows[11].startswith("rows 1-10 of 100 · q: back · /: search")


@pytest.mark.parametrize(
    ("keys", "top"),
    [
        (("down",), 1),
        (("enter", "j"), 2),
        (("down", "down", "up"), 1),
        (("up",), 0),
        (("page-down",), 8),
        ((" ", "b"), 0),
        (("page-down", "page-down", "page-up"), 8),
        (("end",), 90),
        (("end", "down", "page-down"), 90),
        (("G", "home"), 0),
        (("end", "g"), 0),
    ],
)
def test_scrolling(keys, top):
    window = Window()
    assert window.press(*keys) == "open"
    assert window.top == top


@pytest.mark.parametrize("key", ["q", "esc", "ctrl-c", "ctrl-d"])
def test_keys_that_return_to_the_conversation(key):
    assert Window().press(key) == "closed"


def test_pasted_text_does_not_close_the_view():
    assert not Window().view.handle(Paste("q"))


def test_search_shows_the_match_and_its_number():
    window = Window(theme=Theme("16"))
    window.press("/", *"LINE 5")
    assert "match 1 of 11" in window.rows[-1]
    assert window.rows[-1].startswith("/LINE 5")
    assert window.view.cursor == (11, 7)
    window.press("enter", "n")
    assert "match 2 of 11" in window.rows[-1]
    # The first match is the line 5, the second one is the line 50.
    assert window.top <= 50 < window.top + 10
    window.press("N")
    assert window.top <= 5
    window.press("N")
    assert window.top <= 59 < window.top + 10


def test_esc_in_a_search_goes_back_to_where_it_began():
    window = Window()
    window.press("page-down", "/", *"line 77")
    assert window.top > 60
    assert window.press("esc") == "open"
    assert window.top == 8
    assert "match" not in window.rows[-1]


def test_a_text_that_does_not_exist():
    window = Window()
    window.press("/", *"nowhere")
    assert "not found" in window.rows[-1]
    assert window.press("enter", "n") == "open"
    assert window.top == 0


@pytest.mark.parametrize(
    ("make_rows", "pattern"),
    [
        (lambda text, width: exact_rows(text, width), "ten-letter"),
        (lambda text, width: wrap_text(text, width), "word10 word11"),
        (lambda text, width: [f"│ {row}" for row in wrap_text(text, width - 2)], "WORD8 word9"),
    ],
    ids=["in a word", "between words", "with a gutter"],
)
def test_a_text_that_is_broken_into_two_rows_is_found(make_rows, pattern):
    text = " ".join(f"word{number}" for number in range(8)) + " ten-letter "
    text += " ".join(f"word{number}" for number in range(8, 60))
    for width in range(24, 60):
        rows = ["before", "", *make_rows(text, width), "", "after"]
        window = Window(Page("text", lambda width, theme, rows=rows: rows), width=width)
        window.press("/", *pattern)
        assert "not found" not in window.rows[-1], width
        assert len(window.view._matches) == 1, width


def test_two_lines_are_not_searched_as_one():
    window = Window(page(lines=["the first", "second one", "", "x" * 50, "", "y"]))
    for pattern in ("firstsecond", "first at 60second", "xy"):
        window.press("/", *pattern)
        assert "not found" in window.rows[-1]
        window.press("esc")


def test_letters_that_arrive_together():
    window = Window()
    assert window.rows
    assert not window.view.handle(Key("text", "jj/line 9q"))
    assert window.rows[-1].startswith("/line 9q")
    assert window.top == 2
    assert Window().view.handle(Key("text", "jq/"))


def test_letters_in_a_search_are_text():
    window = Window()
    assert window.press("/", "q", "n") == "open"
    assert window.rows[-1].startswith("/qn")


def test_other_calls_with_the_arrow_keys():
    window = Window(page("first"), page("second"), page("third"), index=1)
    assert window.rows[0] == "2 of 3 · second"
    window.press("down", "right")
    assert window.rows[0] == "3 of 3 · third"
    assert window.top == 0
    window.press("right", "left", "left", "left")
    assert window.rows[0] == "1 of 3 · first"


def test_another_size_keeps_the_place():
    window = Window(page(lines=["word " * 12] * 100))
    window.press("end")
    window.width = 30
    window.lines = 20
    assert len(window.rows) == 20
    assert "of 100" in window.rows[-1]


@pytest.mark.parametrize(("width", "lines"), [(20, 5), (10, 3), (5, 2), (1, 1)])
def test_tiny_windows(width, lines):
    """The text comes first; the helper checks the number and width of the rows."""
    window = Window(width=width, lines=lines)
    window.press("down", "end", "/", "x")
    window.press("enter")
    assert any(row.startswith(("line"[: width - 1], "…")) for row in window.rows)


def test_a_note_about_the_time_left():
    left = ["", "12 s left"]
    window = Window(Page("a call", lambda width, theme: ["x"], describe=lambda: left[-1]))
    assert window.rows[0] == "12 s left · a call"
    left.append("no longer waiting")
    assert window.rows[0] == "no longer waiting · a call"


def test_a_page_that_cannot_be_laid_out_says_so():
    def fail(width, theme):
        raise ValueError("broken")

    window = Window(Page("a call", fail))
    assert window.rows[1] == "This cannot be shown: ValueError: broken"
    assert window.press("q") == "closed"


def test_a_page_that_can_be_answered_is_answered_with_one_letter_after_a_moment():
    """A word, a paste and a key that came too early answer nothing."""

    def open_view(answer="yes, once"):
        view = FullView([Page("a call", lambda width, theme: LINES, answer=answer)])
        trio.run(view.prepare, 60, PLAIN)
        assert view.handle(Key("text", "y"), 0.0) is False
        rows = view.rows(60, 12, PLAIN, 0.0)
        assert ("y: yes, once · q: back" in rows[-1]) is bool(answer)
        return view

    view = open_view()
    for key in (Key("text", "y"), Key("text", "ye"), Paste("y")):
        assert view.handle(key, 0.1) is False
    assert view.handle(Key("text", "y"), 1.0)
    assert view.is_answered
    without = open_view(answer="")
    assert without.handle(Key("text", "y"), 1.0) is False
    searching = open_view()
    searching.handle(Key("text", "/"), 1.0)
    assert searching.handle(Key("text", "y"), 1.0) is False
    assert not without.is_answered
    assert not searching.is_answered
