"""The permissions that the user gave to other agents: what they deny, hilum denies, too."""

import json
import textwrap

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked, CallStarted, PluginEvent
from hilum.testing import open_bench
from hilum_guard.commands import judge_command
from hilum_guard.effects.resolved_effects import resolve_effects
from hilum_guard.foreign.expressions import expand_beginnings
from hilum_guard.foreign.files import AGENTS, find_files, stamp_files
from hilum_guard.foreign.loading import load_foreign_rules
from hilum_guard.foreign.patterns import convert_command, convert_path, is_used_by_programs
from hilum_guard.rules.expressions import Expression
from hilum_guard.rules.matching import CallFacts, explain, fit
from hilum_guard.sandbox import backends

PLUGINS = (hilum_guard, hilum_files, hilum_shell)
CLAUDE = ".claude/settings.json"


def claude(**lists):
    """The text of settings of Claude Code."""
    return json.dumps({"permissions": lists}, indent=2)


def write(folder, name, text):
    """Write a file and the folders above it."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


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
    write(project, name, text)
    (rules,) = load_foreign_rules(project, tuple(AGENTS))
    return rules


def shown(rules):
    """The rules in hilum's notation, each with its effect and its later lines."""
    listed = []
    for rule in rules.rules:
        later = "".join(f" {line}" for line in rule.later)
        listed.append(f"{rule.effect} {rule.text}{later}")
    return listed


# --- patterns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("npm run test:*", ["npm run test *"]),
        ("npm run build", ["npm run build"]),
        ("git * main", ["git * main"]),
        ("*--no-verify*", ["* *--no-verify*"]),
        ("git push*", ["git push*"]),
        ("git push*main", ["git push*main", "git push* * *main"]),
        ("test [ -f x ]", ["test [[] -f x ]"]),
        ("*", ["*"]),
    ],
)
def test_the_patterns_of_commands_keep_their_meaning(pattern, expected):
    assert list(convert_command(pattern)) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("./.env", ["/.env"]),
        (".env", [".env"]),
        (" ** / *token*", ["*token*"]),
        ("** /secrets/ ** ", ["**/secrets/**"]),
        ("src/**", ["/src/**"]),
        ("**/*.pem", ["*.pem"]),
        ("**/secrets/**", ["**/secrets/**"]),
        ("//etc/passwd", ["//etc/passwd"]),
        ("~/.ssh/**", ["//home/me/.ssh/**"]),
        ("$HOME/.aws/**", ["//home/me/.aws/**"]),
        ("/docs/x.md", ["/docs/x.md", "//docs/x.md"]),
        ("../other/**", ["//code/other/**"]),
        ("//code/project/src/a.py", ["/src/a.py"]),
        ("//code/**", ["//code/**", "/**"]),
    ],
)
def test_the_patterns_of_paths_are_relative_to_the_workspace(tmp_path, pattern, expected):
    root = tmp_path.__class__("/code/project")
    home = tmp_path.__class__("/home/me")
    assert list(convert_path(pattern, root, root, home)) == expected


def test_programs_keep_the_files_that_they_need():
    """A build reads `node_modules`, which people exclude because it is long and not secret."""
    assert is_used_by_programs("/node_modules/**")
    assert is_used_by_programs("package-lock.json")
    assert is_used_by_programs("/**")
    assert not is_used_by_programs("/migrations/**")
    assert not is_used_by_programs("/dist/**")
    assert not is_used_by_programs("/.venv/**")
    assert not is_used_by_programs("/.env")
    assert not is_used_by_programs("/secrets/**")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("^git (push|reset)\\b", ["git push", "git reset"]),
        ("^rm\\s+-rf.*", ["rm -rf"]),
        ("^(?:curl|wget)(\\s|$)", ["curl", "wget"]),
        ("^npm.*publish$", []),
        ("rm[ab]", []),
        ("^a.c", []),
    ],
)
def test_only_plain_expressions_are_read(expression, expected):
    assert expand_beginnings(expression) == expected


# --- formats --------------------------------------------------------------------------------------


