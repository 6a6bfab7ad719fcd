"""Files of every client give the same servers.

A mistake is reported with its place and does not affect other servers.
"""

import json
import random
from pathlib import Path

import pytest
from hilum_mcp import ConfigFile, ServerConfig, read_config


@pytest.fixture
def config(tmp_path):
    """Write a file and read it."""

    def write(name: str, content: object) -> ConfigFile:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, indent=2)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_config(path)

    return write


def one(config: ConfigFile) -> ServerConfig:
    """Return the only server, which was read without a mistake."""
    assert not config.mistakes, list(map(str, config.mistakes))
    (server,) = config.servers.values()
    return server


PROGRAM = {"command": "npx", "args": ["-y", "tickets"], "env": {"TOKEN": "${TOKEN}"}}

DIALECTS = {
    "Claude Desktop": ("claude_desktop_config.json", {"mcpServers": {"s": PROGRAM}, "globalShortcut": "Alt+Space"}),
    "Claude Code": (".mcp.json", {"mcpServers": {"s": {"type": "stdio", **PROGRAM}}}),
    "a plugin's bare map": (".mcp.json", {"s": PROGRAM}),
    "Cursor": (".cursor/mcp.json", {"mcpServers": {"s": PROGRAM}}),
    "VS Code": (".vscode/mcp.json", {"inputs": [], "servers": {"s": {"type": "stdio", **PROGRAM}}}),
    "VS Code's settings": (".vscode/settings.json", {"mcp": {"servers": {"s": PROGRAM}}}),
    "Gemini CLI": (".gemini/settings.json", {"theme": "x", "mcpServers": {"s": PROGRAM}}),
    "a Gemini extension": ("gemini-extension.json", {"name": "x", "version": "1", "mcpServers": {"s": PROGRAM}}),
    "opencode": (
        "opencode.jsonc",
        '{"mcp": { // ours\n "s": {"type": "local", "command": ["npx", "-y", "tickets"],\n'
        '"environment": {"TOKEN": "${TOKEN}"},},}}',
    ),
    "Codex": (
        "config.toml",
        '[mcp_servers.s]\ncommand = "npx"\nargs = ["-y", "tickets"]\n[mcp_servers.s.env]\nTOKEN = "${TOKEN}"\n',
    ),
    "Copilot": ("mcp-config.json", {"mcpServers": {"s": {"type": "local", "tools": ["*"], **PROGRAM}}}),
    "Windsurf": ("mcp_config.json", {"mcpServers": {"s": PROGRAM}}),
    "Cline": ("cline_mcp_settings.json", {"mcpServers": {"s": {**PROGRAM, "disabled": False, "autoApprove": []}}}),
    "Roo": (".roo/mcp.json", {"mcpServers": {"s": {**PROGRAM, "alwaysAllow": []}}}),
    "Zed": ("settings.json", {"context_servers": {"s": {"source": "custom", **PROGRAM}}}),
    "Zed before 2025": (
        "settings.json",
        {"context_servers": {"s": {"command": {"path": "npx", "args": ["-y", "tickets"], "env": {"TOKEN": "${TOKEN}"}}}}},
    ),
    "goose": (
        "config.yaml",
        "extensions:\n  s:\n    type: stdio\n    name: s\n    cmd: npx\n    args: [-y, tickets]\n    envs:\n"
        "      TOKEN: ${TOKEN}\n",
    ),
    "agent-plugins.org": ("mcp.json", {"$schema": "https://agent-plugins.org/mcp", "mcpServers": {"s": PROGRAM}}),
    "Continue": (
        "s.yaml",
        "name: x\nversion: 0.1\nmcpServers:\n  - name: s\n    command: npx\n    args: [-y, tickets]\n"
        '    env: {TOKEN: "${TOKEN}"}\n',
    ),
    "Amp": (".amp/settings.json", {"amp.url": "https://x.example", "amp.mcpServers": {"s": PROGRAM}}),
    "Augment": ("settings.json", {"augment.advanced": {"mcpServers": [{"name": "s", **PROGRAM}]}}),
    "a transport inside": ("mcp.json", {"mcpServers": {"s": {"transport": {"type": "stdio", **PROGRAM}}}}),
    "one text of arguments, told apart": ("mcp.json", "\ufeff" + json.dumps({"mcpServers": {"s": PROGRAM}})),
}  # fmt: skip


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_program_of_every_client_is_the_same_server(config, dialect):
    """Name, program, arguments and variables are the same, and nothing is reported."""
    server = one(config(*DIALECTS[dialect]))
    assert (server.name, server.kind, server.command, server.args) == (
        "s",
        "stdio",
        "npx",
        ("-y", "tickets"),
    )
    assert server.env == {"TOKEN": "${TOKEN}"}
    assert server.enabled
    assert server.allowed_tools is None
    assert server.excluded_tools == ()


