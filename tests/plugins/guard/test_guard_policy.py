"""What the guard says of calls, through the real loop: rules, commands read, protected files, the
approval policy.
"""

import json
import os
import sys

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum import PluginError, Profile, ToolFilter, tool
from hilum.errors import E_BLOCKED, E_DENIED, E_PATH_TRAVERSAL
from hilum.events import ApprovalAsked, CallStarted, PluginEvent
from hilum.testing import plugin, say, use
from hilum_guard.protected_files import restricting

PLUGINS = (hilum_guard, hilum_files, hilum_shell)


def user_rules(kit, **lists):
    """Write the user's rules while the session runs: they hold from the next call on."""
    lines = [f"{effect} = {json.dumps(rules)}\n" for effect, rules in lists.items()]
    (kit.folder / "config" / "permissions.toml").write_text("".join(lines))


@pytest.mark.parametrize("approve", ["ask_first", "auto"])
async def test_a_destructive_command_is_blocked_whatever_the_policy_and_the_rules(bench, approve):
    """Not even an allow rule for everything lets it through.

    The model is told, and nobody is asked (R11).
    """
    kit = await bench(*PLUGINS, approve=approve)
    user_rules(kit, allow=["*"])
    for command in (
        "rm -rf /",
        "cd / && rm -rf *",
        "bash -c 'mkfs.ext4 /dev/sda1'",
        ":(){ :|:& };:",
    ):
        result = await kit.call("run_terminal_cmd", command=command)
        assert result.code == E_BLOCKED, command
    assert kit.of(ApprovalAsked) == kit.of(CallStarted) == []


async def test_a_harmless_command_runs_unasked_even_under_ask_first(bench):
    """Reading commands are settled by what they are."""
    kit = await bench(*PLUGINS, approve="ask_first", files={"a.txt": "here"})
    assert "here" in (await kit.call("run_terminal_cmd", command="cat a.txt | head -1")).text
    assert kit.of(ApprovalAsked) == []


async def test_what_a_harmless_command_writes_is_judged_as_a_file_that_is_written(bench, asked):
    """A redirection is a change: asked under ask_first, and always where the file is a protected
    one.
    """
    kit = await bench(*PLUGINS, approve="ask_first")
    assert (
        "need approval" in (await asked(kit, "run_terminal_cmd", command="echo x > new.txt")).reason
    )
    kit.session.set(approve="auto")
    assert (await kit.call("run_terminal_cmd", command="echo x > new.txt")).code == ""
    assert (await asked(kit, "run_terminal_cmd", command="echo x > .vscode/tasks.json")).reason
    assert not (kit.workspace / ".vscode/tasks.json").exists()


# Commands, each with the scope of a lasting approval.
SCOPES = [
    ("git commit -m 'a b'", "git commit *"),
    ("timeout 5 git commit -m x", "git commit *"),
    ("npm run test -- -x", "npm run test *"),
    ("python3 -m unittest -q", "python3 -m unittest *"),
    ("pytest -q tests", "pytest *"),
    ("aws s3 ls s3://b", "aws s3 ls *"),
    ("aws --profile p s3 rm x", "=aws --profile p s3 rm x"),
    ("/usr/bin/git add x", "/usr/bin/git add *"),
    ("/usr/bin/python3 x.py", "=/usr/bin/python3 x.py"),
    ("gh pr list", "gh pr list *"),
    ("mytool deploy --now", "mytool deploy *"),
    ("mytool --region x delete", "=mytool --region x delete"),
    ("python3 setup.py", "=python3 setup.py"),
    ("git config user.name x", "=git config user.name x"),
    ("git commit -m x && git push", "=git commit -m x && git push"),
    ("git commit -m x > log", "=git commit -m x > log"),
    ("GIT_DIR=x git commit", "=GIT_DIR=x git commit"),
    ("git commit -m $(id)", "=git commit -m $(id)"),
    ("sudo git commit", "=sudo git commit"),
    ("git --exec-path=. commit", "=git --exec-path=. commit"),
    ("echo 'unclosed", "=echo 'unclosed"),
]


