"""The files of an editor: what hilum knows of a write that is stopped or not confirmed."""

import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from hilum import ToolError
from hilum.errors import E_FAILED, E_TIMEOUT
from hilum_acp.client import Client
from hilum_acp.editor_files import PATIENCE_SECONDS, READ_SECONDS, WRITE_SECONDS, OpenEditor
from hilum_acp.editor_session import STOP_SECONDS
from hilum_acp.json_rpc import Connection

FILE = Path("/w/a.txt")


class RawEditor:
    """The other end of a connection, and the files that hilum sees through it."""

    def __init__(self):
        ours, self._raw = trio.testing.memory_stream_pair()
        self.connection = Connection(ours, ours)
        self.files = OpenEditor(Client(self.connection), "s")
        self._buffer = b""

    async def receive(self):
        while b"\n" not in self._buffer:
            self._buffer += await self._raw.receive_some()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    async def confirm(self, request, **result):
        response = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        await self._raw.send_all(json.dumps(response).encode() + b"\n")


@asynccontextmanager
async def open_raw_editor():
    editor = RawEditor()
    async with trio.open_nursery() as nursery:
        await nursery.start(editor.connection.run)
        yield editor, nursery
        nursery.cancel_scope.cancel()


async def write_until_stopped(editor, scope, outcomes):
    with scope:
        outcomes.append(await editor.files.write_in_editor(FILE, "text"))
        # The cancellation is not lost.
        await trio.sleep_forever()


async def test_a_stopped_write_that_the_editor_confirms_is_known(autojump_clock):
    async with open_raw_editor() as (editor, nursery):
        scope = trio.CancelScope()
        outcomes = []
        nursery.start_soon(write_until_stopped, editor, scope, outcomes)
        request = await editor.receive()
        scope.cancel()
        await trio.sleep(PATIENCE_SECONDS - 0.1)
        assert outcomes == []
        await editor.confirm(request)
        await trio.testing.wait_all_tasks_blocked()
        assert outcomes == [True]
        assert scope.cancelled_caught


async def test_a_stopped_write_does_not_hold_up_the_end_of_the_session(autojump_clock):
    assert PATIENCE_SECONDS < STOP_SECONDS
    async with open_raw_editor() as (editor, nursery):
        scope = trio.CancelScope()
        outcomes = []
        nursery.start_soon(write_until_stopped, editor, scope, outcomes)
        request = await editor.receive()
        scope.cancel()
        cancelled = await editor.receive()
        assert trio.current_time() == pytest.approx(PATIENCE_SECONDS)
        assert cancelled["method"] == "$/cancel_request"
        assert cancelled["params"] == {"requestId": request["id"]}
        await trio.testing.wait_all_tasks_blocked()
        assert scope.cancelled_caught
        assert outcomes == []


async def test_a_write_that_is_not_confirmed_may_have_happened(autojump_clock):
    async with open_raw_editor() as (editor, _):
        with pytest.raises(ToolError, match="may have changed the file") as raised:
            await editor.files.write_in_editor(FILE, "text")
        assert raised.value.code == E_TIMEOUT
        assert trio.current_time() == pytest.approx(WRITE_SECONDS)
        with pytest.raises(ToolError, match="did not return the text") as raised:
            await editor.files.read_in_editor(FILE)
        assert raised.value.code == E_TIMEOUT
        assert trio.current_time() == pytest.approx(WRITE_SECONDS + READ_SECONDS)


async def test_a_response_that_cannot_be_read_ends_a_call_at_once(autojump_clock):
    """The file on the disk does not stand in for a text that the editor shows."""

    async def respond(editor):
        for _ in range(2):
            await editor.confirm(await editor.receive(), content="\ud800")

    async with open_raw_editor() as (editor, nursery):
        nursery.start_soon(respond, editor)
        with pytest.raises(ToolError, match="cannot be read") as raised:
            await editor.files.read_in_editor(FILE)
        assert (raised.value.code, trio.current_time()) == (E_FAILED, 0)
        assert "close it in the editor" in raised.value.hint
        with pytest.raises(ToolError, match="cannot be read") as raised:
            await editor.files.write_in_editor(FILE, "text")
        assert (raised.value.code, trio.current_time()) == (E_FAILED, 0)
        assert "Read the file" in raised.value.hint