URL = "https://tickets.example/mcp"
KEY = {"Authorization": "Bearer x"}
REMOTE = {
    "Claude Code http": (".mcp.json", {"mcpServers": {"s": {"type": "http", "url": URL, "headers": KEY}}}, "http", False),
    "Claude Code sse": (".mcp.json", {"mcpServers": {"s": {"type": "sse", "url": URL, "headers": KEY}}}, "sse", False),
    "Cursor": (".cursor/mcp.json", {"mcpServers": {"s": {"url": URL, "headers": KEY}}}, "http", True),
    "VS Code": (".vscode/mcp.json", {"servers": {"s": {"type": "http", "url": URL, "headers": KEY}}}, "http", False),
    "Gemini httpUrl": (".gemini/settings.json", {"mcpServers": {"s": {"httpUrl": URL, "headers": KEY}}}, "http", False),
    "Gemini url": (".gemini/settings.json", {"mcpServers": {"s": {"url": URL, "headers": KEY}}}, "sse", False),
    "Gemini extension url": ("gemini-extension.json", {"mcpServers": {"s": {"url": URL, "headers": KEY}}}, "sse", False),
    "opencode": ("opencode.json", {"mcp": {"s": {"type": "remote", "url": URL, "headers": KEY}}}, "http", True),
    "Codex": (
        "config.toml", f'[mcp_servers.s]\nurl = "{URL}"\nhttp_headers = {{Authorization = "Bearer x"}}\n', "http", True
    ),
    "Copilot": ("mcp-config.json", {"mcpServers": {"s": {"type": "http", "url": URL, "headers": KEY}}}, "http", False),
    "Windsurf": ("mcp_config.json", {"mcpServers": {"s": {"serverUrl": URL, "headers": KEY}}}, "http", True),
    "Cline": (
        "cline_mcp_settings.json", {"mcpServers": {"s": {"type": "streamableHttp", "url": URL, "headers": KEY}}}, "http",
        False,
    ),
    "Roo": (".roo/mcp.json", {"mcpServers": {"s": {"type": "streamable-http", "url": URL, "headers": KEY}}}, "http", False),
    "Zed": ("settings.json", {"context_servers": {"s": {"url": URL, "headers": KEY}}}, "http", True),
    "goose": (
        "config.yaml",
        f"extensions:\n  s:\n    type: streamable_http\n    uri: {URL}\n    headers:\n      Authorization: Bearer x\n", "http",
        False,
    ),
    "transport": ("mcp.json", {"mcpServers": {"s": {"transport": "sse", "url": URL, "headers": KEY}}}, "sse", False),
    "requestInit": ("mcp.json", {"mcpServers": {"s": {"url": URL, "requestInit": {"headers": KEY}}}}, "http", True),
}  # fmt: skip


@pytest.mark.parametrize("dialect", REMOTE)
def test_an_address_of_every_client_is_the_same_server(config, dialect):
    """Transport, address and headers are the same.

    Only an address without a transport may fall back to SSE.
    """
    name, content, kind, bare = REMOTE[dialect]
    server = one(config(name, content))
    assert (server.kind, server.url, server.headers, server.kind_guessed) == (kind, URL, KEY, bare)


