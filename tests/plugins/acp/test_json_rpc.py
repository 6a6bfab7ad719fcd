"""The JSON-RPC connection, between two ends in memory and with bad input."""

import json
from contextlib import suppress
from functools import partial

import pytest
import trio
import trio.testing
from hilum_acp.json_rpc import (
    FLUSH_SECONDS,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    Connection,
    ConnectionLost,
    RpcError,
    UnreadableResponse,
    encode_line,
)


class Wire:
    """A connection, and the raw other end."""

    def __init__(self, **options):
        ours, self.raw = trio.testing.memory_stream_pair()
        self.connection = Connection(ours, ours, **options)
        self._buffer = b""

    async def send(self, *lines):
        for line in lines:
            data = line if isinstance(line, bytes) else json.dumps(line).encode()
            await self.raw.send_all(data + b"\n")

    async def receive(self):
        with trio.fail_after(10):
            while b"\n" not in self._buffer:
                data = await self.raw.receive_some()
                assert data, "the connection has ended"
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)


def call(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


async def echo(params):
    return params


async def ask_other(connection):
    """Send a request that is never answered."""
    with suppress(ConnectionLost):
        await connection.request("other", {})


async def test_both_sides_send_requests_to_each_other(nursery):
    one, two = trio.testing.memory_stream_pair()
    left = Connection(one, one, requests={"echo": echo})
    right = Connection(two, two, requests={"ask_back": lambda p: right.request("echo", p)})
    await nursery.start(left.run)
    await nursery.start(right.run)
    with trio.fail_after(10):
        assert await left.request("ask_back", {"a": [1, "é\ud800"]}) == {"a": [1, "é?"]}
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("line", "code", "number"),
    [
        (b"garbage", PARSE_ERROR, None),
        (b"\xff\xfe", PARSE_ERROR, None),
        (b"[" * 100_000, PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b"3", INVALID_REQUEST, None),
        (b'{"id": 4, "method": "echo"}', INVALID_REQUEST, 4),
        (b'{"jsonrpc": "2.0", "id": true, "method": "echo"}', INVALID_REQUEST, None),
        (b'{"jsonrpc": "2.0", "id": 4, "method": 7}', INVALID_REQUEST, 4),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "echo", "params": [1]}', INVALID_REQUEST, 4),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "nothing"}', METHOD_NOT_FOUND, "x"),
    ],
)
async def test_bad_messages_get_an_error_and_the_next_one_is_read(nursery, line, code, number):
    wire = Wire(requests={"echo": echo})
    await nursery.start(wire.connection.run)
    await wire.send(line, call(9, "echo", a=1))
    answer = await wire.receive()
    assert (answer["error"]["code"], answer["id"]) == (code, number)
    assert (await wire.receive())["result"] == {"a": 1}
    nursery.cancel_scope.cancel()


async def test_requests_begin_in_the_order_of_the_messages(nursery):
    """Trio alone would begin tasks that were started together in any order."""
    begun = []

    async def begin(params):
        begun.append(params["place"])
        await trio.lowlevel.checkpoint()

    wire = Wire(requests={"begin": begin})
    await nursery.start(wire.connection.run)
    numbers = list(range(50))
    lines = [json.dumps(call(number, "begin", place=number)) for number in numbers]
    await wire.send("\n".join(lines).encode())
    for _ in numbers:
        await wire.receive()
    assert begun == numbers
    nursery.cancel_scope.cancel()