def test_claude_code_settings_become_rules_with_their_lines(project):
    text = claude(
        deny=["Bash(curl:*)", "Read(./secrets/**)", "WebFetch(domain:x.example)", "mcp__github"],
        ask=["Bash(npm publish:*)", "Task(deploy)"],
        allow=["Bash(npm test:*)", "Edit(docs/**)"],
    )
    rules = read_rules(project, CLAUDE, f"// a comment\n{text[:-2]},\n}}\n")
    assert shown(rules) == [
        "deny run_terminal_cmd(curl *)",
        "deny read_file(/secrets/**)",
        "deny web_fetch(domain:x.example)",
        "deny github__*",
        "ask run_terminal_cmd(npm publish *)",
        "ask run_terminal_cmd(npm publish:* *)",
        "ask task(agent=deploy)",
        "ask handover(agent=deploy)",
    ]
    assert rules.rules[0].source == f"{project / CLAUDE}:5"
    assert rules.rules[1].written == "Read(./secrets/**)"
    assert [each.rules for each in rules.allowed] == [
        ("run_terminal_cmd(npm test *)",),
        ("write_file(/docs/**)",),
    ]
    assert rules.problems == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("Bash(rm -rf", ["deny run_terminal_cmd(rm -rf)"]),
        ("Bash()", ["deny run_terminal_cmd", "deny write_service"]),
        ("WebFetch(???)", ["deny web_fetch", "deny browser_use"]),
        ("Bash(curl * | sh)", ["ask run_terminal_cmd(sh)"]),
        ("Bash(> /dev:*)", ["deny write_file(//dev)"]),
        ("NotATool", ["deny NotATool"]),
    ],
)
def test_a_malformed_denial_still_denies_what_it_can_mean(project, rule, expected):
    rules = read_rules(project, CLAUDE, claude(deny=[rule]))
    assert set(expected) <= set(shown(rules))


@pytest.mark.parametrize(
    "text",
    [
        '{"permissions": {"deny": [12]}}',
        '{"permissions": {"deny": [["Bash"]]}}',
        '{"permissions": ["deny"]}',
        '{"permissions": {"deny": ["Bash(rm:*)"',
        '{"permissions": {"deny": ["((("]}}',
        "[]deny",
    ],
)
def test_what_cannot_be_read_and_may_deny_is_a_doubt_with_its_line(project, text):
    rules = read_rules(project, CLAUDE, f"\n{text}")
    assert rules.doubts
    assert rules.problems[0].startswith(f"{project / CLAUDE}")
    assert ":2: " in rules.problems[0] or "It is not" in rules.problems[0]


def test_an_unreadable_file_without_denials_is_only_reported(project):
    rules = read_rules(project, CLAUDE, '{"model": "x", ')
    assert rules.doubts == []
    assert len(rules.problems) == 1


def test_a_key_that_occurs_twice_is_reported_with_its_line(project):
    text = '{"a": {"b": 1},\n // "model"\n"model": "x",\n"b": 1,\n"model": "y"}'
    (problem,) = read_rules(project, CLAUDE, text).problems
    assert "settings.json:5: The key 'model' occurs twice" in problem


def test_lists_of_a_key_that_occurs_twice_are_merged(project):
    """As after a bad merge: without its first list, the file would deny nothing."""
    text = """{
      "permissions": {"deny": ["Edit(x/**)"], "deny": [], "ask": ["Bash(a *)"]},
      "permissions": {"deny": ["Read(y)"]}
    }"""
    rules = read_rules(project, CLAUDE, text)
    assert shown(rules) == [
        "deny write_file(/x/**)",
        "deny read_file(y)",
        "ask run_terminal_cmd(a *)",
    ]
    assert len(rules.problems) == 2
    assert all("all its values are used" in problem for problem in rules.problems)
    assert rules.doubts == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (CLAUDE, '{"permissions": {"deny": ["Edit(x)"], "deny": null}}'),
        ("opencode.json", '{"permission": {"edit": "deny", "edit": "allow"}}'),
        (".vscode/settings.json", '{"chat.tools.edits.autoApprove": {"x": false, "x": true}}'),
        (CLAUDE, '{"permissions": {"\\u0064eny": ["Edit(x)"'),
    ],
)
def test_a_value_that_is_lost_and_may_deny_is_a_doubt(project, name, text):
    rules = read_rules(project, name, text)
    assert len(rules.doubts) == 1
    assert rules.problems[0].startswith(f"{project / name}:")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_settings_of_vs_code_in_another_encoding_are_not_passed_over(project, encoding):
    path = project / ".vscode/settings.json"
    path.parent.mkdir()
    text = '{"chat.tools.terminal.autoApprove": {"rm": false}}'
    path.write_bytes(text.encode(encoding) + b"\xff")
    (rules,) = load_foreign_rules(project, tuple(AGENTS))
    assert "It is not" in rules.problems[0]
    assert len(rules.doubts) == 1


