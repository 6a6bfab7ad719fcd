"""The journal: whose change is whose, what is left out, and what a crash, a full disk or a stop
leaves behind.
"""

import errno
import os
import signal
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import hilum_files
import hilum_shell
import hilum_store
import pytest
import trio
from hilum import Profile, ToolError, UsageError, data_folder, hookimpl, tool
from hilum.errors import E_STALE
from hilum.events import ApprovalAsked, CallStarted, PluginEvent, RunStarted
from hilum.testing import open_bench, say
from hilum.testing import use as ask
from hilum_files.journal import undo_steps
from hilum_files.journal.tree import SnapshotLimits

sys.path.insert(0, str(Path(__file__).parent))
from random_work import held


def changed(bench) -> list[dict[str, str]]:
    """What each record says: path and what became of it."""
    return [
        {
            c.path: "+" if c.before is None else "-" if c.after is None else "~"
            for c in record.changes
        }
        for record in bench.session.plugin(hilum_files.Changes).records()
    ]


def undoing(bench):
    return bench.session.plugin(hilum_files.Changes)


# --- whose change it is ---------------------------------------------------------------------------


async def test_calls_side_by_side_have_their_own_changes() -> None:
    """Another agent's edit beside a command: each can be undone alone."""
    async with open_bench(hilum_files, hilum_shell) as bench:
        bench.session.add_agent(Profile("other"))
        command = "while [ ! -e made ]; do sleep 0.01; done; echo x > command.txt"
        bench.model.next(
            ask("run_terminal_cmd", command=command),
            ask("write_file", path="made", content="x\n"),
            say("Done."),
            say("Done."),
        )
        run = await bench.start("Work.")
        await bench.wait_for(CallStarted)
        await bench.run("Work, too.", agent="other")
        with bench.guard():
            await run.wait()
        assert sorted(changed(bench), key=str) == [{"command.txt": "+"}, {"made": "+"}]
        await undoing(bench).undo("call")
        assert os.listdir(bench.workspace) == ["made"]


async def test_the_folder_that_a_sandbox_puts_in_the_way_is_no_change() -> None:
    """What is made in it is one."""
    async with open_bench(hilum_files, hilum_shell) as bench:
        await bench.call("run_terminal_cmd", command="mkdir .hilum; echo x > a.txt")
        assert changed(bench) == [{"a.txt": "+"}]
        await bench.call("run_terminal_cmd", command="echo x > .hilum/x")
        assert changed(bench)[-1] == {".hilum/x": "+"}


async def test_a_file_that_such_a_folder_replaces_is_a_change() -> None:
    """And an undo restores it."""
    async with open_bench(hilum_files, hilum_shell) as bench:
        file = bench.workspace / ".hilum"
        file.write_text("mine\n")
        await bench.call("run_terminal_cmd", command="rm .hilum; mkdir .hilum")
        assert changed(bench) == [{".hilum": "-"}]
        file.rmdir()
        await undoing(bench).undo("call")
        assert file.read_text() == "mine\n"


async def test_what_happens_before_an_approval_is_not_the_commands() -> None:
    """The user edits a file while a command waits for approval: the undo of the command leaves that
    alone.
    """
    async with open_bench(
        hilum_files, hilum_shell, approve="ask_first", files={"a.txt": "one\n"}
    ) as bench:
        bench.model.next(ask("run_terminal_cmd", command="echo x > b.txt"), say("Done."))
        run = await bench.start("Work.")
        asked = await bench.wait_for(ApprovalAsked)
        (bench.workspace / "a.txt").write_text("mine\n")
        undoing(bench).commands._snapshot_taken -= 1  # as if the user had taken a second
        bench.session.answer(asked.id, True)
        with bench.guard():
            await run.wait()
        assert changed(bench) == [{"b.txt": "+"}]
        assert [event.name for event in bench.of(PluginEvent)].count(
            "files.command"
        ) == 1  # though judged twice


async def test_a_refused_command_changes_nothing() -> None:
    """What happens while the user thinks about a command that is then refused belongs to nobody."""
    async with open_bench(
        hilum_files, hilum_shell, approve="ask_first", files={"a.txt": "one\n"}
    ) as bench:
        bench.model.next(ask("run_terminal_cmd", command="echo x > b.txt"), say("Done."))
        run = await bench.start("Work.")
        asked = await bench.wait_for(ApprovalAsked)
        (bench.workspace / "a.txt").write_text("mine\n")
        bench.session.answer(asked.id, False)
        with bench.guard():
            await run.wait()
        assert changed(bench) == []


