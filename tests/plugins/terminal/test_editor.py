"""The editor of the terminal: keys, chips, and the rows that it shows."""

import re
import time
from collections.abc import Callable

import pytest
import wcwidth
from hilum_terminal.editor import Editor
from hilum_terminal.keys import FocusChange, Key, Paste
from hilum_terminal.pastes import find_image_paths
from hilum_terminal.styles import PLAIN, Theme
from hilum_terminal.text_width import cells
from hypothesis import example, given, settings
from hypothesis import strategies as st

FAMILY = "👨\u200d👩\u200d👧"


def press(editor: Editor, keys: str) -> None:
    """Press keys: words are names of keys, and what is in quotes is typed."""
    for quoted, name in re.findall(r"'([^']*)'|(\S+)", keys):
        editor.handle(Key(name) if name else Key("text", quoted))


def typed(keys: str) -> Editor:
    editor = Editor()
    press(editor, keys)
    return editor


def shown(editor: Editor) -> str:
    """Return the text with a bar at the cursor."""
    return f"{editor.text[: editor.cursor]}|{editor.text[editor.cursor :]}"


# The keys, and the text with a bar at the cursor.
CASES: list[tuple[str, str]] = [
    ("'ab' left 'x'", "ax|b"),
    ("'abc' ctrl-a 'x' ctrl-e 'y'", "xabcy|"),
    ("'abc' ctrl-b ctrl-b ctrl-f 'x'", "abx|c"),
    ("'abc' home delete end backspace", "b|"),
    ("'abc' ctrl-a ctrl-d ctrl-f ctrl-h", "|c"),
    ("left right up down backspace delete", "|"),
    # newlines
    ("'a' alt-enter 'b' shift-enter 'c' ctrl-j", "a\nb\nc\n|"),
    ("'a\\' enter 'b'", "a\nb|"),
    ("'a\\\\' enter 'b'", "a\\\\b|"),
    ("'a\\b' left enter", "a\n|b"),
    ("'a' enter tab esc 'b'", "ab|"),
    # lines
    ("'ab' ctrl-j 'cd' ctrl-a 'x' up 'y'", "ay|b\nxcd"),
    ("'ab' ctrl-j 'cd' ctrl-home 'x' ctrl-end 'y'", "xab\ncdy|"),
    ("'abcd' ctrl-j 'e' ctrl-j 'fghi' up up 'x'", "abcdx|\ne\nfghi"),
    ("'ab' ctrl-j 'c' up left down down 'x'", "ab\nx|c"),
    # words
    ("'foo bar-baz' alt-b 'x'", "foo bar-x|baz"),
    ("'foo bar' ctrl-left ctrl-left 'x'", "x|foo bar"),
    ("'foo, bar' ctrl-a alt-f 'x' ctrl-right 'y'", "foox, bary|"),
    ("'foo bar-baz' ctrl-w", "foo |"),
    ("'foo bar-baz' alt-backspace", "foo bar-|"),
    ("'foo bar' ctrl-a alt-d alt-d", "|"),
    ("'foo bar  ' ctrl-w ctrl-w", "|"),
    ("'cafe\u0301 x' left left ctrl-left", "|cafe\u0301 x"),
    ("'a_b c' ctrl-a alt-shift-f", "a_b| c"),
    # killing and yanking
    ("'foo bar' ctrl-w ctrl-w ctrl-y", "foo bar|"),
    ("'foo bar' ctrl-w left ctrl-w ctrl-y", "foo| "),
    ("'ab' ctrl-j 'cd' ctrl-home ctrl-k ctrl-k ctrl-k ctrl-y", "ab\ncd|"),
    ("'ab' ctrl-j 'cd' ctrl-u ctrl-u ctrl-u ctrl-u ctrl-y ctrl-y", "ab\ncdab\ncd|"),
    ("'one' ctrl-u 'two' ctrl-u ctrl-y alt-y", "one|"),
    ("'one' ctrl-u 'two' ctrl-u ctrl-y alt-y alt-y 'x'", "twox|"),
    ("'one' ctrl-u 'x' alt-y", "x|"),
    ("'a b c' ctrl-a alt-d ctrl-y ctrl-y", "aa| b c"),
    ("ctrl-y alt-y", "|"),
    ("'foo bar' ctrl-a ctrl-right ctrl-w ctrl-k ctrl-y", "foo bar|"),
    # exchanging characters
    ("'abc' ctrl-t", "acb|"),
    ("'abc' left left ctrl-t", "ba|c"),
    ("'a' ctrl-t ctrl-a ctrl-t", "|a"),
    ("'ab' ctrl-j ctrl-t", "ab\n|"),
    # undoing
    ("'foo ' 'bar' ctrl-_", "foo |"),
    ("'f' 'o' 'o' ctrl-_", "|"),
    ("'f' 'o' 'o' ctrl-_ alt-_", "foo|"),
    ("'foo' ctrl-w ctrl-_ ctrl-/", "|"),
    ("'foo' ctrl-w ctrl-_ ctrl-/ ctrl-alt-z ctrl-alt-z", "|"),
    ("'foo' ctrl-_ 'x' alt-_", "x|"),
    ("'abc' backspace backspace ctrl-_", "abc|"),
    ("'abc' ctrl-a delete delete ctrl-_", "|abc"),
    ("'a' left 'b' ctrl-_", "|a"),
    ("'a' left right 'b' ctrl-_", "a|"),
    ("'abc' left backspace 'x' ctrl-_ ctrl-_", "ab|c"),
    ("ctrl-_ alt-_", "|"),
    ("'ab' ctrl-t ctrl-_", "ab|"),
    # characters of several code points
    (f"'a{FAMILY}b' left left", f"a|{FAMILY}b"),
    (f"'a{FAMILY}b' left backspace", "a|b"),
    ("'e\u0301🇩🇪🇫🇷' backspace left", "|e\u0301🇩🇪".replace("|e\u0301", "e\u0301|")),
    ("'中文' left delete", "中|"),
    ("'x👍🏽' ctrl-t", "👍🏽x|"),
]


