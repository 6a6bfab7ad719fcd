"""Approvals: bound to what was shown, and kept as a rule where the user wants it for always."""

import json
import tomllib

import hilum_files
import hilum_guard
import hilum_shell
import pytest
from hilum import UsageError, ask, hookimpl
from hilum.errors import BY_POLICY, E_BLOCKED, E_DENIED, E_REJECTED, RULE, UNATTENDED
from hilum.events import ApprovalAsked, PluginEvent
from hilum.testing import say, use

PLUGINS = (hilum_guard, hilum_files, hilum_shell)


def kept(kit):
    """The rules in the user's file."""
    file = kit.folder / "config" / "permissions.toml"
    return tomllib.loads(file.read_text()) if file.exists() else {}


async def test_always_keeps_the_rule_for_this_folder_and_says_so(bench, tmp_path, answered):
    """The next session does not ask; another folder's does."""
    kit = await bench(*PLUGINS, approve="ask_first", folder=tmp_path / "b")
    await answered(kit, "run_terminal_cmd", command="git init -q", remember="always")
    note = await kit.wait_for(PluginEvent, lambda event: event.name == "guard.rule_kept")
    assert "allow run_terminal_cmd(git init *)" in note.data["say"]
    assert kept(kit) == {
        "workspace": {str(kit.workspace): {"allow": ["run_terminal_cmd(git init *)"]}}
    }
    again = await bench(*PLUGINS, approve="ask_first", folder=tmp_path / "b")
    await again.call("run_terminal_cmd", command="git init -q .")
    assert again.of(ApprovalAsked) == []
    other = await bench(
        *PLUGINS, approve="ask_first", folder=tmp_path / "b", workspace=tmp_path / "other"
    )
    await answered(other, "run_terminal_cmd", command="git init -q")


async def test_always_keeps_a_rule_even_if_the_session_closes_at_once(tmp_path, answered):
    """The last answer counts."""
    from hilum.testing import open_bench

    async with open_bench(*PLUGINS, approve="ask_first", folder=tmp_path) as kit:
        await answered(kit, "write_file", path="a", content="", remember="always")
    assert kept(kit)["workspace"][str(kit.workspace)] == {"allow": ["write_file"]}


async def test_the_very_text_is_kept_where_no_narrower_rule_can_be(bench, answered):
    """Quotes, newlines and all; it then allows that and nothing else."""
    kit = await bench(*PLUGINS, approve="ask_first")
    text = "python3 -c 'print(\"a\")\nprint(1)' && touch x"
    await answered(kit, "run_terminal_cmd", command=text, remember="always")
    await kit.wait_for(PluginEvent, lambda event: event.name == "guard.rule_kept")
    assert kept(kit)["workspace"][str(kit.workspace)]["allow"] == [f"run_terminal_cmd(={text})"]
    asked = len(kit.of(ApprovalAsked))
    await kit.call("run_terminal_cmd", command=text)
    assert len(kit.of(ApprovalAsked)) == asked


async def test_a_lasting_yes_to_somebody_elses_question_is_no_rule(bench, answered):
    """Only what the guard asked itself is kept."""

    class Strict:
        @hookimpl(tryfirst=True)
        async def on_tool_call(self, call):
            return ask("I want to know.", scope="everything")

    kit = await bench(Strict(), *PLUGINS, approve="auto")
    await answered(kit, "read_file", path="x", remember="always")
    assert kept(kit) == {}


@pytest.mark.parametrize("approve", ["ask_first", "auto"])
async def test_a_dangerous_call_gets_no_lasting_yes_from_any_face(bench, approve):
    """The session itself refuses such an answer, and the same command is asked about again."""
    command = "git init -q && rm -rf *"
    uses = [use("run_terminal_cmd", command=command), "ok"]
    kit = await bench(*PLUGINS, answers=[*uses, *uses], approve=approve)
    seen = 0
    for _ in range(2):
        run = await kit.start("x")
        asked = await kit.wait_for(ApprovalAsked, after=seen)
        assert asked.once_only
        for remember in ("session", "always"):
            with pytest.raises(UsageError, match="only this call"):
                kit.session.answer(asked.id, True, remember=remember)
        kit.session.answer(asked.id, True)
        seen = asked.seq
        with kit.guard():
            await run.wait()
    assert len(kit.of(ApprovalAsked)) == 2
    assert kept(kit) == {}


