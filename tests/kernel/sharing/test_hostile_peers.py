"""The socket of a shared session: other users, garbage, huge messages, and peers that hang or die."""

import os
import socket
import stat
import subprocess
import sys

import pytest
import trio
from hilum import HilumError, StoreError
from hilum.events import RunEnded
from hilum.settings import lock_folder
from hilum.sharing import join_session, joined_session, server, share_session, sockets
from hilum.sharing.messages import PROTOCOL, FromOwner, Hello, MessageStream, Subscribe, Welcome
from hilum.testing import say


def frame(data: bytes) -> bytes:
    """Return a message with its length."""
    return len(data).to_bytes(4, "big") + data


async def raw(kit) -> trio.SocketStream:
    """Connect to the socket of a bench's session."""
    stream = await sockets.connect(sockets.find_socket(kit.session.id))
    assert stream is not None
    return stream


async def assert_works(kit) -> None:
    """Check that the session still works and can still be joined."""
    kit.model.next(say("fine"))
    async with join_session(kit.kernel, kit.session.id) as other:
        run = await other.prompt("x")
        with trio.fail_after(20):
            assert (await run.wait()).text == "fine"


async def test_only_the_user_can_reach_the_socket(bench):
    """Folder and socket are private, and the socket is removed with the session."""
    kit = await bench()
    path = sockets.find_socket(kit.session.id)
    async with share_session(kit.session):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


async def test_a_folder_that_others_may_enter_is_made_private(bench):
    """An earlier version, or the user, may have created it with other permissions."""
    kit = await bench()
    path = sockets.find_socket(kit.session.id)
    path.parent.mkdir(mode=0o755, parents=True)
    async with share_session(kit.session):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_link_in_place_of_the_folder(bench, tmp_path):
    """The session is not shared, works, and says so."""
    kit = await bench()
    path = sockets.find_socket(kit.session.id)
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    target = tmp_path / "target"
    target.mkdir()
    path.parent.symlink_to(target)
    async with share_session(kit.session):
        assert [event.name for event in kit.events[-1:]] == ["sharing.unavailable"]
        assert list(target.iterdir()) == []


async def test_the_socket_of_a_killed_process(bench):
    """Nobody listens on it, so nothing is joined; the next owner replaces it."""
    kit = await bench()
    path = sockets.find_socket(kit.session.id)
    path.parent.mkdir(mode=0o700, parents=True)
    left = socket.socket(socket.AF_UNIX)
    with sockets._address(path) as address:
        left.bind(address)
    left.close()
    async with join_session(kit.kernel, kit.session.id) as other:
        assert other is None
    async with share_session(kit.session):
        await assert_works(kit)


LISTEN = """
import sys
from pathlib import Path
from hilum.sharing.sockets import listen

listener = listen(Path(sys.argv[1]))
print("listens", flush=True)
sys.stdin.read()
"""