def test_keys() -> None:
    wrong = []
    for keys, expected in CASES:
        result = shown(typed(keys))
        if result != expected:
            wrong.append(f"{keys}: {result!r}, not {expected!r}")
    assert not wrong, "\n".join(wrong)


def test_keys_that_are_not_used() -> None:
    editor = Editor()
    unused = ["enter", "tab", "shift-tab", "esc", "up", "down", "ctrl-d", "ctrl-c", "page-up", "f1"]
    for name in unused:
        assert not editor.handle(Key(name)), name
    assert not editor.handle(FocusChange(True))
    assert not editor.handle(Paste(""))
    press(editor, "'text'")
    for name in ["enter", "tab", "esc", "up", "down", "ctrl-c", "ctrl-z"]:
        assert not editor.handle(Key(name)), name
    assert editor.handle(Key("ctrl-d"))
    assert editor.text == "text"


def test_up_and_down_move_by_rows() -> None:
    editor = typed("'aaaa bbbb cccc'")
    editor.rows(8, 10, PLAIN)
    assert editor.rows(8, 10, PLAIN).rows == ["❯ aaaa ", "  bbbb ", "  cccc"]
    assert editor.handle(Key("up"))
    assert shown(editor) == "aaaa bbbb| cccc"
    assert editor.handle(Key("up"))
    assert not editor.handle(Key("up"))
    assert shown(editor) == "aaaa| bbbb cccc"
    assert editor.handle(Key("ctrl-n"))
    assert editor.handle(Key("down"))
    assert not editor.handle(Key("down"))
    assert shown(editor) == "aaaa bbbb cccc|"


def test_enter_after_a_backslash_is_announced() -> None:
    editor = typed("'a\\'")
    assert editor.enter_inserts_newline
    press(editor, "left")
    assert not editor.enter_inserts_newline
    assert not typed("'a\\\\'").enter_inserts_newline


