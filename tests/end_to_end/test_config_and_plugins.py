"""``hilum config`` and ``hilum plugins``."""

import json
import tomllib

import pytest

pytestmark = pytest.mark.slow(cases=12, of="file")


async def test_config_says_where_each_value_comes_from(cli):
    """Default, user, project, environment."""
    cli.write_settings("turns = 7\n[shell]\ntimeout = 5\n")
    (cli.workspace / ".hilum").mkdir()
    project = cli.workspace / ".hilum" / "settings.toml"
    project.write_text("[shell]\nmax_timeout = 60\n")
    rows = json.loads((await cli("config", "--json", HILUM_MODE="ask")).out)
    source = {row["key"]: (row["value"], row["source"]) for row in rows}
    assert source["turns"] == (7, str(cli.settings))
    assert source["shell.timeout"] == (5.0, str(cli.settings))
    assert source["shell.max_timeout"] == (60.0, str(project))
    assert source["mode"] == ("ask", "HILUM_MODE")
    assert source["approve"] == ("ask_first", "default")
    table = (await cli("config", "shell")).out
    assert f"shell.timeout       = 5.0   # {cli.settings}" in table
    assert "turns" not in table


@pytest.mark.parametrize(
    "name", ["HILUM_TRACEBACK", "HILUM_CACHE", "HILUM_MCP_TOKEN", "HILUM_BACKGROUND"]
)
async def test_a_variable_that_is_no_setting_is_no_mistake(cli, name):
    """hilum reads it elsewhere."""
    done = await cli("sessions", "list", **{name: str(cli.folder)})
    assert done.code == 0, done.err
    assert "unknown variable" not in done.err


async def test_secrets_are_never_shown(cli):
    """Only whether they are set."""
    cli.write_settings(
        '[models.providers.mine]\nbase_url = "http://127.0.0.1:1"\nheaders = {x-key = "s3cr3t"}\n'
    )
    for arguments in (["config"], ["config", "--json"], ["config", "models"]):
        done = await cli(*arguments)
        assert done.code == 0, done.err
        assert "s3cr3t" not in done.out + done.err


async def test_config_path_names_both_files(cli):
    """Whether or not they exist."""
    done = await cli("config", "path")
    assert done.out.splitlines() == [str(cli.settings), f"{cli.workspace}/.hilum/settings.toml"]


async def test_plugins_are_listed_with_state_hooks_and_tools(cli):
    """Blocked ones are not imported."""
    cli.write_settings('[plugins]\nblock = ["shell"]\n')
    rows = {row["name"]: row for row in json.loads((await cli("plugins", "--json")).out)}
    assert rows["shell"]["state"] == "blocked"
    assert rows["files"]["state"] == "ready"
    assert sorted(rows["files"]["hooks"]) == ["open_session", "provide_tools"]
    assert rows["files"]["version"]
    shown = json.loads((await cli("plugins", "show", "files", "--json")).out)
    assert "read_file (read)" in shown[0]["tools"]
    assert "files" in (await cli("plugins")).out
    assert (await cli("plugins", "--help")).code == 0


GREETER = """
from hilum import hookimpl, tool

@tool(risk="read")
def greet(name: str) -> str:
    '''Greet somebody.'''
    return name

@hookimpl
def provide_tools():
    return [greet]
"""


async def listed(cli, *arguments):
    """The rows of ``hilum plugins``, by name."""
    done = await cli("plugins", *arguments, "--json")
    assert done.code == 0, done.err
    return {row["name"]: row for row in json.loads(done.out)}


