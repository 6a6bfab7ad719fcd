"""Undo and redo in any order: what the records say is what the files hold."""

import random

import hilum_files
import hilum_shell
import pytest
from hilum import UsageError
from hilum.testing import Bench, open_bench, say, use
from hilum_files.journal import undo_steps


def changes_of(bench: Bench) -> hilum_files.Changes:
    return bench.session.plugin(hilum_files.Changes)


def edit(old: str, new: str, path: str = "f.txt"):
    return use("edit_file", path=path, old_string=old, new_string=new)


async def test_a_run_can_be_undone_after_an_undo_that_wrote_nothing() -> None:
    """The third edit took the second one back.

    To undo the second one changes no file and must not break the run.
    """
    async with open_bench(hilum_files, files={"f.txt": "x\na\ny\n"}) as bench:
        file, changes = bench.workspace / "f.txt", changes_of(bench)
        bench.model.next(
            use("read_file", path="f.txt"),
            edit("a\n", "B\n"),
            edit("B\n", "C\n"),
            edit("C\n", "B\n"),
            say("Done."),
        )
        await bench.run("Work.")
        second = changes.records()[1].call
        plan = await changes.undo("call", second)
        assert not plan.steps
        assert len(changes.records()) == 3, "nothing was undone, so that nothing counts as undone"
        (shown,) = await changes.diff()
        assert (shown.added, shown.removed) == (1, 1)
        await changes.undo()
        assert file.read_text() == "x\na\ny\n"
        await changes.undo("undo")
        assert file.read_text() == "x\nB\ny\n"


async def test_a_run_can_be_undone_after_one_of_its_calls_was_merged_away() -> None:
    """A part of the second edit was taken back by the third.

    Its other part is undone alone, then the whole run.
    """
    start = "a\n1\n2\n3\n4\np\n"
    async with open_bench(hilum_files, files={"f.txt": start}) as bench:
        file, changes = bench.workspace / "f.txt", changes_of(bench)
        bench.model.next(
            use("read_file", path="f.txt"),
            edit("a\n", "B\n"),
            edit("B\n1\n2\n3\n4\np\n", "C\n1\n2\n3\n4\nq\n"),
            edit("C\n", "B\n"),
            say("Done."),
        )
        await bench.run("Work.")
        await changes.undo("call", changes.records()[1].call)
        assert file.read_text() == "B\n1\n2\n3\n4\np\n"
        (shown,) = await changes.diff()
        assert (shown.added, shown.removed) == (1, 1), "the call that is undone is not shown"
        await changes.undo()
        assert file.read_text() == start


async def test_a_run_can_be_undone_after_a_call_of_an_older_run_was() -> None:
    """The second run took back what the second call had made of the first one's line.

    Without the first call and the second run, what the second call made is there.
    """
    async with open_bench(hilum_files, files={"f.txt": "a\n-\nb\n"}) as bench:
        file, changes = bench.workspace / "f.txt", changes_of(bench)
        bench.model.next(use("read_file", path="f.txt"), edit("a\n", "B\n"), say("Done."))
        await bench.run("Work.")
        first = changes.records()[0].call
        bench.model.next(edit("B\n", "C\n"), say("Done."))
        await bench.run("Work.")
        bench.model.next(edit("C\n", "B\n"), edit("b\n", "x\n"), say("Done."))
        await bench.run("Work.")
        await changes.undo("call", first)
        assert file.read_text() == "a\n-\nx\n"
        await changes.undo()
        assert file.read_text() == "C\n-\nb\n"
        await changes.undo("undo")
        assert file.read_text() == "a\n-\nx\n"
        for _ in range(2):
            await changes.undo()
        assert file.read_text() == "a\n-\nb\n"


@pytest.mark.parametrize("depth", [2, 3, 5])
async def test_as_many_redos_as_undos_bring_everything_back(depth: int) -> None:
    """Each redo takes back the last undo that still holds, at any depth, and again."""
    async with open_bench(hilum_files, files={"f.txt": "0\n"}) as bench:
        file, changes = bench.workspace / "f.txt", changes_of(bench)
        for number in range(depth):
            bench.model.next(
                use("read_file", path="f.txt"), edit(f"{number}\n", f"{number + 1}\n"), say("Done.")
            )
            await bench.run("Work.")
        for _ in range(3):
            for number in reversed(range(depth)):
                await changes.undo()
                assert file.read_text() == f"{number}\n"
                assert len(changes.records()) == number
            for number in range(depth):
                await changes.undo("undo")
                assert file.read_text() == f"{number + 1}\n"
                assert len(changes.records()) == number + 1
            with pytest.raises(UsageError, match="no undo"):
                await changes.undo("undo")


LINES = 8