async def test_sockets_of_killed_processes_are_removed(bench):
    """The next process removes them at once; those on which somebody listens stay."""
    kit = await bench()
    folder = sockets.find_socket(kit.session.id).parent

    def start(name: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", LISTEN, str(folder / f"{name}.sock")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"listens\n"
        return process

    with start("used") as used:
        with start("left") as killed:
            killed.kill()
        assert {path.stem for path in folder.iterdir()} == {"left", "used"}
        async with share_session(kit.session):
            assert {path.stem for path in folder.iterdir()} == {"used", kit.session.id}
        used.kill()


async def test_the_socket_of_a_process_that_does_not_listen_yet_stays(bench):
    """The lock of the folder protects it; a sweep waits until the process listens."""
    kit = await bench()
    path = sockets.find_socket(kit.session.id)
    path.parent.mkdir(mode=0o700, parents=True)
    new = path.with_name("new.sock")
    listeners = []

    def listen() -> None:
        listeners.append(sockets.listen(path))

    with socket.socket(socket.AF_UNIX) as starting:
        async with trio.open_nursery() as nursery:
            with lock_folder(path.parent):
                with sockets._address(new) as address:
                    starting.bind(address)
                nursery.start_soon(trio.to_thread.run_sync, listen)
                # Without the lock, the sweep would be over in this time.
                await trio.sleep(0.2)
                assert new.exists()
                assert not listeners
                starting.listen()
        assert new.exists()
        await listeners[0].aclose()


async def test_an_unexpected_error_ends_the_connection_only(bench, monkeypatch):
    """A mistake in serving a terminal does not end the work of the owner."""
    kit = await bench()

    async def fail(self, after, scope):
        raise RuntimeError("a bug")

    async with share_session(kit.session):
        with monkeypatch.context() as patched:
            patched.setattr(server._Terminal, "_send_events", fail)
            with pytest.raises(StoreError):
                async with join_session(kit.kernel, kit.session.id):
                    pass
        assert "a bug" in kit.events[-1].data["say"]
        await assert_works(kit)


async def test_a_data_folder_with_a_long_path(bench, monkeypatch, tmp_path):
    """The system's limit on the paths of sockets does not matter."""
    if sys.platform != "linux":
        pytest.skip("needs /proc")
    kit = await bench()
    monkeypatch.setitem(kit.kernel.environ, "HILUM_DATA", str(tmp_path / ("x" * 120)))
    async with share_session(kit.session):
        await assert_works(kit)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        frame(b"{}"),
        frame(b"\xff\xfe"),
        frame(b'{"type":"Hello","protocol":"x"}'),
        frame(b'{"type":"Welcome","protocol":1,"after":0,"last":0}'),
        frame(b"[" * 100_000),
        frame(b'{"type":"Hello","protocol":1}') + frame(b'{"type":"Ping"}'),
        frame(b'{"type":"Hello","protocol":1}')
        + frame(b'{"type":"Subscribe","after":-5}')
        + frame(b'{"type":"Request","id":1,"operation":{"type":"Quit"},"expires":0}'),
    ],
)
async def test_garbage_ends_the_connection_only(bench, data):
    """The owner closes the connection, and the session goes on."""
    kit = await bench()
    async with share_session(kit.session):
        async with await raw(kit) as stream:
            await stream.send_all(data)
            with trio.fail_after(5):
                try:
                    while await stream.receive_some(65536):
                        pass
                except trio.BrokenResourceError:
                    pass
        await assert_works(kit)


async def test_a_peer_that_says_nothing(bench, monkeypatch):
    """It is disconnected, so that it does not take the place of a terminal."""
    monkeypatch.setattr(server, "HELLO_TIMEOUT", 0.1)
    kit = await bench()
    async with share_session(kit.session):
        streams = [await raw(kit) for _ in range(server.MAX_TERMINALS + 2)]
        for stream in streams:
            with trio.fail_after(5):
                assert await stream.receive_some(1) == b""
            await stream.aclose()
        await assert_works(kit)


async def test_a_terminal_that_never_reads_delays_nobody(bench):
    """The owner keeps nothing for it: events stay in the log, output is dropped or joined."""
    kit = await bench()
    kit.model.next(*[say("text " * 20_000) for _ in range(20)])
    async with share_session(kit.session), await raw(kit) as stream:
        peer = MessageStream(stream, FromOwner)
        await peer.send(Hello(PROTOCOL))
        assert isinstance(await peer.receive(), Welcome)
        await peer.send(Subscribe(0))
        for _ in range(20):
            assert (await kit.run("x")).state == "completed"
        await assert_works(kit)


async def test_a_terminal_that_dies_in_the_middle(bench):
    """A half message, then nothing: the session goes on."""
    kit = await bench()
    async with share_session(kit.session):
        for size in (0, 3, 10):
            stream = await raw(kit)
            await stream.send_all(frame(b'{"type":"Hello","protocol":1}') + frame(b"{}")[:size])
            await stream.aclose()
        await assert_works(kit)


