"""Restrictions of other agents beside deny and ask rules: what applies, and what is named."""

import json

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.errors import E_DENIED
from hilum.events import PluginEvent
from hilum.foreign_files import find_foreign_files
from hilum_guard.commands import judge_command
from hilum_guard.foreign.files import AGENTS
from hilum_guard.foreign.loading import load_foreign_rules
from hilum_guard.rules.matching import CallFacts, explain, fit

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
CLAUDE = ".claude/settings.json"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project beside an empty home folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "home").mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    return folder.resolve()


def read_rules(project, name, text):
    """Return the rules that a file becomes."""
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text, indent=1))
    (rules,) = load_foreign_rules(project, tuple(AGENTS))
    return rules


async def outcomes(bench, name, text, **calls):
    """The codes of a read, a write, a search of names and a command with the given settings."""
    files = {
        name: text if isinstance(text, str) else json.dumps(text),
        "a.txt": "x",
        "src/b.txt": "x",
    }
    kit = await bench(*PLUGINS, approve="auto", files=files)
    await kit.call("read_file", path="a.txt")
    found = {}
    for key, (tool, arguments) in {
        "read": ("read_file", {"path": "a.txt"}),
        "write": ("write_file", {"path": "new.txt", "content": "x"}),
        "inner": ("write_file", {"path": "src/new.txt", "content": "x"}),
        "list": ("list_directory", {"path": "."}),
        "command": ("run_terminal_cmd", {"command": "touch y"}),
        "log": ("run_terminal_cmd", {"command": "ls -a"}),
        **calls,
    }.items():
        found[key] = (await kit.call(tool, **arguments)).code
    return {key for key, code in found.items() if code == E_DENIED}


@pytest.mark.parametrize(
    ("core", "denied"),
    [
        (["read_file"], {"write", "inner", "command", "log"}),
        (["list_directory", "write_file"], {"command", "log"}),
        (["run_shell_command(ls)", "read_file", "replace"], {"command"}),
        (["run_shell_command", "read_file"], {"write", "inner"}),
    ],
)
async def test_only_the_core_tools_of_gemini_are_available(bench, core, denied):
    settings = {"tools": {"core": core}}
    found = await outcomes(bench, ".gemini/settings.json", settings)
    # Without tools that edit, commands do not write files either.
    assert found - {"command"} == denied - {"command"}
    assert ("command" in denied) <= ("command" in found)


def test_the_older_key_of_gemini_and_an_empty_list(project):
    rules = read_rules(project, ".gemini/settings.json", {"coreTools": ["read_file"]})
    assert "deny web_search" in [f"{rule.effect} {rule.text}" for rule in rules.rules]
    assert all("coreTools: read_file" in rule.written for rule in rules.rules)
    rules = read_rules(project, ".gemini/settings.json", {"tools": {"core": []}})
    assert len(rules.doubts) == 1


@pytest.mark.parametrize(
    ("filesystem", "denied"),
    [
        ('":root" = "read"', {"write", "inner", "command"}),
        ('":root" = "read"\n":workspace_roots" = "write"', set()),
        ('":root" = "read"\n":workspace_roots" = { "." = "write" }', set()),
        ('":root" = "read"\n":workspace_roots" = { "src" = "write" }', {"write", "command"}),
        ('":root" = "none"', {"read", "write", "inner", "command", "log"}),
    ],
)
async def test_the_root_of_a_codex_profile_applies_to_the_workspace(bench, filesystem, denied):
    text = f'default_permissions = "p"\n[permissions.p.filesystem]\n{filesystem}\n'
    found = await outcomes(bench, ".codex/config.toml", text)
    if '"none"' in filesystem:
        assert {"read", "write", "inner", "command"} <= found
    else:
        assert found == denied


def test_a_codex_profile_without_network_denies_the_network(project):
    text = 'default_permissions = "p"\n[permissions.p.network]\nenabled = false\n'
    (rule,) = read_rules(project, ".codex/config.toml", text).rules
    assert (rule.effect, rule.text, rule.written) == ("deny", "network", "network.enabled = false")
    assert rule.source.endswith(":3")
    text = text.replace("false", "true")
    assert read_rules(project, ".codex/config.toml", text).rules == []


def test_each_key_of_a_codex_profile_is_used_or_named(project):
    text = """default_permissions = "p"
[permissions.p]
extends = "x"
[permissions.p.filesystem]
":root" = "read"
":workspace_roots" = { "." = "write" }
"state" = "none"
[permissions.p.network]
enabled = true
domains = { "a.example" = "deny" }
"""
    left = read_rules(project, ".codex/config.toml", text).left
    assert [row.partition(" (line ")[0] for row in left] == [
        "permissions.p.extends",
        "permissions.p.network.enabled",
        "permissions.p.filesystem.:workspace_roots",
    ]
    assert "(line 9): the sandbox has no network" in left[1]


