"""Hooks of projects: they run only as the user approved them, and a changed guard stays closed."""

import json

import hilum_plan
import pytest
from hilum import UsageError
from hilum.events import PluginEvent
from hilum.testing import say, use
from hilum.trust import TrustedFolders
from hilum_cli.trust import main as trust
from hilum_hooks_claude.approvals import decisions_file
from hilum_hooks_claude.command import main
from hilum_hooks_claude.foreign_files import find_foreign_files
from hilum_hooks_claude.listing import read_hooks
from hilum_hooks_claude.session_hooks import LATER, NEVER, YES, SessionHooks
from hilum_plan.questions import ASKED
from hook_places import group

GUARD = '"$CLAUDE_PROJECT_DIR"/.claude/hooks/guard.sh'


def write_guard(place, **options):
    """Write a project whose guard denies every command."""
    place.write(".claude/hooks/guard.sh", '#!/bin/sh\n. "$(dirname $0)/lib.sh"\n', mode=0o755)
    place.write(".claude/hooks/lib.sh", "echo by the guard >&2; exit 2\n")
    place.project_hooks({"PreToolUse": group(GUARD, "Bash")}, **options)


def states(place):
    """Return the states of the project's hooks."""
    return [each.state for each in read_hooks(place.project)[0]]


async def run_command(place, **options):
    """Return the result of a command in a session, and the session's notes to the user."""
    async with place.open(**options) as bench:
        result = await bench.call("run_terminal_cmd", command="echo reached")
        lines = [each.data.get("say", "") for each in bench.events if hasattr(each, "data")]
    return result, "\n".join(lines)


async def test_hooks_of_a_project_need_trust_and_approval(place):
    write_guard(place, trusted=False, approved=False)
    assert states(place) == ["needs approval"]
    result, said = await run_command(place)
    assert "reached" in result.text
    assert "1 need your approval" in said
    with pytest.raises(UsageError, match="hilum trust"):
        main(["approve", "--yes", "-C", str(place.project)])
    write_guard(place, trusted=True, approved=True)
    assert states(place) == ["runs"]
    result, _ = await run_command(place)
    assert "by the guard" in result.text


async def test_approved_guard_that_changed_refuses_calls(place):
    write_guard(place)
    (place.project / ".claude/hooks/lib.sh").write_text("exit 0\n")
    TrustedFolders().add(place.project)
    assert states(place) == ["changed"]
    result, said = await run_command(place)
    assert result.code == "E_DENIED"
    assert "has changed" in result.text
    assert "need your approval again" in said
    assert main(["approve", "--yes", "-C", str(place.project)]) == 0
    result, _ = await run_command(place)
    assert "reached" in result.text


async def test_guard_that_changes_during_the_session_refuses_calls(place):
    write_guard(place)
    async with place.open() as bench:
        # Neither a command nor a file tool can change what the hook executes …
        changed = await bench.call("write_file", path=".claude/hooks/lib.sh", content="exit 0")
        assert changed.code
        result = await bench.call("run_terminal_cmd", command="echo reached")
        assert "by the guard" in result.text
        # … and another program that does so switches nothing off.
        (place.project / ".claude/hooks/lib.sh").write_text("exit 0\n")
        result = await bench.call("run_terminal_cmd", command="echo reached")
        assert result.code == "E_DENIED"
        (place.project / ".claude/hooks/guard.sh").unlink()
        result = await bench.call("run_terminal_cmd", command="echo reached")
        assert result.code == "E_DENIED"


async def test_commands_cannot_write_what_hooks_execute(place):
    place.write("scripts/check.sh", "exit 0\n", mode=0o755)
    place.project_hooks({"PostToolUse": group("sh scripts/check.sh", "Write")})
    hidden = "python3 -c \"open('scr' + 'ipts/check.sh', 'a').write('touch x')\""
    async with place.open(kind="headless") as bench:
        for command in ("echo 'touch x' >> scripts/check.sh", hidden):
            result = await bench.call("run_terminal_cmd", command=command)
            assert result.code
    assert (place.project / "scripts/check.sh").read_text() == "exit 0\n"


@pytest.mark.parametrize(
    ("answer", "state"), [(YES, "runs"), (NEVER, "refused"), (LATER, "needs approval")]
)
async def test_user_is_asked_in_the_session(place, answer, state):
    write_guard(place, approved=False)
    answers = [say("Hello."), use("run_terminal_cmd", command="echo reached"), say("Done.")]
    async with place.open(hilum_plan, answers=answers) as bench:
        await bench.run("hello")
        asked = await bench.wait_for(PluginEvent, lambda event: event.name == ASKED)
        assert "guard.sh" in asked.data["question"]
        assert "lib.sh" in asked.data["question"]
        bench.session.plugin(hilum_plan.Plan).answer(asked.data["id"], answer)
        hooks = bench.session.plugin(SessionHooks)
        await hooks.decided.wait()
        await bench.run("go")
        denied = bench.result("run_terminal_cmd").code == "E_DENIED"
        assert denied == (answer == YES)
    assert states(place) == [state]