def text_of(lines: list[str]) -> str:
    """Write lines far enough from each other to be merged."""
    return "".join(f"{line}\n-\n-\n-\n" for line in lines)


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("seed", range(20))
async def test_random_histories_agree_with_a_model(seed: int) -> None:
    """Each call changes a line of its own; the model is the set of calls that hold.

    Calls and runs are undone in any order and redone from the last undo backwards.
    """
    dice = random.Random(seed)
    start = [f"line {number}" for number in range(LINES)]
    async with open_bench(hilum_files, hilum_shell, files={"f.txt": text_of(start)}) as bench:
        file, changes = bench.workspace / "f.txt", changes_of(bench)
        calls: dict[str, int] = {}
        runs: dict[str, list[str]] = {}
        holding: set[str] = set()
        undos: list[set[str]] = []

        def expected() -> str:
            return text_of(
                [
                    f"{start[n]}{'!' if n in {calls[c] for c in holding} else ''}"
                    for n in range(LINES)
                ]
            )

        free = list(range(LINES))
        dice.shuffle(free)
        for _ in range(30):
            action = dice.random()
            if action < 0.35 and free:
                numbers = [free.pop() for _ in range(min(len(free), dice.randrange(1, 4)))]
                answers = [use("read_file", path="f.txt")]
                for number in numbers:
                    if dice.random() < 0.7:
                        answers.append(edit(f"line {number}\n", f"line {number}!\n"))
                    else:
                        command = f"sed -i 's/^line {number}$/line {number}!/' f.txt"
                        answers += [
                            use("run_terminal_cmd", command=command),
                            use("read_file", path="f.txt"),
                        ]
                bench.model.next(*answers, say("Done."))
                known = set(calls)
                await bench.run("Work.")
                made = [record for record in changes.records() if record.call not in known]
                calls |= {record.call: number for record, number in zip(made, numbers, strict=True)}
                runs[made[0].run] = [record.call for record in made]
                holding |= {record.call for record in made}
            elif action < 0.55 and holding:
                name = dice.choice(sorted(holding))
                await changes.undo("call", name)
                holding.discard(name)
                undos.append({name})
            elif action < 0.7 and holding:
                run = dice.choice(
                    sorted(run for run, names in runs.items() if holding & set(names))
                )
                await changes.undo("run", run)
                undos.append(holding & set(runs[run]))
                holding -= undos[-1]
            elif undos:
                await changes.undo("undo")
                holding |= undos.pop()
            assert file.read_text() == expected()
            assert {record.call for record in changes.records()} == holding
        while changes.records():
            await changes.undo(dice.choice(["call", "run", "turn"]))
        assert file.read_text() == text_of(start)


@pytest.mark.slow(cases=6)
@pytest.mark.parametrize("seed", range(20))
async def test_overlapping_edits_are_undone_as_a_whole(seed: int) -> None:
    """Edits of the same lines, back and forth; now and then a call of any run is undone.

    The runs can be undone all the same, the last one first, which gives the first content.
    """
    dice = random.Random(seed)
    start = text_of(["a", "b"])
    async with open_bench(hilum_files, files={"f.txt": start}) as bench:
        file, changes = bench.workspace / "f.txt", changes_of(bench)
        for _ in range(4):
            contents = [
                text_of([dice.choice("aAxy"), dice.choice("bBxy")])
                for _ in range(dice.randrange(1, 5))
            ]
            bench.model.next(
                use("read_file", path="f.txt"),
                *(use("write_file", path="f.txt", content=content) for content in contents),
                say("Done."),
            )
            await bench.run("Work.")
            for _ in range(dice.randrange(4)):
                calls = [record.call for record in changes.records()]
                if calls:
                    await changes.undo("call", dice.choice(calls), keep_going=True)
        last = file.read_text()
        undone = 0
        while changes.records():
            plan = await changes.undo("run")
            undone += bool(plan.steps)
        assert file.read_text() == start
        for _ in range(undone):
            await changes.undo("undo")
        assert file.read_text() == last


async def work_in_one_folder(bench: Bench) -> list[str]:
    """Create a folder with a file in one run, and another file in it in the next."""
    for command in ("mkdir -p g/h; echo 1 > g/h/x", "echo 2 > g/h/y"):
        bench.model.next(use("run_terminal_cmd", command=command), say("Done."))
        await bench.run("Work.")
    return [record.run for record in changes_of(bench).records()]


@pytest.mark.parametrize("first", [0, 1])
async def test_no_empty_folder_remains_when_both_runs_are_undone(first: int) -> None:
    """Whichever is undone first; and each redo brings back what it says."""
    async with open_bench(hilum_files, hilum_shell, approve="auto") as bench:
        changes, folder = changes_of(bench), bench.workspace / "g"
        runs = await work_in_one_folder(bench)
        plan = await changes.undo("run", runs[first])
        assert [step.path for step in plan.kept] == ([] if first else ["g", "g/h"])
        assert [step.path for step in plan.steps] == [f"g/h/{'xy'[first]}"]
        await changes.undo("run", runs[1 - first])
        assert not folder.exists()
        await changes.undo("undo")
        assert [path.name for path in (folder / "h").iterdir()] == ["xy"[1 - first]]
        await changes.undo("undo")
        assert {path.name for path in (folder / "h").iterdir()} == {"x", "y"}
        await changes.undo("run", runs[0])
        await changes.undo("run", runs[1])
        assert not folder.exists()


async def test_a_folder_of_somebody_else_is_kept_although_it_is_empty() -> None:
    """After an undo deleted the folder, the user creates it again."""
    async with open_bench(hilum_files, hilum_shell, approve="auto") as bench:
        changes, folder = changes_of(bench), bench.workspace / "g"
        runs = await work_in_one_folder(bench)
        for run in runs:
            await changes.undo("run", run)
        folder.mkdir()
        bench.model.next(use("write_file", path="g/new", content="n\n"), say("Done."))
        await bench.run("Work.")
        await changes.undo()
        assert folder.is_dir()
        assert not list(folder.iterdir())


async def test_a_file_that_appears_during_an_undo_keeps_its_folder(monkeypatch) -> None:
    async with open_bench(hilum_files, hilum_shell, approve="auto") as bench:
        changes, folder = changes_of(bench), bench.workspace / "g"
        bench.model.next(use("run_terminal_cmd", command="mkdir g; echo 1 > g/x"), say("Done."))
        await bench.run("Work.")

        real = undo_steps.carry_out

        def carry_out(*arguments):
            (folder / "mine").write_text("mine")
            return real(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(undo_steps, "carry_out", carry_out)
            plan = await changes.undo()
        assert [step.path for step in plan.steps] == ["g/x"]
        assert [step.path for step in plan.kept] == ["g"]
        assert (folder / "mine").read_text() == "mine"