def test_in_opencode_the_last_pattern_that_matches_decides(project):
    permission = {
        "bash": {"*": "deny", "git *": "allow", "git push *": "deny"},
        "read": {"*": "allow", "*.env": "deny", "*.env.example": "allow"},
        "edit": {"docs/**": "deny", "*": "allow"},
        "webfetch": "ask",
        "doom_loop": "ask",
    }
    rules = read_rules(project, "opencode.jsonc", json.dumps({"permission": permission}))
    assert shown(rules) == [
        "deny run_terminal_cmd",
        "deny run_terminal_cmd(git push *)",
        "deny read_file(*.env) !*.env.example",
        "ask web_fetch",
        "ask browser_use",
    ]
    assert rules.rules[0].unless == ("git *",)


def test_an_exception_is_explained_only_where_it_matters(project):
    permission = {"bash": {"git push*": "deny", "npm *": "allow", "git push origin *": "allow"}}
    rules = read_rules(project, "opencode.json", json.dumps({"permission": permission}))
    explained = [explain(rule) for rule in rules.rules]
    assert explained == [
        "every call of run_terminal_cmd with the path or command 'git push*' is refused, except"
        " git push origin *"
    ]


def test_a_file_that_is_taken_out_of_a_rule_is_explained_in_words(project):
    permission = {"read": {"*.env": "deny", "*.env.example": "allow"}}
    rules = read_rules(project, "opencode.json", json.dumps({"permission": permission}))
    assert explain(rules.rules[0]).startswith("reading *.env, except *.env.example, by any tool")


def test_two_stars_mean_every_tool(project):
    rules = read_rules(project, CLAUDE, '{"permissions": {"deny": ["**"]}}')
    assert shown(rules) == ["deny *"]
    assert rules.left == []


def test_gemini_settings_and_policies_deny(project):
    settings = {"tools": {"exclude": ["run_shell_command(rm -rf)", "web_fetch"]}}
    rules = read_rules(project, ".gemini/settings.json", json.dumps(settings))
    assert shown(rules)[0] == "deny run_terminal_cmd(rm -rf *)"
    policy = """
[[rule]]
toolName = "run_shell_command"
commandPrefix = ["git push", "npm publish"]
decision = "deny"
priority = 200

[[rule]]
toolName = "run_shell_command"
commandRegex = "^git (reset|clean).*"
decision = "ask_user"
priority = 100

[[rule]]
toolName = "run_shell_command"
argsPattern = "a(?=b)"
decision = "deny"
priority = 50
"""
    write(project, ".gemini/policies/mine.toml", policy)
    policies = load_foreign_rules(project, ("gemini",))[1]
    assert shown(policies) == [
        "deny run_terminal_cmd",
        "ask run_terminal_cmd(git reset *)",
        "ask run_terminal_cmd(git clean *)",
        "deny run_terminal_cmd(git push *)",
        "deny run_terminal_cmd(npm publish *)",
    ]
    assert policies.rules[0].expression == Expression("a(?=b)", is_json=True)
    assert policies.rules[0].source.endswith("mine.toml:14")
    assert policies.doubts == []


def test_gemini_excludes_tools_of_a_server(project):
    servers = {"db": {"command": "db-server", "excludeTools": ["drop_table"]}}
    rules = read_rules(project, ".gemini/settings.json", json.dumps({"mcpServers": servers}))
    assert shown(rules) == ["deny db__drop_table"]
    assert rules.rules[0].written == "mcpServers.db.excludeTools: drop_table"


def test_codex_rule_files_and_permission_profiles_deny(project):
    text = """
# Nothing leaves this machine.
prefix_rule(pattern=["git", ["push", "fetch"]], decision="forbidden", justification="no")
prefix_rule(pattern=["npm", "publish"], decision="prompt")
prefix_rule(pattern=["ls"])
"""
    rules = read_rules(project, ".codex/rules/default.rules", text)
    assert shown(rules) == [
        "deny run_terminal_cmd(git push *)",
        "deny run_terminal_cmd(git fetch *)",
        "ask run_terminal_cmd(npm publish *)",
    ]
    assert rules.rules[0].source.endswith("default.rules:3")
    profile = """
default_permissions = "mine"
[permissions.mine.filesystem.":workspace_roots"]
"." = "write"
"**/*.env" = "none"
[permissions.mine.network.domains]
"x.example" = "deny"
"""
    write(project, ".codex/config.toml", profile)
    profiles = load_foreign_rules(project, ("codex",))[0]
    assert shown(profiles) == [
        "deny read_file(/**/*.env)",
        "deny write_file(/**/*.env)",
        "deny web_fetch(domain:x.example)",
    ]


