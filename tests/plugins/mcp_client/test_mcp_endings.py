"""The end of sessions with servers that do not end: while they start, hang, flood or fork."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest
import trio
from hilum.testing import say, use
from hilum_mcp import connection, connector, lazy, server_log, stdio_transport
from hilum_mcp.client import SDK_MODULES

from .conftest import Opened, client, gone, known, marked, mcp_of, plain, server_pids, until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restart servers without a delay."""
    monkeypatch.setattr(connection, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(connection, "MAX_DELAY", 0.1)


@pytest.mark.parametrize(("module", "what"), [(lazy, "load"), (connector, "expand_server")])
async def test_closing_waits_for_no_import_and_no_file(
    servers: Opened, monkeypatch: pytest.MonkeyPatch, module: ModuleType, what: str
) -> None:
    begun, held, over = threading.Event(), threading.Event(), threading.Event()

    def hold(*_: object) -> None:
        begun.set()
        held.wait(30)
        over.set()

    monkeypatch.setattr(module, what, hold)
    try:
        async with servers() as kit:
            assert await until(begun.is_set)
            assert mcp_of(kit).statuses()[0].state == "starting"
        assert not over.is_set()
    finally:
        held.set()


async def test_a_start_that_waits_for_a_file_is_given_up(
    servers: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, over = threading.Event(), threading.Event()
    lazy.load(*SDK_MODULES)
    monkeypatch.setattr(connector, "expand_server", lambda *_: (held.wait(30), over.set()))
    try:
        async with servers(settings={"mcp.start_seconds": 0.2}) as kit:
            assert await until(
                lambda: "did not start within 0.2 seconds" in mcp_of(kit).statuses()[0].error
            )
            assert not over.is_set()
    finally:
        held.set()


async def test_a_server_that_has_not_said_a_word_is_given_no_time(
    servers: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_transport, "EXIT_TIMEOUT", 1e9)  # it would be waited for without end
    count = tmp_path / "count"
    async with servers({"plain": plain("hang-at-start", f"count={count}")}):
        assert await until(lambda: server_pids(count))
    assert await gone(server_pids(count))


async def test_a_server_that_stops_reading_holds_up_nothing(
    servers: Opened, tmp_path: Path
) -> None:
    count = tmp_path / "count"
    async with servers({"plain": plain(f"count={count}")}) as kit:
        await known(kit)
        await kit.call("plain__deafen")
        full = "x" * 300_000  # more than a pipe takes
        for _ in range(2):
            kit.model.next(use("plain__echo", call=full), say("never"))  # type: ignore[attr-defined]
            run = await kit.session.prompt("call it")
            assert await until(lambda: client(kit)._requests and client(kit)._requests._calls)
            began = trio.current_time()
            run.stop()
            assert (await run.wait()).state == "stopped"
            assert trio.current_time() - began < connection.CANCEL_TIMEOUT, (
                "to tell the server takes no room in its pipe"
            )
        began = trio.current_time()
    assert (
        trio.current_time() - began
        < stdio_transport.FLUSH_TIMEOUT
        + stdio_transport.EXIT_TIMEOUT
        + stdio_transport.TERM_TIMEOUT
        + 1
    )
    assert await gone(server_pids(count))


async def test_a_server_that_asks_without_end_and_reads_nothing_is_ended(
    servers: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio_transport, "MAX_UNREAD", 100)
    async with servers() as kit:
        await known(kit)
        flooded = await kit.call("plain__ping")
        assert flooded.code == "E_SERVER"
        assert "It does not read its standard input." in flooded.text
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'


async def test_what_is_no_message_costs_nothing(servers: Opened, tmp_path: Path) -> None:
    async with servers({"plain": plain(f"count={tmp_path}/count")}) as kit:
        await known(kit)
        for _ in range(2):
            assert (await kit.call("plain__babble")).text == "babbled"
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'
        assert len(server_pids(tmp_path / "count")) == 1


async def test_a_server_that_forks_away_is_told_of_and_held(
    servers: Opened, tmp_path: Path
) -> None:
    async with servers({"plain": plain("fork-away", f"count={tmp_path}/count")}) as kit:
        assert await until(lambda: "exited with code 0" in mcp_of(kit).statuses()[0].error)
    assert await gone(server_pids(tmp_path / "count"))


async def test_a_daemon_of_a_server_ends_with_the_session(servers: Opened) -> None:
    async with servers() as kit:
        await known(kit)
        daemon = int((await kit.call("plain__daemon")).text)
        assert not await gone([daemon], 0)
    assert await gone([daemon])


async def test_the_log_is_bounded_whatever_a_server_writes(
    servers: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_log, "MAX_BYTES", 200_000)
    async with servers() as kit:
        await known(kit)
        assert (await kit.call("plain__complain")).text == "complained"  # 5 MB
    sizes = [
        file.stat().st_size for file in (tmp_path / "bench" / "data" / "mcp" / "logs").iterdir()
    ]
    assert len(sizes) <= 2
    assert sum(sizes) < 2 * (200_000 + server_log.MAX_PENDING + 1_000)


async def test_messages_of_hilums_own_do_not_fill_the_memory(tmp_path: Path) -> None:
    kept = server_log.ServerLog("x", tmp_path / "x.log")
    for _ in range(1_000):
        kept.note("y" * 2_000)
    await kept.flush()
    assert (tmp_path / "x.log").stat().st_size < server_log.MAX_PENDING + 1_000


async def test_a_hundred_calls_at_once(servers: Opened) -> None:
    async with servers() as kit:
        await known(kit)
        calls = [use("plain__echo", call=str(number)) for number in range(100)]
        kit.model.next(calls, say("done"))  # type: ignore[attr-defined]
        assert (await kit.run("all at once")).text == "done"
        assert [result.text for result in kit.results] == [
            f'{{"call": "{number}"}}' for number in range(100)
        ]


async def test_a_call_is_cancelled_while_its_server_starts(servers: Opened, tmp_path: Path) -> None:
    described = {"plain": plain("slow-start=0.5", f"count={tmp_path}/count")}
    async with servers(described) as kit:
        await known(kit)
    kept = (tmp_path / "count").read_text()
    async with servers(described, answers=[use("plain__echo", call="1"), say("never")]) as kit:
        run = await kit.session.prompt("call it")
        assert await until(
            lambda: client(kit).state == "starting" and (tmp_path / "count").read_text() != kept
        )
        run.stop()
        assert (await run.wait()).state == "stopped"
        # The server starts all the same, and the next call finds it.
        assert (await kit.call("plain__echo", call="2")).text == '{"call": "2"}'
        assert client(kit).starts == 1


async def test_an_answer_that_comes_too_late_is_dropped(servers: Opened, tmp_path: Path) -> None:
    async with servers(settings={"mcp.call_seconds": 0.2}) as kit:
        await known(kit)
        assert (await kit.call("plain__hang", path=str(tmp_path / "end"))).code == "E_TIMEOUT"
        assert await until(lambda: (tmp_path / "end").read_text() == "cancelled")  # it answers now
        assert [(await kit.call("plain__echo", call=n)).text for n in "123"] == [
            f'{{"call": "{n}"}}' for n in "123"
        ]


async def test_late_tools_do_not_change_the_sent_prompt(servers: Opened) -> None:
    """Within a run every byte stays, so that the provider's prompt cache remains valid."""
    described = {
        "plain": plain("slow-list=0.3"),
        "bad": plain("crash-at-start"),
        "large": plain("tools=200"),
    }
    async with servers(described, settings={"mcp.definitions": 3_000}) as kit:

        async def when_known(_: object) -> object:
            await known(kit)
            return use("call_tool", name="plain__grow", arguments={})

        async def when_grown(_: object) -> object:
            assert await until(lambda: "plain__grown_0" in kit.session.tools)
            await known(kit, "large")
            return use("call_tool", name="large__echo", arguments={"call": "1"})

        async def when_down(_: object) -> object:
            await client(kit, "large").connection.run_job(
                lambda found: found.call_tool("babble", {})
            )
            return use("call_tool", name="plain__crash", arguments={})

        kit.model.next(when_known, when_grown, when_down, say("done"), say("and"))  # type: ignore[attr-defined]
        assert (await kit.run("hello")).text == "done"
        await kit.run("again")
        *bodies, _ = [request.body for request in kit.requests]
        assert len(bodies) == 4
        for earlier, later in itertools.pairwise(bodies):
            assert len(earlier) < len(later)
            assert later.startswith(earlier.removesuffix(b"]}"))
        assert len({repr(request.tools) for request in kit.requests}) == 1, (
            "nor does the list of a later run change"
        )


KILLED = """
import sys, trio, hilum_mcp, hilum_guard
from hilum import open_kernel
from hilum_guard import Guard
from hilum_guard.sandbox import bubblewrap
folder, by = sys.argv[1:]
if by != "bubblewrap":
    bubblewrap.find_bubblewrap = lambda: ""
async def main():
    settings = {"guard.sandbox": "auto" if by else "off"}
    async with open_kernel([hilum_mcp, hilum_guard], settings=settings) as kernel, kernel.open_session(folder) as session:
        found = await session.plugin(Guard).sandbox.enforced()
        if found.by != by:
            print("skip:", *found.reasons, flush=True)
            return
        async with trio.open_nursery() as nursery:
            async def call(client):
                await client.connection.run_job(lambda c: c.call_tool("daemon", {}))
            for client in session.plugin(hilum_mcp.SessionServers).clients.values():
                nursery.start_soon(call, client)
        print("up", flush=True)
        await trio.sleep_forever()
trio.run(main)
"""


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("by", ["", "bubblewrap", "landlock"])
async def test_killing_hilum_leaves_no_server(tmp_path: Path, by: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "proj").mkdir()
    kinds = ["stubborn", "new", "crash-at-end"]
    described = {
        f"s{number}": {**plain(kind), "env": {"MARK": str(tmp_path)}}
        for number, kind in enumerate(kinds)
    }
    (tmp_path / "config" / "mcp.json").write_text(json.dumps({"mcpServers": described}))
    env = {
        **os.environ,
        "HILUM_CONFIG": str(tmp_path / "config"),
        "HILUM_DATA": str(tmp_path / "data"),
    }
    argv = [sys.executable, "-c", KILLED, str(tmp_path / "proj"), by]
    hilum = await trio.lowlevel.open_process(argv, stdout=subprocess.PIPE, env=env)
    assert hilum.stdout is not None
    async with hilum.stdout:
        with trio.fail_after(60):
            said = b""
            while b"\n" not in said:  # what a process prints may come in pieces
                more = await hilum.stdout.receive_some()
                assert more
                said += more
        if said.startswith(b"skip"):
            await hilum.wait()
            pytest.skip(said.decode())
        there = marked(str(tmp_path))
        hilum.send_signal(signal.SIGKILL)
        await hilum.wait()
    assert len(there) >= 2 * len(kinds), "each server and its daemon"
    assert await gone(there)
    assert not marked(str(tmp_path))
