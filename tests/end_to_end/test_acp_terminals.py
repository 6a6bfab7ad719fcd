"""``hilum acp`` shows commands in terminals of the editor, which are real ones here."""

import json
import signal
import sys
from pathlib import Path

import pytest
import trio
from acp_editor import EVERYTHING, open_editor
from editor_terminals import list_viewers
from hilum.messages import AssistantMessage

pytestmark = pytest.mark.slow(cases=5, of="file")

# Ends once the test has seen its output.
UNTIL_SEEN = "while [ ! -e seen ]; do sleep 0.02; done"

# Runs longer than commands that get no terminal.
LONGER = "echo longer; sleep 0.6"


@pytest.fixture
def editor(cli):
    """Return a function that starts ``hilum acp`` and an editor, with a session."""
    return lambda *arguments: open_editor(cli, *arguments)


async def begin(e, cli, **abilities):
    """Open a session and send it a prompt; return its id and the number of the prompt."""
    await e.initialize(**(abilities or EVERYTHING))
    opened = await e.request("session/new", cwd=str(cli.workspace), mcpServers=[])
    session = opened["sessionId"]
    prompt = [{"type": "text", "text": "Go"}]
    return session, await e.begin("session/prompt", sessionId=session, prompt=prompt)


def shown_terminals(e):
    """The ids of terminals in the updates of calls, by call."""
    found = {}
    for update in e.updates:
        for each in update.get("content") or ():
            if isinstance(each, dict) and each.get("type") == "terminal":
                found.setdefault(update["toolCallId"], []).append(each["terminalId"])
    return found


async def wait_for_terminal(e):
    """Wait until a call is shown in a terminal; return the terminal."""
    await e.wait_for(lambda: shown_terminals(e))
    [[identity, *_]] = shown_terminals(e).values()
    return e.terminals[identity]


def list_sockets(cli):
    """The sockets for viewers that exist."""
    return list(Path(cli.env["HILUM_DATA"]).rglob("viewers-*"))


async def test_the_output_is_seen_in_a_terminal_while_the_command_runs(cli, editor, asks):
    command = (
        r"printf 'early\n\033[31mred\033[0m \033]0;title\007\033[2Jafter\n'; echo waits;"
        f" {UNTIL_SEEN}; echo ended; exit 3"
    )
    async with cli.model(asks("run_terminal_cmd", command=command), "Done."), editor() as e:
        session, number = await begin(e, cli)
        terminal = await wait_for_terminal(e)
        await terminal.wait_for("waits")
        # Colors stay; the title and the erased screen do not.
        assert terminal.output == b"early\r\n\x1b[31mred\x1b[0m after\r\nwaits\r\n"
        [call] = e.calls()
        assert call["status"] == "in_progress"
        assert call["content"] == [{"type": "terminal", "terminalId": "term-1"}]
        [create] = [params for method, params in e.requests if method == "terminal/create"]
        # Other users can read arguments, but not the environment.
        secrets = [each["value"] for each in create["env"]]
        assert not any(secret in json.dumps(create["args"]) for secret in secrets)
        [path] = list_sockets(cli)
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        (cli.workspace / "seen").touch()
        assert (await e.end(number))["stopReason"] == "end_turn"
        await e.wait_for(lambda: terminal.released)
        assert terminal.output.endswith(b"waits\r\nended\r\n")
        assert terminal.process.returncode == 3
        [call] = e.calls()
        assert call["status"] == "failed"
        assert call["content"] == [{"type": "terminal", "terminalId": "term-1"}]
        assert "Exit code 3" in call["rawOutput"]
        assert "ended" in call["rawOutput"]
        methods = [method for method, _ in e.requests]
        assert methods[-3:] == ["terminal/create", "terminal/wait_for_exit", "terminal/release"]
        # After a reload, the terminal is gone, and the output is shown as text.
        e.updates.clear()
        await e.request("session/load", sessionId=session, cwd=str(cli.workspace), mcpServers=[])
        [call] = e.calls()
        assert "ended" in call["content"][0]["content"]["text"]
        assert "rawOutput" not in call
    assert not list_sockets(cli)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_who_ends_the_terminal_stops_the_call(cli, editor, asks, number):
    command = "echo $$ > pid; echo begun; sleep 1000"
    answers = asks("run_terminal_cmd", command=command), "I see."
    async with cli.model(*answers) as model, editor() as e:
        _, prompt = await begin(e, cli)
        terminal = await wait_for_terminal(e)
        await terminal.wait_for("begun")
        terminal.kill(number)
        # The run continues, and the agent knows.
        assert (await e.end(prompt))["stopReason"] == "end_turn"
        assert e.text() == "I see."
        request = str(model.requests[-1].body)
        assert "E_STOPPED" in request
        assert "stopped by the user" in request
        assert "begun" in request
        [call] = e.calls()
        assert call["status"] == "failed"
        assert [each["type"] for each in call["content"]] == ["terminal", "content"]
        assert "stopped by the user" in call["content"][1]["content"]["text"]
        await e.wait_for(lambda: terminal.released)


