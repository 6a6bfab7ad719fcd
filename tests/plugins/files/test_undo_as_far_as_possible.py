"""What an undo cannot restore does not keep older runs from being undone."""

from collections.abc import AsyncIterator

import hilum_files
import hilum_shell
import pytest
from hilum import ToolError, UsageError
from hilum.errors import E_STALE
from hilum.testing import Bench, open_bench, say, use

LOG_NEW = "echo 1 > svc.log"
LOG_GROWS = "echo 2 >> svc.log; echo two >> b.txt"


def undoing(bench: Bench) -> hilum_files.Changes:
    changes = bench.session.plugin(hilum_files.Changes)
    assert changes is not None
    return changes


async def run(bench: Bench, *commands: str) -> None:
    """Let each command run in a run of its own."""
    for command in commands:
        bench.model.next(use("run_terminal_cmd", command=command), say("Done."))
        await bench.run("Work.")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A session with three runs, in which a service has written to a file since the last one."""
    files = {"a.txt": "one\n", "b.txt": "one\n"}
    async with open_bench(hilum_files, hilum_shell, files=files) as bench:
        await run(bench, "echo two >> a.txt", LOG_NEW, LOG_GROWS)
        with (bench.workspace / "svc.log").open("a") as log:
            log.write("3\n")
        yield bench


def read(bench: Bench, name: str) -> str:
    return (bench.workspace / name).read_text()


async def test_a_file_that_a_service_writes_does_not_end_the_chain(bench: Bench) -> None:
    """It is accepted once with keep_going; then each undo goes one run further back."""
    with pytest.raises(ToolError) as caught:
        await undoing(bench).undo()
    assert caught.value.code == E_STALE
    older = undoing(bench).records()[1].run
    assert f"hilum undo run {older}" in caught.value.hint
    plan = await undoing(bench).undo(keep_going=True)
    assert plan.conflicts.keys() == {"svc.log"}
    assert read(bench, "b.txt") == "one\n"
    # The run that created the file: nothing of it can be undone, and that was accepted before.
    plan = await undoing(bench).undo()
    assert plan.conflicts.keys() == {"svc.log"}
    assert plan.steps == ()
    assert read(bench, "a.txt") == "one\ntwo\n"
    await undoing(bench).undo()
    assert read(bench, "a.txt") == "one\n"
    assert read(bench, "svc.log") == "1\n2\n3\n"
    with pytest.raises(UsageError):
        await undoing(bench).undo()


@pytest.mark.parametrize("scope", ["run", "turn", "call"])
async def test_what_was_left_can_be_tried_again_by_its_name(bench: Bench, scope) -> None:
    """It is refused again while the reason persists, and undone afterwards."""
    record = undoing(bench).records()[-1]
    name = {"run": record.run, "turn": f"{record.run}:{record.turn}", "call": record.call}[scope]
    await undoing(bench).undo(keep_going=True)
    with pytest.raises(ToolError, match=r"svc\.log"):
        await undoing(bench).undo(scope, name)
    (bench.workspace / "svc.log").write_text("1\n2\n")
    await undoing(bench).undo(scope, name)
    assert read(bench, "svc.log") == "1\n"
    await undoing(bench).undo()
    assert not (bench.workspace / "svc.log").exists()


async def test_undoing_the_undo_tries_everything_again(bench: Bench) -> None:
    """After that, the run is the last one again, with all of its changes."""
    await undoing(bench).undo(keep_going=True)
    await undoing(bench).undo()
    await undoing(bench).undo()
    await undoing(bench).undo("undo")
    assert read(bench, "a.txt") == "one\ntwo\n"
    await undoing(bench).undo("undo")
    assert read(bench, "b.txt") == "one\ntwo\n"
    with pytest.raises(ToolError, match=r"svc\.log"):
        await undoing(bench).undo()


async def test_a_redo_that_leaves_something_does_not_end_the_chain_of_redos(bench: Bench) -> None:
    """The next one reverts the undo before that."""
    (bench.workspace / "svc.log").write_text("1\n2\n")
    await undoing(bench).undo()
    await undoing(bench).undo()
    await undoing(bench).undo()
    (bench.workspace / "a.txt").write_text("mine\n")
    with pytest.raises(ToolError, match=r"a\.txt"):
        await undoing(bench).undo("undo")
    await undoing(bench).undo("undo", keep_going=True)
    await undoing(bench).undo("undo")
    await undoing(bench).undo("undo")
    assert read(bench, "a.txt") == "mine\n"
    assert read(bench, "b.txt") == "one\ntwo\n"
    assert read(bench, "svc.log") == "1\n2\n"


async def test_a_file_of_the_session_that_the_user_deleted_stays_deleted(bench: Bench) -> None:
    """An undo of all changes to it would delete it, too."""
    (bench.workspace / "svc.log").unlink()
    for _ in range(3):
        await undoing(bench).undo()
    assert (read(bench, "a.txt"), read(bench, "b.txt")) == ("one\n", "one\n")
    assert not (bench.workspace / "svc.log").exists()


async def test_a_file_that_was_there_before_is_named_if_it_was_deleted(bench: Bench) -> None:
    """Its former content belongs to the user."""
    (bench.workspace / "b.txt").unlink()
    (bench.workspace / "svc.log").write_text("1\n2\n")
    with pytest.raises(ToolError, match=r"b\.txt: it has since been deleted"):
        await undoing(bench).undo()


async def test_a_new_file_whose_content_was_not_kept_is_named_and_prevents_nothing() -> None:
    """It stays, also if the session changed it again; the user may delete it."""
    settings = {"files.snapshot_file_limit": 1000}
    make = "head -c 2000 /dev/zero > "
    files = {"a.txt": "one\n", "old": "x" * 2000}
    async with open_bench(hilum_files, hilum_shell, settings=settings, files=files) as bench:
        await run(
            bench,
            "echo two >> a.txt",
            f"mkdir new; {make} new/big; echo x >> new/big; {make} gone; echo three >> a.txt",
        )
        (bench.workspace / "gone").unlink()
        plan = await undoing(bench).undo()
        assert plan.conflicts.keys() == {"new/big"}
        assert "delete it yourself" in plan.conflicts["new/big"]
        assert (bench.workspace / "new/big").stat().st_size == 2002
        assert read(bench, "a.txt") == "one\ntwo\n"
        await undoing(bench).undo()
        assert read(bench, "a.txt") == "one\n"
        await undoing(bench).undo("undo")
        await undoing(bench).undo("undo")
        assert read(bench, "a.txt") == "one\ntwo\nthree\n"
        # What was there before cannot be restored, which is a reason to do nothing.
        await run(bench, "echo x >> old; echo four >> a.txt")
        with pytest.raises(ToolError, match=r"old: its content was not kept"):
            await undoing(bench).undo()


async def test_an_undo_that_fails_leaves_nothing_as_it_is(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one tries the same changes again."""

    def fail(*arguments: object) -> None:
        raise ToolError("The disk is full.")

    monkeypatch.setattr("hilum_files.journal.undo_steps.carry_out", fail)
    with pytest.raises(ToolError, match="full"):
        await undoing(bench).undo(keep_going=True)
    monkeypatch.undo()
    assert read(bench, "b.txt") == "one\ntwo\n"
    plan = await undoing(bench).undo(keep_going=True)
    assert plan.conflicts.keys() == {"svc.log"}
    assert read(bench, "b.txt") == "one\n"
