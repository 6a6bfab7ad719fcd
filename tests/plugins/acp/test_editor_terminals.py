"""Terminals of an editor that answers late, wrongly or not at all, with viewers of the test."""

import json
import os
import socket
import struct
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from acp_editor import Editor
from hilum.events import CallDone
from hilum.testing import open_bench, use
from hilum_acp import editor_terminals, viewer_sockets
from hilum_acp.client import Client
from hilum_acp.editor_session import EditorSession
from hilum_acp.json_rpc import Connection
from hilum_acp.messages import ClientAbilities

SHORTLY = 0.05
WAITS = "echo {0}; while [ ! -e {0}-seen ]; do sleep 0.02; done; echo {0}-ended"


class Viewer:
    """A viewer that connects like the real one."""

    def __init__(self, stream):
        self.stream = stream
        self.output = b""
        self.exit_code = None

    @classmethod
    async def connect(cls, params, token=None):
        values = {each["name"]: each["value"] for each in params["env"]}
        stream = trio.socket.socket(socket.AF_UNIX)
        folder, name = os.path.split(values["HILUM_TERMINAL_SOCKET"])
        opened = os.open(folder, os.O_RDONLY)
        try:
            await stream.connect(f"/proc/self/fd/{opened}/{name}")
        finally:
            os.close(opened)
        viewer = cls(trio.SocketStream(stream))
        sent = values["HILUM_TERMINAL_TOKEN"] if token is None else token
        await viewer.stream.send_all(sent.encode())
        return viewer

    async def read(self):
        """Read until the end of the connection, or of the command."""
        received = b""
        while self.exit_code is None and (data := await self.stream.receive_some(65536)):
            received += data
            while len(received) >= 5:
                kind, size = struct.unpack("!cI", received[:5])
                if len(received) < 5 + size:
                    break
                content, received = received[5 : 5 + size], received[5 + size :]
                if kind == b"o":
                    self.output += content
                else:
                    self.exit_code = content[0]
        await self.stream.aclose()


class Opened:
    """A session in an editor, in this process."""

    def __init__(self, bench, session, editor, nursery):
        self.bench = bench
        self.session = session
        self.editor = editor
        self.nursery = nursery

    async def prompt(self, *commands):
        """Let the agent run commands, one after another; return a function that waits for the end."""
        answers = [use("run_terminal_cmd", command=command) for command in commands]
        self.bench.model.next(*answers, "Done.")
        ended = trio.Event()

        async def run():
            await self.session.prompt([{"type": "text", "text": "Go"}])
            ended.set()

        self.nursery.start_soon(run)

        async def wait():
            with trio.fail_after(20):
                await ended.wait()

        return wait

    def see(self, name):
        """Let a command of ``WAITS`` end."""
        (self.bench.workspace / f"{name}-seen").touch()

    def count(self, method):
        return [each for each, _ in self.editor.requests].count(method)

    async def wait_for_request(self, method, number=1):
        """Return the parameters of the request with a number, once hilum has sent it."""
        await self.editor.wait_for(lambda: self.count(method) >= number)
        return [params for each, params in self.editor.requests if each == method][number - 1]

    async def answer_create(self, result):
        """Answer the first request for a terminal."""
        [first, *_] = [each for each in self.editor.raw if each.get("method") == "terminal/create"]
        await self.editor._send({"id": first["id"], "result": result})

    def contents(self):
        """The content of all updates of calls, in order."""
        found = []
        for update in self.editor.updates:
            if update["sessionUpdate"].startswith("tool_call") and update.get("content"):
                found.append(update["content"])
        return found

    def has_terminal(self):
        return '"terminalId"' in json.dumps(self.contents())

    @property
    def sockets(self):
        return list(self.bench.folder.rglob("viewers-*"))


@pytest.fixture
def open_editor(tmp_path, monkeypatch):
    """Return a function that opens a session in an editor."""
    monkeypatch.setattr(editor_terminals, "CONFIRM_SECONDS", SHORTLY)

    @asynccontextmanager
    async def make(**settings):
        ours, theirs = trio.testing.memory_stream_pair()
        connection = Connection(ours, ours)
        client = Client(connection, ClientAbilities(terminal=True))
        editor = Editor(None, theirs, theirs)
        options = {"workspace": tmp_path, "approve": "auto", "settings": settings}
        async with open_bench("shell", **options) as bench, trio.open_nursery() as nursery:
            await nursery.start(connection.run)
            nursery.start_soon(editor.read)
            async with trio.open_nursery() as inner:
                session = EditorSession(client, bench.session, shows_history=True)
                await inner.start(session.run)
                opened = Opened(bench, session, editor, nursery)
                yield opened
                inner.cancel_scope.cancel()
            assert not opened.sockets
            # What was sent last is still received.
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

    return make


