"""What plugins print, from any thread."""

import trio
import trio.testing
from hilum_terminal.printed_lines import PrintedLines


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