# Pastes


def test_a_short_paste_is_inserted() -> None:
    editor = typed("'ab' left")
    assert editor.handle(Paste("x\r\ny\rz\tt"))
    assert shown(editor) == "ax\ny\nz\tt|b"
    press(editor, "ctrl-_")
    assert shown(editor) == "a|b"


HOSTILE = [
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab"),
    ("a\x00b\x08c\x7fd\x9be", "abcde"),
    ("\x1b[2Ja\x1bcb\x1b(Bc", "acbc"),
    ("\x1b]unfinished\ntext\x07", "]unfinished\ntext"),
    ("\U0010e000", "\\U0010e000"),
    ("\ud800", "\ufffd"),
]


def test_pastes_cannot_drive_the_terminal() -> None:
    wrong = []
    for pasted, expected in HOSTILE:
        for insert in (lambda e, text: e.handle(Paste(text)), Editor.insert, Editor.set_text):
            editor = Editor()
            insert(editor, pasted)
            if editor.text != expected:
                wrong.append(f"{pasted!r}: {editor.text!r}, not {expected!r}")
    assert not wrong, "\n".join(wrong)


@given(st.text(st.characters(), max_size=30))
@example("a\tb\x0b")
@example("\x1b[31ma\x1b")
def test_rows_contain_no_control_characters(text: str) -> None:
    editor = Editor(placeholder=text)
    rows = editor.rows(40, 5, PLAIN).rows
    editor.handle(Paste(text))
    rows += editor.rows(40, 5, PLAIN).rows
    for row in rows:
        controls = [
            character for character in row if character < " " or "\x7f" <= character < "\xa0"
        ]
        assert not controls


LONG = "line\r\n" * 60


def test_a_long_paste_becomes_a_chip() -> None:
    editor = typed("'a' 'b' left")
    assert editor.handle(Paste(LONG))
    assert editor.shown_text == "a[paste #1 · 60 lines · 300 B]b"
    assert editor.expand() == "a" + "line\n" * 60 + "b"
    assert "[paste #1 · 60 lines · 300 B]" in editor.rows(60, 3, PLAIN).rows[0]
    press(editor, "left")
    assert editor.cursor == 1
    press(editor, "right backspace")
    assert editor.expand() == "ab"
    press(editor, "ctrl-_")
    assert editor.expand() == "a" + "line\n" * 60 + "b"
    assert editor.clear() == "a" + "line\n" * 60 + "b"
    assert editor.expand() == ""


def test_labels_of_pastes() -> None:
    editor = Editor()
    wrong = []
    labels = [
        ("x" * 2000, "x" * 2000),
        ("x" * 2001, "[paste #1 · 1 line · 2.0 kB]"),
        ("x\n" * 20, "x\n" * 20),
        ("x\n" * 21, "[paste #2 · 21 lines · 42 B]"),
        ("中" * 3000 + "\n", "[paste #3 · 1 line · 9.0 kB]"),
        ("x" * 999_999, "[paste #4 · 1 line · 1.0 MB]"),
        ("x" * 79 + "\n", "x" * 79 + "\n"),
        (("x" * 79 + "\n") * 62_500, "[paste #5 · 62,500 lines · 5.0 MB]"),
    ]
    for pasted, label in labels:
        editor.set_text("")
        editor.handle(Paste(pasted))
        if editor.shown_text != label:
            wrong.append(f"{editor.shown_text[:60]!r}, not {label[:60]!r}")
    assert not wrong, "\n".join(wrong)


def test_text_that_looks_like_a_chip_is_text() -> None:
    editor = Editor()
    editor.handle(Paste(LONG))
    label = editor.shown_text
    press(editor, f"ctrl-u '{label}'")
    assert editor.expand() == label
    press(editor, "backspace")
    assert editor.expand() == label[:-1]