async def test_an_editor_that_does_not_answer_is_not_asked_again(open_editor, monkeypatch):
    monkeypatch.setattr(editor_terminals, "CREATE_SECONDS", SHORTLY)
    async with open_editor() as opened:
        opened.editor.create = lambda params: None
        wait = await opened.prompt(WAITS.format("a"), "echo b; sleep 0.6")
        await opened.wait_for_request("terminal/create")
        await opened.editor.wait_for(lambda: opened.editor.cancelled)
        await opened.editor.wait_for(lambda: "```text\\na\\n```" in json.dumps(opened.contents()))
        opened.see("a")
        await wait()
        assert opened.count("terminal/create") == 1
        assert not opened.has_terminal()
        # The late answer created a terminal that nobody needs.
        await opened.answer_create({"terminalId": "late"})
        released = await opened.wait_for_request("terminal/release")
        assert released == {"sessionId": opened.bench.session.id, "terminalId": "late"}


async def test_a_quick_command_gets_no_terminal(open_editor, monkeypatch):
    monkeypatch.setattr(editor_terminals, "START_SECONDS", 60)
    async with open_editor() as opened:
        wait = await opened.prompt("echo a")
        await wait()
        assert "Exit code 0" in json.dumps(opened.contents())
        assert not opened.count("terminal/create")


async def test_a_command_that_ends_before_its_terminal_is_there(open_editor):
    """Its output is shown as text, the terminal is released, and the next one is still used."""
    async with open_editor() as opened:
        opened.editor.create = lambda params: None
        wait = await opened.prompt(WAITS.format("a"), WAITS.format("b"))
        await opened.wait_for_request("terminal/create")
        opened.see("a")
        await opened.bench.wait_for(CallDone)
        await opened.answer_create({"terminalId": "first"})
        assert (await opened.wait_for_request("terminal/release"))["terminalId"] == "first"
        await opened.wait_for_request("terminal/create", 2)
        opened.see("b")
        await wait()
        assert not opened.has_terminal()


async def test_a_late_answer_after_the_session_has_closed_is_released(tmp_path, monkeypatch):
    ours, theirs = trio.testing.memory_stream_pair()
    connection = Connection(ours, ours)
    client = Client(connection, ClientAbilities(terminal=True))
    editor = Editor(None, theirs, theirs)
    editor.create = lambda params: None
    async with open_bench("shell", workspace=tmp_path, approve="auto") as bench:
        async with trio.open_nursery() as nursery:
            await nursery.start(connection.run)
            nursery.start_soon(editor.read)
            async with trio.open_nursery() as inner:
                session = EditorSession(client, bench.session, shows_history=True)
                await inner.start(session.run)
                opened = Opened(bench, session, editor, inner)
                await opened.prompt(WAITS.format("a"))
                await opened.wait_for_request("terminal/create")
                inner.cancel_scope.cancel()
            await editor.wait_for(lambda: editor.cancelled)
            await opened.answer_create({"terminalId": "late"})
            released = await opened.wait_for_request("terminal/release")
            assert released["terminalId"] == "late"
            nursery.cancel_scope.cancel()
        bench.session.stop()


async def test_a_viewer_that_does_not_connect(open_editor, monkeypatch):
    monkeypatch.setattr(editor_terminals, "CONNECT_SECONDS", SHORTLY)
    async with open_editor() as opened:
        opened.editor.create = lambda params: {"terminalId": "t1"}
        wait = await opened.prompt(WAITS.format("a"), "echo b; sleep 0.6")
        # The editor may say that there is no such terminal.
        assert (await opened.wait_for_request("terminal/release"))["terminalId"] == "t1"
        opened.see("a")
        await wait()
        assert opened.count("terminal/create") == 1
        assert not opened.has_terminal()


async def test_a_viewer_gets_all_output_and_the_exit_code(open_editor):
    """Also the output from before it connected."""
    async with open_editor() as opened:
        opened.editor.create = lambda params: {"terminalId": "t1"}
        wait = await opened.prompt(f"{WAITS.format('a')}; kill -9 $$")
        params = await opened.wait_for_request("terminal/create")
        await opened.editor.wait_for(lambda: "```text\\na\\n" in json.dumps(opened.contents()))
        viewer = await Viewer.connect(params)
        async with viewer.stream:
            opened.nursery.start_soon(viewer.read)
            await opened.editor.wait_for(opened.has_terminal)
            opened.see("a")
            await wait()
            await opened.wait_for_request("terminal/release")
        assert viewer.output == b"a\na-ended\n"
        assert viewer.exit_code == 128 + 9
        # The terminal was in the call before it was released.
        assert opened.contents()[-1] == [{"type": "terminal", "terminalId": "t1"}]


