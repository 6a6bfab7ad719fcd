"""While only services run, the user's own new files are not blamed on a command."""

import os
import threading
from pathlib import Path

import hilum_files
import hilum_guard
import hilum_shell
import pytest
import trio
import trio.testing
from hilum.events import CallDone, PluginEvent
from hilum.messages import ToolCall
from hilum.testing import Bench, open_bench, say, use
from hilum_guard.sandbox import sandbox_probe
from hilum_guard.session_guard import Guard
from hilum_guard.watching.quarantine import UNATTRIBUTED
from hilum_guard.watching.workspace_guard import MAX_REPORTS
from hilum_guard.watching.workspace_watcher import WorkspaceWatcher

HOOK = ".git/hooks/pre-commit"
WRITER = """
import os
os.mkdir("new")
open("new/." + "envrc", "w").close()
"""
# Ends when the file has been made inert.
WAITING_WRITER = f"""{WRITER}
import time
for _ in range(400):
    if os.path.exists("new/.envrc.quarantined"):
        break
    time.sleep(0.05)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "proj"
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".git/objects").mkdir()
    (root / ".git/refs").mkdir()
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git/config").write_text("[core]\n\tbare = false\n")
    return root


def watch(root: Path, commands: int = 0, unclosed: int = 0) -> WorkspaceWatcher:
    """A watch while a service runs."""
    one = WorkspaceWatcher(
        [str(root)], alive=lambda: 1, commands=lambda: commands, unclosed=lambda: unclosed
    )
    one.begin(closed=[f"{root}/.git"])
    return one


def test_what_no_service_can_write_belongs_to_the_user(root: Path) -> None:
    one = watch(root)
    (root / HOOK).write_text("x")
    assert one.check() == []
    assert (root / HOOK).exists()
    assert one.begin()[1] == []
    # Now a command runs, and could have written this.
    (root / ".git/hooks/pre-push").write_text("x")
    (line,) = one.check()
    assert "pre-push is a hook that Git would execute" in line
    assert UNATTRIBUTED not in line
    assert (root / HOOK).exists()


@pytest.mark.parametrize("how", ["unclosed", "replaced", "later", "link"])
def test_what_a_service_may_have_written_is_made_inert(root: Path, how: str) -> None:
    """The Git folder is not closed to a service, or is no longer the one that was."""
    one = watch(root, unclosed=how == "unclosed")
    if how == "replaced":
        (root / ".git").rename(root / "old")
        (root / ".git").mkdir()
        for name in ("hooks", "objects", "refs"):
            (root / ".git" / name).mkdir()
        (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    elif how == "later":
        one = WorkspaceWatcher([str(root)], alive=lambda: 1, commands=lambda: 0)
        one.begin(closed=[])
        one.begin(closed=[f"{root}/.git"])
    elif how == "link":
        (root / ".git/hooks").rmdir()
        (root / "shared").mkdir()
        (root / ".git/hooks").symlink_to("../shared")
    (root / HOOK).write_text("x")
    os.chmod(root / HOOK, 0o755)
    said = one.check()
    assert said
    assert all(line.endswith(UNATTRIBUTED) for line in said)
    assert not (root / HOOK).exists()


def test_what_a_server_wrote_before_it_ended_is_made_inert(root: Path) -> None:
    """The Git folder is not closed to MCP servers."""
    servers = [1]
    one = WorkspaceWatcher(
        [str(root)], alive=lambda: 1, commands=lambda: 0, unclosed=lambda: len(servers)
    )
    one.begin(closed=[f"{root}/.git"])
    assert one.check() == []
    (root / HOOK).write_text("x")
    servers.clear()
    (line,) = one.check()
    assert line.endswith(UNATTRIBUTED)
    (root / HOOK).write_text("x")
    assert one.check() == [], "now only services run that cannot write there"


def test_nothing_that_only_services_may_have_written_is_blamed_on_a_command(root: Path) -> None:
    one = watch(root)
    (root / ".envrc").write_text("mine")
    (line,) = one.check()
    assert line.startswith(".envrc is new, and direnv executes it")
    assert line.endswith(UNATTRIBUTED)
    assert (root / ".envrc.quarantined").read_text() == "mine"


def test_what_a_command_wrote_before_it_ended_is_blamed_on_it(root: Path) -> None:
    one = watch(root)
    one.begin()
    (root / ".envrc").write_text("x")
    (line,) = one.check()
    assert "was written by a command" in line
    (root / "sub").mkdir()
    (root / "sub/.envrc").write_text("x")
    (line,) = one.check()
    assert line.endswith(UNATTRIBUTED), "the command had ended before the last check"


def last_result(bench: Bench) -> tuple[str, str]:
    done = bench.of(CallDone)[-1].result
    return done.code, done.text


async def test_harmless_calls_beside_a_service_are_not_blamed(tmp_path: Path) -> None:
    if sandbox_probe.probe().by != "bubblewrap":
        pytest.skip("no bubblewrap here")
    plugins = (hilum_guard, hilum_shell, hilum_files)
    async with open_bench(
        *plugins, folder=tmp_path, approve="auto", files={"a.txt": "a\n"}
    ) as bench:
        root = bench.workspace
        await trio.run_process(["git", "init", "-q", str(root)])
        (root / ".git/hooks").mkdir(exist_ok=True)
        await bench.call("run_terminal_cmd", command="sleep 600", background=True)
        await bench.call("run_terminal_cmd", command="true")
        (root / HOOK).write_text("mine")
        result = await bench.call("run_terminal_cmd", command="true")
        assert (result.code, "wrote files" in result.text) == ("", False), result.text
        assert (root / HOOK).read_text() == "mine"
        for path, call in {
            ".envrc": use("read_file", path="a.txt"),
            "sub/.envrc": use("run_terminal_cmd", command="true"),
        }.items():
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_text("mine")
            bench.model.next(call, say("Done."))
            await bench.run("Go on.")
            code, text = last_result(bench)
            assert code == "", text
            assert "a service or the user wrote" in text
            assert (root / f"{path}.quarantined").read_text() == "mine"
        said = [
            event.data["say"] for event in bench.of(PluginEvent) if event.name == "guard.undone"
        ]
        assert said
        assert all("A service or you wrote" in line and "/stop" in line for line in said)
        # A command is blamed as before.
        (root / "write.py").write_text(WRITER)
        result = await bench.call("run_terminal_cmd", command="python3 write.py")
        assert result.code == "E_DENIED"


async def test_the_call_that_wrote_a_file_is_blamed_however_slow_the_thread_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that found the file may not run again until the next call."""
    check = WorkspaceWatcher.check
    is_over = threading.Event()

    def check_and_stall(self: WorkspaceWatcher, **options: bool) -> list[str]:
        sentences = check(self, **options)
        if sentences and threading.current_thread().name == "hilum workspace":
            stalled.append(sentences)
            is_over.wait(20)
        return sentences

    stalled: list[list[str]] = []
    monkeypatch.setattr(WorkspaceWatcher, "check", check_and_stall)
    plugins = (hilum_guard, hilum_shell)
    async with open_bench(*plugins, folder=tmp_path, approve="auto") as bench:
        (bench.workspace / "write.py").write_text(WAITING_WRITER)
        try:
            first = await bench.call("run_terminal_cmd", command="python3 write.py")
        finally:
            is_over.set()
        second = await bench.call("run_terminal_cmd", command="echo innocent")
    assert stalled
    assert (first.code, second.code) == ("E_DENIED", ""), (first.text, second.text)
    assert "new/.envrc" in first.text