async def test_a_stopped_command_is_looked_after() -> None:
    """What it changed before it was stopped can be undone."""
    async with open_bench(hilum_files, hilum_shell, files={"a.txt": "one\n"}) as bench:
        bench.model.next(
            ask("run_terminal_cmd", command="rm a.txt; echo started; sleep 100"), say("Done.")
        )
        run = await bench.start("Work.")
        started = await bench.wait_for(CallStarted)
        async for event in bench.session.events(started.seq - 1, deltas=True):
            if "started" in getattr(event, "text", ""):
                break
        bench.session.stop()
        with bench.guard():
            await run.wait()
            await bench.wait_for(PluginEvent, lambda event: event.name == "files.changed")
        await undoing(bench).undo()
        assert (bench.workspace / "a.txt").read_text() == "one\n"


async def test_other_plugins_tools_that_write_are_looked_after() -> None:
    """A tool that writes without telling is treated like a command."""

    @tool(risk="write", effect="once")
    async def scribble() -> str:
        """Write a file."""
        await trio.Path(where, "scribbled").write_text("x")
        return "Done."

    class Scribbler:
        @hookimpl
        def provide_tools(self):
            return [scribble]

    async with open_bench(hilum_files, Scribbler()) as bench:
        where = bench.workspace
        await bench.call("scribble")
        assert changed(bench) == [{"scribbled": "+"}]


# --- what is left out -----------------------------------------------------------------------------


async def test_version_control_and_caches_are_left_alone() -> None:
    """They are not looked into, neither before nor after.

    What marks itself as a cache later is no loss of what was in it.
    """
    async with open_bench(
        hilum_files, hilum_shell, files={"src/a.txt": "one\n", ".git/config": "x"}
    ) as bench:
        await bench.call(
            "run_terminal_cmd",
            command="mkdir -p node_modules/x; echo 1 > node_modules/x/y; echo 2 > .git/z",
        )
        plan = await undoing(bench).undo()
        assert plan.left == ("node_modules",)
        assert (bench.workspace / "node_modules/x/y").exists()
        await bench.call(
            "run_terminal_cmd",
            command="echo 'Signature: 8a477f597d28d172789f06886806bc55' > src/CACHEDIR.TAG",
        )
        assert changed(bench) == [{"src/CACHEDIR.TAG": "+"}]
        await bench.call("run_terminal_cmd", command="echo two > src/a.txt")
        await undoing(bench).undo()
        assert (bench.workspace / "src/a.txt").read_text() == "one\n"


async def test_what_hilum_keeps_below_the_workspace_is_no_change(tmp_path: Path) -> None:
    """Somebody works in the home folder: the log, the contents and the settings are not the
    command's doing.
    """
    home = tmp_path / "home"
    home.mkdir()
    (home / "a.txt").write_text("one\n")
    async with open_bench(
        hilum_files, hilum_shell, hilum_store, workspace=home, folder=home / ".local/share/hilum"
    ) as bench:
        bench.model.next(ask("run_terminal_cmd", command="echo two > a.txt"), say("Done."))
        await bench.run("Go.")
        assert changed(bench) == [{"a.txt": "~"}]
        bench.model.next(ask("run_terminal_cmd", command="echo three > a.txt"), say("Done."))
        await bench.run("Go on.")
        await undoing(bench).undo()
        assert (home / "a.txt").read_text() == "two\n"


async def test_the_placeholders_of_a_sandbox_are_no_change(tmp_path: Path) -> None:
    """Empty folders that a sandbox puts down are left out; what somebody puts into one counts."""
    async with open_bench(hilum_files, hilum_shell, folder=tmp_path) as bench:
        record = data_folder() / "masks" / "a"
        record.parent.mkdir(parents=True)
        record.write_bytes(os.fsencode(bench.workspace / ".cursor"))
        await bench.call("run_terminal_cmd", command="mkdir .cursor; echo 1 > a.txt")
        assert changed(bench) == [{"a.txt": "+"}]
        await bench.call("run_terminal_cmd", command="echo 1 > .cursor/x")
        assert changed(bench)[1] == {".cursor": "+", ".cursor/x": "+"}


async def test_a_file_too_large_to_keep_is_named_and_left() -> None:
    """Its change is known, its content was not kept: the undo refuses, and does the rest when told
    to.
    """
    settings = {"files.snapshot_file_limit": 1000}
    async with open_bench(
        hilum_files, hilum_shell, settings=settings, files={"big": "x" * 2000, "small": "one\n"}
    ) as bench:
        await bench.call("run_terminal_cmd", command="echo y >> big; echo two > small")
        with pytest.raises(ToolError) as caught:
            await undoing(bench).undo()
        assert caught.value.code == E_STALE
        assert "big: its content was not kept" in caught.value.message
        await undoing(bench).undo(keep_going=True)
        assert (bench.workspace / "small").read_text() == "one\n"
        assert (bench.workspace / "big").stat().st_size == 2002