def test_a_codex_rule_file_is_never_executed(project, tmp_path):
    text = (
        f"open({str(tmp_path / 'made')!r}, 'w')\nprefix_rule(pattern=[f()], decision='forbidden')"
    )
    rules = read_rules(project, ".codex/rules/x.rules", text)
    assert len(rules.doubts) == 2
    assert not (tmp_path / "made").exists()


def test_cursor_denies_and_ignores_files(project):
    denied = ["Shell(rm)", "Shell(git:push*)", "Read(.env*)", "Write(**/*.key)", "Mcp(db:drop)"]
    text = json.dumps({"permissions": {"deny": denied, "allow": ["Shell(ls)"]}})
    rules = read_rules(project, ".cursor/cli.json", text)
    assert shown(rules) == [
        "deny run_terminal_cmd(rm *)",
        "deny run_terminal_cmd(git push*)",
        "deny read_file(.env*)",
        "deny write_file(*.key)",
        "deny db__drop",
    ]


@pytest.mark.parametrize(
    ("name", "agent"),
    [
        (".cursorignore", "cursor"),
        (".geminiignore", "gemini"),
        (".aiderignore", "aider"),
        (".codeiumignore", "windsurf"),
    ],
)
def test_a_list_of_ignored_files_denies_with_the_line_that_matches(project, name, agent):
    write(project, name, "# private\nprivate/\n\n*.pem\n!public.pem\nold.pem\n")
    (ignored,) = load_foreign_rules(project, (agent,))
    assert shown(ignored) == [
        f"deny {tool}({pattern}){later}"
        for pattern, later in (
            ("private/", " !public.pem"),
            ("*.pem", " !public.pem"),
            ("old.pem", ""),
        )
        for tool in ("read_file", "write_file")
    ]
    sources = [rule.source for rule in ignored.rules]
    assert [source.rpartition(":")[2] for source in sources] == ["2", "2", "4", "4", "6", "6"]
    assert [rule.written for rule in ignored.rules][2] == "*.pem"


def test_copilot_asks_about_what_vs_code_never_approves(project):
    settings = {
        "editor.tabSize": 2,
        "chat.tools.terminal.autoApprove": {"rm": False, "/^git (push|reset)\\b/": False},
        "chat.tools.edits.autoApprove": {"**/*.env": False},
    }
    rules = read_rules(project, ".vscode/settings.json", json.dumps(settings))
    assert shown(rules) == [
        "ask run_terminal_cmd(rm *)",
        "ask run_terminal_cmd(git push *)",
        "ask run_terminal_cmd(git reset *)",
        "ask write_file(*.env)",
    ]


# --- files ----------------------------------------------------------------------------------------


def test_the_users_files_and_those_above_the_workspace_are_found(project, tmp_path):
    (project / ".git").mkdir()
    inner = project / "packages" / "app"
    inner.mkdir(parents=True)
    write(tmp_path / "home", ".claude/settings.json", claude(deny=["Bash(a:*)"]))
    write(project, CLAUDE, claude(deny=["Edit(/vendor/**)", "Read(./packages/app/key)"]))
    write(inner, ".claude/settings.local.json", claude(deny=["Bash(c:*)"]))
    found = load_foreign_rules(inner, ("claude",))
    assert [rules.place.user for rules in found] == [True, False, False]
    assert shown(found[1])[0] == f"deny write_file(/{project}/vendor/**)"
    assert shown(found[1])[-1] == "deny read_file(/key)"


def test_a_link_out_of_the_project_is_not_read(project, tmp_path):
    outside = write(tmp_path, "outside.json", claude(deny=["Bash(secret-name:*)"]))
    (project / ".claude").mkdir()
    (project / CLAUDE).symlink_to(outside)
    (rules,) = load_foreign_rules(project, ("claude",))
    assert rules.rules == []
    assert "link" in rules.problems[0]
    assert rules.doubts


def test_a_file_that_is_too_large_or_not_a_file_is_reported(project):
    write(project, CLAUDE, "x" * 1_000_001)
    (project / ".gemini/settings.json").mkdir(parents=True)
    large, folder = load_foreign_rules(project, tuple(AGENTS))
    assert "larger than" in large.problems[0]
    assert folder.doubts


