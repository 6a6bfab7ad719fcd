"""``hilum agents``: its output, its files and its errors."""

import json
import re

import pytest
from hilum import UsageError
from hilum.trust import TrustedFolders
from hilum_agents import command, list_commands, load_definition
from hilum_agents.dispatch import ACTIONS

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def run(tmp_path, capsys):
    """Run the command in a project and return exit code and output."""
    (tmp_path / "project").mkdir(exist_ok=True)

    def make(*arguments):
        code = command.main([*arguments, "-C", str(tmp_path / "project")])
        return code, capsys.readouterr().out

    return make


def test_list_as_text_and_json(run):
    code, text = run()
    assert code == 0
    assert "built in:" in text
    assert "review" in text
    listed = json.loads(run("list", "--json")[1])
    assert {each["name"] for each in listed} == {"explore", "review", "test", "doc", "refactor"}
    assert all(
        each["scope"] == "builtin" and each["title"] and each["description"] for each in listed
    )
    assert run("list", "--scope", "user")[1] == ""


@pytest.mark.parametrize(
    ("program", "front", "said", "writes"),
    [
        ("sh -c x", "", "✓ program: sh; it may write to the workspace", True),
        ("sh", "tools: {allow: [read]}", "✓ program: sh; it can only read the workspace", False),
        ("no-such-program", "", "⚠ program: there is no program 'no-such-program'.", True),
        ("$GUEST_MODEL", "", "✓ program: $GUEST_MODEL;", True),
    ],
)
def test_an_agent_that_is_a_program_has_none_of_the_tools(
    run, tmp_path, program, front, said, writes
):
    TrustedFolders().add(tmp_path / "project")
    file = tmp_path / "project/.hilum/agents/guest.md"
    file.parent.mkdir(parents=True)
    file.write_text(
        f"---\nkind: agent\nname: guest\ndescription: d\n{front}\n"
        f"runner: {{command: '{program}'}}\n---\n"
    )
    code, text = run("validate", "guest")
    assert code == 0
    assert said in text
    assert "read_file" not in text
    assert "tools:" in run("info", "guest")[1]
    info = json.loads(run("info", "guest", "--json")[1])
    assert (info["program"], info["tools"]) == (program.split(), [])
    assert info["writes"] == writes


def test_create_info_validate_delete(run, tmp_path):
    TrustedFolders().add(tmp_path / "project")
    options = [
        "--title",
        "SQL: check",
        "--description",
        "Checks: SQL #1",
        "--model",
        "fast",
        "--tools",
        "Read,Grep",
    ]
    code, text = run("create", "sql_check", *options, "--prompt", "You check SQL.")
    file = tmp_path / "project/.hilum/agents/sql_check.md"
    assert code == 0
    assert str(file) in text
    assert "off until" not in text
    found = load_definition(file)
    assert (found.name, found.title, found.description, found.model) == (
        "sql_check",
        "SQL: check",
        "Checks: SQL #1",
        "fast",
    )
    assert (found.version, found.fields["scope"], found.prompt, found.problems) == (
        "1.0.0",
        "project",
        "You check SQL.",
        (),
    )
    info = json.loads(run("info", "SQL_check", "--json")[1])
    assert info["tools"] == ["read_file", "search_files"]
    assert info["allow"] == ["read_file", "search_files"]
    assert "changed" in info["dates"]
    assert info["path"] == str(file)
    assert run("validate", "sql_check")[0] == 0
    with pytest.raises(UsageError, match="requires confirmation"):
        run("delete", "sql_check")
    assert run("delete", "sql_check", "--yes")[0] == 0
    assert not file.exists()


def test_a_title_is_enough_if_nobody_can_be_asked(run, tmp_path):
    assert (
        run("create", "code_review", "--title", "Code Reviewer", "--model", "gemini-2.5-pro")[0]
        == 0
    )
    found = load_definition(tmp_path / "project/.hilum/agents/code_review.md")
    assert (found.title, found.description, found.version) == (
        "Code Reviewer",
        "Code Reviewer",
        "1.0.0",
    )
    assert (found.fields["kind"], found.fields["scope"]) == ("agent", "project")


