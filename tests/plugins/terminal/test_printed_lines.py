"""What plugins print, from any thread."""

import sys

import trio
import trio.testing
from hilum_terminal.printed_lines import MAX_LINE, PrintedLines


async def test_lines_of_other_threads_are_passed_on_in_trio() -> None:
    send, receive = trio.open_memory_channel[str](10)
    lines = PrintedLines(send.send_nowait)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            found: list[str] = []

            async def read() -> None:
                while len(found) < 3:
                    found.append(await receive.receive())

            # The reader waits: a call from another thread would break the channel.
            nursery.start_soon(read)
            await trio.testing.wait_all_tasks_blocked()
            await trio.to_thread.run_sync(lambda: print("one\n\ntwo\nthr", end="", file=lines))
            print("ee", file=lines)
    assert found == ["one", "two", "three"]


async def test_no_text_is_lost_if_two_threads_write_at_once() -> None:
    """Without a lock, one thread would overwrite what the other one has kept of its line."""
    found: list[str] = []
    lines = PrintedLines(found.append)

    def write(mark: str) -> None:
        for _ in range(2_000):
            lines.write(mark)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        async with trio.open_nursery() as nursery:
            for mark in "ab":
                nursery.start_soon(trio.to_thread.run_sync, write, mark)
    finally:
        sys.setswitchinterval(interval)
    lines.finish()
    text = "".join(found)
    assert (text.count("a"), text.count("b")) == (2_000, 2_000)


async def test_a_line_without_an_end_does_not_grow_without_limit() -> None:
    found: list[str] = []
    lines = PrintedLines(found.append)
    for _ in range(30):
        lines.write("x" * 1_000)
    await trio.testing.wait_all_tasks_blocked()
    assert found == ["x" * MAX_LINE] * 2
    lines.finish()
    assert len("".join(found)) == 30_000
