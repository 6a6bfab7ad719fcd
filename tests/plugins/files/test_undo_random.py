"""Undo after random work: the tree is what it was, bit for bit."""

import random
import sys
from functools import reduce
from itertools import groupby
from operator import add
from pathlib import Path

import hilum_files
import hilum_shell
import pytest
import trio
from hilum.testing import open_bench, say, use

sys.path.insert(0, str(Path(__file__).parent))
from random_work import command, content, held, plant, somewhere


async def work_and_undo(folder: Path, seed: int) -> tuple[int, int]:
    """Do random work in some runs, then undo all of it run by run (or turn by turn, or call by
    call); gives the steps.
    """
    dice = random.Random(seed)
    root = folder / "workspace"
    root.mkdir(parents=True)
    if seed % 2:
        await trio.run_process(["git", "init", "-q", str(root)])
    plant(root, dice)
    scope = dice.choice(["call", "turn", "run"])
    steps = 0
    async with open_bench(
        hilum_files, hilum_shell, workspace=root, folder=folder / "bench"
    ) as bench:
        states = [held(root)]
        changes = bench.session.plugin(hilum_files.Changes)
        for _ in range(dice.randrange(1, 4)):
            answers = []
            for _ in range(dice.randrange(1, 4)):
                calls = [_call(root, dice) for _ in range(dice.choice([1, 1, 2, 3]))]
                steps += len(calls)
                answers.append(reduce(add, [use(name, **arguments) for name, arguments in calls]))
            bench.model.next(*answers, say("Done."))
            await bench.run("Work.")
            states.append(held(root))
        passed = [held(root)]
        while changes.records():
            await changes.undo(scope)
            passed.append(held(root))
        assert held(root) == states[0], f"seed {seed}: not restored by {scope}"
        # An undo that changes nothing leaves nothing to undo.
        passed = [state for state, _ in groupby(passed)]
        for state in passed[-2::-1]:
            await changes.undo("undo")
            assert held(root) == state, f"seed {seed}: an undo was not undone"
        while changes.records():
            await changes.undo(scope)
        assert held(root) == states[0], f"seed {seed}: an undo was not done again"
    return steps, sum(states[i] != states[i + 1] for i in range(len(states) - 1))


def _call(root: Path, dice: random.Random) -> tuple[str, dict[str, str]]:
    kind = dice.random()
    path = somewhere(root, dice).decode(errors="replace").replace("�", "x")
    if kind < 0.2:
        return "write_file", {
            "path": path,
            "content": content(dice).decode("latin-1").replace("\0", "0"),
        }
    if kind < 0.35:
        return "edit_file", {
            "path": path,
            "old_string": "line 1",
            "new_string": f"edited {dice.random()}",
        }
    if kind < 0.45:
        return "delete_file", {"path": path}
    if kind < 0.6:
        return "read_file", {"path": path}
    return "run_terminal_cmd", {"command": command(root, dice)}


@pytest.mark.slow(cases=4)
@pytest.mark.parametrize("seed", range(12))
async def test_undo_restores_the_tree_bit_for_bit(tmp_path: Path, seed: int) -> None:
    """Edits, writes, deletes and commands, with git and without: undone, nothing tells of them."""
    await work_and_undo(tmp_path, seed)