def test_info_shows_effective_values_and_unused_fields(run, tmp_path):
    file = tmp_path / "project/.claude/agents/x.md"
    file.parent.mkdir(parents=True)
    front = "name: x\ndescription: d\ncolor: red\ntemperature: 0.1\nskills: [pdf]\nanswer: {verdict: a | b}"
    file.write_text(f"---\n{front}\nmcpServers: {{gh: {{command: c}}}}\n---\nDo it.\n")
    text = run("info", "x")[1]
    assert "not used:           color, temperature\n" in text
    assert "answer:             verdict\n" in text
    data = json.loads(run("info", "x", "--json")[1])
    assert data["own_servers"] == {"gh": {"command": "c"}}
    assert (data["skills"], data["answer"], data["unused"]) == (
        ["pdf"],
        {"verdict": "a | b"},
        ["color", "temperature"],
    )


def test_an_existing_file_is_not_overwritten(run):
    run("create", "x", "--description", "d", "--scope", "global")
    with pytest.raises(UsageError, match="already"):
        run("create", "x", "--description", "d", "--scope", "user")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create"], "needs a name"),
        (["create", "x"], "needs --description"),
        (["create", "X Y", "--description", "d"], "not a valid agent name"),
        (["create", "main", "--description", "d"], "name 'main' is reserved"),
        (["create", "readme", "--description", "d"], "name 'readme' is reserved"),
        (["create", "x-", "--description", "d"], "cannot be called 'x-'"),
        (["run", "reveiw", "look"], "no agent 'reveiw'"),
        (["info", "reveiw"], "no agent"),
        (["frob"], "no action"),
        (["delete", "review", "--yes"], "built in"),
        (["info"], "required"),
    ],
)
def test_errors_have_a_hint(run, arguments, message):
    with pytest.raises(UsageError, match=message) as caught:
        run(*arguments)
    assert caught.value.hint


def test_a_terminal_asks_for_missing_values(run, tmp_path, monkeypatch):
    given = iter(["helper", "Helps with things.", ""])
    monkeypatch.setattr("builtins.input", lambda question: next(given))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    code, text = run("create")
    assert code == 0
    assert "hilum trust" in text
    found = load_definition(tmp_path / "project/.hilum/agents/helper.md")
    assert (found.description, found.prompt) == (
        "Helps with things.",
        "You are Helper. Helps with things.",
    )


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            "---\nname: a\ndescription: d\ntools: Frob\n---\nx",
            0,
            ["⚠ line 4", "there is no such tool here", "excludes all"],
        ),
        (
            "---\nname: a\ndescription: d\ntools: [read_file, raed_file]\n---\nx",
            0,
            ["⚠ tool raed_file: there is no such tool here. Did you mean read_file?"],
        ),
        (
            "---\nname: a\ndescription: d\ntools: {allow: [read_file, web_fetch], deny: [web_fetch]}\n---\nx",
            0,
            ["⚠ tool web_fetch: excluded"],
        ),
        ("---\nname: a\ndescription: d\nmcpServers: [gh]\n---\nx", 0, ["⚠ server gh"]),
        ("---\nname: a\ndescription: d\n---\n", 1, ["✗ a ", "no prompt"]),
        (
            "---\nname: a\ndescription: d\ntools: []\n---\nx",
            0,
            ["✓ tools: none, as specified in the file"],
        ),
        ("x \x1b[31m", 1, ["no front matter"]),
    ],
)
def test_validate(run, tmp_path, text, code, said):
    (tmp_path / "project/a.md").write_text(text)
    found, printed = run("validate", "a.md")
    assert found == code
    for each in said:
        assert each in printed
    assert "\x1b" not in printed


def test_help_is_printed(run):
    assert "hilum agents create" in run("--help")[1]
    assert "--about" in run("create", "--help")[1]


def test_the_summary_of_the_command_promises_only_actions_that_exist():
    """`/help` promised "watch", which is no action."""
    (listed,) = list_commands()
    promised = set(re.findall("[a-z]+", listed.summary.lower())) - {"and", "agents", "their"}
    names = {"list": "list", "show": "info", "start": "run", "stop": "stop", "results": "results"}
    assert {names[word] for word in promised} <= set(ACTIONS)
    assert set(listed.words) == set(ACTIONS)