async def test_plugins_of_a_project_and_of_a_file_are_listed(cli):
    """Those of a project are imported only if it is trusted.

    Until then the command that trusts it is named.
    """
    folder = cli.workspace / ".hilum" / "plugins"
    folder.mkdir(parents=True)
    ran = cli.folder / "ran"
    (folder / "own.py").write_text(GREETER + f"\nopen({str(ran)!r}, 'w').close()\n")
    (folder / "broken.py").write_text("def f(:\n")
    given = cli.folder / "given.py"
    given.write_text(GREETER)
    bad = cli.folder / "bad.py"
    bad.write_text("1 / 0\n")

    rows = await listed(cli)
    assert rows["own"]["state"] == rows["broken"]["state"] == "untrusted"
    assert rows["own"]["error"].startswith("not loaded: the folder is not trusted.")
    assert f"hilum trust {cli.workspace}" in rows["own"]["error"]
    assert not ran.exists()
    text = (await cli("plugins")).out
    assert "not loaded: the folder is not trusted" in text
    assert rows["files"]["path"] == ""

    assert (await cli("trust", str(cli.workspace))).code == 0
    rows = await listed(cli, "--plugin", str(given), f"--plugin={bad}")
    assert (rows["own"]["state"], rows["own"]["hooks"]) == ("ready", ["provide_tools"])
    assert (rows["given"]["state"], rows["given"]["path"]) == ("ready", str(given))
    assert (rows["broken"]["state"], rows["bad"]["state"]) == ("failed", "failed")
    assert "line 1" in rows["broken"]["error"]
    assert "ZeroDivisionError" in rows["bad"]["error"]
    assert ran.exists()
    shown = await listed(cli, "show", "own")
    assert [*shown] == ["own"]
    assert shown["own"]["tools"] == ["greet (read)"]


async def test_a_project_plugin_with_the_name_of_an_installed_one_does_not_stop_the_list(cli):
    """A run would refuse to start; the list says what is wrong."""
    folder = cli.workspace / ".hilum" / "plugins"
    folder.mkdir(parents=True)
    (folder / "shell.py").write_text(GREETER)
    assert (await cli("trust", str(cli.workspace))).code == 0
    done = await cli("plugins")
    assert done.code == 0, done.err
    assert "rename the file" in done.out


@pytest.mark.parametrize(
    "arguments", [["--plugin"], ["--nothing"], ["lists"], ["-C", "/nowhere/at/all"]]
)
async def test_a_wrong_command_line_of_plugins_is_an_error(cli, arguments):
    """Exit code 2, and how it is used."""
    done = await cli("plugins", *arguments)
    assert done.code == 2
    assert "E_" in done.err


FORMS = [
    ("", '[plugins]\nblock = ["files"]\n'),
    ("# mine\nturns = 3 # three\n", '# mine\nturns = 3 # three\n\n[plugins]\nblock = ["files"]\n'),
    ("turns = 3", 'turns = 3\n[plugins]\nblock = ["files"]\n'),
    ("[plugins] # here\n# none\n[shell]\ntimeout = 5\n", '[plugins] # here\nblock = ["files"]\n# none\n[shell]\ntimeout = 5\n'),
    ('[plugins]\norder = ["store"]\nblock = []  # later\n', '[plugins]\norder = ["store"]\nblock = ["files"]  # later\n'),
    ('[plugins]\nblock = [\n  "shell",\n]\n', '[plugins]\nblock = ["shell", "files"]\n'),
    ('plugins.block = ["shell"]\n', 'plugins.block = ["shell", "files"]\n'),
    ("[shell]\r\ntimeout = 5\r\n", '[shell]\r\ntimeout = 5\r\n\n[plugins]\nblock = ["files"]\n'),
]  # fmt: skip


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize(("before", "after"), FORMS)
async def test_blocking_changes_one_list_and_nothing_else(cli, before, after):
    """Comments and order stay; unblocking takes it back."""
    cli.settings.parent.mkdir()
    cli.settings.write_bytes(before.encode())
    done = await cli("plugins", "block", "files")
    assert done.code == 0, done.err
    assert cli.settings.read_bytes().decode() == after
    assert tomllib.loads(after)["plugins"]["block"][-1] == "files"
    rows = json.loads((await cli("plugins", "--json")).out)
    assert next(row for row in rows if row["name"] == "files")["state"] == "blocked"
    assert (await cli("plugins", "unblock", "files")).code == 0
    assert "files" not in tomllib.loads(cli.settings.read_text())["plugins"]["block"]


@pytest.mark.parametrize(
    "text",
    [
        'plugins = {block = ["shell"]}\n',
        '[plugins]\nblock = [\n  "shell", # slow\n]\n',
        '[plugins]\nblock = "shell"\n',
        "x =",
    ],
)
async def test_what_cannot_be_changed_safely_is_left_alone(cli, text):
    """And the message says what to write."""
    cli.write_settings(text)
    done = await cli("plugins", "block", "files")
    assert done.code == 2
    assert "by hand" in done.err
    assert cli.settings.read_text() == text