async def test_question_about_what_changed_meanwhile_approves_nothing(place):
    write_guard(place, approved=False)
    async with place.open(hilum_plan, answers=[say("Hello.")]) as bench:
        await bench.run("hello")
        asked = await bench.wait_for(PluginEvent, lambda event: event.name == ASKED)
        (place.project / ".claude/hooks/lib.sh").write_text("exit 0\n")
        bench.session.plugin(hilum_plan.Plan).answer(asked.data["id"], YES)
        await bench.session.plugin(SessionHooks).decided.wait()
    assert states(place) == ["needs approval"]


def test_command_lists_files_lines_and_states(place, capsys):
    place.user_hooks({"Stop": group("notify-send done"), "PermissionRequest": group("x")})
    write_guard(place, approved=False)
    folder = ["-C", str(place.project)]
    assert main(folder) == 1
    out = capsys.readouterr().out
    assert "~/.claude/settings.json" in out
    assert "Stop: notify-send done" in out
    assert "not supported (hilum has no event PermissionRequest.)" in out
    assert f"PreToolUse Bash: {GUARD}" in out
    assert "needs approval" in out
    assert main(["--json", *folder]) == 1
    data = json.loads(capsys.readouterr().out)
    assert [each["state"] for each in data["hooks"]] == ["runs", "not supported", "needs approval"]
    assert data["hooks"][2]["line"] == 7
    with pytest.raises(UsageError, match="needs a terminal"):
        main(["approve", *folder])
    assert main(["approve", "--yes", *folder]) == 0
    assert "guard.sh, .claude/hooks/lib.sh" in capsys.readouterr().out
    assert main(folder) == 0
    assert main(["refuse", *folder]) == 0
    assert states(place)[2:] == ["refused"]
    assert decisions_file().stat().st_mode & 0o777 == 0o600


async def test_slash_command_lists_hooks_and_approves_nothing(place):
    write_guard(place, approved=False)
    async with place.open() as bench:
        ended = await bench.run("/hooks approve")
        assert "needs approval" in ended.text
        assert "in a shell" in ended.text
        assert not bench.requests
    assert states(place) == ["needs approval"]


def test_import_reports_hooks(place):
    place.user_hooks({"Stop": group("notify-send done"), "Setup": group("x")})
    write_guard(place, approved=False)
    own, project, scripts = find_foreign_files(place.project)
    assert "name the scripts" in scripts.works[0]
    assert own.works == ("Stop: notify-send done (line 7)",)
    assert "not supported" in own.left[0]
    assert "PreToolUse Bash: guard.sh (line 7): needs approval" in project.left[0]


@pytest.mark.parametrize(
    ("hooks", "left", "problems"),
    [
        ({"Stop": []}, ["hooks: it contains no hook"], []),
        ({"Stop": 3}, [], ["`Stop` is not a list."]),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, [], ["has no `command`"]),
    ],
)
def test_import_reports_mistakes_and_empty_tables(place, hooks, left, problems):
    path = place.project / ".claude/settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": hooks}))
    (path.parent / "hooks").mkdir()
    (path.parent / "hooks/other.sh").write_text("true")
    file, scripts = find_foreign_files(place.project)
    assert list(file.left) == left
    assert len(file.problems) == len(problems)
    for found, part in zip(file.problems, problems, strict=True):
        assert part in found
        assert ".claude/settings.json:1: " in found
    assert scripts.left == ("no hook in a settings file names it: other.sh",)


def test_trust_names_the_hooks_that_wait(place, capfd):
    write_guard(place, approved=False)
    TrustedFolders().remove(place.project)
    trust([str(place.project)])
    said = capfd.readouterr().out
    assert "It defines hooks: 1. hilum hooks approve" in said
    assert "nothing yet" not in said


def test_project_cannot_switch_the_users_hooks_off(place):
    place.user_hooks({"PreToolUse": group("exit 2")})
    write_guard(place)
    path = place.project / ".claude/settings.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "disableAllHooks": True}))
    assert states(place) == ["runs", "off"]


def test_damaged_decisions_are_an_error(place):
    write_guard(place)
    decisions_file().write_text("approved = 3")
    with pytest.raises(UsageError, match="cannot be read"):
        main(["-C", str(place.project)])