@pytest.mark.parametrize("remember", ["session", "always"])
@pytest.mark.parametrize(
    ("harmless", "dangerous"),
    [
        ("git checkout feature", "git checkout -- ."),
        ("git switch feature", "git switch -f main"),
        ("git branch feature", "git branch -D feature"),
        ("git checkout feature", "git checkout main && git checkout -f main"),
    ],
)
async def test_no_lasting_approval_covers_a_dangerous_call(
    bench, asked, answered, remember, harmless, dangerous
):
    """Neither in this session nor as a stored rule; it still covers the other calls."""
    kit = await bench(*PLUGINS, approve="ask_first")
    await answered(kit, "run_terminal_cmd", command=harmless, remember=remember)
    if remember == "always":
        await kit.wait_for(PluginEvent, lambda event: event.name == "guard.rule_kept")
    question = await asked(kit, "run_terminal_cmd", command=dangerous)
    assert question.once_only
    assert question.scope == f"run_terminal_cmd(={dangerous})"
    assert kit.results[-1].code == E_REJECTED
    number = len(kit.of(ApprovalAsked))
    await kit.call("run_terminal_cmd", command=harmless)
    assert len(kit.of(ApprovalAsked)) == number


@pytest.mark.parametrize(
    ("rule", "is_covered"),
    [
        ("git checkout *", False),
        ("git *", False),
        ("git check* *", False),
        ("*", False),
        ("=git checkout -f main", True),
        ("git checkout -f *", True),
        ("git checkout -f main", True),
    ],
)
async def test_only_a_rule_that_shows_the_danger_covers_a_dangerous_call(
    bench, asked, rule, is_covered
):
    kit = await bench(*PLUGINS, approve="ask_first")
    file = kit.folder / "config" / "permissions.toml"
    file.write_text(f'allow = ["run_terminal_cmd({rule})"]\n')
    command = "git checkout -f main"
    if is_covered:
        await kit.call("run_terminal_cmd", command=command)
        assert kit.of(ApprovalAsked) == []
    else:
        await asked(kit, "run_terminal_cmd", command=command)


async def test_a_lasting_yes_against_a_rule_that_asks_is_told_to_be_none(bench, answered):
    """The rule stands above it."""
    kit = await bench(*PLUGINS, approve="auto")
    (kit.folder / "config" / "permissions.toml").write_text('ask = ["write_file(*.md)"]\n')
    await answered(kit, "write_file", path="a.md", content="", remember="always")
    note = await kit.wait_for(PluginEvent, lambda event: event.name == "guard.rule_not_kept")
    assert "approval is needed each time" in note.data["say"]
    assert "workspace" not in kept(kit)


async def test_a_rule_that_cannot_be_written_is_told(bench, answered):
    """The call runs, the user reads why the rule is not kept."""
    kit = await bench(*PLUGINS, approve="ask_first")
    (kit.folder / "config" / "permissions.toml").write_text(
        f'workspace = {{"{kit.workspace}" = {{ask = []}}}}\n'
    )
    result = await answered(kit, "write_file", path="a", content="x", remember="always")
    assert result.code == ""
    note = await kit.wait_for(PluginEvent, lambda event: event.name.startswith("guard.rule_"))
    assert note.name == "guard.rule_not_kept"
    assert "cannot be changed safely" in note.data["say"]


