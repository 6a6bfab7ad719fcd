"""Rules about existing files cover those of the project, and not those that are being written."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
EDIT = make_tool("write_file")
OLD = 1_000_000_000
CODE = "from pathlib import Path\np = next(Path('alembic/versions').glob('{}'))\np.write_text(p.read_text() + 'x')"


class Ruled:
    """A rule as judging sees it."""

    sentence = "Never edit existing migrations in `alembic/versions/`."
    path = "AGENTS.md"
    line = 1

    def __init__(self) -> None:
        self.check = compile_rule(self.sentence, hard=False).check
        assert self.check is not None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a project with an old migration, an ignored file and no repository."""
    root = tmp_path.resolve() / "project"
    (root / "alembic/versions").mkdir(parents=True)
    for name in ("alembic/versions/0001_a.py", "alembic/versions/local.toml"):
        (root / name).write_text("x = 1\n")
        os.utime(root / name, (OLD, OLD))
    return root


@pytest.fixture
def root(folder: Path) -> Path:
    """Make the project a repository, and add a migration after its first call."""
    (folder / ".gitignore").write_text("*.toml\n")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "1")
    assert run(folder, "ls") is None
    (folder / "alembic/versions/0003_new.py").write_text("x = 3\n")
    return folder


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def run(root: Path, command: str) -> Any:
    return judge([Ruled()], json.dumps({"command": command}), SHELL, root)


def python(code: str) -> str:
    return f"python3 - <<'E'\n{code}\nE"


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("sed -i s/3/4/ alembic/versions/{}", True),
        ("mv alembic/versions/{} alembic/versions/0004_b.py", True),
        ("echo x >> alembic/versions/{}", True),
        ("rm alembic/versions/{}", True),
        (
            python(
                "from pathlib import Path\np = Path('alembic/versions/{}')\np.write_text(p.read_text() + 'x')"
            ),
            True,
        ),
        (python(CODE), True),
        (python(CODE.replace("next(", "sorted(").replace("'))", "'))[0]")), True),
    ],
)
def test_a_file_that_git_does_not_track_is_not_existing(new: str, old: bool, root: Path) -> None:
    assert run(root, new.replace("{}", "0003_new.py")) is None
    assert run(root, new.replace("{}", "0001_a.py")) is not None


def test_the_editing_tool_may_change_a_new_file(root: Path) -> None:
    for name, is_free in (("0003_new.py", True), ("0001_a.py", False)):
        arguments = {"path": f"alembic/versions/{name}", "content": "x"}
        assert (judge([Ruled()], json.dumps(arguments), EDIT, root) is None) is is_free


def test_a_new_file_that_is_staged_may_still_be_changed(root: Path) -> None:
    git(root, "add", "-A")
    assert run(root, "sed -i s/3/4/ alembic/versions/0003_new.py") is None
    git(root, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "2")
    assert run(root, "sed -i s/3/4/ alembic/versions/0003_new.py") is not None


def test_a_new_file_from_before_the_session_counts_like_its_tracked_neighbours(root: Path) -> None:
    """Git ignores files like `local.toml`, so that it tracks none in the folder."""
    os.utime(root / "alembic/versions/0003_new.py", (OLD, OLD))
    assert run(root, "sed -i s/3/4/ alembic/versions/0003_new.py") is None
    assert run(root, "sed -i s/3/4/ alembic/versions/local.toml") is not None


@pytest.mark.parametrize(
    "command",
    [
        "mv alembic/versions/0003_new.py alembic/versions/0001_a.py",
        "sed -i s/a/b/ alembic/versions/*.py",
        python(CODE.replace("{}", "0*.py")),
        "rm -r alembic/versions",
    ],
)
def test_what_covers_an_existing_file_too_is_refused(command: str, root: Path) -> None:
    assert run(root, command) is not None


@pytest.mark.parametrize(
    "words",
    [
        ("rm", "--cached", "-q", "alembic/versions/0001_a.py"),
        ("read-tree", "--empty"),
        ("init", "-q", "alembic/versions"),
    ],
)
def test_what_leaves_the_index_stays_an_existing_file(words: tuple[str, ...], root: Path) -> None:
    git(root, *words)
    assert run(root, "sed -i s/3/4/ alembic/versions/0001_a.py") is not None


def test_a_link_to_an_existing_file_is_refused(root: Path) -> None:
    (root / "alembic/versions/0009.py").symlink_to("0001_a.py")
    assert run(root, "echo x > alembic/versions/0009.py") is not None


def test_without_a_repository_the_files_from_before_the_session_exist(folder: Path) -> None:
    assert run(folder, "sed -i s/1/2/ alembic/versions/0001_a.py") is not None
    time.sleep(0.05)  # the times of files may be behind the clock
    (folder / "alembic/versions/0003_new.py").write_text("x = 3\n")
    assert run(folder, "sed -i s/3/4/ alembic/versions/0003_new.py") is None