def test_a_changed_file_changes_the_stamp(project):
    before = stamp_files(project, ("claude",))
    write(project, CLAUDE, claude(deny=["Bash(a:*)"]))
    assert stamp_files(project, ("claude",)) != before
    assert list(find_files(project, ())) == []


# --- sessions -------------------------------------------------------------------------------------


async def test_denials_of_claude_code_hold_in_the_first_session(bench):
    """For every tool and command with that effect, which the original does not promise."""
    files = {
        CLAUDE: claude(deny=["Read(./notes/**)", "Bash(git push:*)", "Edit(/vendor/**)"]),
        "notes/a.txt": "private",
        "vendor/x.py": "1",
    }
    kit = await bench(*PLUGINS, approve="auto", files=files)
    calls = [
        ("read_file", {"path": "notes/a.txt"}),
        ("run_terminal_cmd", {"command": "cat notes/a.txt"}),
        ("run_terminal_cmd", {"command": "git -C . push origin main"}),
        ("write_file", {"path": "vendor/x.py", "content": "2"}),
        ("run_terminal_cmd", {"command": "echo 2 > vendor/x.py"}),
    ]
    for name, arguments in calls:
        result = await kit.call(name, **arguments)
        assert result.code == E_DENIED, arguments
        assert "of Claude Code" in result.text
        assert f"{kit.workspace / CLAUDE}:" in result.text
    assert "Read(./notes/**)" in (await kit.call("read_file", path="notes/a.txt")).text
    assert kit.of(ApprovalAsked) == []
    assert (await kit.call("read_file", path="vendor/x.py")).code == ""
    assert "1" in (kit.workspace / "vendor/x.py").read_text()


async def test_an_ask_rule_asks_and_a_denial_of_opencode_leaves_what_it_allows(bench, asked):
    permission = {"bash": {"*": "deny", "ls *": "allow", "touch *": "ask"}}
    kit = await bench(
        *PLUGINS, approve="auto", files={"opencode.json": json.dumps({"permission": permission})}
    )
    assert (await kit.call("run_terminal_cmd", command="ls -a")).code == ""
    assert (await kit.call("run_terminal_cmd", command="ls && pwd")).code == E_DENIED
    question = await asked(kit, "run_terminal_cmd", command="touch x")
    assert "permission.bash: touch *: ask of opencode" in question.reason


async def test_a_blanket_question_does_not_concern_commands_that_only_read(bench, asked):
    """As under the policy ask_first."""
    kit = await bench(*PLUGINS, approve="auto", files={CLAUDE: claude(ask=["Bash"]), "a.txt": "x"})
    assert (await kit.call("run_terminal_cmd", command="cat a.txt | wc -l")).code == ""
    question = await asked(kit, "run_terminal_cmd", command="touch b.txt")
    assert "Bash of Claude Code" in question.reason


async def test_a_changed_file_holds_from_the_next_call(bench):
    kit = await bench(*PLUGINS, approve="auto", files={"a.txt": "here"})
    assert (await kit.call("read_file", path="a.txt")).code == ""
    path = write(kit.workspace, CLAUDE, claude(deny=["Read(a.txt)"]))
    assert (await kit.call("read_file", path="a.txt")).code == E_DENIED
    # Only a new session, or the user, ends a denial.
    path.unlink()
    assert (await kit.call("read_file", path="a.txt")).code == E_DENIED


@pytest.mark.parametrize("name", [".cursorignore", ".geminiignore", ".aiderignore"])
async def test_an_agent_cannot_end_a_denial_by_changing_its_file(bench, asked, name):
    files = {name: "private/\n", "private/a.txt": "here"}
    kit = await bench(*PLUGINS, approve="auto", files=files)
    # hilum never replaces an unread file, so the question would not be reached.
    await kit.call("read_file", path=name)
    question = await asked(kit, "write_file", path=name, content="")
    assert name in question.reason
    await asked(kit, "delete_file", path=name)
    await asked(kit, "run_terminal_cmd", command=f"echo > {name}")
    code = f"import os; os.remove({name[:4]!r} + {name[4:]!r})"
    for command in (f"rm {name}", f"mv {name} x", f'python3 -c "{code}"'):
        await kit.call("run_terminal_cmd", command=command)
        assert (kit.workspace / name).read_text() == "private/\n", command
    assert (await kit.call("read_file", path="private/a.txt")).code == E_DENIED