@pytest.mark.parametrize(
    ("call", "blamed"),
    [
        (use("run_terminal_cmd", command="hilum hooks approve"), False),
        (use("read_file", path="a.txt"), False),
        (use("run_terminal_cmd", command="true"), True),
    ],
    ids=["denied", "reading", "command"],
)
async def test_only_calls_that_ran_and_may_write_are_blamed(
    tmp_path: Path, call: ToolCall, blamed: bool
) -> None:
    """What another command left is reported with the next result, whichever that is."""
    plugins = (hilum_guard, hilum_shell, hilum_files)
    async with open_bench(
        *plugins, folder=tmp_path, approve="auto", files={"a.txt": "a\n"}
    ) as bench:
        guard = bench.session.plugin(Guard)
        guard.workspace_guard._unread.append("x was written by a command. It is now y.")
        bench.model.next(call, say("Done."))
        await bench.run("Go on.")
        _, text = last_result(bench)
        assert "x was written by a command" in text
        assert ("Do not try to bypass this" in text) == blamed
        assert ("This call did not do it" in text) != blamed


async def test_changes_that_are_undone_again_and_again_are_summed_up(tmp_path: Path) -> None:
    """The user sees a few of them and then a number; the log has each one."""
    plugins = (hilum_guard, hilum_shell, hilum_files)
    async with open_bench(*plugins, folder=tmp_path, approve="auto") as bench:
        guard = bench.session.plugin(Guard)
        assert guard is not None
        keeper = guard.workspace_guard
        sentences = [f"x{number} was written by a command." for number in range(30)]
        for sentence in sentences:
            keeper.report_undone([sentence])
        await trio.testing.wait_all_tasks_blocked(0.01)
        result = await bench.call("run_terminal_cmd", command="true")
        assert result.code == "E_DENIED"
        assert f"- {sentences[0]}" in result.text
        assert "- and 10 more" in result.text
        events = [event for event in bench.of(PluginEvent) if event.name == "guard.undone"]
        assert [line for event in events for line in event.data["what"]] == sentences
        assert sum("say" in event.data for event in events) == MAX_REPORTS
        (summary,) = [event for event in bench.of(PluginEvent) if event.name == "guard.undone_more"]
        assert "25 times more" in summary.data["say"]
        # The next one is shown again.
        keeper.report_undone(["y was written by a command."])
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert "say" in bench.of(PluginEvent)[-1].data