async def test_blocking_follows_a_link_and_keeps_the_mode(cli):
    """A settings file kept elsewhere stays there."""
    real = cli.folder / "dotfiles.toml"
    real.write_text("turns = 3\n")
    real.chmod(0o640)
    cli.settings.parent.mkdir()
    cli.settings.symlink_to(real)
    assert (await cli("plugins", "block", "files")).code == 0
    assert cli.settings.is_symlink()
    assert "files" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640


async def test_the_command_line_wins_and_plugins_are_chosen_there(cli):
    """--set, --plugins and --no-plugin."""
    async with cli.model("one", "two") as server:
        done = await cli(
            "run",
            "hi",
            "--no-plugin",
            "hilum-shell",
            "--output-format",
            "stream-json",
            "--set",
            "mode=plan",
        )
        assert done.code == 0, done.out
        (sealed,) = [line for line in done.lines if line["type"] == "prompt_built"]
        assert sealed["mode"] == "plan"
        assert "run_terminal_cmd" not in [tool["name"] for tool in sealed["tools"]]
        done = await cli(
            "run",
            "hi",
            "--plugins",
            "models,files",
            "--plugins",
            "store",
            "--output-format",
            "stream-json",
        )
        (sealed,) = [line for line in done.lines if line["type"] == "prompt_built"]
        assert sealed["layers"] == []
        assert "read_file" in [tool["name"] for tool in sealed["tools"]]
    assert server.count == 2


BROKEN_WHEN_OPENED = {
    "tool.py": (
        "from hilum import hookimpl, tool\n@tool\ndef a(x):\n    'A.'\n"
        "@hookimpl\ndef provide_tools():\n    return [a]\n",
        "faulty",
        "tool.py, line 2: Tool a: parameter 'x' needs a type annotation",
    ),
    "answer.py": (
        "from hilum import hookimpl\n@hookimpl\ndef provide_tools():\n    return 7\n",
        "faulty",
        "provide_tools: it returned 7, expected Tool (answer.py, line 2)",
    ),
    "gate.py": (
        "from hilum import hookimpl\ngates = ('on_tool_call',)\n@hookimpl\ndef remind(): ...\n",
        "off",
        "the gate on_tool_call is closed",
    ),
    "raises.py": (
        "from hilum import hookimpl\n@hookimpl\ndef open_session():\n    return 1 / 0\n",
        "off",
        "open_session: ZeroDivisionError: division by zero (raises.py, line 4)",
    ),
}


@pytest.mark.parametrize("name", BROKEN_WHEN_OPENED)
async def test_a_plugin_whose_tools_or_gates_are_broken_is_not_shown_as_ready(cli, name):
    """It loads, but a session cannot use it."""
    source, state, fault = BROKEN_WHEN_OPENED[name]
    file = cli.folder / name
    file.write_text(source)
    rows = await listed(cli, "show", file.stem, "--plugin", str(file))
    (row,) = rows.values()
    assert row["state"] == state
    assert any(fault in each for each in row["faults"])
    assert not any(each.endswith(".") for each in row["faults"])


async def test_every_mistake_of_a_project_plugin_is_a_line(cli):
    """One is never hidden behind another."""
    folder = cli.workspace / ".hilum" / "plugins"
    folder.mkdir(parents=True)
    (folder / "two.py").write_text(
        "from hilum import hookimpl\n@hookimpl\ndef remnd(): ...\n"
        "@hookimpl\ndef remind(result): ...\n"
    )
    assert (await cli("trust", str(cli.workspace))).code == 0
    shown = (await cli("plugins")).out
    assert (
        "    error: 2 mistakes:\n"
        "      two.py, line 2: There is no hook 'remnd'. Did you mean remind?\n"
        "      two.py, line 4: remind has no argument result; it has agent, results."
        " Did you mean results?\n"
    ) in shown


@pytest.mark.parametrize(
    "command",
    [
        ["config"],
        ["doctor"],
        ["permissions", "list"],
        ["plugins"],
        ["trust", "--list"],
    ],
    ids=" ".join,
)
async def test_json_has_no_character_that_a_terminal_interprets(cli, command):
    """It is escaped as JSON allows, by one helper for all commands."""
    folder = cli.folder / "red\x9b31m"
    folder.mkdir()
    (folder / "x.py").write_text("")
    assert (await cli("trust", str(folder))).code == 0
    arguments = [] if command == ["trust", "--list"] else ["-C", str(folder)]
    done = await cli(*command, "--json", *arguments)
    assert "\x9b" not in done.out
    json.loads(done.out)