async def test_a_setting_switches_an_agent_off(bench):
    kit = await bench(
        *PLUGINS,
        approve="auto",
        files={CLAUDE: claude(deny=["Read(a.txt)"]), "a.txt": "here"},
        settings={"guard.denials_from": ["gemini", "cursor"]},
    )
    assert (await kit.call("read_file", path="a.txt")).code == ""


async def test_an_unreadable_denial_is_reported_and_every_change_asked_about(bench, asked):
    kit = await bench(
        *PLUGINS, approve="auto", files={CLAUDE: '{"permissions": {\n"deny": [3]}}', "a.txt": "x"}
    )
    (note,) = [event for event in kit.of(PluginEvent) if event.name == "guard.foreign_problems"]
    assert f"{kit.workspace / CLAUDE}:2" in note.data["problems"][0]
    assert (await kit.call("read_file", path="a.txt")).code == ""
    assert (await kit.call("run_terminal_cmd", command="cat a.txt")).code == ""
    question = await asked(kit, "write_file", path="b.txt", content="x")
    assert "The settings of Claude Code may deny it" in question.reason


async def test_the_user_is_told_once_in_each_project(bench):
    kit = await bench(*PLUGINS, files={CLAUDE: claude(deny=["Bash(a:*)", "Bash(b:*)"])})
    (note,) = [event for event in kit.of(PluginEvent) if event.name == "guard.foreign_found"]
    assert note.data["say"] == (
        "Settings of Claude Code found: 2 deny rules of Claude Code apply; `hilum import` shows the"
        " rest."
    )
    guard = kit.session.plugin(hilum_guard.Guard)
    await guard.announce_foreign()
    assert len([event for event in kit.of(PluginEvent) if event.name == "guard.foreign_found"]) == 1


async def test_the_user_is_told_about_hooks_that_do_not_run(bench):
    kit = await bench(*PLUGINS, files={".cursor/hooks.json": '{"hooks": {"stop": []}}'})
    (note,) = [event for event in kit.of(PluginEvent) if event.name == "guard.foreign_found"]
    assert note.data["say"] == (
        "Settings of Cursor found: `hilum import` shows what works and what can be taken over. hilum"
        " does not run the hooks in .cursor/hooks.json."
    )


async def test_an_empty_folder_is_no_settings(bench):
    """The sandbox of another session has such folders in the project."""
    kit = await bench(*PLUGINS, files={"a.txt": "x"})
    found = [event for event in kit.of(PluginEvent) if event.name == "guard.foreign_found"]
    assert found == []
    (kit.workspace / ".cursor").mkdir()
    (kit.workspace / ".cursorignore").touch()
    guard = kit.session.plugin(hilum_guard.Guard)
    await guard.announce_foreign()
    assert [event for event in kit.of(PluginEvent) if event.name == "guard.foreign_found"] == []
    (kit.workspace / ".cursor" / "mcp.json").write_text("{}")
    await guard.announce_foreign()
    (note,) = [event for event in kit.of(PluginEvent) if event.name == "guard.foreign_found"]
    assert note.data["say"].startswith("Settings of Cursor found")


async def test_a_project_cannot_lock_the_user_out_in_silence(bench):
    """Everything is denied, and each denial says by what."""
    kit = await bench(*PLUGINS, files={CLAUDE: claude(deny=["*"]), "a.txt": "x"})
    result = await kit.call("read_file", path="a.txt")
    assert result.code == E_DENIED
    assert str(kit.workspace / CLAUDE) in result.text
    assert kit.of(CallStarted) == []


