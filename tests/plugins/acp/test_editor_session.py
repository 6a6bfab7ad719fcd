"""A session of an editor, when a part of it cannot be shown."""

import json

import pytest
import trio
import trio.testing
from hilum.testing import open_bench, use
from hilum_acp import approvals, updates
from hilum_acp.client import Client
from hilum_acp.editor_session import EditorSession
from hilum_acp.json_rpc import Connection


def fail(*arguments):
    raise RuntimeError("It cannot be shown.")


async def allow_everything(stream):
    """Allow every call that the other side asks about."""
    buffer = b""
    while data := await stream.receive_some():
        *lines, buffer = (buffer + data).split(b"\n")
        for message in map(json.loads, lines):
            if message["method"] == "session/request_permission":
                outcome = {"outcome": "selected", "optionId": "allow_once"}
                result = {"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}}
                await stream.send_all(json.dumps(result).encode() + b"\n")


@pytest.mark.parametrize(("module", "may_run"), [(updates, True), (approvals, False)])
async def test_what_cannot_be_shown_ends_neither_the_session_nor_its_run(
    tmp_path, monkeypatch, caplog, module, may_run
):
    """A call whose question cannot be shown does not run."""
    monkeypatch.setattr(module, "find_kind", fail)
    ours, theirs = trio.testing.memory_stream_pair()
    connection = Connection(ours, ours)
    async with open_bench("files", workspace=tmp_path, approve="ask_first") as bench:
        bench.model.next(use("write_file", path="a.txt", content="x"), "Done.")
        async with trio.open_nursery() as nursery:
            await nursery.start(connection.run)
            nursery.start_soon(allow_everything, theirs)
            opened = EditorSession(Client(connection), bench.session, shows_history=True)
            await nursery.start(opened.run)
            with trio.fail_after(20):
                response = await opened.prompt([{"type": "text", "text": "Go"}])
            nursery.cancel_scope.cancel()
    assert response == {"stopReason": "end_turn"}
    assert (tmp_path / "a.txt").exists() == may_run
    assert "could not be shown" in caplog.text
    if not may_run:
        assert "could not be shown in the editor" in bench.results[0].text
