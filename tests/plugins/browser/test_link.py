"""Many byte streams over one pair of pipes."""

import anyio
import pytest
import trio
import trio.testing
from hilum_browser.driver.link import WINDOW, Channel, Link, LinkError, splice


def pair(dialled, heard=lambda _: None) -> tuple[Link, Link]:
    """Two ends of a link, as the worker's and hilum's; the second one is dialled."""
    one, other = trio.testing.memory_stream_pair()
    return (
        Link(lambda: one.receive_some(), one.send_all, heard),
        Link(lambda: other.receive_some(), other.send_all, heard, dialled),
    )


async def ignore(channel, words):
    await trio.sleep_forever()


async def drain(channel: Channel) -> bytes:
    data = b""
    while True:
        try:
            data += await channel.receive()
        except anyio.EndOfStream:
            return data


async def test_channels_carry_both_ways_and_end_on_their_own(nursery, autojump_clock):
    """Far more than a window, over several at once.

    The end of one direction is not that of the other.
    """

    async def echo(channel, words):
        data = await drain(channel)
        await channel.send(words + data)
        await channel.send_eof()

    one, other = pair(echo)
    nursery.start_soon(one.run)
    nursery.start_soon(other.run)
    done = []

    async def ask(number: int) -> None:
        channel = one.open_channel(b"%d " % number)
        sent = bytes([number]) * (3 * WINDOW)

        async def feed() -> None:
            await channel.send(sent)
            await channel.send_eof()

        async with trio.open_nursery() as both:
            both.start_soon(feed)
            assert await drain(channel) == b"%d " % number + sent
        done.append(number)

    async with trio.open_nursery() as asking:
        for number in range(5):
            asking.start_soon(ask, number)
    assert sorted(done) == [0, 1, 2, 3, 4]
    nursery.cancel_scope.cancel()


async def test_a_stream_that_nobody_reads_holds_up_only_itself(nursery, autojump_clock):
    """Its sender waits after a window, and messages and other channels go on."""
    unread, heard = [], []

    async def serve(channel, words):
        if words == b"unread":
            unread.append(channel)
            await trio.sleep_forever()
        await channel.send(await channel.receive())

    one, other = pair(serve, heard.append)
    nursery.start_soon(one.run)
    nursery.start_soon(other.run)
    with trio.move_on_after(5) as scope:
        await one.open_channel(b"unread").send(b"x" * (2 * WINDOW))
    assert scope.cancelled_caught
    assert len(unread[0]._buffer) == WINDOW
    channel = one.open_channel(b"")
    await channel.send(b"hello")
    assert await channel.receive() == b"hello"
    one.send_message({"a": b"b"})
    await trio.testing.wait_all_tasks_blocked()
    assert heard == [{"a": b"b"}]
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "frame",
    [
        b"\0\0\0\1O\xff\xff\xff\xff",  # longer than anything
        b"\0\0\0\0M\0\0\0\1\xc1",  # no message
        b"\0\0\0\1O\0\0\0\0" * 2,  # the same channel twice
        b"\0\0\0\1O\0\0\0\0" + (b"\0\0\0\1D\0\1\0\0" + bytes(1 << 16)) * 5,  # more than the window
    ],
)
async def test_what_does_not_keep_to_the_frames_is_dropped(frame, autojump_clock):
    """The other end may be in an attacker's hands."""
    stream, far = trio.testing.memory_stream_pair()
    link = Link(lambda: stream.receive_some(), stream.send_all, lambda _: None, ignore)
    await far.send_all(frame)
    with pytest.raises(LinkError):
        await link.run()


async def test_a_channel_ends_with_its_link(nursery, autojump_clock):
    one, other = pair(ignore)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as both:
            both.start_soon(one.run)
            both.start_soon(other.run)
            channel = one.open_channel(b"")
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    with pytest.raises(anyio.BrokenResourceError):
        await channel.receive()
    with pytest.raises(anyio.BrokenResourceError):
        await channel.send(b"x")


async def test_streams_are_spliced_until_both_end(nursery):
    """What is closed on one side is closed on the other, and nothing is lost."""

    async def dialled(channel, words):
        back = other.open_channel(words)
        await splice(channel, back)

    async def upper(channel, words):
        await channel.send((words + await drain(channel)).upper())
        await channel.send_eof()

    one, middle = pair(dialled)
    other, last = pair(upper)
    for link in (one, middle, other, last):
        nursery.start_soon(link.run)
    channel = one.open_channel(b"abc")
    await channel.send(b"def" * WINDOW)
    await channel.send_eof()
    assert await drain(channel) == b"ABC" + b"DEF" * WINDOW
    nursery.cancel_scope.cancel()