async def test_a_lasting_yes_is_never_wider_than_a_command_with_its_sub_command(bench, asked):
    """What is offered is the sub-command, or the very text where nothing else can be told apart."""
    kit = await bench(*PLUGINS, approve="ask_first")
    for command, scope in SCOPES:
        event = await asked(kit, "run_terminal_cmd", command=command)
        assert event.scope == f"run_terminal_cmd({scope})"


async def test_a_yes_for_the_session_holds_for_that_sub_command_only(bench, asked):
    """`git add` was granted; `git push` and a compound with it are asked again."""
    kit = await bench(*PLUGINS, approve="ask_first")
    kit.model.next(use("run_terminal_cmd", command="git add nothing"), say("ok"))
    run = await kit.start("x")
    kit.session.answer((await kit.wait_for(ApprovalAsked)).id, True, remember="session")
    with kit.guard():
        await run.wait()
    await kit.call("run_terminal_cmd", command="git add -A")
    assert len(kit.of(ApprovalAsked)) == 1
    await asked(kit, "run_terminal_cmd", command="git add . && rm -r src")
    await asked(kit, "run_terminal_cmd", command="git push")


async def test_deny_wins_over_ask_and_allow(bench, asked):
    """The strictest rule that fits decides, whatever the order."""
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, allow=["run_terminal_cmd(git *)"], ask=["run_terminal_cmd(git push *)"],
               deny=["run_terminal_cmd(git push --force *)"])  # fmt: skip
    result = await kit.call("run_terminal_cmd", command="git push --force")
    assert result.code == E_DENIED
    assert "git push --force" in result.text
    assert "permissions.toml" in result.text
    assert "git push *" in (await asked(kit, "run_terminal_cmd", command="git push")).reason
    assert (await kit.call("run_terminal_cmd", command="git init -q")).code == ""


PUSHES = [
    "git push", "git -C . push", "git -c a.b=c push origin", "/usr/bin/git push", "ls && git push", "echo $(git push)",
    "bash -c 'git push'", "timeout 5 git push", "true | git push", "gi''t pu\"sh\"", "GIT PUSH", "sudo git push",
    "if true; then git push; fi", "f() { git push; }; f", "xargs git push", "git --no-pager push", "eval git push",
]  # fmt: skip


async def test_a_rule_that_denies_a_command_finds_it_however_it_is_written(bench):
    """Options before the sub-command, paths, quotes, wrappers and compounds hide nothing."""
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, deny=["run_terminal_cmd(git push)"], allow=["*"])
    for command in PUSHES:
        assert (await kit.call("run_terminal_cmd", command=command)).code == E_DENIED, command


async def test_what_may_turn_out_to_be_denied_is_asked_even_under_auto(bench, asked):
    """Words that only the run would tell, and texts that cannot be read."""
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, deny=["run_terminal_cmd(git push)"], allow=["run_terminal_cmd"])
    for command in ("git $SUB", "$PROGRAM push", "echo 'unclosed; git push"):
        event = await asked(kit, "run_terminal_cmd", command=command)
        assert "git push" in event.reason, command


# Commands, each with whether it runs without approval.
COMPOUNDS = [
    ("make check", True),
    ("cd src && make check | tail -3", True),
    ("timeout 60 make check", True),
    ("make check && make clean", False),
    ("make check; touch x", False),
    ("make $(touch x)", False),
    ("MAKEFLAGS=-n make check", False),
    ("make check > out", False),
    ("sudo make check", False),
    ("./make check", False),
]


async def test_a_compound_command_is_allowed_only_if_every_part_is(bench, asked):
    """A rule fits simple commands, word by word; what is harmless may stand beside them."""
    kit = await bench(
        *PLUGINS, approve="ask_first", files={"src/Makefile": "check:\n", "Makefile": "check:\n"}
    )
    user_rules(kit, allow=["run_terminal_cmd(make check *)"])
    for command, runs in COMPOUNDS:
        before = len(kit.of(ApprovalAsked))
        if runs:
            await kit.call("run_terminal_cmd", command=command)
            assert len(kit.of(ApprovalAsked)) == before, command
        else:
            await asked(kit, "run_terminal_cmd", command=command)