# Keys after which the text begins with a paste, or does not. "P" pastes "!ls", "L" a long text.
PASTED_BEGINNINGS = {
    "": False,
    "'!ls'": False,
    "P": True,
    "L": True,
    "' ' P": True,
    "'!' P": False,
    "'!' L": False,
    "P 'x'": True,
    "P home 'x'": False,
    "P home 'x' backspace": True,
    "'x' P home delete": True,
    "P 'x' home delete delete delete": False,
    "'!ls' P": False,
    "P ctrl-u 'x'": False,
    "P ctrl-u ctrl-_": True,
    "P ctrl-_ alt-_": True,
    "P ctrl-u ctrl-y": True,
    "P left left left ctrl-k ctrl-y": True,
    "'!ls' ctrl-u ctrl-y": False,
    "P ctrl-u '!pwd' ctrl-u ctrl-y": False,
    "P ctrl-u '!pwd' ctrl-u ctrl-y alt-y": True,
    "P backspace backspace backspace ctrl-_": True,
    "P backspace backspace backspace '!'": False,
    "'!ls' backspace backspace backspace ctrl-_": False,
}


def test_where_the_beginning_comes_from() -> None:
    wrong = []
    for keys, expected in PASTED_BEGINNINGS.items():
        editor = Editor()
        for part in re.findall(r"'[^']*'|\S+", keys):
            if part in ("P", "L"):
                editor.handle(Paste("!ls" if part == "P" else LONG))
            else:
                press(editor, part)
        if editor.begins_with_paste != expected:
            wrong.append(keys)
    assert not wrong, "\n".join(wrong)


def test_a_pasted_chip_character_is_not_a_chip() -> None:
    editor = Editor()
    editor.handle(Paste(LONG))
    character = editor.text
    editor.clear()
    editor.handle(Paste(character + LONG))
    expanded = editor.expand()
    assert expanded.startswith("\\U")
    editor.set_text(expanded)
    assert editor.expand() == expanded


def test_drafts_keep_their_chips() -> None:
    editor = Editor()
    editor.handle(Paste(LONG))
    press(editor, "' explain'")
    draft = editor.text
    editor.set_text("something older")
    editor.set_text(draft)
    assert editor.expand() == "line\n" * 60 + " explain"


def test_chips_can_be_killed_and_yanked_also_after_sending() -> None:
    editor = Editor()
    editor.handle(Paste(LONG))
    press(editor, "ctrl-w ctrl-y ctrl-y")
    assert editor.expand() == "line\n" * 120
    press(editor, "ctrl-u")
    editor.clear()
    editor.handle(Paste("x" * 3000))
    assert editor.shown_text.startswith("[paste #2")
    press(editor, "ctrl-u ctrl-y alt-y")
    assert editor.expand() == "line\n" * 120


def test_numbers_restart_after_sending() -> None:
    editor = Editor()
    for _ in range(2):
        editor.handle(Paste(LONG))
        assert editor.shown_text.startswith("[paste #1 ")
        assert "#1" in editor.rows(60, 3, PLAIN).rows[0]
        editor.clear()
        editor.handle(Paste("x" * 3000))
        assert editor.rows(60, 3, PLAIN).rows == ["❯ [paste #1 · 1 line · 3.0 kB]"]
        editor.clear()


def test_an_accent_does_not_join_a_chip() -> None:
    editor = Editor()
    editor.handle(Paste(LONG))
    editor.handle(Key("text", "\u0301x"))
    press(editor, "backspace backspace")
    assert editor.shown_text == "[paste #1 · 60 lines · 300 B]"
    press(editor, "backspace")
    assert editor.text == ""


# Images