# --- outside changes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda root: (root / "a.txt").write_text("one\nmine\n"), "in the same lines"),
        (lambda root: (root / "a.txt").write_bytes(b"\0\1"), "not text"),
        (lambda root: (root / "a.txt").unlink(), "since been deleted"),
        (lambda root: (root / "new.txt").write_text("mine\n"), "since changed"),
        (lambda root: (root / "gone.txt").write_text("mine\n"), "something else is there now"),
        (
            lambda root: ((root / "sub").rename(root / "away"), (root / "sub").symlink_to("/tmp")),
            "now a link",
        ),
    ],
)
async def test_an_undo_never_destroys_what_others_did(change, why: str) -> None:
    """It is named, and nothing at all is done."""
    files = {"a.txt": "one\ntwo\n", "gone.txt": "gone\n", "sub/b.txt": "b\n"}
    command = "echo 2 > a.txt; echo new > new.txt; rm gone.txt; echo c > sub/b.txt"
    async with open_bench(hilum_files, hilum_shell, files=files) as bench:
        await bench.call("run_terminal_cmd", command=command)
        change(bench.workspace)
        before = {p.name: p.read_bytes() for p in bench.workspace.iterdir() if p.is_file()}
        with pytest.raises(ToolError) as caught:
            await undoing(bench).undo()
        assert why in caught.value.message
        assert {p.name: p.read_bytes() for p in bench.workspace.iterdir() if p.is_file()} == before


async def test_an_earlier_call_is_undone_under_later_ones() -> None:
    """The undo of one call keeps what later calls did elsewhere in the file, modes too."""
    text = "".join(f"{number}\n" for number in range(10))
    async with open_bench(hilum_files, hilum_shell, files={"a.txt": text}) as bench:
        await bench.call("read_file", path="a.txt")
        await bench.call("edit_file", path="a.txt", old_string="1\n", new_string="one\n")
        first = bench.assert_tool_called("edit_file").call_id
        await bench.call("edit_file", path="a.txt", old_string="8\n", new_string="eight\n")
        await bench.call("run_terminal_cmd", command="chmod 755 a.txt")
        await undoing(bench).undo("call", first)
        assert (bench.workspace / "a.txt").read_text() == text.replace("8", "eight")
        assert stat.S_IMODE((bench.workspace / "a.txt").stat().st_mode) == 0o755


async def test_an_undo_does_not_touch_other_files() -> None:
    """Their times stay."""
    async with open_bench(hilum_files, hilum_shell, files={"a.txt": "a", "b.txt": "b"}) as bench:
        os.utime(bench.workspace / "b.txt", (1, 1))
        await bench.call("run_terminal_cmd", command="echo x > a.txt")
        await undoing(bench).undo()
        assert (bench.workspace / "b.txt").stat().st_mtime == 1
        with pytest.raises(UsageError):
            await undoing(bench).undo()


async def test_the_agent_is_told_of_an_undo() -> None:
    """With the next prompt, once."""
    async with open_bench(hilum_files, hilum_shell) as bench:
        await bench.call("write_file", path="a.txt", content="x")
        await undoing(bench).undo()
        for told in (True, False):
            bench.model.next(say("I see."))
            await bench.run("Go on.")
            sent = bench.of(RunStarted)[-1].message
            assert ("The user undid changes to: a.txt." in str(sent)) is told


# --- failures -------------------------------------------------------------------------------------


