"""What Screen writes: on terminals that wrap anew, that cut, and that change size in between."""

import random
import re

import pyte
import pytest
from hilum_terminal.screen import (
    AUTOWRAP_OFF,
    BEGIN_FRAME,
    CALM_SECONDS,
    END_FRAME,
    ERASE_BELOW,
    ERASE_LINE,
    HIDE_CURSOR,
    SHOW_CURSOR,
    Screen,
    paint_cursor,
    terminal_reflows,
)
from hilum_terminal.text_width import cut

SIZE = (20, 8)
TOKEN = re.compile(
    r"\x1b\[\?(?P<mode>7|25|2026)(?P<on>[hl])|\x1b\[(?P<up>\d+)A|\x1b\[(?P<right>\d*)C|"
    r"(?P<line>\x1b\[K)|(?P<below>\x1b\[J)|(?P<color>\x1b\[[\d;]*m)|(?P<cr>\r)|(?P<lf>\n)|"
    r"(?P<text>[^\x00-\x1f\x7f])"
)


class Terminal:
    """A terminal with a scrollback that wraps its lines anew when its width changes, as tmux does.

    It knows only the sequences that Screen may use, and fails on all others.
    """

    def __init__(self, columns, lines, *, keeps_blanks=True):
        self.columns = columns
        self.lines = lines
        # Whether blanks at the end of a line are content when it is wrapped anew.
        self.keeps_blanks = keeps_blanks
        self.grid = [""]
        # Indexes of lines that continue in the next one.
        self.continued = set()
        self.row = 0
        self.column = 0
        self.wraps = True
        self.shows_cursor = True

    @property
    def top(self):
        return max(len(self.grid) - self.lines, 0)

    def feed(self, data):
        text = data.decode()
        position = 0
        while position < len(text):
            token = TOKEN.match(text, position)
            assert token is not None, f"not allowed: {text[position : position + 12]!r}"
            position = token.end()
            self.apply(token)

    def apply(self, token):
        kind = token.lastgroup
        if kind == "on":
            if token["mode"] == "7":
                self.wraps = token["on"] == "h"
            elif token["mode"] == "25":
                self.shows_cursor = token["on"] == "h"
        elif kind == "up":
            self.row = max(self.row - int(token["up"]), self.top)
        elif kind == "right":
            self.column = min(self.column + int(token["right"] or 1), self.columns - 1)
        elif kind == "line":
            self.erase()
        elif kind == "below":
            # tmux scrolls everything into the history in this case.
            assert (self.row, self.column) != (self.top, 0), "erases from the top left corner"
            self.erase()
            for row in range(self.row + 1, len(self.grid)):
                self.grid[row] = ""
                self.continued.discard(row)
        elif kind == "cr":
            self.column = 0
        elif kind == "lf":
            self.down()
        elif kind == "text":
            self.put(token["text"])

    def erase(self):
        # Like xterm: after the last column, the cursor is still on it.
        column = min(self.column, self.columns - 1)
        self.grid[self.row] = self.grid[self.row][:column]
        self.continued.discard(self.row)

    def down(self):
        self.row += 1
        if self.row == len(self.grid):
            self.grid.append("")

    def put(self, character):
        if self.column == self.columns:
            if self.wraps:
                self.continued.add(self.row)
                self.down()
                self.column = 0
            else:
                self.column -= 1
        line = self.grid[self.row].ljust(self.column)
        self.grid[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1

    def resize(self, columns, lines):
        if columns != self.columns:
            self.reflow(columns)
        self.columns = columns
        # Lines below the cursor are dropped before others are moved into the scrollback.
        while len(self.grid) > self.row + 1 and lines < min(self.lines, len(self.grid)):
            self.grid.pop()
            self.lines -= 1
        self.lines = lines

    def reflow(self, columns):
        joined = []
        cursor = (0, 0)
        start = True
        for index, line in enumerate(self.grid):
            if start:
                joined.append("")
            if index == self.row:
                cursor = (len(joined) - 1, len(joined[-1]) + min(self.column, max(len(line), 0)))
            joined[-1] += line if self.keeps_blanks else line.rstrip()
            start = index not in self.continued
        self.grid = []
        self.continued = set()
        for index, line in enumerate(joined):
            if index == cursor[0]:
                self.row = len(self.grid) + min(cursor[1], max(len(line) - 1, 0)) // columns
                self.column = cursor[1] % columns
            for offset in range(0, max(len(line), 1), columns):
                if offset:
                    self.continued.add(len(self.grid) - 1)
                self.grid.append(line[offset : offset + columns])


def make_frames(rng, count, width, most_rows, number=0):
    """Yield commits, rows and cursors; each commit has a number that no other one has."""
    rows = []
    for _ in range(count):
        commits = []
        for _ in range(rng.choice((0, 0, 0, 1, 2, 9))):
            number += 1
            words = f"<{number}>"
            commits.append(words + "x" * rng.randint(0, max(width - len(words), 0)))
        change = rng.random()
        if change < 0.5:
            rows = list(rows)
            for index in range(len(rows)):
                if rng.random() < 0.3:
                    rows[index] = make_row(rng, width)
        else:
            rows = [make_row(rng, width) for _ in range(rng.randint(0, most_rows))]
        cursor = None
        if rows and rng.random() < 0.8:
            cursor = (rng.randrange(len(rows)), rng.randint(0, width))
        yield commits, list(rows), cursor


def make_row(rng, width):
    text = "".join(rng.choice("abc  ") for _ in range(rng.randint(0, width))).rstrip()
    if text and rng.random() < 0.3:
        return f"\x1b[1;31m{text}\x1b[0m"
    return text


def plain(row):
    return re.sub(r"\x1b\[[0-9;]*m", "", row)


def pyte_history(screen):
    """The lines above the window, without blanks at their ends."""
    lines = []
    for line in screen.history.top:
        lines.append("".join(line[x].data for x in range(max(line, default=-1) + 1)).rstrip())
    return lines


@pytest.mark.parametrize("seed", range(4))
def test_display_and_history_hold_each_row_once(seed):
    rng = random.Random(seed)
    width = rng.choice((10, 20, 33))
    lines = rng.choice((4, 8, 15))
    terminal = pyte.HistoryScreen(width, lines, history=10_000, ratio=0.5)
    stream = pyte.Stream(terminal)
    # pyte does not wrap lines anew, and cuts what no longer fits.
    screen = Screen(reflows=False)
    size = (width, lines)
    committed = []
    for commits, rows, cursor in make_frames(rng, 120, width, lines + 3):
        if rng.random() < 0.1:
            # Wider, never narrower than the commits, because pyte would cut those.
            size = (width + rng.choice((0, 1, 30)), lines)
            terminal.resize(lines=lines, columns=size[0])
        parked = rng.random() < 0.5
        stream.feed(screen.frame(commits, rows, size, cursor, parked=parked).decode())
        committed += commits
        shown = [plain(row) for row in rows[-(lines - 1) :]] or [""]
        expected = committed + shown
        content = pyte_history(terminal) + [line.rstrip() for line in terminal.display]
        while content and not content[-1] and len(content) > len(expected):
            content.pop()
        assert content == expected
        row = len(content) - len(shown) - len(terminal.history.top)
        column = 0
        dropped = len(rows) - len(shown)
        hidden = cursor is None or parked or cursor[0] < dropped
        if not hidden:
            row += cursor[0] - max(dropped, 0)
            column = min(cursor[1], size[0] - 1)
        assert (terminal.cursor.y, terminal.cursor.x) == (row, column)
        assert terminal.cursor.hidden == hidden
        assert pyte.modes.DECAWM in terminal.mode


def find_numbers(lines):
    return [int(number) for number in re.findall(r"<(\d+)>", "".join(lines))]


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_or_doubled_when_the_terminal_wraps_anew(seed):
    rng = random.Random(seed)
    size = (60, 24)
    terminal = Terminal(*size)
    screen = Screen()
    last = 0
    for commits, rows, cursor in make_frames(rng, 150, 30, 9):
        if rng.random() < 0.3:
            size = (rng.randint(10, 80), rng.randint(12, 40))
            terminal.resize(*size)
        rows = [cut(row, size[0], "") for row in rows]
        # Streaming: the cursor waits on the first row, which the terminal carries along.
        terminal.feed(screen.frame(commits, rows, size, cursor, parked=True))
        last += len(commits)
        assert find_numbers(terminal.grid) == list(range(1, last + 1))
        shown = [plain(row).rstrip() for row in rows] or [""]
        painted = [line.rstrip() for line in terminal.grid[terminal.row :]]
        while len(painted) > len(shown) and not painted[-1]:
            painted.pop()
        assert painted == shown


@pytest.mark.parametrize("parked", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_when_new_sizes_are_reported_late(seed, parked):
    """tmux reports a size at most every 250 ms; until then, frames are made for the last one."""
    rng = random.Random(seed)
    size = (60, 24)
    reported = size
    terminal = Terminal(*size)
    screen = Screen()
    last = 0
    now = 0.0
    next_report = 0.0
    for commits, rows, cursor in make_frames(rng, 300, 30, 9):
        before = now
        now += rng.choice((0.03, 0.03, 0.1, 0.2, 0.5))
        if reported != size and now > next_report:
            # The signal draws a frame at once.
            now = max(next_report, before)
            reported = size
            next_report = now + 0.25
        elif rng.random() < 0.3:
            size = (rng.randint(10, 80), rng.randint(12, 40))
            terminal.resize(*size)
        rows = [cut(row, reported[0], "") for row in rows]
        terminal.feed(screen.frame(commits, rows, reported, cursor, parked=parked, now=now))
        last += len(commits)
        # Live rows may remain as ghosts when the cursor is in the input; they have no numbers.
        assert find_numbers(terminal.grid) == list(range(1, last + 1))


def test_with_the_cursor_in_the_input_a_resize_leaves_no_ghosts():
    terminal = Terminal(60, 24)
    screen = Screen()
    rows = ["a" * 50, "b" * 45, "> " + "c" * 40]
    terminal.feed(screen.frame(["<1>"], rows, (60, 24), (2, 30), now=1))
    terminal.resize(20, 24)
    narrow = ["a" * 20, "b" * 20, "> d"]
    terminal.feed(screen.frame([], narrow, (20, 24), (2, 3), now=2))
    assert [line for line in terminal.grid if line] == ["<1>", *narrow]


def test_blanks_at_the_end_of_rows_do_not_count_as_wrapped():
    terminal = Terminal(60, 24, keeps_blanks=False)
    screen = Screen()
    rows = ["a" + " " * 49, "\x1b[31mb" + " " * 30 + "\x1b[0m", "> "]
    terminal.feed(screen.frame(["<1>", "<2>"], rows, (60, 24), (2, 2), now=1))
    terminal.resize(20, 24)
    terminal.feed(screen.frame([], ["> "], (20, 24), (0, 2), now=2))
    assert [line.rstrip() for line in terminal.grid if line] == ["<1>", "<2>", ">"]


def test_a_cursor_that_moved_in_a_terminal_of_unknown_width_overwrites_nothing():
    terminal = Terminal(60, 24)
    screen = Screen()
    rows = ["a" * 50, "b", "> "]
    terminal.feed(screen.frame(["<1>", "<2>"], rows, (60, 24), (0, 3), now=1))
    terminal.resize(20, 24)
    terminal.feed(screen.frame([], rows, (60, 24), (1, 0), now=2))
    terminal.feed(screen.frame(["<3>"], ["> "], (20, 24), (0, 2), now=2.1))
    assert find_numbers(terminal.grid) == [1, 2, 3]


def test_a_terminal_that_cuts_lines_loses_none_when_it_becomes_narrower():
    terminal = pyte.Screen(60, 8)
    stream = pyte.Stream(terminal)
    screen = Screen(reflows=False)
    stream.feed(screen.frame(["1", "2"], ["a" * 50, "> "], (60, 8), (1, 2), now=1).decode())
    terminal.resize(lines=8, columns=20)
    stream.feed(screen.frame(["3"], ["> "], (20, 8), (0, 2), now=2).decode())
    assert [line.rstrip() for line in terminal.display][:5] == ["1", "2", "3", ">", ""]


def test_final_rows_are_wrapped_and_live_rows_are_cut_by_a_terminal_that_is_narrower_by_now():
    terminal = Terminal(20, 24)
    # Another program has left it like this.
    terminal.wraps = False
    screen = Screen()
    terminal.feed(screen.frame(["c" * 30], ["a" * 30, "b" * 30], (60, 24), None))
    assert terminal.grid[:2] == ["c" * 20, "c" * 10]
    # One line each; what is in the last column is corrected by the next frame.
    assert [line[:19] for line in terminal.grid[2:]] == ["a" * 19, "b" * 19]
    assert terminal.wraps


def test_an_unchanged_frame_writes_nothing():
    screen = Screen()
    rows = ["one", "\x1b[31mtwo\x1b[0m", "> "]
    for parked in (True, False):
        screen.frame([], rows, SIZE, (2, 2), parked=parked)
        assert screen.frame([], list(rows), SIZE, (2, 2), parked=parked) == b""


def test_a_changed_row_writes_only_that_row():
    screen = Screen()
    rows = ["one", "two", "three", "> "]
    screen.frame(["before"], rows, SIZE, (3, 2))
    rows[1] = "TWO"
    expected = (
        f"{BEGIN_FRAME}{HIDE_CURSOR}{AUTOWRAP_OFF}\x1b[2A\rTWO{ERASE_LINE}\x1b[?7h"
        f"\n\n\r\x1b[2C{SHOW_CURSOR}{END_FRAME}"
    )
    assert screen.frame([], rows, SIZE, (3, 2)).decode() == expected


def test_a_moved_cursor_writes_only_its_movement():
    screen = Screen()
    screen.frame([], ["> abc", "status"], SIZE, (0, 5))
    assert screen.frame([], ["> abc", "status"], SIZE, (0, 4)) == b"\r\x1b[4C"
    assert screen.frame([], ["> abc", "status"], SIZE, (0, 0)) == b"\r"
    assert screen.frame([], ["> abc", "status"], SIZE, None) == HIDE_CURSOR.encode()


def test_a_change_of_the_height_alone_redraws_everything():
    screen = Screen()
    rows = ["one", "two"]
    screen.frame([], rows, (20, 8), None)
    data = screen.frame([], rows, (20, 9), None).decode()
    assert "one" in data
    assert "two" in data


def test_rows_that_do_not_fit_are_dropped_from_the_top_with_the_cursor_among_them():
    terminal = pyte.Screen(20, 4)
    stream = pyte.Stream(terminal)
    screen = Screen()
    rows = [str(number) for number in range(6)]
    stream.feed(screen.frame([], rows, (20, 4), (4, 1)).decode())
    assert [line.strip() for line in terminal.display] == ["3", "4", "5", ""]
    assert (terminal.cursor.y, terminal.cursor.x) == (1, 1)
    stream.feed(screen.frame([], rows, (20, 4), (0, 1)).decode())
    assert terminal.cursor.hidden
    for tiny in ((1, 1), (0, 0)):
        assert b"5" in Screen().frame([], rows, tiny, (5, 0))


def test_leaving_erases_the_live_region_and_nothing_else():
    terminal = pyte.Screen(20, 8)
    stream = pyte.Stream(terminal)
    screen = Screen()
    assert screen.leave() == b""
    stream.feed(screen.frame(["final"], ["one", "two", "> "], SIZE, (2, 2)).decode())
    stream.feed(screen.leave(SIZE).decode())
    assert [line.strip() for line in terminal.display] == ["final", *[""] * 7]
    assert (terminal.cursor.y, terminal.cursor.x) == (1, 0)
    assert not terminal.cursor.hidden
    # Another program writes, and the next frame begins below.
    stream.feed("$ fg\r\n")
    stream.feed(screen.frame(["more"], ["one"], SIZE, None).decode())
    assert [line.strip() for line in terminal.display][:4] == ["final", "$ fg", "more", "one"]


def test_leaving_after_a_resize_goes_up_by_the_wrapped_rows():
    terminal = Terminal(60, 24)
    screen = Screen()
    terminal.feed(screen.frame(["<1>"], ["a" * 50, "> "], (60, 24), (1, 2), now=1))
    terminal.resize(20, 24)
    terminal.feed(screen.leave((20, 24), now=2))
    assert [line for line in terminal.grid if line] == ["<1>"]


def test_rows_that_fill_the_line_keep_their_last_character():
    """After the last column, the cursor is still on it in xterm, and erasing would hit it."""
    terminal = Terminal(10, 8)
    screen = Screen()
    full = "0123456789"
    terminal.feed(screen.frame(["x"], ["y" * 10, "z" * 10], (10, 8), None))
    terminal.feed(screen.frame([full, full + "ab"], [full, full], (10, 8), None))
    terminal.feed(screen.frame([], [full, "short", full], (10, 8), None))
    expected = ["x", full, full, "ab", full, "short", full]
    assert [line for line in terminal.grid if line] == expected


def test_only_text_and_colors_reach_the_terminal():
    screen = Screen()
    hostile = "a\x1b[2Jb\nc\td\x07e\x9bf\x1b]0;g\x1b[31mh\udc80"
    shown = screen.frame([hostile], [hostile], (80, 24), None).decode()
    assert shown.count("a [2Jb c d e f ]0;g\x1b[31mh?\x1b[0m") == 2


def test_painted_cursors():
    cases = [
        ("abc", 1, "a\x1b[7mb\x1b[27mc"),
        ("abc", 3, "abc\x1b[7m \x1b[27m"),
        ("", 2, "  \x1b[7m \x1b[27m"),
        ("a你b", 1, "a\x1b[7m你\x1b[27mb"),
        ("a你b", 2, "a\x1b[7m你\x1b[27mb"),
        ("a你b", 3, "a你\x1b[7mb\x1b[27m"),
        ("e\u0301x", 0, "\x1b[7me\u0301\x1b[27mx"),
        ("\x1b[1mab\x1b[0m", 0, "\x1b[1m\x1b[7ma\x1b[27mb\x1b[0m"),
        ("\x1b[1mab", 2, "\x1b[1mab\x1b[0m\x1b[7m \x1b[27m"),
    ]
    wrong = []
    for row, column, expected in cases:
        painted = paint_cursor(row, column)
        if painted != expected:
            wrong.append((row, column, painted))
    assert wrong == []


def test_the_painted_cursor_shows_where_the_input_goes_while_the_real_one_waits_above():
    terminal = pyte.Screen(20, 8)
    stream = pyte.Stream(terminal)
    screen = Screen()
    stream.feed(screen.frame(["final"], ["tail", "> ab"], SIZE, (1, 3), parked=True).decode())
    assert (terminal.cursor.y, terminal.cursor.x, terminal.cursor.hidden) == (1, 0, True)
    assert [terminal.buffer[2][x].reverse for x in range(5)] == [False, False, False, True, False]
    stream.feed(screen.frame([], ["tail", "> ab"], SIZE, (1, 4), parked=False).decode())
    assert (terminal.cursor.y, terminal.cursor.x, terminal.cursor.hidden) == (2, 4, False)
    assert not any(terminal.buffer[2][x].reverse for x in range(20))


def test_a_fast_stream_writes_less_than_three_times_its_text():
    """5,000 tokens/s in 30 frames/s: a tail of at most 8 rows above an input and a status line."""
    screen = Screen()
    rng = random.Random(1)
    text = 0
    written = 0
    rows = [""]
    for _ in range(300):
        for _ in range(130):
            word = "w" * rng.randint(2, 8)
            text += len(word) + 1
            if len(rows[-1]) + len(word) > 110:
                rows.append("")
            rows[-1] += word + " "
        commits = rows[:-3]
        del rows[:-3]
        live = [*rows, "> draft", "code model turn 3/25"]
        data = screen.frame(commits, live, (120, 40), (len(rows), 7), parked=True)
        written += len(data)
    assert written < 3 * text
    assert HIDE_CURSOR.encode() not in data, "it is hidden already"


def test_which_terminals_wrap_their_lines_anew():
    cases = [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color", "XTERM_VERSION": "XTerm(390)"}, False),
        ({"TERM": "linux"}, False),
        ({"TERM": "screen-256color", "STY": "1.pts-0"}, False),
        ({"TERM": "screen-256color", "TMUX": "/tmp/x,1,0"}, True),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x", "XTERM_VERSION": "XTerm(390)"}, True),
        ({}, True),
    ]
    wrong = [case for case in cases if terminal_reflows(case[0]) != case[1]]
    assert wrong == []


def test_no_frame_clears_from_the_top_left_corner():
    """tmux would scroll the whole window into its history."""
    assert ERASE_BELOW.index("\x1b[C") < ERASE_BELOW.index("\x1b[J")
    terminal = Terminal(20, 8)
    screen = Screen()
    terminal.feed(screen.frame([], [""], SIZE, None))
    terminal.feed(screen.frame([], ["one", "two"], SIZE, None))
    terminal.feed(screen.frame([], [], SIZE, None))
    terminal.feed(screen.leave())
    assert not any(terminal.grid)


def test_while_the_window_is_dragged_only_short_rows_are_drawn():
    """Rows that wrap or do not fit would move into the scrollback of the terminal."""
    screen = Screen()
    rows = ["tail of the answer " * 3, "❯ a draft that is long", "status of the session"]
    first = screen.frame([], rows, (80, 24), (1, 5), parked=True, now=10.0).decode()
    assert "tail of the answer" in first
    assert screen.calm_until < 10.0
    resized = screen.frame(["final " * 10], rows, (60, 5), (1, 5), parked=True, now=11.0).decode()
    assert "final " * 10 in resized
    assert "tail of the answer" not in resized
    assert "status of the sessio" in resized
    assert "status of the session" not in resized
    assert screen.calm_until == pytest.approx(11.0 + CALM_SECONDS)
    later = screen.frame([], rows, (60, 5), (1, 5), parked=True, now=screen.calm_until).decode()
    assert "tail of the answer" in later
    assert "status of the session" in later


def test_a_question_is_drawn_in_full_while_the_window_is_dragged():
    screen = Screen()
    rows = ["● dangerous: deletes src recursively", "[y] yes, once  [n] no", "status"]
    screen.frame([], rows, (80, 24), None, parked=True, whole=True, now=10.0)
    resized = screen.frame([], rows, (60, 24), None, parked=True, whole=True, now=11.0).decode()
    assert "deletes src recursively" in resized
    assert "[y] yes, once  [n] no" in resized


def test_without_arriving_output_a_resize_draws_all_rows():
    screen = Screen()
    rows = ["question", "❯ a draft that is long", "status of the session"]
    screen.frame([], rows, (80, 24), (1, 5), now=10.0)
    resized = screen.frame([], rows, (60, 24), (1, 5), now=11.0).decode()
    assert "question" in resized
    assert "status of the session" in resized