async def test_an_oversized_line_is_refused_without_being_kept(nursery):
    wire = Wire(requests={"echo": echo}, max_message=200_000)
    await nursery.start(wire.connection.run)
    start = b'{"jsonrpc": "2.0", "id": 5, "method": "echo", "params": {"a": "'

    async def flood():
        await wire.raw.send_all(start)
        for _ in range(200):
            await wire.raw.send_all(b"x" * 65536)
        await wire.raw.send_all(b'"}}\n')
        await wire.send(call(6, "echo", a=1))

    nursery.start_soon(flood)
    refused = await wire.receive()
    assert refused["id"] == 5
    assert "200,000 bytes" in refused["error"]["message"]
    assert (await wire.receive())["id"] == 6
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("size", [200, 300_000])
@pytest.mark.parametrize("keys", ["jsonrpc id result", "jsonrpc result id", "result id jsonrpc"])
async def test_an_oversized_response_fails_its_request(nursery, keys, size):
    """Its text is not taken for its id, and no other request fails."""
    wire = Wire(max_message=100)
    await nursery.start(wire.connection.run)
    nursery.start_soon(ask_other, wire.connection)
    other = (await wire.receive())["id"]

    async def respond():
        number = (await wire.receive())["id"]
        text = f'"x", "id": {other}}}' + "x" * size + f'"x", "id": {other}'
        message = {"jsonrpc": "2.0", "id": number, "result": text}
        await wire.send({key: message[key] for key in keys.split()})

    nursery.start_soon(respond)
    with trio.fail_after(10), pytest.raises(RpcError, match="100 bytes"):
        await wire.connection.request("fs/read_text_file", {})
    await wire.send(call(1, "nothing"))
    assert (await wire.receive())["id"] == 1
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"jsonrpc":"2.0","id":%d,"result":{"content":"\\ud800"}}', PARSE_ERROR),
        ('{"result":{"content":"\\ud800"},"id":%d,"jsonrpc":"2.0"}', PARSE_ERROR),
        ('{"jsonrpc":"2.0","id":%d,"result":' + "[" * 5_000 + "]" * 5_000 + "}", PARSE_ERROR),
        ('{"jsonrpc":"2.0","id":%d,"result":{"content":"\udcff"}}', PARSE_ERROR),
        ('{"id":%d,"result":{"content":"x"}}', INVALID_REQUEST),
        ('{"jsonrpc":"2.0","id":%d}', INVALID_REQUEST),
    ],
)
async def test_a_response_that_is_no_message_fails_its_request_at_once(nursery, line, code):
    wire = Wire(max_invalid=0)
    await nursery.start(wire.connection.run)
    nursery.start_soon(ask_other, wire.connection)
    await wire.receive()

    async def respond():
        number = (await wire.receive())["id"]
        await wire.send((line % number).encode(errors="surrogateescape"))

    nursery.start_soon(respond)
    with trio.fail_after(10), pytest.raises(UnreadableResponse) as caught:
        await wire.connection.request("fs/read_text_file", {})
    assert caught.value.code == code
    # The other request still waits, and nothing was sent about the line.
    await wire.send(call(1, "nothing"))
    assert (await wire.receive())["id"] == 1
    nursery.cancel_scope.cancel()


async def test_a_request_that_cannot_be_decoded_is_refused_with_its_id(nursery):
    wire = Wire()
    await nursery.start(wire.connection.run)
    nursery.start_soon(ask_other, wire.connection)
    number = (await wire.receive())["id"]
    # Python's library writes the surrogate as an escape.
    await wire.send(call(number, "echo", text="\ud800"))
    refused = await wire.receive()
    assert (refused["id"], refused["error"]["code"]) == (number, PARSE_ERROR)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("size", [10, 300])
async def test_an_id_that_cannot_be_decoded_is_none(nursery, size):
    wire = Wire(max_message=100)
    await nursery.start(wire.connection.run)
    await wire.send(b'{"id":"\xff","method":"' + b"a" * size + b'"}', call(1, "nothing"))
    assert (await wire.receive())["id"] is None
    assert (await wire.receive())["id"] == 1
    nursery.cancel_scope.cancel()


