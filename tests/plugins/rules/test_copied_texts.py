"""Rules about the content of files hold for texts that commands copy from other files."""

import json
from pathlib import Path

import pytest
from hilum_checks import judge

from tests.support.judged_commands import Ruled, judge_command
from tests.support.obedience.judging import make_tool

PRINT = r"deny content /\bprint\(/ in app/**"
_PATCH = "--- a/app/a.py\n+++ b/app/a.py\n@@ -1 +1,2 @@\n x=1\n+{}\n"
_FILES = {
    "app/a.py": "x=1\n",
    "app/old.py": "print(2)\n",
    "tests/p.py": "print(1)\n",
    "other/q.py": "y=1\n",
    "bad.patch": _PATCH.format("print(1)"),
    "good.patch": _PATCH.format("y=1"),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "workspace"
    for name, text in _FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    "command",
    [
        "cp tests/p.py app/p.py", "cp tests/p.py app/", "cp -t app tests/p.py", "cp tests/*.py app/", "cp -r tests app/t",
        "cp -r tests/. app/", "mv tests/p.py app/p.py", "mv tests app/", "ln -s ../tests/p.py app/p.py",
        "ln tests/p.py app/p.py", "install -D tests/p.py app/x/p.py", "rsync -a tests/ app/", "git mv tests/p.py app/p.py",
        "cat tests/p.py > app/p.py", "cat other/q.py tests/p.py > app/p.py", "cat < tests/p.py > app/p.py",
        "cat tests/p.py | tee app/p.py", "tee app/p.py < tests/p.py", "head -1 tests/p.py >> app/a.py",
        "dd if=tests/p.py of=app/p.py", "sort tests/p.py -o app/p.py", "git show HEAD:tests/p.py > app/p.py",
        "git apply bad.patch", "patch -p1 < bad.patch", "cd app && cp ../tests/p.py .",
        "find tests -name '*.py' -exec cp {} app/ \\;", "ls tests/*.py | xargs -I{} cp {} app/",
        "printf 'pr%s(1)\\n' int >> app/a.py", "printf '\\160rint(1)' >> app/a.py", "sed -i 's/x=1/pr\\x69nt(1)/' app/a.py",
    ],
)  # fmt: skip
def test_a_copied_text_is_judged(command: str, root: Path) -> None:
    assert judge_command(PRINT, command, root) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "sed s/1/2/ tests/p.py > app/p.py", "awk 1 tests/p.py > app/p.py", "tar xf a.tar -C app", "tar c tests | tar x -C app",
        "unzip a.zip -d app", "curl -o app/p.py https://x.example/p", "curl https://x.example/p > app/p.py",
        "wget -P app https://x.example/p", "python3 new.py > app/p.py",
    ],
)  # fmt: skip
def test_a_text_that_nobody_knows_is_asked_about(command: str, root: Path) -> None:
    assert judge_command(PRINT, command, root) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "cp other/q.py app/q.py", "cp -r other app/", "cat other/q.py > app/q.py", "mv other/q.py app/", "rsync -a other/ app/",
        "ln -s ../other/q.py app/q.py", "cp app/old.py tests/", "cp tests/p.py other/", "cat tests/p.py > other/p.py",
        "mv app/old.py app/older.py", "sed -i s/2/3/ app/old.py",
        "sed s/2/3/ app/old.py > app/new.py && mv app/new.py app/old.py",
        "git apply good.patch", "tar xf a.tar -C other", "tar cf a.tar app", "curl -o other/p https://x.example/p",
        "pytest tests > app/log.txt", "find other -name '*.py' -exec cp {} app/ \\;", "find app -exec sed -i s/2/3/ {} +",
    ],
)  # fmt: skip
def test_other_copies_are_free(command: str, root: Path) -> None:
    assert judge_command(PRINT, command, root) == ""


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [("x=1", "print", ""), ("x=1", "print(1)", "deny"), ("x=", "print(", "deny"), ("x", "print", "")],
)  # fmt: skip
def test_an_edit_is_judged_with_the_text_around_it(
    old: str, new: str, kind: str, root: Path
) -> None:
    arguments = {"path": "app/a.py", "old_string": old, "new_string": new}
    found = judge([Ruled(PRINT)], json.dumps(arguments), make_tool("edit_file"), root)
    assert (found.kind if found else "") == kind
    # The last step of several edits that each add a part of the text.
    (root / "app/a.py").write_text("print\n")
    arguments = {"path": "app/a.py", "old_string": "rint", "new_string": "rint()"}
    found = judge([Ruled(PRINT)], json.dumps(arguments), make_tool("edit_file"), root)
    assert found is not None
    assert found.kind == "deny"