async def test_no_tool_runs_the_import(bench):
    """The model must not take over permissions."""
    kit = await bench(*PLUGINS, approve="auto")
    result = await kit.call("run_terminal_cmd", command="hilum import --yes")
    assert result.code == E_DENIED


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Bash(rm -rf ~*)", "rm -rf ~/x"),
        ("Bash(rm -rf /*)", "rm -rf /opt/x"),
        ("Bash(dd if=*)", "dd if=/dev/zero of=x"),
        ("Bash(./scripts/*:*)", "./scripts/deploy.sh now"),
        ("Bash(git commit --no-verify*)", "git commit -m x --no-verify"),
        ("Bash(git push --force*)", "git push origin main --force"),
        ("Bash(git push -f*)", "git push -fu origin"),
        ("Bash(*sudo*)", "ls && sudo rm x"),
        ("Bash(npm run deploy:*)", "npm run deploy:production"),
        ("Bash(curl *| bash)", "curl example.com | bash"),
        ("Bash(> /dev/sda)", "echo x > /dev/sda"),
        ("Read(.env.*)", "less .env.local"),
        ("Read(~/.ssh/**)", "cat ~/.ssh/config"),
        ("Edit(.github/workflows/**)", "sed -i s/a/b/ .github/workflows/ci.yml"),
        ("WebFetch(domain:x.example)", "curl https://a.x.example/b"),
        ("mcp__github", None),
    ],
)
def test_denials_as_people_write_them_match_what_they_mean(project, rule, command):
    rules = read_rules(project, CLAUDE, claude(deny=[rule]))
    if command is None:
        facts = CallFacts("github__delete_repo", {}, category="execute")
    else:
        line = judge_command(command, workspace=project)
        resolved = resolve_effects(line.all_commands, str(project), complete=line.complete)
        arguments = {"command": command}
        facts = CallFacts(
            "run_terminal_cmd", arguments, command=line, category="execute", resolved=resolved
        )
    assert "yes" in [fit(each, facts) for each in rules.rules]


def test_an_allowed_path_never_becomes_wider(project, tmp_path):
    """A rule from the home folder is stored for all folders, and one slash is ambiguous."""
    allowed = [f"Edit(/{project}/**)", "Edit(~/x/**)", "Edit(/docs/**)", "Edit(src/**)"]
    write(tmp_path / "home", CLAUDE, claude(allow=allowed))
    write(project, CLAUDE, claude(allow=[*allowed, "Edit(../other/**)"]))
    user, own = load_foreign_rules(project, ("claude",))
    home = tmp_path / "home"
    assert [each.rules for each in user.allowed] == [
        (),
        (f"write_file(/{home}/x/**)",),
        (),
        ("write_file(/src/**)",),
    ]
    assert [each.rules for each in own.allowed] == [
        ("write_file(/**)",),
        (f"write_file(/{home}/x/**)",),
        ("write_file(/docs/**)",),
        ("write_file(/src/**)",),
        (),
    ]


# --- hostile files --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rule",
    [
        "Read(a\\)",
        "Read(~/=;\\)",
        "Read(!a)",
        "Read(#a)",
        "Read([)",
        "Edit(/)",
        "Read(//)",
        "Bash(')",
        "Bash(&&)",
        "WebFetch(domain:)",
        "Read(" + " " * 100_000,
        "Bash(" + "*a" * 900 + ")",
    ],
)
async def test_no_rule_of_a_project_breaks_the_guard(bench, rule):
    """A pattern that cannot be compared would otherwise be a fault of the gate at each call."""
    kit = await bench(*PLUGINS, approve="auto", files={CLAUDE: claude(deny=[rule]), "x.txt": "x"})
    with kit.guard():
        assert (await kit.call("list_directory", path=".")).code in ("", E_DENIED)
        result = await kit.call("run_terminal_cmd", command="ls x.txt")
    assert result.code in ("", E_DENIED)
    assert "E_PLUGIN" not in result.text


def test_what_programs_need_is_not_hidden_from_them(project):
    """No program runs without /etc, and a build reads node_modules."""
    denied = [
        "Read(/etc/**)",
        "Read(node_modules/**)",
        "Read(~/**)",
        "Read(~/x/**)",
        "Read(./s/**)",
    ]
    rules = read_rules(project, CLAUDE, claude(deny=denied))
    # The pattern for the project's own folder `etc`, not the one for `/etc`.
    assert [rule.pattern for rule in rules.rules if rule.hides] == [
        "/etc/**",
        f"/{project.parent}/home/x/**",
        "/s/**",
    ]


_FOLDERS = """migrations build dist target vendor coverage out generated public assets env tmp logs
    lib bin static venv .venv""".split()