async def test_rules_for_files_are_matched_against_the_resolved_path(bench):
    """Neither ``..`` nor a link nor another spelling of the name gets round a rule."""
    kit = await bench(*PLUGINS, approve="auto", files={"src/a.py": "1", "docs/b.md": "2"})
    (kit.workspace / "link").symlink_to("src")
    user_rules(kit, deny=["write_file(src/**)"])
    for path in (
        "src/a.py",
        "docs/../src/a.py",
        "link/new.py",
        str(kit.workspace / "src/x"),
        "SRC/a.py",
        "ſrc/a.py",
    ):
        assert (await kit.call("write_file", path=path, content="x")).code == E_DENIED, path
    assert (await kit.call("write_file", path="docs/new.md", content="x")).code == ""
    assert (kit.workspace / "src/a.py").read_text() == "1"


async def test_an_allowed_path_is_written_unasked_and_its_neighbours_are_not(bench, asked):
    """An allow rule settles exactly what it names."""
    kit = await bench(*PLUGINS, approve="ask_first", files={"docs/x": ""})
    (kit.workspace / "docs" / "out").symlink_to("../src")
    user_rules(kit, allow=["write_file(docs/**)"])
    assert (await kit.call("write_file", path="docs/a.md", content="x")).code == ""
    for path in ("src/a.md", "docs-evil/a.md", "docs/out/a.md", "DOCS/a.md"):
        assert (
            path.rpartition("/")[2]
            in (await asked(kit, "write_file", path=path, content="x")).call.arguments
        )


async def test_rules_for_other_tools_are_matched_against_named_arguments(bench, asked):
    """Servers by the glob of their tools' names; addresses so that no host passes for another."""

    @tool(risk="network")
    def fetch(url: str, method: str = "GET") -> str:
        """Fetch."""
        return "got it"

    @tool(risk="network", name="tracker__close")
    def close(number: int) -> str:
        """Close."""
        return "closed"

    kit = await bench(hilum_guard, plugin("reach", fetch, close), approve="ask_first")
    user_rules(
        kit,
        allow=["fetch(url=https://*.python.org/**, method=GET)", "mcp__tracker__*"],
        deny=["fetch(method=DELETE)"],
    )
    assert (await kit.call("fetch", url="https://docs.python.org/3/")).text == "got it"
    assert (await kit.call("tracker__close", number=1)).text == "closed"
    assert (
        await kit.call("fetch", url="https://docs.python.org/3/", method="delete")
    ).code == E_DENIED
    assert (await kit.call("fetch", url="https://evil.com\\.python.org/")).code == "E_ADDRESS"
    for url in (
        "https://docs.python.org.evil.com/",
        "https://evil.com/?x=.python.org/",
    ):
        await asked(kit, "fetch", url=url)


async def test_a_project_can_only_ask_and_deny(bench, asked):
    """Its rules join the user's.

    An allow there is a mistake, and nothing that changes runs until it is gone.
    """
    kit = await bench(
        *PLUGINS,
        approve="auto",
        files={".hilum/permissions.toml": 'deny = ["write_file(*.lock)"]\n'},
    )
    user_rules(kit, ask=["write_file(*.md)"])
    assert (await kit.call("write_file", path="a.lock", content="")).code == E_DENIED
    await asked(kit, "write_file", path="a.md", content="")
    (kit.workspace / ".hilum" / "permissions.toml").write_text('allow = ["write_file"]\n')
    result = await kit.call("write_file", path="a.txt", content="")
    assert result.code == E_DENIED
    assert "only the user may allow" in result.text
    assert (await kit.call("read_file", path=".hilum/permissions.toml")).code == ""


async def test_all_mistakes_are_told_with_place_and_remedy_and_nothing_changes_until_they_are_mended(
    bench,
):
    """The strictest mode: reading goes on; mending the file is enough."""
    kit = await bench(*PLUGINS, approve="auto")
    (kit.folder / "config" / "permissions.toml").write_text(
        'alow = []\nask = "write_file"\ndeny = [\n  "read_file(x",\n  7,\n  "write_file()",\n]\n[workspace."here"]\ndeny = []\n'
    )
    result = await kit.call("run_terminal_cmd", command="ls")
    assert result.code == E_DENIED
    [note] = [event for event in kit.of(PluginEvent) if event.name == "guard.mistakes"]
    told = note.data["say"]
    for part in (
        "permissions.toml: line 1: alow: is unknown; did you mean allow?",
        "ask: found 'write_file', expected a list: ask = [\"write_file(docs/**)\"]",
        "line 4: deny[1]: 'read_file(x' has no closing parenthesis",
        "deny[2]: found 7, expected a rule in quotes",
        "line 6: deny[3]: 'write_file()' has an empty pattern; write write_file for every call",
        'line 8: workspace."here": is not an absolute path',
    ):
        assert part in told
    assert len(note.data["mistakes"]) == 6
    assert (await kit.call("list_directory", path=".")).code == ""
    user_rules(kit, deny=[])
    assert (await kit.call("run_terminal_cmd", command="ls")).code == ""


