"""Output of commands that is shown in an editor's terminal: what stays of it, and how much waits."""

import itertools
import random
import time

import pytest
import trio
import trio.testing
from hilum.messages import ToolResult
from hilum_acp.editor_terminals import FILTER_SHARE, _ShownCommand
from hilum_acp.terminal_output import (
    MAX_STRING,
    MAX_TAKEN,
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


def test_text_that_needs_no_filter_is_as_it_was():
    text = "".join(f"\x1b[3{number % 8}mline {number} ü\x1b[0m\n" for number in range(30_000))
    filtered = TerminalFilter()
    pieces = [text[at : at + 4096] for at in range(0, len(text), 4096)]
    assert "".join(map(filtered.filter, pieces)) == text


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(
    "piece", ["\x90", "\x1b]", "\x1b[1", "\x1b[", "\x9b;", "\x1b \x1b", "\x1b[1;"]
)
def test_filtering_takes_linear_time(piece):
    def measure(count):
        text = piece * count
        began = time.thread_time()
        TerminalFilter().filter(text)
        return time.thread_time() - began

    short = min(measure(20_000) for _ in range(5))
    long = min(measure(200_000) for _ in range(5))
    # Quadratic work would take 100 times as long.
    assert long < 40 * short + 0.01


def test_output_waits_in_order():
    queue = OutputQueue()
    queue.add("one\n")
    queue.add("")
    queue.add("two")
    queue.add_notice("It was \x1b[31mstopped.")
    assert queue.take() == b"one\ntwo"
    assert queue.take() == f"{RESET}\n[It was \\x1b[31mstopped.]\n".encode()
    assert queue.is_empty
    queue.add_notice("Again.")
    assert queue.take() == f"{RESET}[Again.]\n".encode()


def test_a_notice_is_no_part_of_an_unfinished_sequence():
    queue = OutputQueue()
    queue.add("a\x1b]0;title")
    queue.add_notice("The command was stopped.")
    assert queue.take() == b"a"
    assert queue.take() == f"{RESET}\n[The command was stopped.]\n".encode()


def test_harmful_output_alone_shows_nothing():
    queue = OutputQueue()
    queue.add("\x1b[2J")
    assert queue.take() == b""
    assert queue.is_empty


def take_all(queue):
    found = b""
    while not queue.is_empty:
        found += queue.take()
    return found


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
    rest = take_all(queue)
    assert rest.endswith(b"29")
    assert b"left out" not in rest
    # One piece that is larger than everything that may wait is kept.
    queue.add("x" * (MAX_WAITING + 1))
    assert len(queue.take()) == MAX_WAITING + 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_output_continues_with_a_whole_line(end):
    line = "0123456789" + end
    text = line * 200_000
    queue = OutputQueue()
    for at in range(0, len(text), 1009):
        queue.add(text[at : at + 1009])
    notice, _, shown = take_all(queue).decode().partition("left out.]\n")
    assert shown == line * (len(shown) // len(line))
    assert f"[{len(text) - len(shown):,} bytes" in notice
    assert queue.left_out == len(text) - len(shown)


def test_output_that_is_left_out_at_the_end_of_a_line_loses_no_other_line():
    queue = OutputQueue()
    for number in range(20):
        queue.add(f"{number:02d}\n" + "x" * 99_996 + "\n")
    assert b"left out.]\n10\nx" in queue.take()


def test_output_that_is_left_out_is_not_filtered(monkeypatch):
    filtered = []

    def note(self, text):
        filtered.append(text)
        return text

    monkeypatch.setattr(TerminalFilter, "filter", note)
    queue = OutputQueue()
    for _ in range(500):
        queue.add("\x1b[6n" * 10_000)
    assert filtered == []
    take_all(queue)
    assert sum(map(len, filtered)) <= MAX_WAITING


def test_a_sequence_whose_middle_is_left_out_does_not_hide_what_follows():
    queue = OutputQueue()
    queue.add("\x1b]0;title")
    assert queue.take() == b""
    for _ in range(30):
        queue.add("y" * 99_999 + "\n")
    assert queue.take().decode().partition("left out.]\n")[2].startswith("yyy")


async def test_filtering_leaves_most_of_the_time_to_others(monkeypatch, autojump_clock):
    spent = itertools.count()
    monkeypatch.setattr(time, "thread_time", lambda: next(spent) * 0.1)
    ours, theirs = trio.testing.memory_stream_pair()
    command = _ShownCommand("main", "call-1")
    for _ in range(4):
        command.print("x" * MAX_TAKEN)
    command.end(ToolResult("call-1", "run_terminal_cmd", (), data={"exit_code": 0}))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(command.serve, ours)
        async for _ in theirs:
            if command.output.is_empty:
                break
        await command_sent(theirs)
    # Each of the four pieces takes a tenth of a second to filter.
    assert trio.current_time() - began >= 4 * 0.1 * (1 / FILTER_SHARE - 1) - 1e-6


async def command_sent(stream):
    """Read until the exit code, and leave."""
    await stream.receive_some()
    await stream.aclose()