def test_codex_takes_tokens_and_headers_from_variables(config):
    """A file names variables for the token, for headers, and for the program's environment."""
    server = one(
        config(
            "config.toml",
            '[mcp_servers.s]\nurl = "https://x.example"\nbearer_token_env_var = "KEY"\n'
            'env_http_headers = {X-Team = "TEAM"}\nstartup_timeout_sec = 20\ntool_timeout_sec = 90.5\n',
        )
    )
    assert server.headers == {"Authorization": "Bearer ${KEY}"}
    assert server.headers_from_env == {"X-Team": "TEAM"}
    assert (server.start_seconds, server.call_seconds) == (20, 90.5)
    given = one(
        config(
            "config.toml",
            '[mcp_servers.s]\ncommand = "x"\nenv_vars = ["A", {name = "B", source = "local"}]\n',
        )
    )
    assert given.inherited_env == ("A", "B")


def test_a_program_has_a_folder_and_a_file_of_variables(config):
    """VS Code and Cursor have ``cwd`` and ``envFile``."""
    server = one(
        config(
            "mcp.json",
            {"servers": {"s": {"command": "x", "cwd": "${workspaceFolder}/a", "envFile": ".env"}}},
        )
    )
    assert (server.cwd, server.env_file) == ("${workspaceFolder}/a", ".env")


@pytest.mark.parametrize(
    ("name", "content", "enabled"),
    [
        (
            "opencode.json",
            {"mcp": {"s": {"type": "local", "command": ["x"], "enabled": False}}},
            False,
        ),
        ("mcp.json", {"mcpServers": {"s": {"command": "x", "disabled": True}}}, False),
        ("mcp.json", {"mcpServers": {"s": {"command": "x", "disabled": "true"}}}, False),
        ("config.yaml", "extensions:\n  s:\n    cmd: x\n    enabled: false\n", False),
        ("config.yaml", "extensions:\n  s:\n    cmd: x\n    enabled: true\n", True),
    ],
)
def test_a_file_can_disable_a_server(config, name, content, enabled):
    """The keys are ``enabled`` and ``disabled``, as booleans and as texts."""
    assert one(config(name, content)).enabled is enabled


@pytest.mark.parametrize("choice", [{"excluded": ["s"]}, {"allowed": ["other"]}])
def test_geminis_selection_of_servers_is_applied(config, choice):
    """A server that is excluded, or not allowed, is off, and a note names the list."""
    found = config(
        ".gemini/settings.json",
        {"mcp": choice, "mcpServers": {"s": {"command": "x"}, "other": {"command": "y"}}},
    )
    assert not found.servers["s"].enabled
    assert found.servers["other"].enabled
    assert any("disables it" in note for note in found.servers["s"].notes)


@pytest.mark.parametrize(
    ("given", "tools", "without"),
    [
        ({"tools": ["*"]}, None, ()),
        ({"tools": []}, (), ()),
        ({"tools": ["a", "b"]}, ("a", "b"), ()),
        ({"includeTools": ["a", "b"], "excludeTools": ["b"]}, ("a", "b"), ("b",)),
        ({"enabled_tools": ["a"], "disabled_tools": ["b"]}, ("a",), ("b",)),
        ({"disabledTools": ["b"]}, None, ("b",)),
        ({"available_tools": []}, None, ()),
        ({"includeTools": ["a", "b"], "tools": ["b", "c"]}, ("b",), ()),
    ],
)
def test_lists_of_tools_limit_a_server(config, given, tools, without):
    """Allow and exclude lists of every client are applied; of several lists all apply."""
    server = one(config("mcp.json", {"mcpServers": {"s": {"command": "x", **given}}}))
    assert (server.allowed_tools, server.excluded_tools) == (tools, without)
    assert not server.offers("b") if "b" in without else True