@pytest.mark.parametrize(
    "text", ["deny = [", "\0", "deny = ['a']\ndeny = ['b']", "[[workspace]]\n", "x" * 100]
)
async def test_a_file_of_rules_that_cannot_be_read_is_a_mistake(bench, text):
    """However broken it is, the session opens, says so, and changes nothing."""
    kit = await bench(*PLUGINS, approve="auto")
    (kit.folder / "config" / "permissions.toml").write_text(text)
    assert (await kit.call("write_file", path="a", content="")).code == E_DENIED
    assert not (kit.workspace / "a").exists()


@pytest.mark.parametrize("text", ["deny = [", "\0", "deny = ['a']\ndeny = ['b']", "\udcff"])
async def test_nothing_runs_while_a_file_of_rules_is_unread(bench, text):
    """A rule that denies reading may be among those that could not be read."""
    kit = await bench(*PLUGINS, approve="auto", files={"b": "secret\n"})
    file = kit.folder / "config" / "permissions.toml"
    file.write_bytes(b"deny = ['read_file(b)']\n" + text.encode(errors="surrogateescape"))
    result = await kit.call("read_file", path="b")
    assert result.code == E_DENIED
    assert "no call runs" in result.text
    file.unlink()
    assert (await kit.call("read_file", path="b")).code == ""


PROTECTED = [
    ".git/hooks/pre-commit", ".git/config", ".GIT/Hooks/x", ".hilum/settings.toml", ".Hilum/x", ".vscode/tasks.json",
    "sub/.vscode/settings.json", "x.code-workspace", ".bashrc", "home/.zshrc", ".mcp.json", ".envrc", ".idea/workspace.xml",
    ".cursor/mcp.json", ".ｇit/config", ".husky/pre-commit",
]  # fmt: skip


async def test_writing_what_governs_or_runs_is_always_asked(bench, asked):
    """Under auto, with an allow rule for the whole tool, whether it exists or not."""
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, allow=["write_file", "write_file(**)"])
    for path in PROTECTED:
        event = await asked(kit, "write_file", path=path, content="x")
        assert path.rpartition("/")[2] in event.reason
        # No rule may cover what restricts the agent.
        is_lasting = event.scope.startswith("write_file(/")
        assert is_lasting != bool(restricting(path)), path


async def test_a_link_to_a_protected_file_is_shown_for_what_it_is(bench, asked):
    """The reason names the file that would be written, not only the harmless name."""
    kit = await bench(*PLUGINS, approve="auto", files={".git/config": "[core]\n"})
    (kit.workspace / "notes.txt").symlink_to(".git/config")
    # A write of a file that was not read would be refused without a question.
    assert (await kit.call("read_file", path="notes.txt")).code == ""
    event = await asked(kit, "write_file", path="notes.txt", content="x")
    assert "notes.txt is .git/config" in event.reason
    assert event.scope == "write_file(/.git/config)"


async def test_only_a_rule_that_names_a_protected_file_lets_it_be_written_unasked(bench, asked):
    """The user's explicit word counts."""
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, allow=["write_file(.vscode/tasks.json)"])
    assert (await kit.call("write_file", path=".vscode/tasks.json", content="{}")).code == ""
    await asked(kit, "write_file", path=".vscode/settings.json", content="{}")


RESTRICTING = [
    ".claude/settings.json",
    "part/.claude/settings.local.json",
    ".Codex/config.toml",
    ".codex/rules/own.rules",
    ".gemini/policies/a.toml",
    "opencode.jsonc",
    ".cursor/cli.json",
    ".cursorignore",
    ".vscode/settings.json",
    ".hilum/permissions.toml",
    ".hilum/rules.lock",
]