async def test_an_undo_that_fails_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full in the middle: everything is as before, and it can be tried again."""
    files = {f"{name}.txt": f"{name}\n" for name in "abcdef"}
    async with open_bench(hilum_files, hilum_shell, files=files) as bench:
        await bench.call(
            "run_terminal_cmd",
            command="for f in *.txt; do echo changed > $f; done; mkdir new; touch new/x; rm f.txt",
        )
        real, left = undo_steps.replace_at, [3]

        def full(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*args, **kwargs)

        monkeypatch.setattr(undo_steps, "replace_at", full)
        with pytest.raises(ToolError, match="All files are as they were before the undo"):
            await undoing(bench).undo()
        assert {p.name for p in bench.workspace.iterdir()} == {
            *(f"{n}.txt" for n in "abcde"),
            "new",
        }
        assert (bench.workspace / "a.txt").read_text() == "changed\n"
        await undoing(bench).undo()
        assert {p.name: p.read_text() for p in bench.workspace.iterdir()} == files


async def test_a_tree_too_large_to_look_at_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs all the same; that it cannot be undone is written down."""
    monkeypatch.setattr(SnapshotLimits, "__new__", partial(SnapshotLimits.__new__, seconds=-1.0))
    async with open_bench(hilum_files, hilum_shell, files={"a.txt": "a"}) as bench:
        assert not (await bench.call("run_terminal_cmd", command="echo x > a.txt")).code
        problem = bench.of(PluginEvent)[-1].data["unprotected"]
        assert "cannot be undone: a snapshot of the workspace took longer than" in problem
        assert changed(bench) == []


SLOW = SnapshotLimits(seconds=-1.0)


def slow_notes(bench) -> list[str]:
    events = bench.of(PluginEvent)
    return [event.data["say"] for event in events if event.name == "files.slow_snapshot"]


async def run_commands(bench, *commands: str) -> None:
    """Run commands, one after another, for one prompt."""
    bench.model.next(*(ask("run_terminal_cmd", command=each) for each in commands), say("Done."))
    await bench.run("Go.")


async def test_after_a_slow_snapshot_the_next_prompt_tries_again() -> None:
    """The machine may have been busy for a moment. The user reads about it once."""
    async with open_bench(hilum_files, hilum_shell, files={"a.txt": "a"}) as bench:
        snapshots = undoing(bench)._snapshots
        limits = snapshots._limits
        snapshots._limits = SLOW
        await run_commands(bench, "echo 1 > a.txt", "echo 2 > a.txt")
        (note,) = slow_notes(bench)
        assert "until your next prompt" in note
        assert changed(bench) == []
        snapshots._limits = limits
        await run_commands(bench, "echo 3 > a.txt")
        assert changed(bench) == [{"a.txt": "~"}]
        assert len(slow_notes(bench)) == 1


async def test_a_workspace_that_is_too_large_is_not_tried_at_each_prompt() -> None:
    async with open_bench(hilum_files, hilum_shell, files={"a.txt": "a"}) as bench:
        undoing(bench)._snapshots._limits = SLOW
        for number in range(4):
            await run_commands(bench, f"echo {number} > a.txt")
        first, second = slow_notes(bench)
        assert "until your next prompt" in first
        assert "in this session" in second
        assert "CACHEDIR.TAG" in second
        assert (bench.workspace / "a.txt").read_text() == "3\n"


async def test_contents_are_for_the_user_only() -> None:
    """They are copies of the user's files."""
    async with open_bench(hilum_files, hilum_shell, files={"a.txt": "a"}) as bench:
        await bench.call("run_terminal_cmd", command="echo x > a.txt")
        objects = bench.folder / "data" / "objects"
        assert stat.S_IMODE(objects.stat().st_mode) == 0o700
        assert {
            stat.S_IMODE(path.stat().st_mode) & 0o077
            for path in objects.rglob("*")
            if path.is_file()
        } == {0}