async def test_denied_folders_with_common_names_hold_against_programs(bench):
    """The rule's author meant these folders, even if programs often use such folders."""
    denied = [f"Edit({name}/**)" for name in _FOLDERS[::2]]
    denied += [f"Read(./{name}/**)" for name in _FOLDERS[1::2]]
    script = """
        import sys
        for name in sys.argv[1:]:
            for mode in "ra":
                try:
                    with open(name + "/f", mode) as file:
                        print(name, mode, file.read() if mode == "r" else file.write("x"))
                except OSError:
                    pass
    """
    files = {CLAUDE: claude(deny=denied), "t.py": textwrap.dedent(script)}
    kit = await bench(*PLUGINS, approve="auto", files=files | {f"{n}/f": "old" for n in _FOLDERS})
    if isinstance(backends.check_bubblewrap(), str):
        pytest.skip("bubblewrap does not work on this system")
    with kit.guard():
        # The program learns the names from a file, so that the command does not name them.
        names = " ".join(_FOLDERS)
        (kit.workspace / "names").write_text(names)
        result = await kit.call(
            "run_terminal_cmd",
            command='python3 -c "import runpy, sys;'
            " sys.argv = ['t.py', *open('names').read().split()]; runpy.run_path('t.py')\"",
        )
    done = result.text.splitlines()
    assert sorted(line for line in done if line.endswith(" r old")) == sorted(
        f"{name} r old" for name in _FOLDERS[::2]
    )
    assert not [line for line in done if " a " in line]
    assert all((kit.workspace / name / "f").read_text() == "old" for name in _FOLDERS)


async def test_a_refused_write_names_the_rule(bench):
    files = {CLAUDE: claude(deny=["Edit(migrations/**)"]), "migrations/1.sql": "old"}
    kit = await bench(*PLUGINS, approve="auto", files=files)
    if isinstance(backends.check_bubblewrap(), str):
        pytest.skip("bubblewrap does not work on this system")
    command = "python3 -c \"open('migra' + 'tions/1.sql', 'w')\""
    with kit.guard():
        result = await kit.call("run_terminal_cmd", command=command)
    assert "a rule of the user: migrations (Edit(migrations/**) of Claude Code, " in result.text
    assert f"{CLAUDE}:4)" in result.text
    assert "because Git, editors" not in result.text


def test_a_rule_about_what_programs_need_says_so(project):
    rules = read_rules(project, CLAUDE, claude(deny=["Edit(node_modules/**)", "Edit(dist/**)"]))
    kept, protected = (explain(rule) for rule in rules.rules)
    assert "does not hold for programs" in kept
    assert "does not hold for programs" not in protected


def test_a_policy_of_gemini_with_unknown_keys_asks(project):
    policy = """
[[rule]]
toolName = ".*"
decision = "deny"
pathPattern = ".*/credentials/.*"
priority = 100

[[rule]]
toolName = ".*"
decision = "deny"
priority = 1

[[rule]]
toolName = "read_file"
decision = "allow"
pathPattern = "docs"
priority = 200
"""
    rules = read_rules(project, ".gemini/policies/a.toml", policy)
    assert shown(rules) == ["deny *"]
    assert [rule.text for rule in rules.doubts] == ["*"]
    assert (
        "a.toml:2: A rule has unknown keys, which may limit it: pathPattern." in rules.problems[0]
    )
    assert rules.left == ["rule (line 13): it has unknown keys: pathPattern"]


def test_the_words_allowed_and_denied_mean_what_they_say(project):
    text = 'prefix_rule(pattern=["ls"], decision="allowed")\n' + (
        'prefix_rule(pattern=["dd"], decision="denied")\n'
    )
    rules = read_rules(project, ".codex/rules/default.rules", text)
    assert shown(rules) == ["deny run_terminal_cmd(dd *)"]
    assert rules.allowed[0].rules == ("run_terminal_cmd(ls *)",)
    assert rules.problems == []


@pytest.mark.parametrize(
    ("path", "is_listed"),
    [("archive", False), ("archive/old", False), ("src", True)],
)
async def test_a_rule_about_listing_holds_for_the_tools_that_list(path, is_listed):
    files = {
        CLAUDE: '{"permissions": {"deny": ["Glob(./archive/**)"]}}',
        "archive/old/a.md": "a",
        "src/b.md": "b",
    }
    async with open_bench("guard", "files", files=files, kind="headless") as bench:
        result = await bench.call("list_directory", path=path)
        assert (not result.code) is is_listed, result.text
        if not is_listed:
            assert "Glob(./archive/**) of Claude Code" in result.text


async def test_an_explanation_names_the_effect_of_a_rule_once():
    policy = (
        '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "git push"\ndecision = "deny"\n'
    )
    files = {".gemini/policies/a.toml": policy + "priority = 50\n"}
    async with open_bench("guard", "files", "shell", files=files) as bench:
        explained = await bench.session.plugin(hilum_guard.Guard).explain(
            bench.session.tools["run_terminal_cmd"], '{"command": "git push"}'
        )
        assert explained.source.startswith("deny run_shell_command: git push (")
