"""Output of commands that is shown in an editor's terminal: what stays of it, and how much waits."""

import random

import pytest
from hilum_acp.terminal_output import (
    MAX_STRING,
    MAX_WAITING,
    RESET,
    OutputQueue,
    TerminalFilter,
)

CASES = [
    ("plain text\twith tabs\n", "plain text\twith tabs\n"),
    (
        "\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mtrue\x1b[m",
        "\x1b[1;31mred\x1b[0m \x1b[38:2::1:2:3mtrue\x1b[m",
    ),
    ("10 %\r20 %\x1b[K\b!", "10 %\r20 %\x1b[K\b!"),
    # The screen, the cursor, modes, and questions that the terminal answers by typing.
    ("a\x1b[2J\x1b[H\x1b[3A\x1b[?1049h\x1b[6n\x1b[>c\x1b[18tb", "ab"),
    ("a\x9b2Jb", "ab"),
    # The title, the clipboard, links, and strings of other kinds.
    ("a\x1b]0;title\x07b\x1b]52;c;aGk=\x1b\\c\x1b]8;;https://x\x1b\\d", "abcd"),
    ("a\x1bPq#0\x1b\\b\x1b_x\x1b\\c\x1b^x\x1b\\d\x1bXx\x1b\\e", "abcde"),
    ("a\x9d0;title\x9cb\x901\x07c", "abc"),
    ("a\x1bcb\x1b(0c\x1b7d\x1b#8e", "abcde"),
    ("a\x00\x05\x07\x0b\x0c\x0e\x7f\x85b", "ab"),
    # What disguises text is escaped.
    ("ü\u202e\u200bx\r\n", "ü\\u202e\\u200bx\r\n"),
    ("unfinished\x1b[31", "unfinished"),
]


@pytest.mark.parametrize(("given", "shown"), CASES)
def test_only_harmless_sequences_stay(given, shown):
    assert TerminalFilter().filter(given) == shown


@pytest.mark.parametrize(("given", "shown"), CASES)
def test_it_does_not_matter_where_the_output_is_split(given, shown):
    text = f"{given}\x1b[0m"
    expected = TerminalFilter().filter(text)
    for seed in range(20):
        rest = text
        chosen = random.Random(seed)
        filtered = TerminalFilter()
        found = ""
        while rest:
            size = chosen.randint(1, 3)
            found += filtered.filter(rest[:size])
            rest = rest[size:]
        assert found == expected


def test_nothing_but_colors_and_moves_in_a_line_passes():
    chosen = random.Random(5)
    alphabet = "\x1b\x1b\x1b[[]P\\(;?0123mKJHn\x07\x9b\x9c\x9d\x18\r\n\bab "
    filtered = TerminalFilter()
    for _ in range(5_000):
        shown = filtered.filter("".join(chosen.choices(alphabet, k=chosen.randint(1, 12))))
        rest = shown
        for kept in ("m", "K"):
            parts = rest.split("\x1b[")
            rest = parts[0]
            for part in parts[1:]:
                parameters = part.lstrip("0123456789;:")
                rest += parameters[1:] if parameters.startswith(kept) else f"\x1b[{part}"
        assert not set(rest) & {"\x1b", "\x07", "\x9b", "\x9c", "\x9d", "\x18"}, repr(shown)


def test_a_string_that_never_ends_does_not_hide_the_rest():
    filtered = TerminalFilter()
    shown = filtered.filter("a\x1b]0;" + "x" * (MAX_STRING - 2) + "rest\n")
    assert shown == "arest\n"
    shown = "".join(filtered.filter(piece) for piece in ["\x1b]0;", *["y" * 1000] * 5, "end\n"])
    assert shown.endswith("yend\n")
    assert len(shown) < 1100


def test_output_waits_in_order():
    queue = OutputQueue()
    queue.add("one\n")
    queue.add("")
    queue.add("two")
    queue.add_notice("It was \x1b[31mstopped.")
    assert [queue.take() for _ in range(3)] == [
        b"one\n",
        b"two",
        f"{RESET}\n[It was \\x1b[31mstopped.]\n".encode(),
    ]
    assert queue.is_empty
    queue.add_notice("Again.")
    assert queue.take() == f"{RESET}[Again.]\n".encode()


def test_the_oldest_output_is_left_out_and_the_terminal_says_so():
    queue = OutputQueue()
    queue.add("first")
    assert queue.take() == b"first"
    for number in range(30):
        queue.add(f"{number:02d}" * 50_000)
    assert queue.left_out == 20 * 100_000
    assert MAX_WAITING == 1_000_000
    taken = queue.take()
    assert taken.startswith(f"{RESET}\n[2,000,000 bytes of output were left out.]\n20".encode())
    rest = b""
    while not queue.is_empty:
        rest += queue.take()
    assert rest.endswith(b"29")
    assert b"left out" not in rest
    # One piece that is larger than everything that may wait is kept.
    queue.add("x" * (MAX_WAITING + 1))
    assert len(queue.take()) == MAX_WAITING + 1