@pytest.mark.parametrize(
    ("name", "table", "value", "seconds"),
    [
        (".gemini/settings.json", "mcpServers", 30_000, 30),
        ("opencode.json", "mcp", 5_000, 5),
        ("cline_mcp_settings.json", "mcpServers", 3_600, 3_600),
        (".roo/mcp.json", "mcpServers", 1_800, 1_800),
        ("mcp.json", "mcpServers", 60, 60),
        ("mcp.json", "mcpServers", 60_000, 60),
        ("config.yaml", "extensions", 300, 300),
    ],
)
def test_timeouts_are_read_in_the_units_of_their_client(config, name, table, value, seconds):
    """Gemini and opencode count milliseconds; Cline, Roo and goose count seconds."""
    server = one(config(name, {table: {"s": {"command": "x", "timeout": value}}}))
    assert server.call_seconds == seconds


@pytest.mark.parametrize(
    "key", ["trust", "autoApprove", "alwaysAllow", "default_tools_approval_mode"]
)
def test_approvals_of_other_clients_have_no_effect(config, key):
    """They are reported, and the digest of the configuration stays the same."""
    found = config("mcp.json", {"mcpServers": {"s": {"command": "x", key: ["a"]}}})
    assert [mistake.reason for mistake in found.mistakes] == [f"{key} approves nothing in hilum."]
    assert (
        found.servers["s"].digest
        == one(config("mcp.json", {"mcpServers": {"s": {"command": "x"}}})).digest
    )
    codex = config(
        "config.toml",
        '[mcp_servers.s]\ncommand = "x"\n[mcp_servers.s.tools.send]\napproval_mode = "approve"\n',
    )
    assert [mistake.reason for mistake in codex.mistakes] == ["tools approves nothing in hilum."]
    assert codex.servers["s"].allowed_tools is None


def test_oauth_options_are_read_in_every_spelling(config):
    """Scopes may be a list, and ``oauth: false`` forbids a login."""
    for auth in (
        {"CLIENT_ID": "i", "CLIENT_SECRET": "x", "scopes": ["a", "b"]},
        {"clientId": "i", "clientSecret": "x", "scope": "a b"},
    ):
        server = one(config("mcp.json", {"mcpServers": {"s": {"url": URL, "auth": auth}}}))
        assert server.oauth == {"client_id": "i", "client_secret": "x", "scope": "a b"}
    assert (
        one(
            config("opencode.json", {"mcp": {"s": {"type": "remote", "url": URL, "oauth": {}}}})
        ).oauth
        == {}
    )
    assert not one(
        config("opencode.json", {"mcp": {"s": {"type": "remote", "url": URL, "oauth": False}}})
    ).login_allowed


def test_inputs_of_vs_code_are_read(config):
    """They are prompts, secrets, defaults and lists of choices, at the top or in ``mcp``."""
    inputs = [
        {"type": "promptString", "id": "key", "description": "API key", "password": True},
        {
            "type": "pickString",
            "id": "region",
            "options": ["eu", {"label": "US", "value": "us"}],
            "default": "eu",
        },
    ]
    for content in ({"inputs": inputs, "servers": {}}, {"mcp": {"inputs": inputs, "servers": {}}}):
        found = config(".vscode/mcp.json", content)
        assert not found.mistakes
        assert (found.inputs["key"].secret, found.inputs["key"].description) == (True, "API key")
        assert (found.inputs["region"].options, found.inputs["region"].default) == (
            ("eu", "us"),
            "eu",
        )
    odd = config(
        "mcp.json",
        {
            "inputs": [{"id": "c", "type": "command", "command": "x"}, {"type": "promptString"}],
            "servers": {},
        },
    )
    assert [mistake.where for mistake in odd.mistakes] == ["inputs", "inputs"]


# --- mistakes -------------------------------------------------------------------------------------