FILES = frozenset(
    {
        "/tmp/a.png",
        "/tmp/my plan.JPG",
        "/tmp/it's.webp",
        "rel/b.gif",
        "/tmp/x#1.png",
        "/tmp/home/b.gif",
        "/tmp/home/my plan.png",
        "/tmp/\x1b[2J.png",
        "/tmp/\U0010e000.png",
    }
)
PATHS: list[tuple[str, list[str]]] = [
    ("/tmp/a.png", ["/tmp/a.png"]),
    (" /tmp/a.png \n", ["/tmp/a.png"]),
    ("'/tmp/my plan.JPG'", ["/tmp/my plan.JPG"]),
    ('"/tmp/my plan.JPG"', ["/tmp/my plan.JPG"]),
    ("/tmp/my\\ plan.JPG", ["/tmp/my plan.JPG"]),
    ("/tmp/my plan.JPG", ["/tmp/my plan.JPG"]),
    ("/tmp/it\\'s.webp", ["/tmp/it's.webp"]),
    ("/tmp/it's.webp", ["/tmp/it's.webp"]),
    ("'/tmp/it'\\''s.webp'", ["/tmp/it's.webp"]),
    ("file:///tmp/my%20plan.JPG", ["/tmp/my plan.JPG"]),
    ("file://localhost/tmp/a.png\r\nfile:///tmp/x#1.png", ["/tmp/a.png", "/tmp/x#1.png"]),
    ("/tmp/a.png rel/b.gif", ["/tmp/a.png", "rel/b.gif"]),
    ("/tmp/a.png /tmp/missing.png", []),
    ("look at /tmp/a.png", []),
    ("/tmp/a.txt", []),
    ("file://elsewhere/tmp/a.png", []),
    ("file://[/tmp/a.png", []),
    ("/tmp/a.png\x00", []),
    ("~/b.gif", ["/tmp/home/b.gif"]),
    ("'~/my plan.png' ~/b.gif", ["/tmp/home/my plan.png", "/tmp/home/b.gif"]),
    ("~/missing.gif", []),
    # Such a path would drive the terminal, or look like a chip.
    ("/tmp/\x1b[2J.png", []),
    ("/tmp/\U0010e000.png", []),
    ("", []),
    ("'", []),
    ("x" * 10_000 + ".png", []),
]


def test_paths_of_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/tmp/home")
    wrong = []
    for pasted, expected in PATHS:
        paths = find_image_paths(pasted, FILES.__contains__)
        if paths != expected:
            wrong.append(f"{pasted[:80]!r}: {paths}, not {expected}")
    assert not wrong, "\n".join(wrong)


def test_pasted_images_are_attached() -> None:
    editor = Editor(file_exists=FILES.__contains__)
    press(editor, "'see'")
    editor.handle(Paste("/tmp/a.png '/tmp/my plan.JPG'"))
    press(editor, "'now'")
    assert editor.shown_text == "see [image #1 · a.png] [image #2 · my plan.JPG] now"
    assert editor.expand() == "see [image #1: /tmp/a.png] [image #2: /tmp/my plan.JPG] now"
    press(editor, "alt-backspace backspace backspace")
    assert editor.shown_text == "see [image #1 · a.png] "
    editor.attach_image("/tmp/clipboard-1.png", "clip\x1b[2J\nboard")
    assert "[image #3 · clip board]" in editor.shown_text
    editor.clear()
    # The text may have been sent, or may come back.
    assert editor.image_paths == ["/tmp/a.png", "/tmp/my plan.JPG", "/tmp/clipboard-1.png"]


def test_without_a_check_of_files_paths_are_text() -> None:
    editor = Editor()
    editor.handle(Paste("/tmp/a.png"))
    assert editor.text == "/tmp/a.png"


# Rows


def test_an_empty_editor_shows_its_placeholder() -> None:
    editor = Editor(placeholder="Ask anything")
    frame = editor.rows(20, 5, PLAIN)
    assert (frame.rows, frame.cursor_row, frame.cursor_column) == (["❯ Ask anything"], 0, 2)
    assert editor.rows(10, 5, PLAIN).rows == ["❯ Ask an…"]
    press(editor, "'x'")
    assert editor.rows(20, 5, PLAIN).rows == ["❯ x"]