# A session of its own that dies where it is told to: before or after a file is replaced, in a
# command, in an undo.
DYING = """
import os, signal, sys
from pathlib import Path
import hilum_files, hilum_shell, hilum_store, trio
from hilum.testing import open_bench, say, use
from hilum_files import paths
from hilum_files.journal import undo_steps
from hilum_files.journal.tree import SnapshotLimits

folder, where = Path(sys.argv[1]), sys.argv[2]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)

async def main():
    files = {"a.txt": "one\\n", "b.txt": "b\\n", "c.txt": "c\\n"}
    async with open_bench(hilum_files, hilum_shell, hilum_store, folder=folder, files=files) as bench:
        print(bench.session.id, flush=True)
        await bench.call("read_file", path="a.txt")
        if where in ("before", "after"):
            real = os.replace
            def replace(*args, **kwargs):
                if where == "after":
                    real(*args, **kwargs)
                die()
            paths.os.replace = replace
            await bench.call("edit_file", path="a.txt", old_string="one", new_string="two")
        elif where == "command":
            await bench.call("run_terminal_cmd", command=f"echo two > a.txt; rm b.txt; kill -9 {os.getpid()}; sleep 10")
        else:
            await bench.call("run_terminal_cmd", command="for f in *.txt; do echo two > $f; done")
            real, left = undo_steps.replace_at, [2]
            def replace(*args, **kwargs):
                left[0] -= 1
                real(*args, **kwargs)
                if not left[0]:
                    die()
            undo_steps.replace_at = replace
            await bench.session.plugin(hilum_files.Changes).undo()

trio.run(main)
"""


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize(
    ("where", "records", "after"),
    [
        ("before", [], {"a.txt": "one\n", "b.txt": "b\n", "c.txt": "c\n"}),
        ("after", [{"a.txt": "~"}], {"a.txt": "two\n", "b.txt": "b\n", "c.txt": "c\n"}),
        ("command", [{"a.txt": "~", "b.txt": "-"}], {"a.txt": "two\n", "c.txt": "c\n"}),
        ("undo", [{"c.txt": "~"}], {"a.txt": "one\n", "b.txt": "b\n", "c.txt": "two\n"}),
    ],
)
async def test_a_crash_leaves_neither_a_lost_change_nor_a_false_one(
    tmp_path: Path, where, records, after
) -> None:
    """hilum is killed in the middle.

    Opened again, the journal says what is on disk, and undo brings everything back.
    """
    died = await trio.run_process(
        [sys.executable, "-c", DYING, str(tmp_path), where], capture_stdout=True, check=False
    )
    assert died.returncode == -signal.SIGKILL
    session = died.stdout.decode().split()[0]
    assert {p.name: p.read_text() for p in (tmp_path / "workspace").glob("[!.]*")} == after
    async with open_bench(
        hilum_files, hilum_shell, hilum_store, folder=tmp_path, resume=session
    ) as bench:
        assert changed(bench) == records
        while changed(bench):
            await undoing(bench).undo()
        assert {p.name: p.read_text() for p in bench.workspace.iterdir()} == {
            "a.txt": "one\n",
            "b.txt": "b\n",
            "c.txt": "c\n",
        }


FULL = """
import resource, sys
from pathlib import Path
import hilum_files, trio
from hilum.testing import open_bench

async def main():
    big = "".join(f"{n * n * 7919 % 1000003}\\n" for n in range(60_000))
    async with open_bench(hilum_files, folder=Path(sys.argv[1]), files={"a.txt": big, "b.txt": "b\\n"}) as bench:
        await bench.call("read_file", path="b.txt")
        await bench.call("edit_file", path="b.txt", old_string="b", new_string="c")
        await bench.call("read_file", path="a.txt")
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, resource.RLIM_INFINITY))
        result = await bench.call("delete_file", path="a.txt")
        print(result.text)
        assert (bench.workspace / "a.txt").read_text() == big

trio.run(main)
"""


def test_a_full_disk_stops_the_change_and_not_the_session(tmp_path: Path) -> None:
    """What cannot be kept is not deleted; the model is told."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, tmp_path], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "E_STORE: Nothing was changed." in done.stdout


@pytest.mark.parametrize("inside", [True, False], ids=["link inside", "link outside"])
@pytest.mark.parametrize("kind", ["created", "deleted", "folder", "link", "mode", "folder mode"])
async def test_an_undo_follows_no_link_that_is_swapped_in(
    tmp_path: Path, monkeypatch, kind: str, inside: bool
) -> None:
    """A program replaces a folder by a link between the plan of an undo and its work: what the link
    leads to stays.
    """
    commands = {
        "created": "mkdir d; echo x > d/a.txt",
        "deleted": "rm d/a.txt",
        "folder": "rmdir d/sub",
        "link": "rm d/link",
        "mode": "chmod 600 d/a.txt",
        "folder mode": "chmod 500 d/sub; echo y > d/a.txt",
    }
    async with open_bench(hilum_files, hilum_shell) as bench:
        work = bench.workspace
        target = work / "target" if inside else tmp_path / "target"
        target.mkdir()
        (target / "a.txt").write_text("not yours\n")
        if kind != "created":
            (work / "d" / "sub").mkdir(parents=True)
            (work / "d" / "a.txt").write_text("x\n")
            (work / "d" / "link").symlink_to("a.txt")
        if kind == "deleted":
            (target / "a.txt").unlink()
        await bench.call("run_terminal_cmd", command=commands[kind])
        if kind == "folder mode":
            (target / "sub").mkdir(mode=0o755)
        before = held(target)
        unlock = undo_steps._Steps._unlock_folders

        def swap(steps):
            unlock(steps)
            (work / "d").rename(work / "moved")
            (work / "d").symlink_to(target)

        monkeypatch.setattr(undo_steps._Steps, "_unlock_folders", swap)
        with pytest.raises(ToolError, match=r"link|does not exist|no "):
            await undoing(bench).undo("call")
        assert held(target) == before
