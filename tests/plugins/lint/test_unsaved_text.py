"""Lints in a session of an editor, which has other text of a file than the disk."""

import hilum_guard
import hilum_lint
import pytest
import trio
from hilum import HilumError, hookimpl
from hilum.errors import E_TIMEOUT
from hilum.events import RoundEnded
from hilum.testing import open_bench, use


class Editor:
    """An editor with unsaved texts, by path; `None` as text means that it does not respond."""

    can_write_in_editor = False

    def __init__(self):
        self.texts = {}

    async def read_in_editor(self, path):
        text = self.texts.get(path, "")
        if text is None:
            raise HilumError("The editor did not answer.", code=E_TIMEOUT)
        return text or (path.read_text() if path.is_file() else None)

    async def write_in_editor(self, path, text):
        return False

    @hookimpl
    def open_session(self, session):
        return self


@pytest.fixture
async def edited(root):
    """A bench in the project whose editor has other text, and the editor."""
    editor = Editor()
    settings = {"lint.trusted": [str(root)]}
    async with open_bench(hilum_lint, "files", editor, settings=settings, workspace=root) as bench:
        yield bench, editor


RULES = 'lint.select = ["E", "F"]\n'


async def test_the_text_in_the_editor_is_checked(edited, put, install, root):
    bench, editor = edited
    put({"ruff.toml": RULES, "a.py": "import os\n", "b.py": "import sys\n"})
    install("ruff")
    editor.texts[root / "a.py"] = "x = missing\n"
    result = await bench.call("read_lints", paths=["a.py", "b.py"])
    assert "a.py:1:5 error F821 Undefined name `missing` (ruff)" in result.text
    assert "`os`" not in result.text
    assert "b.py:1:8 warning F401 `sys`" in result.text
    assert "saved" not in result.text


async def test_text_that_differs_only_in_newlines_is_saved(edited, put, install, root):
    bench, editor = edited
    put({"ruff.toml": RULES, "a.py": "import os\r\n"})
    install("ruff")
    editor.texts[root / "a.py"] = "import os"
    result = await bench.call("read_lints", paths=["a.py"])
    # The file, and not the text without a newline at its end.
    assert "W292" not in result.text
    assert "F401" in result.text


async def test_a_checker_that_reads_only_files_says_so(edited, put, install, root):
    bench, editor = edited
    put({"mypy.ini": "[mypy]\n", "a.py": "x: int = ''\n"})
    install("mypy")
    editor.texts[root / "a.py"] = "x: int = 0\n"
    result = await bench.call("read_lints", paths=["a.py"])
    assert "a.py:1:10 error assignment" in result.text
    assert "mypy reads only saved files; the editor has unsaved changes in a.py." in result.text


async def test_folders_are_read_as_saved_and_the_result_says_so(edited, put, install, root):
    bench, editor = edited
    put({"ruff.toml": RULES, "a.py": "import os\n"})
    install("ruff")
    editor.texts[root / "a.py"] = "x = 1\n"
    result = await bench.call("read_lints")
    assert "a.py:1:8 warning F401" in result.text
    assert "Folders were read as saved. Name a file" in result.text


async def test_an_editor_that_does_not_respond_keeps_no_checker_from_the_file(
    edited, put, install, root
):
    bench, editor = edited
    put({"ruff.toml": RULES, "a.py": "import os\n"})
    install("ruff")
    editor.texts[root / "a.py"] = None
    result = await bench.call("read_lints", paths=["a.py"])
    assert "a.py:1:8 warning F401" in result.text


async def test_after_an_edit_the_editors_text_is_checked(edited, put, install, root):
    bench, editor = edited
    put({"ruff.toml": RULES, "a.py": "x = 1\n"})
    install("ruff")

    def type_more(request):
        # The user completes what the agent has begun.
        editor.texts[root / "a.py"] = "missing = 1\nx = missing\n"
        return "Done."

    bench.model.next(
        use("read_file", path="a.py"),
        use("edit_file", path="a.py", old_string="x = 1", new_string="x = missing"),
        type_more,
    )
    await bench.run("Change it.")
    assert (root / "a.py").read_text() == "x = missing\n"
    assert not any(event.notes for event in bench.of(RoundEnded))


class WritingEditor(Editor):
    """An editor that also writes files."""

    can_write_in_editor = True

    def __init__(self):
        super().__init__()
        self.written = []
        self.processes = None
        self.seen = 0

    async def read_in_editor(self, path):
        if self.written and not path.exists():
            # Before the user would be asked; the checker of the last edit is about to start.
            with trio.move_on_after(3):
                while not self.processes.alive:  # noqa: ASYNC110  (a process has no event for it)
                    await trio.sleep(0.005)
            self.seen += bool(self.processes.alive)
        return await super().read_in_editor(path)

    @hookimpl
    def open_session(self, session):
        self.processes = session.processes
        return self

    async def write_in_editor(self, path, text):
        self.written.append(path.name)
        self.texts.pop(path, None)
        path.write_text(text)
        return True


@pytest.mark.parametrize("checker", ["ruff", "mypy"])
async def test_checkers_that_run_after_edits_do_not_bypass_the_editor(root, put, install, checker):
    """Quick checkers cannot write to the workspace, and hilum waits for those that run code."""
    put({"ruff.toml": RULES, "mypy.ini": "[mypy]\n", "a.py": "x = 1\n"})
    install(checker)
    editor = WritingEditor()
    settings = {"lint.trusted": [str(root)]}
    names = [f"b{number}.py" for number in range(4)]
    answers = [use("write_file", path=name, content="import os\n") for name in names]
    answers += [use("read_file", path="a.py")]
    answers += [use("write_file", path="c.py", content="y = 1\n")]
    answers += [use("edit_file", path="a.py", old_string="typed", new_string="edited"), "Done."]
    plugins = (hilum_lint, hilum_guard, "files", editor)
    async with open_bench(
        *plugins, settings=settings, workspace=root, answers=answers, approve="auto"
    ) as bench:
        editor.texts[root / "a.py"] = "x = 1\n# typed\n"
        await bench.run("Go")
        assert editor.seen
        assert editor.written == [*names, "c.py", "a.py"]
        assert (root / "a.py").read_text() == "x = 1\n# edited\n"
        if checker == "ruff":
            found = await bench.call("read_lints", paths=["b0.py"])
            assert "F401" in found.text