@pytest.mark.parametrize("path", RESTRICTING)
async def test_no_rule_lets_the_agent_change_what_restricts_it(bench, asked, path):
    """A rule that the user stores once would let the agent remove what forbids it something."""
    kit = await bench(*PLUGINS, approve="auto", files={path: ""})
    command = f"echo > {path}"
    rules = [f"{name}(/{path})" for name in ("write_file", "edit_file", "delete_file")]
    user_rules(kit, allow=[*rules, f"run_terminal_cmd(={command})"])
    for name, arguments in (
        ("write_file", {"path": path, "content": "x"}),
        ("delete_file", {"path": path}),
        ("run_terminal_cmd", {"command": command}),
    ):
        await kit.call("read_file", path=path)
        event = await asked(kit, name, **arguments)
        assert event.once_only
        assert path in event.reason
        assert "each change needs approval" in event.reason
    assert (kit.workspace / path).read_text() == ""


async def test_the_folder_of_restricting_files_is_one_of_them(bench, asked):
    kit = await bench(*PLUGINS, approve="auto", files={".claude/settings.json": "{}"})
    user_rules(kit, allow=["delete_file(/.claude)"])
    assert (await asked(kit, "delete_file", path=".claude")).once_only


@pytest.mark.parametrize("path", [".claude/commands/a.md", ".hilum/skills/a/SKILL.md"])
async def test_a_rule_may_name_what_does_not_restrict_the_agent(bench, path):
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, allow=[f"write_file({path})"])
    assert (await kit.call("write_file", path=path, content="x")).code == ""


SECRETS = [".env", "config/.env.local", "deploy/id_ed25519", "server.pem", ".aws/config", ".ENV"]


async def test_reading_a_file_of_secrets_is_asked(bench, asked):
    """Under auto, too; what only looks like one by its ending is source code."""
    public = ("secrets.py", ".env.example", "keys.md")
    kit = await bench(*PLUGINS, approve="auto", files=dict.fromkeys((*SECRETS, *public), "x"))
    for path in SECRETS:
        assert (await asked(kit, "read_file", path=path)).risk == "read", path
    for harmless in public:
        assert (await kit.call("read_file", path=harmless)).code == ""


async def test_no_tool_touches_hilums_own_folders(bench, tmp_path):
    """Neither a file tool, where the workspace is around them, nor a command that names them, nor
    hilum itself.
    """
    kit = await bench(
        *PLUGINS, approve="auto", workspace=tmp_path / "around", folder=tmp_path / "around"
    )
    user_rules(kit, allow=["*"])
    rules = kit.folder / "config" / "permissions.toml"
    before = rules.read_text()
    for name, arguments in (
        ("write_file", {"path": "config/permissions.toml", "content": ""}),
        ("read_file", {"path": "data/hilum.db"}),
        ("run_terminal_cmd", {"command": "cp x config/permissions.toml"}),
        ("run_terminal_cmd", {"command": "cd config && tee permissions.toml"}),
        ("run_terminal_cmd", {"command": "echo > config/permissions.toml"}),
        ("run_terminal_cmd", {"command": "hilum permissions allow '*'"}),
        ("run_terminal_cmd", {"command": "timeout 5 hilum trust"}),
        ("run_terminal_cmd", {"command": "hilum skills add owner/name"}),
    ):
        result = await kit.call(name, **arguments)
        assert result.code == E_DENIED, (name, arguments)
    assert rules.read_text() == before


async def test_a_path_out_of_the_workspace_is_refused_before_anyone_is_asked(bench):
    """R10: the code is that of the path, not of a rejection."""
    kit = await bench(*PLUGINS, approve="ask_first")
    for path in ("../x", "/etc/passwd"):
        assert (await kit.call("write_file", path=path, content="")).code == E_PATH_TRAVERSAL
    assert kit.of(ApprovalAsked) == []


