"""Lints in a session of an editor, which has other text of a file than the disk."""

import hilum_lint
import pytest
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