@pytest.mark.parametrize("target", [".git/hooks/pre-commit", ".git/config"])
async def test_a_path_that_is_swapped_while_it_is_asked_is_refused(bench, target, answered):
    """What was approved is what is written: a link put there meanwhile makes it another call."""
    kit = await bench(*PLUGINS, approve="ask_first", files={"notes.txt": "", target: "as it was"})
    notes = kit.workspace / "notes.txt"

    def swap():
        notes.unlink()
        notes.symlink_to(target)

    result = await answered(kit, "write_file", path="notes.txt", content="evil", meanwhile=swap)
    assert result.code == E_DENIED
    assert "changed after approval was requested" in result.text
    assert (kit.workspace / target).read_text() == "as it was"


async def test_a_rule_that_comes_while_it_is_asked_counts(bench, answered):
    """The user denies it by a rule in another window and says yes here: the strictest wins."""
    kit = await bench(*PLUGINS, approve="ask_first")

    def rule():
        (kit.folder / "config" / "permissions.toml").write_text('deny = ["write_file"]\n')

    assert (
        await answered(kit, "write_file", path="a", content="", meanwhile=rule)
    ).code == E_DENIED
    assert not (kit.workspace / "a").exists()


async def test_a_rejection_reaches_the_model_with_its_reason(bench):
    """G2: it changes its plan."""
    kit = await bench(*PLUGINS, approve="ask_first")
    kit.model.next(use("run_terminal_cmd", command="make"), say("Then not."))
    run = await kit.start("x")
    kit.session.answer((await kit.wait_for(ApprovalAsked)).id, False, reason="use tox")
    with kit.guard():
        await run.wait()
    assert kit.results[-1].code == E_REJECTED
    assert "use tox" in kit.results[-1].text


CHANGED = "changed after approval was requested"


@pytest.mark.parametrize(
    ("name", "command", "before", "after"),
    [
        ("go.sh", "sh go.sh", "echo fine\n", "echo fine\ntouch made\n"),
        ("go.sh", "sh go.sh", "echo fine\n", "git push --force\n"),
        ("go.sh", "sh ./go.sh", "echo fine\n", "cat .env\n"),
        ("go.sh", "sh go.sh", "echo fine\n", "#" * 250_000 + "\ntouch made\n"),
        ("go.sh", "sh go.sh", "echo fine\n", "if; then ((\ntouch made\n"),
        ("go.sh", "sh go.sh", "echo fine\n", "sh inner.sh\n"),
        ("Makefile", "make check", "check:\n\techo fine\n", "check:\n\ttouch made\n"),
        ("package.json", "npm test", '{"scripts": {"test": "echo fine"}}', None),
        ("x.py", "python3 x.py", "print(1)\n", "open('made', 'w')\n"),
        (
            "Makefile",
            "make check",
            "check:\n\techo fine\n",
            "check:\n\ttouch made\n" + "#" * 250_000,
        ),
        ("tool", "./tool", "#!/usr/bin/env python3\n", "#!/usr/bin/env python3\nprint(1)\n"),
    ],
)
@pytest.mark.parametrize("remember", ["once", "session"])
async def test_an_answer_does_not_cover_what_a_script_contains_later(
    bench, answered, name, command, before, after, remember
):
    """The user approved what the script contained at the question."""
    if after is None:
        after = before.replace("echo fine", "touch made")
    kit = await bench(*PLUGINS, approve="ask_first", files={name: before, "inner.sh": "touch b"})
    file = kit.workspace / name
    file.chmod(0o755)
    result = await answered(
        kit,
        "run_terminal_cmd",
        command=command,
        remember=remember,
        meanwhile=lambda: file.write_text(after),
    )
    assert result.code == E_DENIED
    assert CHANGED in result.text
    assert not (kit.workspace / "made").exists()


async def test_an_answer_covers_a_script_that_does_less_now(bench, answered):
    kit = await bench(*PLUGINS, approve="ask_first", files={"go.sh": "touch made\ntouch more\n"})
    file = kit.workspace / "go.sh"
    result = await answered(
        kit,
        "run_terminal_cmd",
        command="sh go.sh",
        meanwhile=lambda: file.write_text("touch made\n"),
    )
    assert result.code == ""
    assert (kit.workspace / "made").exists()