async def test_each_of_many_commands_has_a_terminal_of_its_own(cli, editor, asks):
    def command(name):
        text = f"echo {name}; {UNTIL_SEEN}; echo end {name}"
        return asks("run_terminal_cmd", command=text, id=name)

    names = [f"name-{number}" for number in range(8)]
    parts = [part for name in names for part in command(name).parts]
    calls = AssistantMessage(tuple(parts), stop="calls")
    async with cli.model(calls, "Done."), editor() as e:
        _, prompt = await begin(e, cli)
        await e.wait_for(lambda: len(shown_terminals(e)) == len(names))
        for terminal in e.terminals.values():
            await terminal.wait_for("name-")
        (cli.workspace / "seen").touch()
        assert (await e.end(prompt))["stopReason"] == "end_turn"
        await e.wait_for(lambda: all(each.released for each in e.terminals.values()))
        outputs = sorted(each.output.decode() for each in e.terminals.values())
        assert outputs == [f"{name}\r\nend {name}\r\n" for name in names]
        assert not list_viewers(cli.folder)


async def test_a_terminal_that_does_not_read_holds_nothing_up(cli, editor, asks):
    command = "echo begun; while [ ! -e go ]; do sleep 0.02; done; yes 0123456789 | head -c 5000000"
    async with cli.model(asks("run_terminal_cmd", command=command), "Done."), editor() as e:
        _, prompt = await begin(e, cli)
        terminal = await wait_for_terminal(e)
        await terminal.wait_for("begun")
        terminal.kill(signal.SIGSTOP)
        (cli.workspace / "go").touch()
        assert (await e.end(prompt))["stopReason"] == "end_turn"
        [call] = e.calls()
        assert call["status"] == "completed"
        assert not terminal.released
        terminal.kill(signal.SIGCONT)
        await e.wait_for(lambda: terminal.released)
        # The last bytes may still be on their way through the terminal.
        await e.wait_for(lambda: terminal.output.endswith(b"\r\n0123456789\r\n01234"))
        assert b" bytes of output were left out.]\r\n" in terminal.output
        assert len(terminal.output) < 3_000_000


async def test_a_command_in_the_background_has_no_terminal(cli, editor, asks):
    command = "echo one; sleep 1000"
    answers = (asks("run_terminal_cmd", command=command, background=True), "Done.")
    async with cli.model(*answers), editor() as e:
        _, prompt = await begin(e, cli)
        assert (await e.end(prompt))["stopReason"] == "end_turn"
        assert not [method for method, _ in e.requests if method.startswith("terminal/")]


@pytest.mark.parametrize(
    "arguments", [(), ("--no-plugin", "acp"), ("--set", "acp.terminals=false")]
)
async def test_terminals_are_used_if_the_editor_offers_them_and_the_setting_allows(
    cli, editor, asks, arguments
):
    answers = (asks("run_terminal_cmd", command=LONGER), "Done.")
    async with cli.model(*answers), editor(*arguments) as e:
        abilities = EVERYTHING if arguments else {**EVERYTHING, "terminal": False}
        _, prompt = await begin(e, cli, **abilities)
        await e.end(prompt)
        used = any(method.startswith("terminal/") for method, _ in e.requests)
        # Without the plugin, its setting has the default.
        assert used == ("--no-plugin" in arguments)
        if not used:
            assert not list_sockets(cli)
        assert "Exit code 0" in json.dumps(e.calls())


