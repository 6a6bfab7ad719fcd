"""Guests that do everything by themselves: held as hilum's own commands are."""

import os
import sys

import pytest
import trio
from hilum import Mode, ToolFilter
from hilum.events import ModelAnswered, RunEnded
from hilum_acp.guests.client import GuestClient
from hilum_acp.guests.guest import Guest
from hilum_acp.guests.guests import Guests
from hilum_agents.runs import Runs

from tests.plugins.acp.conftest import PROGRAMS, wait_for_text

pytestmark = pytest.mark.slow(cases=20, of="file")


def bypassing(*more):
    return [sys.executable, str(PROGRAMS / "bypassing_guest.py"), *more]


def list_processes(mark):
    """Return the ids of the processes whose command line contains a mark."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(name))
        except OSError:
            continue
    return found


async def wait_until_gone(mark):
    with trio.fail_after(15):
        while list_processes(mark):  # noqa: ASYNC110 (there is no event for the end of strangers)
            await trio.sleep(0.02)


# --- files ----------------------------------------------------------------------------------------


async def test_a_guest_cannot_write_outside_the_workspace(open_guest, tmp_path):
    code = f"""
for path in ({str(tmp_path / "outside")!r}, os.path.expanduser("~/../escaped"), "/etc/hilum-x"):
    with contextlib.suppress(OSError):
        open(path, "w").write("x")
os.symlink({str(tmp_path)!r}, "link")
with contextlib.suppress(OSError):
    open("link/through", "w").write("x")
"""
    async with open_guest("bypassing") as guest:
        await guest.execute(f"import contextlib\n{code}")
        assert not (tmp_path / "outside").exists()
        assert not (tmp_path / "through").exists()
        assert not (tmp_path / "cache" / "hilum" / "guests" / "escaped").exists()
        assert not await trio.Path("/etc/hilum-x").exists()


async def test_a_guest_has_a_home_of_its_own_that_lasts(open_guest, tmp_path):
    async with open_guest("bypassing") as guest:
        await guest.execute("open(os.path.expanduser('~/.mine'), 'w').write('kept')")
        await guest.execute("print(open(os.path.expanduser('~/.mine')).read())")
        assert guest.said.endswith("kept\n")
        assert not (tmp_path / "home" / ".mine").exists()


async def test_a_guest_reads_no_secrets(open_guest, tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("PRIVATE")
    monkeypatch.setenv("SOME_SERVICE_TOKEN", "private-token-of-the-user")
    code = f"""
try:
    print(open({str(home / ".ssh" / "id_ed25519")!r}).read())
except OSError as error:
    print(type(error).__name__)
print(os.environ)
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        print(open(f"/proc/{{pid}}/environ").read())
    except OSError:
        pass
"""
    async with open_guest("bypassing") as guest:
        await guest.execute(code)
        assert "PRIVATE" not in guest.said
        assert "private-token-of-the-user" not in guest.said
        # Not even the key of its own models.
        assert "sk-the-users-own-key" not in guest.said
        assert "OPENAI_API_KEY" in guest.said


async def test_a_guest_cannot_change_what_the_users_programs_execute(open_guest):
    code = """
for path in (".git/hooks/pre-commit", ".hilum/settings.toml", ".git/config"):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").write("x")
        print("wrote", path)
    except OSError as error:
        print(type(error).__name__)
"""
    files = {".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n"}
    async with open_guest("bypassing", files={**files, ".hilum/settings.toml": ""}) as guest:
        await guest.execute(code)
        assert "wrote" not in guest.said
        assert (guest.bench.workspace / ".git/config").read_text() == "[core]\n"


@pytest.mark.parametrize("case", ["policy", "mode", "file"])
async def test_a_guest_that_may_not_write_has_a_workspace_that_it_can_only_read(open_guest, case):
    code = """
try:
    open("a.txt", "w").write("x")
    print("wrote")
except OSError as error:
    print(type(error).__name__, open("a.txt").read())