@pytest.mark.parametrize(
    ("after", "runs"), [("echo fine\n", True), ("git push --force\n", False), ("cat .env\n", False)]
)
async def test_edited_arguments_do_not_cover_new_dangers_in_a_script(bench, after, runs):
    """The user wrote the arguments, but not what the script contains."""
    kit = await bench(*PLUGINS, approve="ask_first", files={"go.sh": "echo fine\n", ".env": "A=b"})
    kit.model.next(use("run_terminal_cmd", command="sh go.sh"), say("Then so."))
    run = await kit.start("x")
    event = await kit.wait_for(ApprovalAsked)
    (kit.workspace / "go.sh").write_text(after)
    kit.session.answer(event.id, True, arguments='{"command": "sh go.sh now && touch made"}')
    await run.wait()
    assert (kit.workspace / "made").exists() == runs
    assert (CHANGED in kit.results[-1].text) != runs


DANGERS = ["git push --force", "cat .env", "cat .env && git stash clear"]


@pytest.mark.parametrize("danger", DANGERS)
@pytest.mark.parametrize(
    ("name", "command", "script"),
    [("go.sh", "sh go.sh", "{}\n"), ("Makefile", "make check", "check:\n\t{}\n")],
)
@pytest.mark.parametrize("remember", ["session", "always"])
async def test_a_lasting_approval_does_not_cover_later_dangers_in_a_script(
    bench, answered, asked, danger, name, command, script, remember
):
    """Only ordinary content is covered: the dangerous command is asked about, each time."""
    kit = await bench(*PLUGINS, approve="ask_first", files={".env": "KEY=1"})
    file = kit.workspace / name
    file.write_text(script.format("true"))
    await answered(kit, "run_terminal_cmd", command=command, remember=remember)
    file.write_text(script.format("touch made"))
    await kit.call("run_terminal_cmd", command=command)
    assert len(kit.of(ApprovalAsked)) == 1
    assert (kit.workspace / "made").exists()
    file.write_text(script.format(danger))
    event = await asked(kit, "run_terminal_cmd", command=command)
    assert event.scope == f"run_terminal_cmd(={danger.split(' && ')[0]})"
    assert kit.results[-1].code == E_REJECTED
    await asked(kit, "run_terminal_cmd", command=command)


@pytest.mark.parametrize("approve", ["ask_first", "auto"])
@pytest.mark.parametrize(
    ("name", "command", "script"),
    [
        ("go.sh", "sh go.sh", "cd src\nmkfs.ext4 /dev/sda1\n"),
        ("go.sh", "sh go.sh", "if; then ((\nrm -rf /\n"),
        ("go.sh", ". ./go.sh", "x() { :; }\n:(){ :|:& };:\n"),
        ("Makefile", "make check", "check:\n\trm -rf ~\n"),
        ("package.json", "npm test", '{"scripts": {"test": "mkfs.ext4 /dev/sda1"}}'),
    ],
)
async def test_a_destructive_command_in_a_script_is_blocked(bench, approve, name, command, script):
    """Under every policy, and even if a rule allows the command that runs the script."""
    kit = await bench(*PLUGINS, approve=approve, files={name: script})
    rules = f'allow = ["run_terminal_cmd(={command})", "run_terminal_cmd"]\n'
    (kit.folder / "config" / "permissions.toml").write_text(rules)
    guard = kit.session.plugin(hilum_guard.Guard)
    # The command is only judged, because a mistake in the guard must not destroy anything.
    verdict, _ = await guard.judge(
        kit.session.tools["run_terminal_cmd"], json.dumps({"command": command})
    )
    assert (verdict.kind, verdict.code) == ("deny", E_BLOCKED)


