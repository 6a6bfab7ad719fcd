"""Two sessions in one workspace: a command is not charged with the other's work, and no undo loses
it unnamed.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import hilum_files
import hilum_shell
import pytest
from hilum import ToolError
from hilum.events import CallStarted
from hilum.testing import Bench, open_bench, say, use


def changes_of(bench: Bench) -> hilum_files.Changes:
    return bench.session.plugin(hilum_files.Changes)


def paths(bench: Bench) -> set[str]:
    return {change.path for record in changes_of(bench).records() for change in record.changes}


@asynccontextmanager
async def two_sessions(folder: Path) -> AsyncIterator[tuple[Bench, Bench]]:
    """Open two sessions of two kernels in one workspace."""
    async with open_bench(hilum_files, hilum_shell, folder=folder) as first:
        # Its warden runs before the second one is opened, which else takes that for a process that
        # it left behind.
        await first.call("run_terminal_cmd", command="true")
        async with open_bench(hilum_files, hilum_shell, folder=folder) as second:
            yield first, second


async def test_a_command_is_not_charged_with_another_sessions_work(tmp_path: Path) -> None:
    """One session only waits; meanwhile the other edits a file and lets a command write one."""
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    async with two_sessions(tmp_path) as (first, second):
        first.model.next(
            use(
                "run_terminal_cmd",
                command="while [ ! -e end ]; do sleep 0.01; done; echo x > x.txt",
            ),
            say("Done."),
        )
        run = await first.start("Wait.")
        await first.wait_for(CallStarted, lambda event: "while" in event.call.arguments)
        second.model.next(
            use("read_file", path="a.txt"),
            use("edit_file", path="a.txt", old_string="one", new_string="two"),
            use("run_terminal_cmd", command="echo c > c.txt"),
            use("write_file", path="end", content="end\n"),
            say("Done."),
        )
        await second.run("Work.")
        with first.guard():
            await run.wait()
        assert paths(first) == {"x.txt"}
        assert paths(second) == {"a.txt", "c.txt", "end"}
        await changes_of(first).undo()
        assert (root / "a.txt").read_text() == "two\n"
        assert (root / "c.txt").exists()
        await changes_of(second).undo()
        assert (root / "a.txt").read_text() == "one\n"
        assert [path.name for path in root.iterdir()] == ["a.txt"]


async def test_what_two_sessions_claim_is_undone_by_none_unnamed(tmp_path: Path) -> None:
    """Two commands overlap, so that either may have written the file: an undo names the other
    session, does nothing, and says how to go on.
    """
    root = tmp_path / "workspace"
    async with two_sessions(tmp_path) as (first, second):
        first.model.next(
            use("run_terminal_cmd", command="while [ ! -e c.txt ]; do sleep 0.01; done"),
            say("Done."),
        )
        run = await first.start("Wait.")
        await first.wait_for(CallStarted, lambda event: "while" in event.call.arguments)
        command = "echo c > c.txt; while [ ! -e end ]; do sleep 0.01; done"
        second.model.next(use("run_terminal_cmd", command=command), say("Done."))
        other = await second.start("Work.")
        with first.guard():
            await run.wait()
        (root / "end").write_text("")
        with second.guard():
            await other.wait()
        assert "c.txt" in paths(second)
        for mine, others in ((first, second), (second, first)):
            if "c.txt" in paths(mine):
                with pytest.raises(ToolError, match=others.session.id) as caught:
                    await changes_of(mine).undo()
                assert "--shared" in caught.value.hint
        assert (root / "c.txt").exists()
        assert "c.txt" in paths(first)
        plan = await changes_of(first).undo(shared=True)
        assert plan.shared["c.txt"] == (second.session.id,)
        assert not (root / "c.txt").exists()
        await changes_of(first).undo("undo")
        assert (root / "c.txt").read_text() == "c\n"
        await changes_of(first).undo(shared=True)
        await changes_of(second).undo()
        assert not (root / "c.txt").exists()
        assert changes_of(second).records() == []


async def test_an_undo_of_another_session_is_nobodys_work(tmp_path: Path) -> None:
    """One session changed the other's line and took that back: the other one can undo its own.

    The same content was there twice, and neither time was it the other session's.
    """
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.txt").write_text("one\n")
    async with two_sessions(tmp_path) as (first, second):
        for bench, old, new in ((first, "one", "two"), (second, "two", "three")):
            bench.model.next(
                use("read_file", path="a.txt"),
                use("edit_file", path="a.txt", old_string=old, new_string=new),
                say("Done."),
            )
            await bench.run("Work.")
        with pytest.raises(ToolError, match="same lines") as caught:
            await changes_of(first).undo()
        assert f"hilum undo --session {second.session.id}" in caught.value.hint
        await changes_of(second).undo()
        await changes_of(first).undo()
        assert (root / "a.txt").read_text() == "one\n"


async def test_a_conflict_names_the_session(tmp_path: Path) -> None:
    """Another session changed the same line later: the refusal names it.

    Other lines are merged, and stay.
    """
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "a.txt").write_text("one\n-\n-\n-\nfour\n")
    async with two_sessions(tmp_path) as (first, second):
        for bench, old, new in ((first, "one", "two"), (second, "four", "4")):
            bench.model.next(
                use("read_file", path="a.txt"),
                use("edit_file", path="a.txt", old_string=old, new_string=new),
                say("Done."),
            )
            await bench.run("Work.")
        await changes_of(first).undo()
        assert (root / "a.txt").read_text() == "one\n-\n-\n-\n4\n"
        await changes_of(first).undo("undo")
        second.model.next(
            use("read_file", path="a.txt"),
            use("edit_file", path="a.txt", old_string="two", new_string="2"),
            say("Done."),
        )
        await second.run("Work.")
        with pytest.raises(ToolError, match=f"in the same lines by session {second.session.id}"):
            await changes_of(first).undo()
        assert (root / "a.txt").read_text() == "2\n-\n-\n-\n4\n"