@pytest.mark.parametrize("case", ["refuses", "invalid", "not_hilum"])
async def test_without_a_viewer_the_output_is_shown_as_text(cli, editor, asks, case):
    answers = (
        asks("run_terminal_cmd", command=f"echo first; {UNTIL_SEEN}"),
        asks("run_terminal_cmd", command=LONGER, id="c2"),
        "Done.",
    )
    changes = {
        "refuses": lambda params: {"code": -32000, "message": "Not here."},
        "invalid": lambda params: {"terminalId": ""},
        # As an editor on another machine would: the program is there, and the file is not.
        "not_hilum": lambda params: {**params, "args": ["-I", "-S", "/nonexistent/viewer.py"]},
    }
    async with cli.model(*answers), editor() as e:
        e.create = changes[case]
        _, prompt = await begin(e, cli)
        await e.wait_for(lambda: "terminal/create" in [method for method, _ in e.requests])
        if case == "not_hilum":
            await e.wait_for(lambda: e.terminals and e.terminals["term-1"].released)
        await e.wait_for(lambda: "first" in json.dumps(e.calls()[0].get("content")))
        assert e.calls()[0]["status"] == "in_progress"
        (cli.workspace / "seen").touch()
        assert (await e.end(prompt))["stopReason"] == "end_turn"
        assert "longer" in e.calls()[1]["content"][0]["content"]["text"]
        assert [method for method, _ in e.requests].count("terminal/create") == 1
        assert not shown_terminals(e)


CONNECT = """
import os, socket, sys
folder = bytes.fromhex("FOLDER").decode()
try:
    names = os.listdir(folder)
except OSError as error:
    sys.exit(f"no folder: {error}")
for name in names:
    if name.startswith("viewers-"):
        connection = socket.socket(socket.AF_UNIX)
        os.chdir(folder)
        try:
            connection.connect(name)
            connection.sendall(b"0" * 64)
            print("received", connection.recv(10))
        except OSError as error:
            print("refused", error)
print(len(names), "names")
"""


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_a_command_cannot_connect_in_place_of_a_viewer(cli, editor, asks, sandbox):
    # The guard refuses commands and code that name the path.
    folder = Path(cli.env["HILUM_DATA"]) / "sockets"
    (cli.workspace / "connect.py").write_text(CONNECT.replace("FOLDER", bytes(folder).hex()))
    command = f"{sys.executable} connect.py; echo tried; {UNTIL_SEEN}"
    arguments = ("--approve", "auto", "--set", f"guard.sandbox={sandbox}")
    async with (
        cli.model(asks("run_terminal_cmd", command=command), "Done."),
        editor(*arguments) as e,
    ):
        _, prompt = await begin(e, cli)
        terminal = await wait_for_terminal(e)
        await terminal.wait_for("tried")
        assert list_sockets(cli)
        assert b"received b'o" not in terminal.output
        if sandbox == "off":
            assert b"received b''" in terminal.output or b"refused" in terminal.output
        else:
            assert b"no folder" in terminal.output or b"\r\n0 names" in terminal.output
        (cli.workspace / "seen").touch()
        await e.end(prompt)
        [call] = e.calls()
        assert call["status"] == "completed"


@pytest.mark.parametrize("how", ["close", "cancel", "leave", "die"])
async def test_nothing_is_left_of_a_terminal(cli, editor, asks, how):
    command = "echo $$ > pid; echo begun; sleep 1000"
    async with cli.model(asks("run_terminal_cmd", command=command), "Never."), editor() as e:
        session, prompt = await begin(e, cli)
        terminal = await wait_for_terminal(e)
        await terminal.wait_for("begun")
        if how == "close":
            await e.request("session/close", sessionId=session)
            assert (await e.end(prompt))["stopReason"] == "cancelled"
        elif how == "cancel":
            await e.notify("session/cancel", sessionId=session)
            assert (await e.end(prompt))["stopReason"] == "cancelled"
        elif how == "leave":
            await e.stdin.aclose()
        else:
            # The terminals of an editor that dies end at about the same time.
            terminal.kill(signal.SIGKILL)
            await e.stdin.aclose()
        if how in ("close", "cancel"):
            await e.wait_for(lambda: terminal.released)
            assert list_sockets(cli) if how == "cancel" else not list_sockets(cli)
        with trio.fail_after(20):
            await terminal.process.wait()
    assert not list_viewers(cli.folder)
    assert not list_sockets(cli)
    files = [path for path in cli.folder.rglob("*") if path.is_file()]
    log = "".join(path.read_text(errors="replace") for path in files)
    assert "sleep 1000" in log
    # A run that was interrupted can be continued.
    assert "stopped by the user" not in log


async def test_a_killed_hilum_leaves_no_viewer(cli, editor, asks):
    command = "echo begun; sleep 1000"
    async with cli.model(asks("run_terminal_cmd", command=command), "Never."), editor() as e:
        await begin(e, cli)
        terminal = await wait_for_terminal(e)
        await terminal.wait_for("begun")
        e.process.kill()
        assert await terminal.process.wait() == 1