BROKEN = {
    "no mapping": ("x", "", 'found "x", expected a mapping with a server.'),
    "nothing": ({}, "", "It has neither a command nor a url."),
    "websocket": (
        {"type": "ws", "url": "wss://x"},
        ".type",
        "WebSockets are not an MCP transport; use streamable HTTP.",
    ),
    "kind without command": (
        {"type": "stdio", "url": "https://x"},
        "",
        "Its type is a program (stdio or local), but it has no command.",
    ),
    "kind without url": (
        {"type": "http", "command": "x"},
        "",
        "Its type is http, but it has a command and no url.",
    ),
    "args of a wrong type": (
        {"command": "x", "args": 5},
        ".args",
        "found 5, expected a list of texts.",
    ),
    "args with a mapping": (
        {"command": "x", "args": ["a", {}]},
        ".args.[1]",
        "found a mapping, expected a text.",
    ),
    "env as a list": (
        {"command": "x", "env": ["A=1"]},
        ".env",
        "found a list, expected a mapping of names to texts.",
    ),
    "env with a mapping": (
        {"command": "x", "env": {"A": {}}},
        ".env.A",
        "found a mapping, expected a text.",
    ),
    "NUL": (
        {"command": "x", "args": ["a\0b"]},
        ".args.[0]",
        "found a text with NUL characters, expected a text without NUL characters.",
    ),
    "a name with =": (
        {"command": "x", "env": {"A=B": "1"}},
        ".env.A=B",
        'found the name "A=B", expected a name without NUL characters and without =.',
    ),
    "open quotes": (
        {"command": "x", "args": "a 'b"},
        ".args",
        """"a 'b" cannot be split into words: No closing quotation.""",
    ),
    "a command that is a mapping of nothing": (
        {"command": {}},
        "",
        "It has neither a command nor a url.",
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_bad_server_does_not_affect_others(config, broken):
    """The mistake has the keys, the line, and what was found and expected."""
    entry, key, reason = BROKEN[broken]
    found = config(
        "mcp.json",
        {"mcpServers": {"first": {"command": "a"}, "bad": entry, "last": {"command": "b"}}},
    )
    assert list(found.servers) == ["first", "last"]
    (mistake,) = found.mistakes
    line = Path(found.file).read_text().split("\n")[mistake.line - 1]
    last = key.removesuffix("]").rpartition(".[")[0] or key
    assert f'"{last.rpartition(".")[2] or "bad"}"' in line
    assert str(mistake) == f"{found.file}:{mistake.line}: mcpServers.bad{key}: {reason}"
    assert mistake.level == "error"


MISSPELT = {
    "comand": "npx",
    "argz": ["x"],
    "type": "studio",
    "enabled": "maybe",
    "oauth": 7,
    "timeout": "soon",
    "Headers": {"A": "b"},
    "colour": "red",
    "_comment": "y",
}


def test_all_mistakes_of_a_server_are_reported_at_once(config):
    """In `.mcp.json` and hilum's own files, an unknown key is a mistake, with a suggestion."""
    for name in (".mcp.json", ".hilum/mcp.json"):
        found = config(name, {"mcpServers": {"bad": MISSPELT}, "inputz": []})
        assert [f"{each.line}: {each.where}: {each.reason}" for each in found.mistakes] == [
            "19: inputz: unknown key. Did you mean inputs?",
            "3: mcpServers.bad: It has neither a command nor a url.",
            '8: mcpServers.bad.type: found "studio", expected one of stdio, http, sse. Did you mean'
            " stdio?",
            "4: mcpServers.bad.comand: unknown key. Did you mean command?",
            "5: mcpServers.bad.argz: unknown key. Did you mean args?",
            "12: mcpServers.bad.Headers: unknown key. Did you mean headers?",
            "15: mcpServers.bad.colour: unknown key. Known: type, command, args, env, env_vars,"
            " envFile, cwd, url, headers, env_http_headers, bearer_token_env_var, requestInit …",
            "10: mcpServers.bad.oauth: found 7, expected true, false or a mapping; it was left out.",
            '9: mcpServers.bad.enabled: found "maybe", expected true or false; the server is off until'
            " this is corrected.",
            '11: mcpServers.bad.timeout: found "soon", expected a number above 0; it was left out.',
        ]
        assert {each.level for each in found.mistakes} == {"error"}


def test_other_programs_may_have_more_keys(config):
    """An unknown key is only mentioned as the likely reason for a missing one."""
    found = config(
        ".cursor/mcp.json",
        {"mcpServers": {"bad": {"comand": "npx"}, "good": {"command": "npx", "colour": "red"}}},
    )
    assert [(each.where, each.reason) for each in found.mistakes if each.level == "error"] == [
        (
            "mcpServers.bad",
            "It has neither a command nor a url. Did you mean command instead of 'comand'?",
        )
    ]
    assert [each.where for each in found.mistakes if each.level == "info"] == [
        "mcpServers.bad.comand",
        "mcpServers.good.colour",
    ]


def test_values_that_may_be_secret_are_not_quoted(config):
    """They are those of variables, headers, logins, and everything nested."""
    secret = "tk-9d8f7a6b5c"
    found = config(
        ".mcp.json",
        {
            "mcpServers": {
                "a": {"command": "x", "env": {"A": [secret]}, "args": [{"token": secret}]},
                "b": {"url": URL, "oauth": secret, "headers": secret},
                "c": [secret],
                "d": {"url": f"https://x.example?key={secret}\0"},
            }
        },
    )
    assert len(found.mistakes) == 6
    assert secret not in "".join(map(str, found.mistakes))


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("mcp.json", '{\n "mcpServers": {\n  "a" {} }}', 3, "not JSON"),
        ("mcp.json", '{\n // a\n /* b\n */ "mcpServers": oops}', 4, "not JSON"),
        ("config.toml", '[mcp_servers.a]\ncommand = "x\n', 2, "not TOML"),
        ("mcp.json", "[1]", 0, "a list"),
        (
            "mcp.json",
            b'{"a":\n "\xff"}'.decode("latin-1")
            .encode("latin-1")
            .decode("utf-8", "surrogateescape"),
            2,
            "not text in UTF-8",
        ),
        ("mcp.json", "[" * 100_000, 0, "nested too deeply"),
        ("mcp.json", '{"a": ' * 3_000 + "1" + "}" * 3_000, 0, "nested too deeply"),
    ],
)
def test_an_unreadable_file_is_reported_with_its_line(tmp_path, name, text, line, reason):
    """Each file has one mistake and no servers, and raises nothing."""
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    found = read_config(path)
    assert not found.servers
    assert reason in found.mistakes[0].reason
    assert found.mistakes[0].line == line