async def test_what_restricts_the_main_agent_of_opencode_applies(bench):
    agent = {
        "build": {"permission": {"bash": {"*": "deny", "ls *": "allow"}}, "tools": {"write": False}}
    }
    settings = {
        "permission": {"read": "allow"},
        "agent": {**agent, "other": {"permission": {"read": "deny"}}},
    }
    found = await outcomes(bench, "opencode.json", settings)
    assert found == {"write", "inner", "command"}


def test_what_the_main_agent_of_opencode_may_do_is_no_permission_for_others(project):
    settings = {
        "permission": {"bash": "deny"},
        "agent": {"build": {"permission": {"bash": "allow", "edit": "ask"}}},
    }
    rules = read_rules(project, "opencode.json", settings)
    assert rules.allowed == []
    assert {"deny run_terminal_cmd", "ask write_file"} <= {
        f"{rule.effect} {rule.text}" for rule in rules.rules
    }
    assert "agent.build.permission.edit: ask" in {rule.written for rule in rules.rules}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (CLAUDE, {"permissions": {"Deny": ["Edit(x)"]}}),
        (CLAUDE, {"permissions": {"denied": ["Edit(x)"]}}),
        (CLAUDE, {"permission": {"deny": ["Edit(x)"]}}),
        (".cursor/cli.json", {"permissions": {"denny": ["Write(x)"]}}),
        ("opencode.json", {"permissions": {"edit": "deny"}}),
        (".gemini/settings.json", {"excludedTools": ["write_file"]}),
        (".gemini/settings.json", {"tools": {"excluded": ["write_file"]}}),
    ],
)
def test_a_slip_in_a_key_that_denies_fails_closed(project, name, text):
    rules = read_rules(project, name, text)
    assert "is unknown; did you mean" in rules.problems[0]
    assert len(rules.doubts) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            CLAUDE,
            {"permissions": {"allow": [], "additionalDirectories": ["x"], "defaultMode": "x"}},
        ),
        (
            CLAUDE,
            {"model": "x", "permissions": {"deny": []}, "env": {"a": "b"}, "hooks": {"Stop": []}},
        ),
        (
            ".gemini/settings.json",
            {"tools": {"allowed": ["x"], "sandbox": "docker"}, "mcpServers": {}},
        ),
        ("opencode.json", {"agent": {"review": {"mode": "subagent"}}, "plugin": ["x"], "mode": {}}),
    ],
)
def test_other_keys_are_no_slips(project, name, text):
    assert read_rules(project, name, text).doubts == []


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (CLAUDE, {"permissions": {"defaultMode": "plan"}}, "Claude Code begins in plan mode"),
        (".codex/config.toml", 'sandbox_mode = "read-only"\n', "Codex changes nothing"),
        (
            ".gemini/settings.json",
            {"general": {"defaultApprovalMode": "plan"}},
            "Gemini CLI begins",
        ),
        (".gemini/settings.json", {"mcpServers": {"x": {"includeTools": ["a"]}}}, "the server x"),
        ("opencode.json", {"default_agent": "plan"}, "opencode begins with the agent `plan`"),
    ],
)
async def test_a_restriction_that_does_not_apply_is_named_in_the_session(bench, name, text, words):
    files = {name: text if isinstance(text, str) else json.dumps(text)}
    kit = await bench(*PLUGINS, files=files)
    await kit.call("list_directory", path=".")
    notes = [each for each in kit.of(PluginEvent) if each.name == "guard.foreign_unapplied"]
    (note,) = notes
    say = note.data["say"]
    assert say.startswith(f"Not applied: {kit.workspace / name}:1: ")
    assert words in say
    assert "hilum run --approve readonly" in say or "hilum permissions deny" in say


# --- regular expressions --------------------------------------------------------------------------

VS_CODE = ".vscode/settings.json"
POLICY = ".gemini/policies/mine.toml"


def policy(**rule):
    """A policy of Gemini CLI with one rule."""
    return "[[rule]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in rule.items())


def approve(expression):
    """Settings of VS Code with an expression for commands that are not approved."""
    return json.dumps({"chat.tools.terminal.autoApprove": {expression: False}})