# Text with a bar at the cursor, width, rows, and the row and column of the cursor.
FRAMES: list[tuple[str, int, list[str], tuple[int, int]]] = [
    ("abc|", 20, ["❯ abc"], (0, 5)),
    ("|abc", 20, ["❯ abc"], (0, 2)),
    ("abcdefg|", 10, ["❯ abcdefg"], (0, 9)),
    ("abcdefgh|", 10, ["❯ abcdefg", "  h"], (1, 3)),
    ("abcdefg|h", 10, ["❯ abcdefg", "  h"], (1, 2)),
    ("a\n|\nb", 10, ["❯ a", "  ", "  b"], (1, 2)),
    ("a\n|", 10, ["❯ a", "  "], (1, 2)),
    ("ab cd efgh|", 10, ["❯ ab cd ", "  efgh"], (1, 6)),
    ("ab cdefghijkl|", 10, ["❯ ab ", "  cdefghi", "  jkl"], (2, 5)),
    ("abcdefg |h", 10, ["❯ abcdefg", "   h"], (1, 3)),
    ("中文|测试", 10, ["❯ 中文测", "  试"], (0, 6)),
    ("中文测，|", 10, ["❯ 中文", "  测，"], (1, 6)),
    (" bcdefg，|", 10, ["❯  bcdefg", "  ，"], (1, 4)),
    ("abc中文文|", 10, ["❯ abc中文", "  文"], (1, 4)),
    (f"{FAMILY}|x", 10, [f"❯ {FAMILY}x"], (0, 4)),
    ("a\tb|", 20, ["❯ a   b"], (0, 7)),
    ("abcdef\tx|", 10, ["❯ abcdef ", "  x"], (1, 3)),
    ("a\u200bb|", 20, ["❯ a\\u200bb"], (0, 10)),
    ("a\u202eb|", 8, ["❯ a", "  \\u20…", "  b"], (2, 3)),
    ("e\u0301|", 10, ["❯ e\u0301"], (0, 3)),
    ("ab|", 3, ["ab"], (0, 2)),
    ("abc|", 3, ["ab", "c"], (1, 1)),
    ("中|", 1, ["…"], (0, 0)),
]


def test_rows_and_cursor() -> None:
    wrong = []
    for text, width, rows, cursor in FRAMES:
        editor = Editor()
        editor.set_text(text.replace("|", ""))
        editor.cursor = text.index("|")
        frame = editor.rows(width, 10, PLAIN)
        if frame.rows != rows or (frame.cursor_row, frame.cursor_column) != cursor:
            wrong.append(f"{text!r} at {width}: {frame}")
    assert not wrong, "\n".join(wrong)


def test_hidden_rows_are_marked() -> None:
    editor = Editor()
    editor.set_text("\n".join("abcdefgh"))
    assert editor.rows(20, 3, PLAIN).rows == ["↑ f", "  g", "  h"]
    press(editor, "up")
    assert editor.rows(20, 3, PLAIN).rows == ["↑ f", "  g", "  h"]
    press(editor, "up up up")
    assert editor.rows(20, 3, PLAIN).rows == ["↑ d", "  e", "↓ f"]
    press(editor, "ctrl-home")
    assert editor.rows(20, 3, PLAIN).rows == ["❯ a", "  b", "↓ c"]
    press(editor, "down down down")
    assert editor.rows(20, 1, PLAIN).rows == ["↕ d"]
    press(editor, "ctrl-end ctrl-u ctrl-u")
    frame = editor.rows(20, 3, PLAIN)
    assert frame.rows == ["↑ e", "  f", "  g"]
    assert frame.cursor_row == 2


def test_chips_are_one_unit_in_rows() -> None:
    editor = typed("'abc'")
    editor.handle(Paste(LONG))
    press(editor, "'d'")
    frame = editor.rows(60, 5, Theme())
    assert frame.rows == ["\x1b[1m❯ \x1b[0mabc\x1b[36m[paste #1 · 60 lines · 300 B]\x1b[0md"]
    frame = editor.rows(20, 5, PLAIN)
    assert frame.rows == ["❯ abc", "  [paste #1 · 60 l…", "  d"]
    assert (frame.cursor_row, frame.cursor_column) == (2, 3)