async def test_under_auto_a_command_is_asked_where_no_sandbox_holds_files(bench):
    """The refusal of a headless run says what to do.

    ``unsandboxed = "run"`` is the user's word that it may.
    """
    kit = await bench(*PLUGINS, approve="auto", kind="headless", settings={"guard.sandbox": "off"})
    result = await kit.call("run_terminal_cmd", command="touch made")
    assert result.code == E_DENIED
    for part in (
        "no user is present",
        "guard.unsandboxed=run",
        "hilum doctor",
        "hilum permissions allow 'run_terminal_cmd(",
    ):
        assert part in result.text
    assert (await kit.call("run_terminal_cmd", command="ls")).code == ""
    run = {"guard.sandbox": "off", "guard.unsandboxed": "run"}
    kit = await bench(*PLUGINS, approve="auto", kind="headless", settings=run)
    assert (await kit.call("run_terminal_cmd", command="touch made")).code == ""
    assert (kit.workspace / "made").exists()


async def test_under_auto_a_command_runs_unasked_where_the_sandbox_holds_files(bench):
    """That is what the sandbox is for."""
    if not hilum_guard.probe().files:
        pytest.skip("no sandbox here")
    kit = await bench(*PLUGINS, approve="auto")
    assert (await kit.call("run_terminal_cmd", command="touch made")).code == ""


async def test_a_read_only_agent_gets_a_permission_error_and_it_is_logged(bench):
    """G5: the profile refuses before any rule is heard."""
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, allow=["*"])
    kit.session.add_agent(Profile(name="reader", tools=ToolFilter(allow=("read",))))
    kit.model.next(use("write_file", path="a", content=""), say("I may not."))
    await kit.run("x", agent="reader")
    assert kit.results[-1].code == E_DENIED
    assert "reader may not use write_file" in kit.results[-1].text


async def test_a_guard_that_fails_lets_nothing_run(bench, monkeypatch):
    """Required and broken: reading is refused, too."""
    from hilum_guard import gate

    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(gate.Gate, "judge", broken)
    kit = await bench(*PLUGINS, approve="auto", faults=True)
    for _ in range(4):
        result = await kit.call("list_directory", path=".")
        assert result.code == E_DENIED
        assert "hilum_guard, which guards this, failed" in result.text
    assert kit.of(CallStarted) == []