async def test_an_oversized_response_without_an_id_at_its_ends_fails_all_requests(nursery):
    """Nobody knows which of them it answers, and it would wait forever."""
    wire = Wire(max_message=100)
    await nursery.start(wire.connection.run)

    async def respond():
        number = (await wire.receive())["id"]
        padding = "x" * 2000
        await wire.send({"result": padding, "id": number, "_meta": padding})

    nursery.start_soon(respond)
    with trio.fail_after(10), pytest.raises(RpcError, match="100 bytes"):
        await wire.connection.request("fs/read_text_file", {})
    assert (await wire.receive())["id"] is None
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "keys", ["jsonrpc id method params", "method params id", "params method id", "params id method"]
)
async def test_an_oversized_request_is_refused_with_its_id(nursery, keys):
    """It is not taken for the response to a request with the same id."""
    wire = Wire(max_message=100)
    await nursery.start(wire.connection.run)
    nursery.start_soon(ask_other, wire.connection)
    number = (await wire.receive())["id"]
    message = call(number, "echo", text="x" * 3000)
    await wire.send({key: message[key] for key in keys.split()})
    refused = await wire.receive()
    assert (refused["id"], refused["error"]["code"]) == (number, INVALID_REQUEST)
    nursery.cancel_scope.cancel()


async def test_cancelling_a_request_reaches_its_handler(nursery):
    ended = trio.Event()

    async def wait(params):
        try:
            await trio.sleep_forever()
        finally:
            ended.set()

    wire = Wire(requests={"wait": wait})
    await nursery.start(wire.connection.run)
    cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}}
    await wire.send(call(1, "wait"), cancel)
    assert (await wire.receive())["error"]["code"] == REQUEST_CANCELLED
    nursery.cancel_scope.cancel()


async def test_a_cancelled_caller_tells_the_other_side(nursery):
    wire = Wire()
    await nursery.start(wire.connection.run)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as callers:
            callers.start_soon(wire.connection.request, "session/request_permission", {})
            number = (await wire.receive())["id"]
            scope.cancel()
    cancel = await wire.receive()
    assert cancel["method"] == "$/cancel_request"
    assert cancel["params"] == {"requestId": number}
    # A late response disturbs nothing.
    await wire.send({"jsonrpc": "2.0", "id": number, "result": {}})
    await wire.send(call(1, "nothing"))
    assert (await wire.receive())["id"] == 1
    nursery.cancel_scope.cancel()


async def test_when_the_other_side_leaves_requests_fail_and_handlers_end():
    ended = trio.Event()

    async def ask_back(params):
        try:
            await wire.connection.request("never", {})
        except ConnectionLost:
            ended.set()
            raise

    wire = Wire(requests={"ask_back": ask_back})
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            await nursery.start(wire.connection.run)
            await wire.send(call(1, "ask_back"))
            await wire.receive()
            await wire.raw.aclose()
    assert ended.is_set()
    with pytest.raises(ConnectionLost):
        await wire.connection.request("late", {})


async def test_requests_that_were_read_before_the_end_are_answered():
    wire = Wire(requests={"echo": echo})
    async with trio.open_nursery() as nursery:
        await wire.send(call(1, "echo", a=1))
        await wire.raw.send_stream.aclose()
        nursery.start_soon(partial(wire.connection.run, grace=1))
        assert (await wire.receive())["result"] == {"a": 1}


async def test_requests_that_wait_when_the_other_side_stops_writing_are_answered(autojump_clock):
    """In the time of grace; requests in the other direction fail, because nothing answers them."""
    failed = []

    async def look(params):
        await trio.sleep(params["seconds"])
        try:
            await wire.connection.request("ask", {})
        except ConnectionLost as error:
            failed.append(error)
        await wire.connection.notify("found", params)
        return params

    wire = Wire(requests={"look": look})
    async with trio.open_nursery() as nursery:
        for number, seconds in enumerate((0.2, 0.5, 2.0)):
            await wire.send(call(number, "look", seconds=seconds))
        await wire.raw.send_stream.aclose()
        nursery.start_soon(partial(wire.connection.run, grace=1))
        for number, seconds in enumerate((0.2, 0.5)):
            assert (await wire.receive())["params"] == {"seconds": seconds}
            answer = await wire.receive()
            assert (answer["id"], answer["result"]) == (number, {"seconds": seconds})
    assert len(failed) == 2
    assert trio.current_time() == pytest.approx(1, abs=0.01)


