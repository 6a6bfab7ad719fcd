"""What must run first may run in a virtual environment; other scripts could change what it means."""

import json
import shutil
import subprocess
import venv
from pathlib import Path

import pytest
from hilum.messages import ToolResult
from hilum_checks import compile_lines, compile_rule, judge
from hilum_checks.activation import MAX_BYTES
from hilum_checks.call_history import CallHistory

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        if self.check is None:
            self.check = compile_lines([sentence])[0].check
        assert self.check is not None


CHECK = "Run `make check` before you commit."


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv").resolve() / "work"
    folder.mkdir()
    venv.create(folder / ".venv", symlinks=True)
    return folder


@pytest.fixture
def project(environment: Path, tmp_path: Path) -> Path:
    """A repository with an environment, whose scripts contain its path."""
    root = tmp_path.resolve() / "work"
    shutil.copytree(environment, root, symlinks=True)
    script = root / ".venv/bin/activate"
    script.write_text(script.read_text().replace(str(environment), str(root)))
    (root / "Makefile").write_text("check:\n\t@true\n")
    (root / ".gitignore").write_text(".venv/\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


def is_refused(root: Path, *calls: str, sentence: str = CHECK) -> bool:
    """Return whether the last of several calls is refused, after the others have succeeded."""
    history = CallHistory()
    *earlier, last = calls
    for number, command in enumerate(earlier):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), root, result)
    found = judge([Ruled(sentence)], json.dumps({"command": last}), SHELL, root, history)
    return found is not None


COMMIT = "git commit -qam x"
CALLS = [
    (f"source .venv/bin/activate && make check && {COMMIT}",),
    (f". .venv/bin/activate; make check && {COMMIT}",),
    ("source ./.venv/bin/activate && make check", COMMIT),
    ("source .venv/bin/activate && make check", f"source .venv/bin/activate && {COMMIT}"),
    (f"source .venv/bin/activate\nset -e\nmake check\n{COMMIT}",),
]


@pytest.mark.parametrize("calls", CALLS)
def test_an_environment_may_be_activated_first(calls: tuple[str, ...], project: Path) -> None:
    assert not is_refused(project, *calls)


def test_the_environments_of_uv_and_virtualenv(project: Path) -> None:
    program = shutil.which("uv")
    if program is None:
        pytest.skip("uv is not installed")
    shutil.rmtree(project / ".venv")
    subprocess.run([program, "venv", "-q", ".venv"], cwd=project, check=True)
    assert not is_refused(project, *CALLS[0])


def test_activation_may_itself_be_required(project: Path) -> None:
    line = "require command source .venv/bin/activate before pytest"
    assert is_refused(project, "pytest -q", sentence=line)
    assert not is_refused(project, "source .venv/bin/activate && pytest -q", sentence=line)


@pytest.mark.parametrize(
    "added",
    [
        "make() { true; }",
        "function make { true; }",
        "alias make=true",
        "PATH=/tmp/evil:$PATH",
        'PATH="$VIRTUAL_ENV/../evil:$PATH"',
        "VIRTUAL_ENV=/tmp/evil",
        "export MAKEFLAGS=-n",
        "MAKEFLAGS=-n; export MAKEFLAGS",
        "exit 0",
        "exit",
        "trap 'exit 0' EXIT",
        "eval 'make() { true; }'",
        ". /tmp/evil.sh",
        "enable -f /tmp/evil.so make",
        "hash -p /bin/true make",
        "echo 'x = 1' > src.py",
        "python -c 'open(1)'",
        "_X=$(touch src.py)",
        "deactivate () { make () { true; }; }",
        "set -- x",
        "if",
    ],
)
@pytest.mark.parametrize("at_end", [True, False])
def test_a_script_that_does_anything_else_is_none(added: str, at_end: bool, project: Path) -> None:
    script = project / ".venv/bin/activate"
    text = script.read_text()
    script.write_text(f"{text}\n{added}\n" if at_end else f"{added}\n{text}")
    assert is_refused(project, *CALLS[0])
    assert is_refused(project, *CALLS[2])


def test_other_scripts_are_none(project: Path) -> None:
    script = project / ".venv/bin/activate"
    for name in ("activate", "env/activate", ".venv/bin/other"):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copy(script, project / name)
        assert is_refused(project, f"source {name} && make check && {COMMIT}")
    # That of another environment puts the other one's programs first.
    shutil.copytree(project / ".venv", project / "venv", symlinks=True)
    assert is_refused(project, f"source venv/bin/activate && make check && {COMMIT}")
    assert is_refused(project, f"source $X/bin/activate && make check && {COMMIT}")
    assert is_refused(project, f"source missing/bin/activate && make check && {COMMIT}")
    # A command of the call may write the script first.
    for before in (
        "echo 'make() { true; }' >> .venv/bin/activate",
        "cp evil .venv/bin/activate",
        "bash evil.sh",
        "python evil.py",
        "git checkout .",
    ):
        assert is_refused(project, f"{before} && {CALLS[0][0]}")
    assert not is_refused(project, f"cd . && ls && export CI=1 && {CALLS[0][0]}")
    script.write_text(script.read_text() + "#" * MAX_BYTES)
    assert is_refused(project, *CALLS[0])


@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ("export CI=1 && ", False),
        ("export CI=1; ", False),
        ("export CI=1 FORCE_COLOR=0; ", False),
        ("export MAKEFLAGS=-n; ", True),
        ("export CI=1 MAKEFLAGS=-n; ", True),
        ("export CI=$(touch a.py); ", True),
        ("export -f make; ", True),
        ("export PATH=/tmp:$PATH; ", True),
    ],
)
def test_exported_variables(before: str, refused: bool, project: Path) -> None:
    assert is_refused(project, f"{before}make check && {COMMIT}") == refused
    assert is_refused(project, f"{before}make check", COMMIT) == refused