async def test_a_guard_that_does_not_open_lets_nothing_run(bench, monkeypatch):
    """The session opens, and a prompt is refused with the reason: the guard takes secrets out of
    what is logged and sent.
    """

    def broken(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr("hilum_guard.session_guard.Guard", broken)
    kit = await bench(*PLUGINS, approve="auto", faults=True)
    with pytest.raises(PluginError, match="not in working order"):
        await kit.call("list_directory", path=".")
    assert kit.of(CallStarted) == []


async def test_importing_the_guard_is_cheap():
    """Neither grammar nor path matching nor sandbox is loaded before something is judged."""
    import subprocess

    code = (
        "import sys, hilum_guard; bad = {'tree_sitter', 'pathspec', 'hilum_guard.commands.bash_judge',"
        " 'hilum_guard.sandbox.session_sandbox', 'tomllib'}"
        " & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))  # noqa: ASYNC221


@pytest.mark.parametrize("command", ["rm -rf *", "git filter-branch HEAD", "git stash clear"])
async def test_what_cannot_be_undone_is_asked_under_auto_and_in_spite_of_wide_rules(
    bench, asked, command, monkeypatch
):
    """Only its very text, which the user saw, lets it run."""
    # Otherwise `git filter-branch` waits for ten seconds.
    monkeypatch.setenv("FILTER_BRANCH_SQUELCH_WARNING", "1")
    kit = await bench(*PLUGINS, approve="auto", files={"a": ""})
    user_rules(kit, allow=["run_terminal_cmd(git *)", "run_terminal_cmd(rm *)"])
    event = await asked(kit, "run_terminal_cmd", command=command)
    assert event.scope == f"run_terminal_cmd(={command})"
    assert (kit.workspace / "a").exists()
    user_rules(kit, allow=[event.scope])
    await kit.call("run_terminal_cmd", command=command)
    assert len(kit.of(ApprovalAsked)) == 1


@pytest.mark.parametrize(
    ("command", "lists"),
    [
        ("cat notes.txt > .envrc", {"ask": ["read_file(notes.txt)"]}),
        ("$WORD a > .envrc", {"deny": ["run_terminal_cmd(git push *)"]}),
        ("cat .env > .envrc", {}),
    ],
)
async def test_an_exact_rule_silences_the_protected_file_and_nothing_else(
    bench, asked, command, lists
):
    kit = await bench(*PLUGINS, approve="auto", files={".env": "x", "notes.txt": "x"})
    user_rules(kit, allow=[f"run_terminal_cmd(={command})"], **lists)
    assert ".envrc:" not in (await asked(kit, "run_terminal_cmd", command=command)).reason
    user_rules(kit, allow=["run_terminal_cmd(=echo x > .envrc)"])
    verdict = await kit.session.plugin(hilum_guard.Guard).explain(
        kit.session.tools["run_terminal_cmd"], '{"command": "echo x > .envrc"}'
    )
    assert verdict.outcome == "It would run.", verdict


async def test_what_lets_a_command_run_is_told_truly(bench):
    """A sandbox that is off holds nothing."""
    kit = await bench(
        *PLUGINS, approve="auto", settings={"guard": {"sandbox": "off", "unsandboxed": "run"}}
    )
    verdict = await kit.session.plugin(hilum_guard.Guard).explain(
        kit.session.tools["run_terminal_cmd"], '{"command": "make it"}'
    )
    assert verdict.outcome == "It would run.", verdict
    assert "The sandbox" not in verdict.reason
    assert "guard.unsandboxed" in verdict.source


@pytest.mark.parametrize("source", ["user", "project"])
@pytest.mark.parametrize(("kind", "code"), [("shared", E_DENIED), ("main", ""), ("headless", "")])
async def test_a_rule_for_a_kind_of_session_holds_in_that_kind_only(bench, source, kind, code):
    """``[session.shared]``, in the user's file and in a project's.

    What holds everywhere holds there, too.
    """
    text = '[session.shared]\ndeny = ["write_file(notes/**)"]\n'
    files = {".hilum/permissions.toml": text} if source == "project" else {}
    kit = await bench(*PLUGINS, approve="auto", kind=kind, files=files)
    if source == "user":
        (kit.folder / "config" / "permissions.toml").write_text(
            f'deny = ["write_file(secret.txt)"]\n{text}'
        )
        assert (await kit.call("write_file", path="secret.txt", content="x")).code == E_DENIED
    assert (await kit.call("write_file", path="notes/a.txt", content="x")).code == code
    assert (await kit.call("write_file", path="b.txt", content="x")).code == ""


async def test_a_rule_that_allows_in_one_kind_of_session_is_asked_in_another(bench, asked):
    """Only the user may allow."""
    text = '[session.shared]\nallow = ["write_file(notes/**)"]\n'
    kit = await bench(*PLUGINS, approve="ask_first", kind="shared")
    (kit.folder / "config" / "permissions.toml").write_text(text)
    assert (await kit.call("write_file", path="notes/a.txt", content="x")).code == ""
    kit = await bench(*PLUGINS, approve="ask_first")
    (kit.folder / "config" / "permissions.toml").write_text(text)
    assert await asked(kit, "write_file", path="notes/b.txt", content="x")
    kit = await bench(*PLUGINS, kind="shared", files={".hilum/permissions.toml": text})
    assert (
        "only the user may allow" in (await kit.call("write_file", path="c.txt", content="x")).text
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[session.public]\ndeny = ["write_file"]\n', "kinds are main, shared, headless"),
        ("session = 3\n", "write [session.shared]"),
        ('[session]\nshared = ["write_file"]\n', "is not a table"),
        ('[session.headless]\ndeny = ["write_file("]\n', "session.headless.deny[1]"),
    ],
)
async def test_a_mistake_in_the_rules_of_a_kind_is_reported_in_every_kind(bench, text, told):
    """It would be found too late otherwise."""
    kit = await bench(*PLUGINS, approve="auto", kind="shared")
    (kit.folder / "config" / "permissions.toml").write_text(text)
    result = await kit.call("write_file", path="a.txt", content="x")
    assert result.code == E_DENIED
    assert told in result.text


async def test_a_question_names_the_rule_that_asks_beside_one_that_may_deny(bench, asked):
    kit = await bench(*PLUGINS, approve="auto")
    user_rules(kit, ask=["run_terminal_cmd(git push)"], deny=["web_fetch(domain:evil.example)"])
    event = await asked(kit, "run_terminal_cmd", command="git push")
    assert event.reason.startswith("A rule requires approval: run_terminal_cmd(git push).")