"""
    front = "tools: {allow: [read]}" if case == "file" else ""
    options = {"approve": "readonly"} if case == "policy" else {}
    async with open_guest("bypassing", front, files={"a.txt": "text"}, **options) as guest:
        if case == "mode":
            guest.bench.session.modes["reading"] = Mode("reading", ToolFilter(allow=("read",)))
            guest.bench.session.set(mode="reading")
        await guest.execute(code)
        assert guest.said == "OSError text\n"


def add_reading_mode(guest):
    guest.bench.session.modes["reading"] = Mode("reading", ToolFilter(allow=("read",)))


@pytest.mark.parametrize("change", [{"approve": "readonly"}, {"mode": "reading"}])
async def test_a_guest_that_can_write_ends_when_the_session_becomes_read_only(
    open_guest, tmp_path, change
):
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    async with open_guest(bypassing(mark)) as guest:
        add_reading_mode(guest)
        job = await guest.start("#begin\nclient.say('begun')\ntime.sleep(1000)")
        await wait_for_text(guest, "begun")
        guest.bench.session.set(**change)
        with trio.fail_after(20):
            result = await guest.bench.session.plugin(Runs).wait(job)
        assert "The session has become read-only" in result["error"]["message"]
        await wait_until_gone(mark)


async def test_a_guest_ends_that_is_starting_when_the_session_becomes_read_only(open_guest):
    code = "print('{}', flush=True); import time; time.sleep(1000)"
    async with open_guest([sys.executable, "-c", code]) as guest:
        job = await guest.start("Hello")
        with trio.fail_after(20):
            while not list_processes(code):  # noqa: ASYNC110 (hilum reports no start of a guest)
                await trio.sleep(0.02)
            guest.bench.session.set(approve="readonly")
            result = await guest.bench.session.plugin(Runs).wait(job)
        assert "The session has become read-only" in result["error"]["message"]


async def test_a_guest_that_can_only_read_goes_on_when_the_session_becomes_read_only(open_guest):
    code = """#begin
client.say("begun")
while not os.path.exists("go"):
    time.sleep(0.01)
print("done")
"""
    async with open_guest("bypassing", "tools: {allow: [read]}") as guest:
        job = await guest.start(code)
        await wait_for_text(guest, "begun")
        guest.bench.session.set(approve="readonly")
        (guest.bench.workspace / "go").write_text("")
        result = await guest.bench.session.plugin(Runs).wait(job)
        assert result["text"].endswith("done\n")


# --- network --------------------------------------------------------------------------------------


async def test_a_guest_reaches_nothing_but_its_models(open_guest):
    code = """
for address in {addresses!r}:
    try:
        socket.create_connection(address, timeout=2).close()
        print("connected to", address)
    except OSError as error:
        print(type(error).__name__)
print(call_model("Hello?"))
"""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        own = listeners[0].socket.getsockname()
        nursery.start_soon(trio.serve_listeners, lambda stream: stream.aclose(), listeners)
        async with open_guest("bypassing") as guest:
            await guest.execute(code.format(addresses=[own, ("1.1.1.1", 53)]))
            assert "connected" not in guest.said
            assert "(200, " in guest.said
        nursery.cancel_scope.cancel()


async def test_a_guest_that_may_use_the_network_reaches_the_machine(open_guest):
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        own = listeners[0].socket.getsockname()
        nursery.start_soon(trio.serve_listeners, lambda stream: stream.aclose(), listeners)
        async with open_guest("bypassing", "  network: true") as guest:
            await guest.execute(f"socket.create_connection({own!r}).close()\nprint('connected')")
            await guest.execute("print(call_model('Hello?')[0])")
            assert guest.said == "connected\n200\n"
        nursery.cancel_scope.cancel()


# --- processes ------------------------------------------------------------------------------------


async def test_a_guest_that_forks_away_ends_with_its_run(open_guest, tmp_path):
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    code = f"""
subprocess.Popen(
    ["setsid", "setsid", sys.executable, "-c", "import time; time.sleep(1000)", {mark!r}],
    stdout=subprocess.DEVNULL,
)
print("left")
"""
    async with open_guest("bypassing") as guest:
        await guest.execute(code)
        assert guest.said == "left\n"
        await wait_until_gone(mark)


async def test_a_guest_whose_run_stops_as_soon_as_it_is_ready_ends(open_guest, monkeypatch):
    """The request of the model is closed between the start of the process and the prompt."""
    async with open_guest("bypassing") as guest:
        await guest.start("#begin\nclient.say('begun')\ntime.sleep(1000)")
        await wait_for_text(guest, "begun")
        # The first sign of life comes when the guest is ready.
        monkeypatch.setattr("hilum_acp.guests.guests.KEEP_ALIVE_SECONDS", 60)
        guests = guest.bench.session.plugin(Guests)
        (first,) = guests._running.values()
        second = Guest(first.agent, first.definition)
        signs = guests._start(second)
        with trio.fail_after(20):
            await anext(signs)
            assert not second.ended.is_set()
            await signs.aclose()
            # A request that is sent again starts another one.
            assert second not in guests._running.values()
            await second.ended.wait()


async def test_a_stop_ends_a_guest_that_does_not_listen(open_guest, tmp_path):
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    async with open_guest(bypassing(mark)) as guest:
        code = "#begin\nimport signal\nsignal.signal(15, signal.SIG_IGN)\n"
        job = await guest.start(f"{code}client.say('begun')\ntime.sleep(1000)")
        with trio.fail_after(20):
            async for item in guest.bench.session.events(0, deltas=True):
                if getattr(item, "text", "") == "begun":
                    break
        assert list_processes(mark)
        guest.bench.session.plugin(Runs).stop(job)
        result = await guest.bench.session.plugin(Runs).wait(job)
        assert result["status"] == "stopped"
        await wait_until_gone(mark)


async def test_a_guest_that_hangs_is_ended(open_guest, monkeypatch):
    monkeypatch.setattr("hilum_acp.guests.guests.QUIET_TIMEOUT", 0.05)
    monkeypatch.setattr("hilum_acp.guests.guests.IDLE_TIMEOUT", 0.3)
    async with open_guest("bypassing") as guest:
        result = await guest.execute("time.sleep(1000)")
        assert result["status"] == "failed"
        assert "It has done nothing for 0.3 seconds" in result["error"]["message"]


async def test_a_guest_that_floods_is_ended(open_guest):
    async with open_guest("bypassing") as guest:
        result = await guest.execute("while True: client.say('x' * 100_000)")
        assert result["status"] == "failed"
        assert len(guest.said) < 10_000_000


async def test_a_guest_that_floods_with_updates_is_ended(open_guest, monkeypatch):
    monkeypatch.setattr("hilum_acp.guests.client.MAX_UPDATES", 5_000)
    code = "while True: client.update('tool_call', toolCallId='x', status='in_progress')"
    async with open_guest("bypassing") as guest:
        result = await guest.execute(code)
        assert result["status"] == "failed"
        assert "more than 5,000 updates" in result["error"]["message"]


async def test_a_guest_that_crashes_is_reported_with_its_last_words(open_guest):
    async with open_guest("bypassing") as guest:
        result = await guest.execute("sys.stderr.write('out of ideas')\nos._exit(7)")
        assert result["status"] == "failed"
        assert "exit code 7" in result["error"]["message"]
        assert "out of ideas" in result["error"]["message"]


async def test_lines_that_are_no_messages_do_not_end_a_guest(open_guest):
    code = """
