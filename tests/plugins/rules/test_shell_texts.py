"""What must run first may run in the text of a shell, which has the exit code of its text."""

import json
import subprocess
from pathlib import Path

import pytest
from hilum.messages import ToolResult
from hilum_checks import compile_rule, judge
from hilum_checks.call_history import CallHistory
from hilum_checks.shell_texts import read_shell_text

from tests.support.obedience.judging import make_tool

TWO = "Run `make lint` and `make test` before committing."
SHELL = make_tool("run_terminal_cmd")
COMMIT = "git commit -qam x"


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    for name in ("app/a.py", "README.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    (root / "Makefile").write_text("lint test:\n\t@true\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


def is_refused(root: Path, *calls: str, sentence: str = TWO) -> bool:
    """Return whether the last of several calls is refused, after the others have succeeded."""
    history = CallHistory()
    *earlier, last = calls
    for number, command in enumerate(earlier):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), root, result)
    found = judge([Ruled(sentence)], json.dumps({"command": last}), SHELL, root, history)
    return found is not None


@pytest.mark.parametrize(
    "calls",
    [
        ("bash -lc 'make lint && make test'", COMMIT),
        ("bash -lc 'make lint && make test'", f"bash -lc '{COMMIT}'"),
        ("bash -lc 'make lint'", "bash -lc 'make test'", f"bash -lc 'git add app && {COMMIT}'"),
        ("sh -c 'make lint test'", COMMIT),
        ('zsh -lc "make lint && make test"', COMMIT),
        ("/bin/bash -c 'make lint && make test'", COMMIT),
        ("cd app && bash -c 'cd .. && make lint && make test'", COMMIT),
        ("CI=1 timeout 300 bash -lc 'make lint && make test'", COMMIT),
        ("bash -ec 'make lint; make test'", COMMIT),
        ("bash -euo pipefail -c 'make lint | tail -3; make test 2>&1 | tail -3 && true'", COMMIT),
        ("bash -lc 'make lint && make test' 2>&1", COMMIT),
        ("bash -c \"bash -c 'make lint && make test'\"", COMMIT),
        ("make lint && bash -c 'make test'", COMMIT),
        ("bash -lc 'git status && git diff | head -5'", "make lint test", COMMIT),
        ("make lint test", "bash -lc 'git status && git diff | head -5'", COMMIT),
        ("make lint test", f"bash -lc 'git status --short' && {COMMIT}"),
        (f"bash -lc 'set -euo pipefail; make lint; make test; git add app; {COMMIT}'",),
        (f"bash -lc 'make lint && make test && {COMMIT}'",),
        (f"timeout 300 bash -lc 'make lint && make test && {COMMIT}'",),
        (f"make lint && bash -lc 'make test && {COMMIT}'",),
        (f"bash -lc 'echo x >> README.md; make lint test && {COMMIT}'",),
        ("bash -lc 'make lint test && git commit -qam '\"'\"'x'\"'\"''",),
    ],
)
def test_the_text_of_a_shell_proves_success(calls: tuple[str, ...], project: Path) -> None:
    assert not is_refused(project, *calls)


@pytest.mark.parametrize(
    "calls",
    [
        ("bash -lc 'make lint; make test'", COMMIT),
        ("bash -lc 'make lint && make test; true'", COMMIT),
        ("bash -lc 'make lint && make test | tail -5'", COMMIT),
        ("bash -lc 'make lint test' | tail -5", COMMIT),
        ("bash -lc 'make lint test'; true", COMMIT),
        ("bash -lc 'make lint test' || true", COMMIT),
        ("! bash -lc 'make lint test'", COMMIT),
        ("bash -lc 'make lint test' &", COMMIT),
        ("bash -nc 'make lint test'", COMMIT),
        ("bash -n -c 'make lint test'", COMMIT),
        ("bash --help -c 'make lint test'", COMMIT),
        ("zsh -c 'setopt noexec; make lint test'", COMMIT),
        ("PATH=/tmp:$PATH bash -c 'make lint test'", COMMIT),
        ("PATH=/tmp bash -c 'make lint test'", COMMIT),
        ("BASH_ENV=/tmp/x bash -c 'make lint test'", COMMIT),
        ("./bash -c 'make lint test'", COMMIT),
        ("make() { true; }; export -f make; bash -c 'make lint test'", COMMIT),
        ('bash -c "make lint test $X"', COMMIT),
        ('X="make lint test"; bash -c "$X"', COMMIT),
        ('bash -c "make lint test && $(echo true)"', COMMIT),
        ("bash -c 'make lint test && echo x >> app/a.py'", COMMIT),
        ("bash -c 'make lint test && ./gen'", f"bash -c './gen && {COMMIT}'"),
        ("bash -c 'make lint test'", f"bash -c './gen && {COMMIT}'"),
        ("bash -c 'make lint test'", f"bash -c 'echo x >> app/a.py; {COMMIT}'"),
        ("bash -c 'make lint test'", f"bash -c './gen' && {COMMIT}"),
        ("for i in 1 2; do bash -c 'make lint test'; done", COMMIT),
        ("ssh host bash -c 'make lint test'", COMMIT),
        (f"bash -lc 'make lint; make test; {COMMIT}'",),
        (f"bash -lc 'set -e; make lint; make test | cat; {COMMIT}'",),
        (f"make lint test; bash -lc '{COMMIT}'",),
        (f"PATH=/tmp bash -c 'make lint test && {COMMIT}'",),
        (f"bash -lc 'make lint test && ./gen && {COMMIT}'",),
        (f"timeout 9 bash -lc 'make lint test && ./gen && {COMMIT}'",),
        (f"bash -lc 'make lint test && echo x >> app/a.py && {COMMIT}'",),
        (f"make lint test && bash -lc 'echo x >> app/a.py; {COMMIT}'",),
    ],
)
def test_a_shell_that_hides_a_failure_proves_nothing(calls: tuple[str, ...], project: Path) -> None:
    assert is_refused(project, *calls)


def test_a_program_of_the_same_name_outside_of_the_text_proves_nothing(project: Path) -> None:
    sentence = "Run `uv run pytest` before committing."
    calls = ("uv run pytest | tail; bash -c pytest", COMMIT)
    assert is_refused(project, *calls, sentence=sentence)
    calls = ("bash -c 'uv run pytest'", COMMIT)
    assert not is_refused(project, *calls, sentence=sentence)


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("bash -lc 'a && b'", ("", "a && b")),
        ("bash -eo pipefail -c a", ("set -e\nset -o pipefail", "a")),
        ("CI=1 nice sh -exc 'a'", ("set -e", "a")),
        ("bash a.sh", None),
        ("bash -c", None),
        ("bash -c 'a' b", None),
        ("bash -ic a", None),
        ("bash -s -c a", None),
        ('bash -c "$a"', None),
        ("bash -c `a`", None),
        ("bash -c a*", None),
        ("echo bash -c a", None),
    ],
)
def test_texts_are_read(part: str, text: tuple[str, str] | None) -> None:
    assert read_shell_text(part) == text