@pytest.mark.parametrize(
    ("name", "text", "matching", "others"),
    [
        (
            VS_CODE,
            approve("/^npm (?=x|c)/"),
            ["npm x", "ls && npm ci", "timeout 5 npm x"],
            ["npm test", "pnpm x"],
        ),
        (VS_CODE, approve("/PUSH.*main$/i"), ["git push origin main"], ["git push origin x"]),
        (
            POLICY,
            policy(toolName="run_shell_command", commandRegex="git (?=pu)", decision="ask_user"),
            ["git push", "git -C . push"],
            ["echo git push", "git log"],
        ),
        (
            POLICY,
            policy(
                toolName="run_shell_command",
                argsPattern='"command":"rm .*[.]db',
                decision="ask_user",
            ),
            ["rm a.db"],
            ["ls a.db", "rm a.txt"],
        ),
        (POLICY, policy(commandRegex="x(?=y)", decision="ask_user"), ["xy"], ["x"]),
    ],
)
def test_regular_expressions_are_compared_with_commands(project, name, text, matching, others):
    rules = read_rules(project, name, text)
    assert rules.problems == []
    assert rules.doubts == []
    for command in matching:
        assert asks(project, rules, command), command
    for command in others:
        assert not asks(project, rules, command), command


def asks(project, rules, command):
    """Whether one of the rules matches a command."""
    read = judge_command(command, workspace=project)
    facts = CallFacts("run_terminal_cmd", {"command": command}, command=read, category="execute")
    return any(fit(rule, facts) in ("yes", "maybe") for rule in rules.rules)


def test_an_expression_that_takes_too_long_counts_as_a_match(project):
    rules = read_rules(project, VS_CODE, approve("/^(a+)+$|^(a|aa)+$/"))
    assert asks(project, rules, "a" * 50 + "b")


@pytest.mark.parametrize("expression", ["/(/", "/[^]x(/", "/" + "a(?=b)" * 170 + "/"])
def test_an_expression_that_cannot_be_read_asks_about_commands_only(project, expression):
    rules = read_rules(project, VS_CODE, approve(expression))
    assert rules.doubts == []
    assert asks(project, rules, "touch x")
    assert not asks(project, rules, "ls")
    assert "hilum permissions deny" in rules.problems[0]


def test_a_file_has_at_most_100_expressions(project):
    table = {f"/a(?={number})/": False for number in range(101)}
    rules = read_rules(project, VS_CODE, json.dumps({"chat.tools.terminal.autoApprove": table}))
    assert asks(project, rules, "touch x")
    assert len(rules.problems) == 1


def test_an_expression_about_other_tools_asks_about_each_call_of_these_tools(project):
    text = policy(toolName="write_file", argsPattern="secret", decision="deny")
    rules = read_rules(project, POLICY, text)
    assert rules.doubts == []
    assert rules.problems == []
    assert "name the paths instead" in rules.left[0]
    assert {rule.effect for rule in rules.rules} == {"ask"}
    assert "write_file" in {rule.tool for rule in rules.rules}
    assert not asks(project, rules, "touch x")


def test_an_expression_is_explained(project):
    (rule,) = read_rules(project, VS_CODE, approve("/x(?=y)/")).rules
    assert explain(rule) == (
        "every call of run_terminal_cmd with a command that matches /x(?=y)/ needs approval each time"
    )


async def test_an_expression_holds_in_a_session(bench, asked):
    files = {
        POLICY: policy(toolName="run_shell_command", commandRegex="touch (?=no)", decision="deny")
    }
    kit = await bench(*PLUGINS, approve="auto", files=files)
    assert (await kit.call("run_terminal_cmd", command="touch ok")).code == ""
    result = await kit.call("run_terminal_cmd", command="touch no")
    assert result.code == E_DENIED
    assert "deny run_shell_command: /touch (?=no)/ of Gemini CLI" in result.text


# --- what `hilum import` says ---------------------------------------------------------------------


def test_the_approvals_of_copilot_for_addresses_are_read(project):
    table = {
        "a.example": {"approveRequest": True, "approveResponse": False},
        "b.example": {"approveRequest": True, "approveResponse": True},
        "c.example": {"approveRequest": True},
        "d.example": None,
    }
    rules = read_rules(project, VS_CODE, {"chat.tools.urls.autoApprove": table})
    assert [rule.text for rule in rules.rules] == ["web_fetch(domain:a.example)"]
    assert [each.rules for each in rules.allowed] == [("web_fetch(domain:b.example)",)]
    (left,) = rules.left
    assert "c.example" in left
    assert "it approves only a part of a call" in left


def test_entries_with_the_same_meaning_are_offered_once(project):
    allow = ["Read(**)", "Read", "Grep", "Task(explore)", None]
    read_rules(project, CLAUDE, {"permissions": {"allow": allow}})
    (file,) = [each for each in find_foreign_files(project) if each.kind == "permissions"]
    texts = [offer.text for offer in file.offers]
    assert texts == ["Read(**), Read, Grep", "Task(explore)", "Task(explore)"]
    dangers = {offer.danger for offer in file.offers}
    assert "hilum does not know that these calls of handover are harmless" in dangers
    assert (
        "permissions.allow contains an empty value; a rule in quotes is expected."
        in file.problems[0]
    )