def test_missing_special_and_large_files_are_reported(tmp_path):
    """Reading does not wait for a pipe."""
    import os

    os.mkfifo(tmp_path / "pipe.json")
    with open(tmp_path / "large.json", "wb") as file:
        file.truncate(10 << 20)
    for name, reason in (
        ("none.json", "No such file"),
        ("pipe.json", "not a regular file"),
        ("large.json", "larger"),
        ("", "director"),
    ):
        assert reason in read_config(tmp_path / name).mistakes[0].reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"mcpServers": {"a": {"command": "x"}}', "part of a JSON file"),
        ('{"command": "x", "args": []}', "one without a name"),
    ],
)
def test_a_part_of_a_file_is_recognised(tmp_path, text, reason):
    """Users copy such parts from documentation."""
    (tmp_path / "mcp.json").write_text(text)
    (mistake,) = read_config(tmp_path / "mcp.json").mistakes
    assert reason in mistake.reason


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_damaged_file_of_every_client_is_reported(tmp_path, trials, dialect):
    """Truncated, repeated or changed text raises nothing, and nothing is lost silently."""
    name, content = DIALECTS[dialect]
    text = content if isinstance(content, str) else json.dumps(content, indent=1)
    chance = random.Random(dialect)
    path = tmp_path / Path(name).name
    for _ in range(trials(10, 40)):
        at, to = sorted(chance.sample(range(len(text) + 1), 2))
        sign = chance.choice('{}[]",:=#\n\\-$ \0é')
        for damaged in (
            text[:at],
            text[:at] + text[to:],
            text[:to] + text[at:],
            text[:at] + sign + text[at + 1 :],
        ):
            path.write_text(damaged)
            found = read_config(path)
            assert (
                found.servers
                or found.mistakes
                or not damaged.strip("\ufeff \n")
                or "s" not in damaged
            ), damaged