async def test_the_exact_text_of_a_dangerous_command_may_be_allowed_in_a_script(bench):
    """The rule is about the dangerous command, not about the script."""
    kit = await bench(*PLUGINS, approve="auto", files={"go.sh": "git stash clear\n"})
    rules = kit.folder / "config" / "permissions.toml"
    rules.write_text('allow = ["run_terminal_cmd(=sh go.sh)"]\n')
    guard = kit.session.plugin(hilum_guard.Guard)
    tool = kit.session.tools["run_terminal_cmd"]
    verdict, _ = await guard.judge(tool, '{"command": "sh go.sh"}')
    assert verdict.kind == "ask"
    rules.write_text(
        'allow = ["run_terminal_cmd(=sh go.sh)", "run_terminal_cmd(=git stash clear)"]\n'
    )
    verdict, _ = await guard.judge(tool, '{"command": "sh go.sh"}')
    assert verdict.kind == "allow"


async def test_one_lasting_approval_does_not_cover_another_danger_of_the_line(bench, asked):
    """The approval of `cat .env` covers neither the other secret nor the line as a whole."""
    files = {".env": "KEY=1", "key.pem": "", "go.sh": "cat .env\n"}
    kit = await bench(*PLUGINS, approve="ask_first", files=files)
    await asked(kit, "run_terminal_cmd", command="cat .env", accept=True, remember="session")
    await asked(kit, "run_terminal_cmd", command="sh go.sh")
    await asked(kit, "run_terminal_cmd", command="cat credentials.json; sh go.sh")


SUGGESTED = {
    "a file": ("write_file", {"path": "new.txt", "content": "x"}),
    "a protected file": ("write_file", {"path": "sub/.envrc", "content": "x"}),
    "a file with a line break": ("write_file", {"path": ".husky/a\nb", "content": "x"}),
    "a deletion": ("delete_file", {"path": "a.txt"}),
    "a secret file": ("read_file", {"path": ".env"}),
    "a command": ("run_terminal_cmd", {"command": "touch b.txt"}),
    "a command of git": ("run_terminal_cmd", {"command": "git commit -m x"}),
    "a grave command": ("run_terminal_cmd", {"command": "git push --force"}),
    "a quoted command": ("run_terminal_cmd", {"command": 'echo "it\'s" > c.txt; rm c.txt'}),
    "a command with a line break": ("run_terminal_cmd", {"command": "touch d\ntouch e"}),
    "a secret in a command": ("run_terminal_cmd", {"command": "base64 .env"}),
    "restrictions": ("write_file", {"path": ".claude/settings.json", "content": "{}"}),
    "restrictions in a command": (
        "run_terminal_cmd",
        {"command": "rm .claude/settings.json; echo '{}' > .claude/settings.local.json"},
    ),
}


@pytest.mark.parametrize("approve", ["ask_first", "auto"])
@pytest.mark.parametrize("ask_rule", [False, True])
@pytest.mark.parametrize("name", SUGGESTED)
async def test_each_rule_that_is_suggested_lets_the_call_pass(bench, name, ask_rule, approve):
    """A rule that would not help is not suggested, and neither is the policy."""
    tool_name, arguments = SUGGESTED[name]
    files = {"a.txt": "x", ".env": "KEY=1", ".claude/settings.json": "{}"}
    kit = await bench(*PLUGINS, approve=approve, kind="headless", files=files)
    own = kit.folder / "config/permissions.toml"
    rules = 'ask = ["write", "execute", "read_file(.env)"]\n' if ask_rule else ""
    own.write_text(rules)
    await kit.call("read_file", path="a.txt")
    result = await kit.call(tool_name, **arguments)
    rule = result.data.get(RULE)
    if UNATTENDED not in result.text:
        assert not rule
        return
    if ask_rule or name.startswith("restrictions"):
        assert not rule
        assert not result.data.get(BY_POLICY)
    if rule:
        own.write_text(f"{rules}allow = [{json.dumps(rule)}]\n")
        again = await kit.call(tool_name, **arguments)
        assert UNATTENDED not in again.text
        assert "mistake" not in again.text
        own.write_text(rules)
    if result.data.get(BY_POLICY):
        kit.session.approve = "auto"
        again = await kit.call(tool_name, **arguments)
        assert UNATTENDED not in again.text
