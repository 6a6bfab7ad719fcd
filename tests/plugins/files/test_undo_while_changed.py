"""Nothing that somebody writes while an undo runs is lost, and a failed undo leaves all else as it was."""

import os
import random
import sqlite3
import stat
import sys
from pathlib import Path

import hilum_files
import hilum_shell
import pytest
from hilum import ToolError, UsageError
from hilum.errors import E_STALE
from hilum.testing import open_bench
from hilum_files.journal import undo_steps
from hilum_files.journal.content_store import ContentStore
from hilum_files.paths import chmod_at

sys.path.insert(0, str(Path(__file__).parent))
from random_work import command, held, plant, somewhere


class Outsider:
    """A program that writes to files at chosen steps of an undo.

    Args:
        root: The workspace.
        dice: Chooses what it does.
        steps: The numbers of the steps before which it writes.
    """

    def __init__(self, root: Path, dice: random.Random, steps: set[int]) -> None:
        self.root = root
        self.written: dict[bytes, bytes] = {}
        self._dice = dice
        self._steps = steps
        self._count = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Write just before the undo looks at a path."""
        real = undo_steps._Steps._open

        def open_path(steps, path, *arguments):
            self._count += 1
            if self._count in self._steps:
                self._write(path)
            return real(steps, path, *arguments)

        monkeypatch.setattr(undo_steps._Steps, "_open", open_path)

    def _write(self, planned: str) -> None:
        path = somewhere(self.root, self._dice)
        if self._dice.random() < 0.7:
            path = os.path.join(os.fsencode(self.root), os.fsencode(planned))
        real = os.path.realpath(os.path.dirname(path))
        if not real.startswith(os.fsencode(self.root)) or os.path.islink(path):
            return
        content = b"outsider %d\n" % self._count
        try:
            os.chmod(path, 0o644)
        except OSError:
            pass
        try:
            with open(path, "wb") as file:
                file.write(content)
        except OSError:
            return
        self.written[
            os.path.relpath(os.path.join(real, os.path.basename(path)), os.fsencode(self.root))
        ] = content


@pytest.mark.parametrize("seed", range(25))
async def test_what_others_write_during_an_undo_stays(tmp_path, monkeypatch, seed):
    dice = random.Random(seed)
    root = tmp_path / "work"
    root.mkdir()
    plant(root, dice)
    async with open_bench(
        hilum_files, hilum_shell, workspace=root, folder=tmp_path / "bench"
    ) as bench:
        changes = bench.session.plugin(hilum_files.Changes)
        for _ in range(dice.randrange(1, 6)):
            await bench.call("run_terminal_cmd", command=command(root, dice))
        before = held(root)
        scope = dice.choice(["call", "turn", "run"])
        outsider = Outsider(root, dice, set(dice.sample(range(1, 12), dice.randrange(1, 4))))
        outsider.install(monkeypatch)
        error: ToolError | None = None
        try:
            await changes.undo(scope)
        except ToolError as caught:
            error = caught
        except UsageError:
            assert not changes.records()
            return
        after = held(root)
        for path, content in outsider.written.items():
            assert after[path][0] == "file"
            assert after[path][2] == content, (path, seed)
        if error is not None:
            assert error.hint
            if "was changed while it ran" in error.message:
                assert error.code == E_STALE
            # A folder in which somebody has written stays.
            kept = set(outsider.written)
            for path in outsider.written:
                while path := os.path.dirname(path):
                    kept.add(path)
            for path in {*before, *after} - kept:
                assert after.get(path) == before.get(path), (path, seed)


async def test_a_file_that_changes_during_the_undo_is_named(monkeypatch):
    async with open_bench(hilum_files, hilum_shell, files={"a": "1\n", "b": "1\n"}) as bench:
        await bench.call("run_terminal_cmd", command="echo 2 > a; echo 2 > b")
        changes = bench.session.plugin(hilum_files.Changes)
        real = undo_steps._Steps._create

        def create(steps, *arguments):
            real(steps, *arguments)
            (bench.workspace / "b").write_text("mine\n")

        monkeypatch.setattr(undo_steps._Steps, "_create", create)
        with pytest.raises(ToolError) as caught:
            await changes.undo("call")
        assert caught.value.code == E_STALE
        assert caught.value.message == (
            "The undo failed: b was changed while it ran. All other files are as they were before"
            " the undo."
        )
        assert (bench.workspace / "a").read_text() == "2\n"
        assert (bench.workspace / "b").read_text() == "mine\n"


async def test_a_file_that_changes_after_it_was_restored_is_not_reverted(monkeypatch):
    """The undo fails at a later file."""
    async with open_bench(hilum_files, hilum_shell, files={"a": "1\n", "b": "1\n"}) as bench:
        await bench.call("run_terminal_cmd", command="echo 2 > a; echo 2 > b")
        changes = bench.session.plugin(hilum_files.Changes)
        real = undo_steps._Steps._create

        def create(steps, step, node):
            if step.path == "b":
                (bench.workspace / "a").write_text("mine\n")
                raise OSError(28, "No space left on device", "b")
            real(steps, step, node)

        monkeypatch.setattr(undo_steps._Steps, "_create", create)
        with pytest.raises(ToolError, match=r"except those that were changed while it ran: a\."):
            await changes.undo("call")
        assert (bench.workspace / "a").read_text() == "mine\n"
        assert (bench.workspace / "b").read_text() == "2\n"


async def test_a_link_is_never_missing_while_it_is_replaced(monkeypatch):
    async with open_bench(hilum_files, hilum_shell, files={"a": "1\n"}) as bench:
        link = bench.workspace / "link"
        link.symlink_to("a")
        await bench.call("run_terminal_cmd", command="ln -sfn b link")
        changes = bench.session.plugin(hilum_files.Changes)
        real = os.replace
        seen = []

        def replace(old, new, **places):
            if new == "link":
                seen.append(os.readlink(link))
                raise OSError(5, "Input/output error", new)
            real(old, new, **places)

        monkeypatch.setattr(os, "replace", replace)
        with pytest.raises(ToolError, match=r"Input/output error"):
            await changes.undo("call")
        assert seen == ["b"]
        assert os.readlink(link) == "b"
        assert sorted(os.listdir(bench.workspace)) == ["a", "link"]
        monkeypatch.undo()
        await changes.undo("call")
        assert os.readlink(link) == "a"


async def test_the_mode_of_a_link_s_target_is_never_changed(tmp_path):
    target = tmp_path / "target"
    target.write_text("x")
    target.chmod(0o640)
    async with open_bench(hilum_files, files={"a": "1\n"}) as bench:
        (bench.workspace / "link").symlink_to(target)
        for name, expected in (("a", 0o600), ("link", None)):
            with bench.session.workspace.at(name, follow=False) as place:
                chmod_at(place, 0o600)
            if expected:
                assert stat.S_IMODE((bench.workspace / name).stat().st_mode) == expected
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("damage", [b"", b"\x00other", b"\x01not compressed"])
def test_damaged_content_is_stored_again(tmp_path, damage):
    store = ContentStore(tmp_path / "store")
    contents = [b"short", b"long " * 500]
    names = store.put(contents)
    store.close()
    with sqlite3.connect(tmp_path / "store" / "objects.db") as database:
        database.execute("UPDATE objects SET data = ?", (damage,))
    database.close()
    assert [store.get(name) for name in names] == [None, None]
    assert store.put(contents) == names
    assert [store.get(name) for name in names] == contents
    store.close()