async def test_another_version_is_named(bench, monkeypatch):
    """The user learns why the terminal cannot join."""
    kit = await bench()
    async with share_session(kit.session):
        monkeypatch.setattr(joined_session, "PROTOCOL", PROTOCOL + 1)
        with pytest.raises(StoreError, match="another version"):
            async with join_session(kit.kernel, kit.session.id):
                pass


async def test_another_user_and_own_processes_are_refused(bench, monkeypatch):
    """A command of the agent must not approve itself."""
    kit = await bench()
    async with share_session(kit.session):
        path = sockets.find_socket(kit.session.id)
        code = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
            "s.settimeout(10); print(s.recv(1))"
        )
        # The name of the socket alone is not too long for the system.
        argv = [sys.executable, "-c", code, path.name]
        done = await trio.run_process(
            argv, cwd=path.parent, capture_stdout=True, capture_stderr=True, check=False
        )
        assert done.stdout == b"b''\n", done.stderr
        monkeypatch.setattr(os, "getuid", lambda: 4242)
        connection = socket.socket(socket.AF_UNIX)
        with sockets._address(path) as address:
            connection.connect(address)
        connection.setblocking(False)
        async with trio.SocketStream(trio.socket.from_stdlib_socket(connection)) as stream:
            with trio.fail_after(5):
                assert await stream.receive_some(1) == b""
        monkeypatch.undo()
        await assert_works(kit)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_process_in_a_sandbox_is_recognized():
    """Every sandbox sets a flag that a process cannot remove."""
    code = "import ctypes, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert sockets._has_no_new_privileges(process.pid)
        assert sockets._descends_from(process.pid, os.getpid())
        assert not sockets._descends_from(os.getpid(), process.pid)
        process.communicate(b"\n")


async def test_an_owner_that_does_not_respond(bench, monkeypatch):
    """A suspended owner: joining fails soon, and says what to do."""
    monkeypatch.setattr(joined_session, "GREETING_TIMEOUT", 0.1)
    kit = await bench()
    path = sockets.find_socket(kit.session.id)
    listener = sockets.listen(path)
    async with listener:
        with pytest.raises(StoreError, match="does not respond"):
            async with join_session(kit.kernel, kit.session.id):
                pass


async def test_an_owner_that_is_suspended_later(bench, monkeypatch):
    """The terminal says so and refuses to send, and continues when the owner does."""
    monkeypatch.setattr(joined_session, "PING_SECONDS", 0.02)
    monkeypatch.setattr(joined_session, "SILENCE_SECONDS", 0.1)
    kit = await bench(answers=["fine"])
    suspended = trio.Event()
    suspended.set()
    send = MessageStream.send

    async def send_unless_suspended(self, message) -> None:
        if type(message).__name__ in FROM_OWNER:
            await suspended.wait()
        await send(self, message)

    monkeypatch.setattr(MessageStream, "send", send_unless_suspended)
    async with share_session(kit.session), join_session(kit.kernel, kit.session.id) as other:
        changed = trio.Event()
        other.on_silence = lambda: changed.set()
        suspended = trio.Event()
        with trio.fail_after(10):
            await changed.wait()
        assert other.is_silent
        with pytest.raises(HilumError, match="does not respond"):
            await other.prompt("x")
        changed = trio.Event()
        suspended.set()
        with trio.fail_after(10):
            await changed.wait()
        assert not other.is_silent
        run = await other.prompt("x")
        with trio.fail_after(10):
            assert (await run.wait()).text == "fine"


FROM_OWNER = ("Welcome", "State", "Events", "Output", "Reply", "Pong")


async def test_a_request_that_expired_is_not_carried_out(bench, monkeypatch):
    """What the user gave up on does not happen when a suspended owner continues."""
    kit = await bench()
    async with share_session(kit.session), join_session(kit.kernel, kit.session.id) as other:
        monkeypatch.setattr(joined_session, "REQUEST_SECONDS", -1.0)
        with pytest.raises(HilumError, match="too late"):
            await other.prompt("x")
    assert kit.of(RunEnded) == []
