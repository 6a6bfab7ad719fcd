"""A user's editor with texts in memory, and what can go wrong with it; and scenes of its use."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio
from hilum import EditorFiles, Session, ToolError, hookimpl
from hilum.errors import E_TIMEOUT
from hilum.events import RunEnded
from hilum.testing import Bench, use
from hilum_files import Changes


class ScriptedEditor:
    """An editor whose texts are in memory; it is the plugin and the service of the session.

    Attributes:
        texts: The texts that are not saved.
        on_read: Functions that are called at the next reads, one at each, with the path.
        on_write: Functions that carry out the next writes instead of the editor, one each.
    """

    name = "scripted_editor"

    def __init__(self) -> None:
        self.can_write_in_editor = True
        self.texts: dict[Path, str] = {}
        self.on_read: list[Callable[[Path], None]] = []
        self.on_write: list[Callable[[Path, str], bool]] = []

    @hookimpl
    def open_session(self, session: Session) -> ScriptedEditor:
        """Return the editor."""
        return self

    async def read_in_editor(self, path: Path) -> str | None:
        """Return the text of a file."""
        if self.on_read:
            self.on_read.pop(0)(path)
        if path in self.texts:
            return self.texts[path]
        is_file = await trio.to_thread.run_sync(path.is_file)
        return await trio.Path(path).read_text() if is_file else None

    async def write_in_editor(self, path: Path, text: str) -> bool:
        """Write the text of a file, and save it."""
        if self.on_write:
            return self.on_write.pop(0)(path, text)
        self.texts.pop(path, None)
        await trio.Path(path).write_text(text)
        return True

    # --- what can go wrong ------------------------------------------------------------------------

    def fail(self, path: Path, text: str = "") -> bool:
        """Do not respond."""
        raise ToolError("The editor did not respond.", code=E_TIMEOUT, hint="Read the file.")

    def write_and_fail(self, path: Path, text: str) -> bool:
        """Write a text, and do not confirm it."""
        path.write_text(text)
        return self.fail(path)

    def write_another_and_fail(self, path: Path, text: str) -> bool:
        """Write another text, and do not confirm it."""
        path.write_text(f"{text}# formatted\n")
        return self.fail(path)

    def refuse(self, path: Path, text: str) -> bool:
        """Do not write."""
        return False

    def only_show(self, path: Path, text: str) -> bool:
        """Show a text, and do not save it."""
        self.texts[path] = text
        return True

    def format(self, path: Path, text: str) -> bool:
        """Write another text than the one that was asked for."""
        self.texts.pop(path, None)
        path.write_text(f"{text}# formatted\n")
        return True


def find_editor(bench: Bench) -> ScriptedEditor:
    """Return the editor of a session."""
    editor = bench.session.plugin(EditorFiles)
    assert isinstance(editor, ScriptedEditor)
    return editor


FILES = ("shop/prices.py", "notes/todo.txt", "draft.txt")


class EditorUse:
    """A random use of the editor: what the agent calls, and what the user does before each call."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.bench: Bench | None = None
        self.answers: list[Any] = [self._answer for _ in range(rng.randint(6, 12))]
        # What the user has saved is part of a recording once the agent has found it.
        self.answers += [use("read_file", path=name) for name in FILES]
        self.answers.append("Edited.")

    async def begin(self, bench: Bench) -> None:
        """Remember the session before its prompt."""
        self.bench = bench

    async def end(self, bench: Bench, start: int) -> None:
        """Undo what the run changed, in some sessions."""
        await bench.wait_for(RunEnded, after=start)
        changes = bench.session.plugin(Changes)
        assert changes is not None
        if self._rng.random() < 0.4 and changes.records():
            await changes.undo("run", keep_going=True)

    def _answer(self, request: Any) -> Any:
        assert self.bench is not None
        editor = find_editor(self.bench)
        name = self._rng.choice(FILES)
        path = self.bench.workspace / name
        number = self._rng.randint(100, 999)
        self._act(editor, path, number)
        shown = editor.texts.get(path)
        if shown is None:
            shown = path.read_text() if path.is_file() else ""
        line = self._rng.choice(shown.splitlines() or ["nothing"])
        edit = use("edit_file", path=name, old_string=line, new_string=f"{line} # {number}")
        read = use("read_file", path=name)
        calls = [
            *(read, read, read, edit, edit, edit, edit),
            use("write_file", path=name, content=f"{number}\n"),
            use("delete_file", path=name),
            use("run_terminal_cmd", command=f"cat {name}"),
            use("run_terminal_cmd", command=f"echo {number} >> {name}"),
        ]
        return self._rng.choice(calls)

    def _act(self, editor: ScriptedEditor, path: Path, number: int) -> None:
        """Do what the user, or the editor, does before a call."""

        def type_text(_: Path) -> None:
            saved = path.read_text() if path.is_file() else ""
            editor.texts[path] = f"{editor.texts.get(path, saved)}# typed {number}\n"

        def save(_: Path) -> None:
            if path in editor.texts:
                path.write_text(editor.texts.pop(path))

        def discard(_: Path) -> None:
            editor.texts.pop(path, None)

        def wait(_: Path) -> None:
            pass

        pick = self._rng.random()
        if pick < 0.3:
            type_text(path)
        elif pick < 0.4:
            save(path)
        elif pick < 0.5:
            discard(path)
        elif pick < 0.7:
            pauses = [wait] * self._rng.randint(0, 2)
            editor.on_read = [*pauses, self._rng.choice([type_text, discard, editor.fail])]
        elif pick < 0.85:
            outcomes = [
                editor.fail,
                editor.write_and_fail,
                editor.write_another_and_fail,
                editor.refuse,
                editor.only_show,
                editor.format,
            ]
            editor.on_write = [self._rng.choice(outcomes)]
