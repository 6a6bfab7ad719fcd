"""What must run before a commit: in which order one call does things, and what programs write."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import pytest
import trio
from hilum.events import CallDone
from hilum.messages import ToolResult
from hilum.testing import open_bench, use
from hilum_checks import compile_lines, judge
from hilum_checks.call_history import CallHistory

from tests.support.obedience.judging import make_tool

LINE = "require command make test before git commit"
LOGGED = "require write CHANGES.md after write src/** before git commit"
SHELL = make_tool("run_terminal_cmd")


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, line: str) -> None:
        self.sentence, self.path, self.line = line, "AGENTS.md", 1
        self.check = compile_lines([line])[0].check
        assert self.check is not None


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    files = {
        "Makefile": "test:\n\t@true\n",
        "check.sh": "true\n",
        "src/a.ts": "a\n",
        "sub/a.txt": "a\n",
        "sub/Makefile": "test:\n\t@true\n",
        "sub/check.sh": "true\n",
        "part/b.py": "b\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


@pytest.fixture
def own_project(project: Path, tmp_path: Path) -> Path:
    """Create a copy that a test may change."""
    return shutil.copytree(project, tmp_path / "workspace", symlinks=True)


def is_refused(root: Path, *calls: str, line: str = LINE, **arguments: str) -> bool:
    """Return whether the last of several calls is refused, after the others have succeeded."""
    history = CallHistory()
    *earlier, last = calls
    for number, command in enumerate(earlier):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command} | arguments), root, result)
    found = judge([Ruled(line)], json.dumps({"command": last}), SHELL, root, history)
    return found is not None


@pytest.mark.parametrize(
    "command",
    [
        "sed -i s/a/b/ src/a.ts && git commit -qam x", "echo x >> src/a.ts; git commit -qam x",
        "cat > src/n.ts <<'E' && git add -A && git commit -qm x\nn\nE",
        "make test && echo x >> src/a.ts && git commit -qam x",
        "python3 -c \"open('src/a.ts', 'a').write('x')\" && git commit -qam x", "make gen && git commit -qam x",
        "npm pkg set a=b; git commit -qam x",
        "git checkout other && git commit -qam x",
        "git stash pop; git commit -qam x",
        "make test && sed -i s/a/b/ src/a.ts && git commit -qam 'a; b'",
        "make test; echo x > src/a.ts; git commit -qam x",
        "git commit -qm y && touch src/b.ts && git commit -qam x",
    ],
)  # fmt: skip
def test_what_one_call_writes_before_a_commit_counts(command: str, project: Path) -> None:
    assert is_refused(project, "make test", command)


@pytest.mark.parametrize(
    "command",
    [
        "git commit -qam x",
        "git add -A && git commit -qm x",
        "git status --short; git commit -qam x",
        "cd src && git commit -qam x",
        "git commit -qam x && echo x >> src/a.ts",
        "git checkout -b fix && git commit -qam x",
        "echo done > /tmp/log; git commit -qam x",
        "git reset --soft HEAD~1 && git commit -qm x",
        "gh issue view 3 && node --version && git commit -qam x",
        "black --check . && cargo clippy && git commit -qam x",
        "make lint && git commit -qam x",
        "pytest -q && git commit -qam x",
    ],
)  # fmt: skip
def test_a_call_that_writes_nothing_before_a_commit_is_free(command: str, project: Path) -> None:
    assert not is_refused(project, "make test", command)


@pytest.mark.parametrize(
    "command",
    [
        "make test && git commit -qam x",
        "make test && git add -A && git commit -qm 'fix: a; b'",
        "make test &&\n  git commit -qam x",
        "sed -i s/a/b/ src/a.ts && make test && git commit -qam x",
        "make lint && make test && git commit -qm \"$(cat <<'E'\nfix: a\nE\n)\"",
    ],
)  # fmt: skip
def test_a_command_that_succeeds_first_in_the_same_call_counts(command: str, project: Path) -> None:
    assert not is_refused(project, command)


@pytest.mark.parametrize(
    "command",
    [
        "make test; git commit -qam x",
        "make test || git commit -qam x",
        "make test & git commit -qam x",
        "make -n test && git commit -qam x",
        "git commit -qam x && make test",
        "make test | tail && git commit -qam x",
        "echo 'make test && git commit -qam x'; git commit -qam x",
        "make test && git commit -qam x || git commit -qam x", "(make test || true) && git commit -qam x",
        "false && make test && true; git commit -qam x",
    ],
)  # fmt: skip
def test_a_command_that_may_have_failed_in_the_same_call_does_not_count(
    command: str, project: Path
) -> None:
    assert is_refused(project, command)


@pytest.mark.parametrize(
    ("first", "refused"),
    [
        ("cd sub && make test", True), ("env -C sub make test", True), ("cd /tmp && make test", True), ("make test", False),
        ("cd part && make test", False),
    ],
)  # fmt: skip
def test_another_makefile_does_not_count(first: str, refused: bool, project: Path) -> None:
    assert is_refused(project, first, "git commit -qam x") is refused
    if refused:
        assert is_refused(project, f"{first} && git commit -qam x")


def test_the_folder_of_the_call_counts(project: Path) -> None:
    assert is_refused(project, "make test", "git commit -qam x", working_directory="sub")


@pytest.mark.parametrize(
    ("first", "refused"), [("cd sub && sh check.sh", True), ("sh check.sh", False)]
)
def test_another_script_of_the_same_name_does_not_count(
    first: str, refused: bool, project: Path
) -> None:
    line = "require command sh check.sh before git commit"
    assert is_refused(project, first, "git commit -qam x", line=line) is refused


def test_the_only_makefile_may_be_in_a_folder_but_not_a_new_one(own_project: Path) -> None:
    (own_project / "Makefile").unlink()
    subprocess.run(["git", "add", "-A"], cwd=own_project, check=True)
    (own_project / "part/Makefile").write_text("test:\n\t@true\n")
    assert is_refused(own_project, "cd part && make test", "git commit -qam x")


def test_files_that_belong_together_are_changed_in_one_call(project: Path) -> None:
    assert is_refused(project, "echo x >> src/a.ts && git commit -qam x", line=LOGGED)
    both = "echo x >> src/a.ts && echo x >> CHANGES.md && git commit -qam x"
    assert not is_refused(project, both, line=LOGGED)


# --- what programs write --------------------------------------------------------------------------


def run(command: str) -> Any:
    return use("run_terminal_cmd", command=command)


async def commit_after(*commands: str) -> str:
    """Return the last result in a session that runs ``make test``, other commands, and a commit."""
    files = {
        "AGENTS.md": f"- Test first.\n  enforce: {LINE}\n",
        "Makefile": "test:\n\t@echo report > report.xml\ngen:\n\t@echo x >> a.py\n",
        "a.py": "a = 1\n",
        ".gitignore": "out/\n",
    }
    prepare = "git init -q . && git add -A && git -c user.name=a -c user.email=a@b.c commit -qm 1"
    commit = "git -c user.name=a -c user.email=a@b.c commit --allow-empty -qam x"
    answers = [run(each) for each in ("make test", *commands, commit)]
    async with open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files=files,
        settings={"guard.unsandboxed": "run"},
        answers=[*answers, "Done."],
    ) as kit:
        await trio.run_process(["sh", "-c", prepare], cwd=kit.session.workspace.root)
        await kit.run("Commit it.")
        return kit.of(CallDone)[-1].result.text


@pytest.mark.parametrize(
    "command",
    ["python3 -c \"open('a.py', 'a').write('x = 1')\"", "make gen", "python3 -m json.tool b.json c.json"],
)  # fmt: skip
async def test_what_a_program_writes_counts(command: str) -> None:
    commands = ["echo '{}' > b.json", "make test", command]
    assert "Test first." in await commit_after(*commands)


@pytest.mark.parametrize(
    "command",
    ["make test", "python3 -c 'print(1)'", "python3 -c \"import os; os.makedirs('out'); open('out/x', 'w')\"", "git status"],
)  # fmt: skip
async def test_reports_and_ignored_files_do_not_count(command: str) -> None:
    assert "Test first." not in await commit_after(command)