PIECES = st.sampled_from(
    [
        "a",
        "b ",
        " ",
        "word",
        "中",
        "，",
        "😀",
        FAMILY,
        "e\u0301",
        "\u0301",
        "\n",
        "\t",
        "\u200b",
        "🇩🇪",
        "-",
    ]
)


@given(st.lists(PIECES, max_size=80), st.integers(1, 40), st.integers(1, 6), st.data())
@settings(max_examples=200)
def test_rows_fit_and_show_the_whole_text(
    pieces: list[str], width: int, max_rows: int, data: st.DataObject
) -> None:
    editor = Editor()
    editor.set_text("".join(pieces))
    for _ in range(3):
        editor.cursor = data.draw(st.integers(0, len(editor.text)))
        frame = editor.rows(width, max_rows, PLAIN)
        assert len(frame.rows) <= max_rows
        assert max(cells(row) for row in frame.rows) <= width
        assert 0 <= frame.cursor_row < len(frame.rows)
        assert 0 <= frame.cursor_column < width
    if width > 12:
        whole = editor.rows(width, 1000, PLAIN).rows
        plain = "".join(row[2:] for row in whole).replace(" ", "").replace("\\u200b", "\u200b")
        assert plain == re.sub(r"\s", "", editor.text)


@given(st.lists(PIECES, max_size=60), st.integers(8, 30))
def test_up_and_down_visit_every_row(pieces: list[str], width: int) -> None:
    editor = Editor()
    editor.set_text("".join(pieces))
    rows = len(editor.rows(width, 1000, PLAIN).rows)
    for name in ("up", "down"):
        steps = 0
        while editor.handle(Key(name)):
            steps += 1
            assert steps < rows
        assert steps == rows - 1


def test_a_long_line_is_shown_at_any_place() -> None:
    editor = Editor()
    editor.set_text(f"ab{FAMILY}" * 3000)
    total = len(editor.text)
    for position in [0, 1, 1999, 2000, 2001, 7777, total - 1, total]:
        editor.cursor = position
        frame = editor.rows(40, 5, PLAIN)
        assert len(frame.rows) == 5
        assert max(cells(row) for row in frame.rows) <= 40
        assert frame.rows[frame.cursor_row] != "  "
    for position in (total, 0):
        editor.cursor = position
        whole = editor.rows(40, 1000, PLAIN).rows
        assert "".join(row[2:] for row in whole) == editor.text
    editor.set_text("x" * 4000)
    assert editor.rows(40, 5, PLAIN).cursor_column == 2 + 4000 % 37 - (2000 % 37)


def seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def test_the_cost_does_not_grow_with_the_text() -> None:
    texts = ["x" * 5_000_000, "some words 中\n" * 400_000, "e" + "\u0301" * 1_000_000]
    for text in texts:
        editor = Editor()
        editor.set_text(text)
        editor.cursor = len(text) // 2

        def use(editor: Editor = editor) -> None:
            for name in ("up", "down", "left", "alt-b", "up", "end"):
                editor.handle(Key(name))
                editor.rows(100, 10, PLAIN)
            editor.handle(Key("text", "y"))
            editor.rows(100, 10, PLAIN)

        assert seconds(use) < 1, text[:20]


def test_a_5_mb_paste_is_quick() -> None:
    editor = Editor()
    text = ("x" * 79 + "\r") * 62_500

    def paste() -> None:
        editor.handle(Paste(text))
        editor.rows(100, 10, PLAIN)

    assert seconds(paste) < 0.4


# A simple model: a text and an index.

GRAPHEMES = ["a", "b", "_", " ", "-", "中", "e\u0301", FAMILY, "🇩🇪"]


def boundaries(text: str) -> list[int]:
    ends = [0]
    for grapheme in wcwidth.iter_graphemes(text):
        ends.append(ends[-1] + len(grapheme))
    return ends