async def cancel_after_sending(connection, *tasks):
    """Run a connection, send five notifications, start tasks and cancel the connection."""
    async with trio.open_nursery() as outer:
        async with trio.open_nursery() as inner:
            await inner.start(connection.run)
            for number in range(5):
                await connection.notify("note", {"n": number})
            for task in tasks:
                outer.start_soon(task)
            inner.cancel_scope.cancel()
        outer.cancel_scope.cancel()


async def test_what_was_sent_before_a_cancellation_is_written():
    ours, theirs = trio.testing.lockstep_stream_pair()
    received = bytearray()

    async def read():
        while data := await theirs.receive_some():
            received.extend(data)

    await cancel_after_sending(Connection(ours, ours), read)
    assert [json.loads(line)["params"]["n"] for line in received.splitlines()] == [0, 1, 2, 3, 4]


async def test_another_side_that_does_not_read_cannot_hold_up_a_cancellation(autojump_clock):
    ours, _theirs = trio.testing.lockstep_stream_pair()
    await cancel_after_sending(Connection(ours, ours))
    assert trio.current_time() == FLUSH_SECONDS


async def test_notifications_are_handled_in_order_before_later_responses(nursery):
    seen = []

    async def note(params):
        await trio.lowlevel.checkpoint()
        seen.append(params["n"])

    wire = Wire(notifications={"note": note})
    await nursery.start(wire.connection.run)

    async def respond():
        number = (await wire.receive())["id"]
        for n in range(5):
            await wire.send({"jsonrpc": "2.0", "method": "note", "params": {"n": n}})
        await wire.send({"jsonrpc": "2.0", "id": number, "result": 1})

    nursery.start_soon(respond)
    await wire.connection.request("go", {})
    assert seen == [0, 1, 2, 3, 4]
    nursery.cancel_scope.cancel()


async def test_failing_handlers_answer_with_an_error(nursery, caplog):
    async def fail(params):
        raise ValueError("broken")

    def fail_at_once(params):
        raise RpcError(-32002, "There is no such session.", {"a": 1})

    async def broken_note(params):
        raise ValueError

    wire = Wire(
        requests={"fail": fail, "fail_at_once": fail_at_once}, notifications={"n": broken_note}
    )
    await nursery.start(wire.connection.run)
    await wire.send(call(1, "fail"))
    assert (await wire.receive())["error"]["code"] == INTERNAL_ERROR
    await wire.send({"jsonrpc": "2.0", "method": "n"}, call(2, "fail_at_once"))
    error = (await wire.receive())["error"]
    assert error == {"code": -32002, "message": "There is no such session.", "data": {"a": 1}}
    nursery.cancel_scope.cancel()


