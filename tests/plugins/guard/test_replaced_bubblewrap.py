"""A command runs with the sandbox by which it was judged, or does not run."""

import os
import shutil
from pathlib import Path

import hilum_guard
import hilum_shell
import pytest
from hilum import Command, ToolDenied, hookimpl
from hilum.errors import E_DENIED
from hilum.events import ApprovalAsked, PluginEvent
from hilum.testing import open_bench, say, use
from hilum_guard import FULL_SANDBOX, Enforcement, ExtraAccess, Guard
from hilum_guard.sandbox import bubblewrap, sandbox_probe

WRITE = "python3 write.py; true"
FILES = {
    "write.py": (
        "open('made', 'w').write('x')\n"
        "open('.vscode/settings.json', 'w').write('changed')\n"
        "open('.vscode/tasks.json', 'w').write('new')\n"
    ),
    ".vscode/settings.json": "{}",
}
LANDLOCK = Enforcement("landlock", True, False, "namespace", True)


@pytest.fixture
def program(tmp_path: Path, monkeypatch):
    """The path of a bubblewrap that can be replaced."""
    if sandbox_probe.probe().by != "bubblewrap":
        pytest.skip("no bubblewrap here")
    program = tmp_path / "programs" / "bwrap"
    program.parent.mkdir()
    shutil.copy(bubblewrap.find_bubblewrap(), program)
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(program))
    return program


def break_bubblewrap(program: Path) -> None:
    """Replace bubblewrap with a program that always fails."""
    other = program.with_name("other")
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    os.replace(other, program)


class BreakBeforeStart:
    """A plugin that breaks bubblewrap after a command was judged, before it is sandboxed."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self.is_armed = False

    @hookimpl(tryfirst=True)
    async def wrap_process(self, command: Command) -> Command | None:
        if self.is_armed and WRITE in command.argv:
            self.is_armed = False
            break_bubblewrap(self.program)
        return None


def is_unchanged(workspace: Path) -> bool:
    """Return whether the command has written nothing."""
    settings = workspace / ".vscode/settings.json"
    made = [workspace / "made", workspace / ".vscode/tasks.json"]
    return settings.read_text() == "{}" and not any(path.exists() for path in made)


async def test_the_next_command_is_judged_by_the_sandbox_that_is_left(tmp_path: Path, program):
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path / "b", files=FILES, approve="auto"
    ) as kit:
        box = kit.session.plugin(Guard).sandbox
        result = await kit.call("run_terminal_cmd", command="echo one")
        assert "one" in result.text
        assert box.known is not None
        assert box.known.by == "bubblewrap"
        break_bubblewrap(program)
        assert box.known is None
        kit.model.next(use("run_terminal_cmd", command=WRITE), say("Well."))
        last = kit.session.journal.last
        run = await kit.start("x")
        event = await kit.wait_for(ApprovalAsked, after=last)
        assert is_unchanged(kit.workspace)
        notes = [each.data for each in kit.of(PluginEvent) if each.name == "guard.sandbox"]
        assert "say" not in notes[0]
        assert notes[1]["say"].startswith("The sandbox of this session has become weaker. bubble")
        kit.session.answer(event.id, False)
        with kit.guard():
            await run.wait()
        assert is_unchanged(kit.workspace)


@pytest.mark.parametrize("background", [False, True])
async def test_a_judged_command_does_not_run_in_a_weaker_sandbox(
    tmp_path: Path, program, background: bool
):
    breaker = BreakBeforeStart(program)
    async with open_bench(
        breaker, hilum_guard, hilum_shell, folder=tmp_path / "b", files=FILES, approve="auto"
    ) as kit:
        result = await kit.call("run_terminal_cmd", command="echo one")
        assert "one" in result.text
        breaker.is_armed = True
        result = await kit.call("run_terminal_cmd", command=WRITE, background=background)
        assert result.code == E_DENIED
        assert "no longer enforces" in result.text
        assert "judged anew" in result.text
        assert is_unchanged(kit.workspace)
        # Commands that need no approval go on.
        result = await kit.call("run_terminal_cmd", command="echo three")
        assert "three" in result.text


async def test_an_approval_for_the_better_sandbox_does_not_count(tmp_path: Path, program):
    """The user sees the question again, now with the sandbox that is left."""
    async with open_bench(
        hilum_guard, hilum_shell, folder=tmp_path / "b", files=FILES, approve="ask_first"
    ) as kit:
        box = kit.session.plugin(Guard).sandbox
        await box.enforced()
        kit.model.next(use("run_terminal_cmd", command=WRITE), say("Well."))
        last = kit.session.journal.last
        run = await kit.start("x")
        event = await kit.wait_for(ApprovalAsked, after=last)
        break_bubblewrap(program)
        kit.session.answer(event.id, True)
        with kit.guard():
            await run.wait()
        assert kit.results[-1].code == E_DENIED
        assert "no longer enforces" in kit.results[-1].text
        assert is_unchanged(kit.workspace)


async def test_a_caller_can_require_what_the_sandbox_enforces(tmp_path: Path):
    """As hooks of other agents and guests do: they are checked before they start."""
    async with open_bench(hilum_guard, folder=tmp_path, answers=["done"]) as kit:
        guard = kit.session.plugin(Guard)
        if not (await guard.sandbox.enforced()).whole:
            pytest.skip("no full sandbox here")
        argv = ("touch", "made")
        with guard.widen(argv, ExtraAccess(required=FULL_SANDBOX)):
            await kit.session.processes.run(argv)
        assert (kit.workspace / "made").exists()
        guard.sandbox._enforced = LANDLOCK
        wider = guard.widen(argv, ExtraAccess(required=FULL_SANDBOX))
        with wider, pytest.raises(ToolDenied, match="no longer enforces"):
            await kit.session.processes.run(argv)


def test_a_sandbox_covers_another_that_restricts_no_more():
    whole = Enforcement("bubblewrap", True, True, "namespace", True)
    nothing = Enforcement()
    assert whole.covers(whole)
    assert whole.covers(LANDLOCK)
    assert whole.covers(nothing)
    assert LANDLOCK.covers(Enforcement("landlock", True, False, "filter", True))
    assert not LANDLOCK.covers(whole)
    assert not nothing.covers(LANDLOCK)