async def test_an_editor_that_cannot_wait_for_an_exit(open_editor):
    """The end of the connection to the viewer suffices to stop the call."""
    async with open_editor() as opened:
        opened.editor.create = lambda params: {"terminalId": "unknown to the editor"}
        wait = await opened.prompt(f"echo $$ > pid; {WAITS.format('a')}")
        params = await opened.wait_for_request("terminal/create")
        await opened.editor.wait_for(lambda: "```text\\na" in json.dumps(opened.contents()))
        viewer = await Viewer.connect(params)
        await opened.editor.wait_for(opened.has_terminal)
        await viewer.stream.aclose()
        await wait()
        with pytest.raises(ProcessLookupError):
            os.kill(int((opened.bench.workspace / "pid").read_text()), 0)
        [result] = opened.bench.results
        assert result.code == "E_STOPPED"
        assert "stopped by the user" in result.text
        await opened.editor.wait_for(lambda: opened.editor.text() == "Done.")
        await opened.wait_for_request("terminal/release")


async def test_a_viewer_that_ends_just_before_its_command_stops_no_later_call(
    open_editor, monkeypatch
):
    """The ids of calls may repeat."""
    monkeypatch.setattr(editor_terminals, "LEAVE_SECONDS", 1.0)
    stopped = []
    async with open_editor() as opened:
        session = opened.bench.session
        monkeypatch.setattr(session, "stop_call", lambda *args, **options: stopped.append(args))
        opened.editor.create = lambda params: {"terminalId": "unknown to the editor"}
        wait = await opened.prompt(WAITS.format("a"))
        viewer = await Viewer.connect(await opened.wait_for_request("terminal/create"))
        await opened.editor.wait_for(opened.has_terminal)
        await viewer.stream.aclose()
        # More than the time for the report of the exit, and less than the time to leave.
        await trio.sleep(SHORTLY * 3)
        opened.see("a")
        await wait()
        await opened.wait_for_request("terminal/release")
    assert not stopped


async def test_an_error_of_the_socket_is_reported_by_its_own_text(open_editor, monkeypatch, caplog):
    async def fail(terminals, viewers):
        raise ExceptionGroup("several", [OSError("The disk is full"), OSError("It is late")])

    monkeypatch.setattr(editor_terminals.EditorTerminals, "_follow", fail)
    async with open_editor() as opened:
        await (await opened.prompt("true"))()
    [record] = [each for each in caplog.records if "terminals of the editor" in each.message]
    assert record.message.endswith("editor: The disk is full.")


async def test_an_editor_that_ends_with_its_terminals_stops_no_call(open_editor):
    async with open_editor() as opened:
        opened.editor.create = lambda params: {"terminalId": "t1"}
        await opened.prompt(WAITS.format("a"))
        viewer = await Viewer.connect(await opened.wait_for_request("terminal/create"))
        await opened.editor.wait_for(opened.has_terminal)
        await viewer.stream.aclose()
        await opened.editor.stdin.send_eof()
        await opened.session._client.connection.closed.wait()
        with trio.move_on_after(2 * (SHORTLY + editor_terminals.LEAVE_SECONDS)):
            await opened.bench.wait_for(CallDone)
        assert not opened.bench.of(CallDone)


async def test_who_does_not_know_the_token_sees_nothing(open_editor, monkeypatch):
    monkeypatch.setattr(viewer_sockets, "TOKEN_SECONDS", SHORTLY)
    async with open_editor() as opened:
        opened.editor.create = lambda params: {"terminalId": "t1"}
        wait = await opened.prompt(WAITS.format("a"))
        params = await opened.wait_for_request("terminal/create")
        [path] = opened.sockets
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        viewer = await Viewer.connect(params)
        # A token works once, wrong ones do not work, and nobody may wait for ever.
        for token in (None, "0" * 64, "é" * 32, "short", ""):
            other = await Viewer.connect(params, token)
            async with other.stream:
                with trio.fail_after(20):
                    await other.read()
            assert other.output == b""
            assert other.exit_code is None
        async with viewer.stream:
            opened.nursery.start_soon(viewer.read)
            opened.see("a")
            await wait()
            await opened.wait_for_request("terminal/release")
            assert viewer.exit_code == 0


async def test_a_command_that_moves_to_the_background_ends_its_viewer(open_editor):
    async with open_editor(**{"shell.timeout": 0.5}) as opened:
        opened.editor.create = lambda params: {"terminalId": "t1"}
        wait = await opened.prompt("echo begun; sleep 1000")
        viewer = await Viewer.connect(await opened.wait_for_request("terminal/create"))
        async with viewer.stream:
            opened.nursery.start_soon(viewer.read)
            await wait()
            await opened.wait_for_request("terminal/release")
        assert b"[The command continues in the background.]" in viewer.output
        assert viewer.exit_code == 0
