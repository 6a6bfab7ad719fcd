"""The guard reads the new files that a command loads, and copies of programs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hilum_guard import judge_command
from hilum_guard.rules.matching import CallFacts, fit, parse

GIT = shutil.which("git") or "/usr/bin/git"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository without files in its index."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path.resolve()


def list_words(command: str, root: Path) -> set[tuple[str, ...]]:
    verdict = judge_command(command, workspace=root, folder=root)
    return {each.words[:2] for each in verdict.all_commands}


def test_commands_in_new_modules_and_copies_are_implied(root: Path) -> None:
    (root / "m.py").write_text("import os\nos.system('git commit -qm x')\n")
    shutil.copy(GIT, root / "g")
    expected = ("git", "commit")
    assert expected in list_words('python3 -c "import m"', root)
    assert expected in list_words("python3 -m m", root)
    assert "git" in {os.path.basename(words[0]) for words in list_words("./g commit", root)}
    assert expected in list_words("cmake -E env git commit", root)
    assert expected not in list_words("python3 -c 'import json'", root)


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c 'import m'",
        "python3 -m m",
        "pytest -p m",
        "./g commit",
        "cmake -E env git commit",
    ],
)
def test_a_rule_that_denies_a_command_fits(command: str, root: Path) -> None:
    (root / "m.py").write_text("import os\nos.system('git commit -qm x')\n")
    shutil.copy(GIT, root / "g")
    verdict = judge_command(command, workspace=root, folder=root)
    facts = CallFacts("run_terminal_cmd", {"command": command}, command=verdict, category="execute")
    assert fit(parse("run_terminal_cmd(git commit *)", "deny"), facts)


def test_a_test_that_removes_what_it_made_needs_no_approval_under_every_policy(root: Path) -> None:
    (root / "test_a.py").write_text(
        "import subprocess\ndef test(folder):\n    subprocess.run(['rm', '-rf', str(folder)])\n"
    )
    assert judge_command("pytest", workspace=root, folder=root).grave == ""


def test_a_new_module_that_rewrites_history_needs_approval_under_every_policy(root: Path) -> None:
    (root / "m.py").write_text("import subprocess\nsubprocess.run(['git', 'push', '--force'])\n")
    assert judge_command("python3 -m m", workspace=root, folder=root).grave


def test_a_file_of_the_project_is_no_new_file(root: Path) -> None:
    (root / "m.py").write_text("import os\nos.system('git commit -qm x')\n")
    os.utime(root / "m.py", (1_700_000_000, 1_700_000_000))
    subprocess.run(["git", "add", "m.py"], cwd=root, check=True)
    assert ("git", "commit") not in list_words("python3 -c 'import m'", root)