sys.__stdout__.write("Welcome!\\n\\n{]\\n[1]\\n{}\\n" + "x" * 100_000 + "\\n")
sys.__stdout__.flush()
print("still here")
"""
    async with open_guest("bypassing") as guest:
        await guest.execute(code)
        assert guest.said == "still here\n"


async def test_a_guest_that_lies_about_its_tool_calls_does_not_hide_its_changes(open_guest):
    code = """
client.update("tool_call", toolCallId="1", title="Read README", kind="read", status="in_progress")
open("victim.txt", "w").write("overwritten")
client.update("tool_call_update", toolCallId="1", status="completed")
client.update("tool_call_update", toolCallId=["no", "id"], status=7, content="?")
client.update("tool_call", toolCallId="2", title=None, kind={}, locations="x", rawInput=3)
client.update("plan", entries=3)
client.update("nonsense")
print("I only read.")
"""
    async with open_guest("bypassing", files={"victim.txt": "text"}) as guest:
        result = await guest.execute(code)
        assert result["files_changed"] == ["victim.txt"]
        assert guest.bench.of(ModelAnswered)


# --- starting -------------------------------------------------------------------------------------


async def test_a_program_that_does_not_exist_is_named(open_guest):
    async with open_guest(["no-such-agent", "acp"]) as guest:
        result = await guest.run(["say", "x"])
        assert result["status"] == "failed"
        assert "There is no program 'no-such-agent'" in result["error"]["message"]


async def test_a_program_of_an_unknown_version_is_refused(open_guest):
    code = (
        "import json, sys\nfor line in sys.stdin:\n m = json.loads(line)\n"
        " print(json.dumps({'jsonrpc': '2.0', 'id': m['id'],"
        " 'result': {'protocolVersion': 2}}), flush=True)"
    )
    async with open_guest([sys.executable, "-c", code]) as guest:
        result = await guest.run(["say", "x"])
        assert "It speaks version 2 of the protocol" in result["error"]["message"]


async def test_without_a_sandbox_no_guest_starts(open_guest):
    async with open_guest("courteous", settings={"guard.sandbox": "off"}) as guest:
        result = await guest.run(["say", "x"])
        assert result["status"] == "failed"
        assert "only in the full sandbox" in result["error"]["message"]
        assert guest.bench.of(RunEnded)[0].code == "E_LLM_FAIL"


# --- memory ---------------------------------------------------------------------------------------


async def test_the_arguments_of_calls_that_have_ended_are_not_kept(open_guest, monkeypatch):
    monkeypatch.setattr("hilum_acp.guests.client.MAX_ACTION_TEXT", 3_000_000)
    code = """
for number in range({count}):
    name = str(number)
    client.update("tool_call", toolCallId=name, status="pending", rawInput={{"a": "x" * 500_000}})
    if {ended}:
        client.update("tool_call_update", toolCallId=name, status="completed")