class Model:
    """The text and the cursor after some keys, in the plainest possible way."""

    def __init__(self) -> None:
        self.text = ""
        self.cursor = 0

    def remove(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def before(self) -> int:
        return max((place for place in boundaries(self.text) if place < self.cursor), default=0)

    def after(self) -> int:
        places = [place for place in boundaries(self.text) if place > self.cursor]
        return min(places, default=len(self.text))

    def line_start(self) -> int:
        return len(self.text[: self.cursor]) - len(self.text[: self.cursor].split("\n")[-1])

    def line_end(self) -> int:
        return self.cursor + len(self.text[self.cursor :].split("\n")[0])

    def press(self, key: Key) -> None:
        name = key.name
        if name in ("text", "ctrl-j"):
            inserted = key.text or "\n"
            self.text = self.text[: self.cursor] + inserted + self.text[self.cursor :]
            self.cursor += len(inserted)
        elif name == "left":
            self.cursor = self.before()
        elif name == "right":
            self.cursor = self.after()
        elif name == "backspace":
            self.remove(self.before(), self.cursor)
        elif name == "delete":
            self.remove(self.cursor, self.after())
        elif name == "home":
            self.cursor = self.line_start()
        elif name == "end":
            self.cursor = self.line_end()
        elif name == "ctrl-u":
            start = self.line_start()
            self.remove(start if start < self.cursor else max(start - 1, 0), self.cursor)
        elif name == "ctrl-k":
            end = self.line_end()
            self.remove(self.cursor, end if end > self.cursor else end + 1)
        elif name == "ctrl-w":
            kept = re.sub(r"\S*\s*$", "", self.text[: self.cursor])
            self.remove(len(kept), self.cursor)
        elif name == "alt-d":
            match = re.match(r"[^\w\u0301]*[\w\u0301]*", self.text[self.cursor :])
            assert match is not None
            self.remove(self.cursor, self.cursor + match.end())


NAMES = ["ctrl-j", "left", "right", "backspace", "delete", "home", "end"]
NAMES += ["ctrl-u", "ctrl-k", "ctrl-w", "alt-d"]
KEYS = st.one_of(
    st.sampled_from(GRAPHEMES).map(lambda text: Key("text", text)),
    st.sampled_from(NAMES).map(Key),
)


@given(st.lists(KEYS, max_size=60))
@settings(max_examples=200)
def test_random_keys_against_a_simple_model(keys: list[Key]) -> None:
    editor = Editor()
    model = Model()
    for key in keys:
        editor.handle(key)
        model.press(key)
        assert (editor.text, editor.cursor) == (model.text, model.cursor), key


@given(
    st.lists(st.one_of(KEYS, st.sampled_from(["ctrl-y", "alt-y", "ctrl-t"]).map(Key)), max_size=40)
)
def test_everything_can_be_undone_and_redone(keys: list[Key]) -> None:
    editor = Editor()
    texts = {""}
    for key in keys:
        editor.handle(key)
        texts.add(editor.text)
    last = editor.text
    for _ in keys:
        editor.handle(Key("ctrl-_"))
        assert editor.text in texts
    assert editor.text == ""
    for _ in keys:
        editor.handle(Key("alt-_"))
    assert editor.text == last


def test_set_text_can_be_undone_and_clear_cannot() -> None:
    editor = typed("'draft'")
    editor.set_text("from history")
    press(editor, "ctrl-_")
    assert shown(editor) == "draft|"
    assert editor.clear() == "draft"
    press(editor, "ctrl-_")
    assert editor.text == ""


def test_completions_replace_a_part() -> None:
    editor = typed("'see @src now' alt-b left")
    editor.replace(4, 8, "@src/main.py")
    assert shown(editor) == "see @src/main.py| now"
    version = editor.version
    press(editor, "left")
    assert editor.version == version
    press(editor, "ctrl-_")
    assert editor.version > version
    assert editor.text == "see @src now"