def test_keys_without_an_effect_are_reported(config):
    """They are unknown keys, keys of the other transport, synonyms, and further tables."""
    found = config(
        "mcp.json",
        {
            "mcpServers": {
                "a": {
                    "command": "x",
                    "headers": {"a": "b"},
                    "comand": "y",
                    "env": {"A": "1"},
                    "envs": {"B": "2"},
                },
                "b": {
                    "url": URL,
                    "serverUrl": "https://other.example",
                    "args": ["x"],
                    "env": {"A": None},
                },
            },
            "servers": {"c": {"command": "z"}},
        },
    )
    told = [f"{mistake.level} {mistake.where}: {mistake.reason}" for mistake in found.mistakes]
    assert told == [
        "warning servers: It was left out: only one table is read, mcpServers.",
        "warning mcpServers.a: It has env and envs; env is used.",
        "warning mcpServers.a.headers: This key has no effect for a program and was left out.",
        "info mcpServers.a.comand: unknown key. Did you mean command?",
        "warning mcpServers.b: It has serverUrl and url; serverUrl is used.",
        "warning mcpServers.b.args: This key has no effect for a URL and was left out.",
        "warning mcpServers.b.env: This key has no effect for a URL and was left out.",
    ]
    assert all(mistake.line for mistake in found.mistakes)


def test_a_duplicate_key_is_reported(config):
    """Parsers keep the last one silently."""
    found = config("mcp.json", '{"mcpServers": {"s": {"command": "a", "command": "b"}}}')
    assert found.servers["s"].command == "b"
    assert "'command' occurs twice" in found.mistakes[0].reason


def test_settings_without_servers_have_no_table(config):
    """Examples are extensions of VS Code and Zed, and Gemini's selection."""
    for name, content in (
        ("extensions.json", {"extensions": {"recommendations": ["a.b"]}}),
        ("settings.json", {"extensions": {"html": True}}),
        (".gemini/settings.json", {"mcp": {"allowed": ["a"]}}),
        ("config.toml", 'model = "x"\n'),
    ):
        found = config(name, content)
        assert found.table is None
        assert not found.servers
        assert "configures no MCP servers" in found.mistakes[0].reason
    for name, text in (
        ("mcp.json", ""),
        ("mcp.json", "{}"),
        ("mcp.json", "// nothing yet\n"),
        ("c.yaml", "---\n"),
        ("c.toml", ""),
    ):
        assert config(name, text) == ConfigFile(config(name, text).file)


def test_line_numbers_are_right_in_toml_and_yaml(config):
    """This includes quoted names, and another server with a key of that name."""
    toml = config("config.toml", '[a]\nb = 1\n\n[mcp_servers."b c"]\nargs = 5\ncommand = "x"\n')
    assert [(mistake.where, mistake.line) for mistake in toml.mistakes] == [
        ("mcp_servers.b c.args", 5)
    ]
    yaml = config(
        "config.yaml",
        "other:\n  bad: 1\nextensions:\n  good:\n    cmd: bad\n  bad:\n    name: x\n    type: stdio\n    enabled: true\n",
    )
    assert [(mistake.where, mistake.line) for mistake in yaml.mistakes] == [("extensions.bad", 6)]


def test_the_digest_covers_everything_that_is_run(config):
    """Descriptions and time limits do not change it."""
    base = {"command": "x", "args": ["a"], "env": {"A": "1"}, "cwd": "c"}
    first = one(config("mcp.json", {"mcpServers": {"s": base}})).digest
    assert (
        one(
            config("mcp.json", {"mcpServers": {"s": {**base, "description": "d", "timeout": 5}}})
        ).digest
        == first
    )
    for change in (
        {"command": "y"},
        {"args": ["a", "b"]},
        {"env": {"A": "2"}},
        {"cwd": "d"},
        {"envFile": ".env"},
        {"excludeTools": ["t"]},
    ):
        assert one(config("mcp.json", {"mcpServers": {"s": {**base, **change}}})).digest != first
    assert one(config("mcp.json", {"mcpServers": {"other": base}})).digest != first