print("still here")
"""
    async with open_guest("bypassing") as guest:
        result = await guest.execute(code.format(count=20, ended=True))
        assert result["text"] == "still here\n"
        result = await guest.execute(code.format(count=20, ended=False))
        assert result["status"] == "failed"
        assert "Its tool calls have more than 3,000,000 characters" in result["error"]["message"]


async def test_the_ended_terminals_that_a_guest_does_not_release_are_dropped(
    open_guest, monkeypatch
):
    monkeypatch.setattr("hilum_acp.guests.terminal_requests.MAX_TERMINALS", 3)
    code = """
names = []
for number in range(8):
    terminal, _ = client.request("terminal/create", command="echo out")
    names.append(terminal["terminalId"])
    client.request("terminal/wait_for_exit", terminalId=names[-1])
print([bool(client.request("terminal/output", terminalId=name)[0]) for name in names])
"""
    async with open_guest("bypassing") as guest:
        result = await guest.execute(code)
        assert result["text"] == f"{[False] * 4 + [True] * 4}\n"


async def test_a_terminal_that_was_refused_does_not_keep_a_hanging_guest_alive(
    open_guest, monkeypatch
):
    monkeypatch.setattr("hilum_acp.guests.guests.QUIET_TIMEOUT", 0.05)
    monkeypatch.setattr("hilum_acp.guests.guests.IDLE_TIMEOUT", 0.3)
    monkeypatch.setattr("hilum_acp.guests.requests.MAX_WAITING", 0)
    code = "print(client.request('terminal/create', command='true')[1])\ntime.sleep(1000)"
    async with open_guest("bypassing") as guest:
        with trio.fail_after(30):
            result = await guest.execute(code)
        assert "It has done nothing for 0.3 seconds" in result["error"]["message"]


async def test_a_command_that_is_too_long_to_be_judged_is_refused(open_guest):
    code = """
command = "echo " + "x" * 200_000
print(client.request("terminal/create", command=command)[1]["message"])
print(client.permission("1", "Run", "execute", rawInput={"command": command}))
"""
    async with open_guest("bypassing") as guest:
        await guest.execute(code)
        assert guest.said == "The command has more than 100,000 characters.\nFalse\n"


async def test_nothing_of_a_guest_that_has_failed_is_kept(open_guest, monkeypatch):
    """It may go on until its process has ended."""
    monkeypatch.setattr("hilum_acp.guests.client.MAX_UPDATES", 10)
    clients = []
    fail = GuestClient.fail

    def keep(client, reason):
        clients.append(client)
        fail(client, reason)

    monkeypatch.setattr(GuestClient, "fail", keep)
    code = """
while True:
    client.say("x" * 1_000)
    client.update("tool_call", toolCallId=str(time.monotonic()), status="pending")
    client.send({"id": str(time.monotonic()), "method": "terminal/create",
                 "params": {"command": "true"}})
"""
    async with open_guest("bypassing") as guest:
        result = await guest.execute(code)
        assert "more than 10 updates" in result["error"]["message"]
    assert len(clients[0].actions) <= 10
    assert len(clients[0].terminals.opened) <= 10
    assert sum(len(text) for _, text in clients[0].take_output()) <= 10_000


# --- output ---------------------------------------------------------------------------------------

CLOSED = "os.close(1)\ntime.sleep(1000)"
JUNK = "os.write(1, b'Warning\\n' * 200_000)\ntime.sleep(1000)"


@pytest.mark.parametrize(
    ("code", "reason"),
    [(CLOSED, "It closed the connection."), (JUNK, "1,000 lines that are no messages")],
    ids=["closed", "junk"],
)
async def test_a_guest_without_a_connection_is_ended(open_guest, code, reason):
    async with open_guest("bypassing") as guest:
        began = trio.current_time()
        with trio.fail_after(30):
            result = await guest.execute(code)
        assert trio.current_time() - began < 10
        assert reason in result["error"]["message"]


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        ("os.close(1)\ntime.sleep(1000)", "It ended before it was ready."),
        ("os.write(1, b'Warning\\n' * 200_000)\ntime.sleep(1000)", "lines that are no messages"),
        ("raise SystemExit('old version')", "old version"),
    ],
    ids=["closed", "junk", "ended"],
)
async def test_a_guest_that_does_not_connect_is_ended(open_guest, start, reason):
    command = [sys.executable, "-c", f"import os, time\n{start}"]
    async with open_guest(command) as guest:
        with trio.fail_after(20):
            result = await guest.execute("print(1)")
        assert reason in result["error"]["message"]


async def test_no_pipe_is_left_in_the_home_of_a_guest(open_guest):
    async with open_guest("bypassing") as guest:
        await guest.execute("print(os.listdir(os.path.expanduser('~')))")
        await guest.execute("print(os.listdir(os.path.expanduser('~')))")
        assert guest.said.count(".output-") == 2