async def test_senders_wait_while_the_other_side_does_not_read(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    connection = Connection(ours, ours)
    sent = 0
    async with trio.open_nursery() as nursery:
        await nursery.start(connection.run)

        async def send_many():
            nonlocal sent
            for _ in range(1000):
                await connection.notify("session/update", {"text": "x"})
                sent += 1

        nursery.start_soon(send_many)
        await trio.sleep(10)
        assert sent < 100
        received = b""
        while received.count(b"\n") < 1000:
            received += await theirs.receive_some()
        assert (
            received
            == encode_line({"jsonrpc": "2.0", "method": "session/update", "params": {"text": "x"}})
            * 1000
        )
        nursery.cancel_scope.cancel()


# --- floods ---------------------------------------------------------------------------------------


async def test_only_the_first_response_to_a_request_counts(nursery):
    wire = Wire()
    await nursery.start(wire.connection.run)
    results = []

    async def ask():
        results.append(await wire.connection.request("ask", {}))

    nursery.start_soon(ask)
    request = await wire.receive()
    answers = [{"jsonrpc": "2.0", "id": request["id"], "result": each} for each in ("no", "yes")]
    # In one write, so that the request cannot go on between the two.
    await wire.send(b"\n".join(map(encode_line, answers)))
    with trio.fail_after(10):
        while not results:
            await trio.lowlevel.checkpoint()
    assert results == ["no"]


@pytest.mark.parametrize("late", ["result", "error"])
async def test_an_error_is_not_replaced_by_a_later_response(nursery, late):
    wire = Wire()
    await nursery.start(wire.connection.run)
    errors = []

    async def ask():
        try:
            await wire.connection.request("ask", {})
        except RpcError as error:
            errors.append(error.message)

    nursery.start_soon(ask)
    request = await wire.receive()
    first = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": 1, "message": "first"}}
    second = {"jsonrpc": "2.0", "id": request["id"], late: {"code": 1, "message": "second"}}
    await wire.send(b"\n".join(map(encode_line, (first, second))))
    with trio.fail_after(10):
        while not errors:
            await trio.lowlevel.checkpoint()
    assert errors == ["first"]


async def test_a_message_with_many_values_is_refused_before_it_is_built(nursery):
    wire = Wire(requests={"echo": echo})
    await nursery.start(wire.connection.run)
    many = b'{"":0},' * 3_000_000 + b"0"
    await wire.send(
        b'{"jsonrpc":"2.0","id":7,"method":"echo","params":{"x":[' + many + b"]}}",
        call(8, "echo", text="{[,]}" * 500_000),
    )
    refused = await wire.receive()
    assert (refused["id"], refused["error"]["code"]) == (7, INVALID_REQUEST)
    assert "250,000 values" in refused["error"]["message"]
    assert (await wire.receive())["result"]["text"] == "{[,]}" * 500_000


async def test_lines_that_are_no_messages_end_a_connection_that_limits_them(nursery):
    wire = Wire(requests={"echo": echo}, max_invalid=100)
    await nursery.start(wire.connection.run)
    # Nobody reads the responses.
    await wire.send(*[b"Warning: old version"] * 100, call(1, "echo"))
    assert not wire.connection.closed.is_set()
    await wire.send(b"Warning: old version")
    with trio.fail_after(10):
        await wire.connection.closed.wait()
    assert wire.connection.has_flooded


async def test_what_a_cancelled_request_creates_late_is_passed_on():
    """Once, and only if it was created."""
    wire = Wire()
    late = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.connection.run)
        for number in (1, 2):
            with trio.move_on_after(0.01) as scope:
                await wire.connection.request("create", {}, on_late=late.append)
            assert scope.cancelled_caught
            assert (await wire.receive())["id"] == number
            assert (await wire.receive())["params"] == {"requestId": number}
        error = {"code": INTERNAL_ERROR, "message": "No."}
        await wire.send(
            {"jsonrpc": "2.0", "id": 1, "result": {"made": 1}},
            {"jsonrpc": "2.0", "id": 1, "result": {"made": 2}},
            {"jsonrpc": "2.0", "id": 2, "error": error},
            call(7, "unknown"),
        )
        assert (await wire.receive())["id"] == 7
        assert late == [{"made": 1}]
        assert not wire.connection._pending
        nursery.cancel_scope.cancel()


async def test_a_posted_request_waits_for_nothing():
    wire = Wire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.connection.run)
        wire.connection.post("release", {"a": 1})
        assert await wire.receive() == call(1, "release", a=1)
        await wire.send({"jsonrpc": "2.0", "id": 1, "result": {}}, call(7, "unknown"))
        assert (await wire.receive())["id"] == 7
        nursery.cancel_scope.cancel()
