"""What a rule cannot be sure of is denied or needs approval, and is never let pass."""

import json
import shutil
import subprocess
from pathlib import Path, PurePosixPath

import pytest
from hilum.messages import ToolResult
from hilum_checks import compile_lines, judge
from hilum_checks.call_history import CallHistory
from hilum_checks.quoted_names import path_patterns

from tests.support.judged_commands import Ruled, judge_command, judge_sentence
from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
HEADER = "require content /Copyright/ in src/**"
NO_WIP = "deny commit-message /wip/i"
NO_SKIP = "Never skip hooks."
PUSH = "deny command git push"
MANY = " ".join(f"a{number}" for number in range(30))
LINES = "\\n".join(f"a{number}" for number in range(80))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit."""
    folder = tmp_path_factory.mktemp("project").resolve()
    for name, text in {
        "Makefile": "test:\n\t@true\n",
        "src/a.py": "# Copyright me\nfoo\n",
        "docs/reference/x.md": "x\n",
        "docs/pre-commit": "not executable\n",
        "docs/commits": "no hook\n",
        "hooks/pre-push": "#!/bin/sh\n",
        "msg.txt": "wip\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "docs/commits").chmod(0o755)
    (folder / "hooks/pre-push").chmod(0o755)
    for words in (
        "init -q -b main",
        "add .",
        "-c user.name=a -c user.email=a@example.com commit -qm start",
    ):
        subprocess.run(["git", *words.split()], cwd=folder, check=True)
    return folder


@pytest.fixture
def own_root(root: Path, tmp_path: Path) -> Path:
    """Create a copy that a test may change."""
    return shutil.copytree(root, tmp_path / "workspace", symlinks=True)


def judge_last(line: str, calls: list[str], root: Path) -> str:
    """Return how the last of some calls is judged, after the others have succeeded."""
    history = CallHistory()
    *earlier, last = calls
    for number, command in enumerate(earlier):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), root, result)
    found = judge([Ruled(line)], json.dumps({"command": last}), SHELL, root, history)
    return found.kind if found else ""


@pytest.mark.parametrize(
    "command",
    [
        "sed -n -i /foo/p src/a.py", "sed -ni /foo/p src/a.py", "sed -ni -e /foo/p src/a.py",
        "sed -nEi /foo/p src/a.py",
        "sed --quiet -i /foo/p src/a.py", "perl -ni -e 's/foo/bar/' src/a.py", "perl -i -ne 's/foo/bar/' src/a.py",
        "sed -zi s/a.*z// src/a.py",
    ],
)  # fmt: skip
def test_an_editor_that_prints_only_some_lines_is_not_understood(command: str, root: Path) -> None:
    assert judge_command(HEADER, command, root) == "ask"
    assert judge_command(HEADER, "sed -i s/foo/bar/ src/a.py", root) == ""


@pytest.mark.parametrize(
    "command",
    [
        "git commit -Fmsg.txt", "git commit -qFmsg.txt", "git commit -F msg.txt", "git commit --file=msg.txt",
        "git commit --fil msg.txt", "git commit -tmsg.txt -m ok", "git commit -am wip", "git commit -Skey -mwip",
        "git commit -m ok --trailer wip", "git merge -mwip x", "git merge -s ours -m wip x", "git merge -Fmsg.txt x",
        "git commit-tree -p HEAD -mwip X", "git commit --mess=wip", "git commit -uno -m wip",
        "echo wip | git commit -F -",
    ],
)  # fmt: skip
def test_messages_are_read_with_the_options_of_their_command(command: str, root: Path) -> None:
    assert judge_command(NO_WIP, command, root) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "git commit -m ok", "git commit -F docs/reference/x.md", "git commit -C wip -m ok", "git commit -uwip -m ok",
        "git merge -s wip -m ok x", "git commit -m ok -- wip", "git commit -Swip -m ok",
    ],
)  # fmt: skip
def test_values_of_other_options_are_no_message(command: str, root: Path) -> None:
    assert judge_command(NO_WIP, command, root) == ""


@pytest.mark.parametrize(
    "command",
    [
        "git -c core.hooksPath=docs commit -m a", "git -c core.hooksPath=src commit -m a",
        "cd docs && git -c core.hooksPath=. commit",
        "git -c core.hooksPath=hooks commit -m a", "cd src && git -c core.hooksPath=../hooks push",
        "git config core.hooksPath docs",
        "git config --remove-section core", "git config --rename-section core x", "SKIP=a git commit -m b",
        "env HUSKY=0 git commit -m b", "export HUSKY=0; git commit -m b", "LEFTHOOK=false git push",
        "SKIP=a sh -c 'git commit'",
        "HUSKY=1; [ -e x ] && HUSKY=0; export HUSKY; git commit -m b", "declare -x OVERCOMMIT_DISABLE=1; git commit",
    ],
)  # fmt: skip
def test_hooks_count_by_their_names_and_variables_by_their_values(command: str, root: Path) -> None:
    assert judge_sentence(NO_SKIP, command, root) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        'git commit -m "Document the SKIP= variable"', "git -c core.hooksPath=hooks push",
        "git config core.hooksPath hooks",
        "HUSKY=1 git commit -m a", "SKIP=a pytest", "git commit -m 'HUSKY=0'", "echo HUSKY=0 && git commit -m a",
    ],
)  # fmt: skip
def test_commands_that_run_hooks_are_free(command: str, root: Path) -> None:
    assert judge_sentence(NO_SKIP, command, root) == ""


@pytest.mark.parametrize(
    ("needed", "command"),
    [
        ("ruff check", "ruff check --exit-zero"), ("ruff check", "ruff check -e"), ("ruff check",
        "ruff check --exit-zer"),
        ("ruff check", "ruff check --show-files"), ("ruff check", "ruff check; true"), ("pytest", "pytest || true"),
        ("pytest", "pytest ; :"), ("pytest", "pytest --co"), ("pytest", "pytest --collect-only"), ("pytest",
        "pytest --version"),
        ("pytest", "pytest --help"), ("pytest", "pytest | tee x"), ("pytest", "! pytest"), ("pytest", "pytest & wait"),
        ("pytest", "uv run pytest --co"), ("flake8", "flake8 --exit-zero"), ("flake8", "flake8 --exit-ze"),
        ("pylint src", "pylint --exit-zero src"), ("npm test", "npm test --if-present"), ("npm run lint",
        "npm run lint --if-present"),
        ("npx jest", "npx jest --passWithNoTests"), ("go vet", "go vet -n ./..."), ("go test", "go test -c"),
        ("go test", "go test -list ."),
        ("cargo test", "cargo test --no-run"), ("make test", "make -n test"), ("make test", "make -t test"),
        ("make test", "make -q test"),
        ("make test", "make -i test"), ("make test", "make -sin test"), ("make test", "make --ignore-errors test"),
        ("make test", "make test SHELL=true"), ("mvn test", "mvn test -DskipTests"), ("gradle build",
        "gradle build -x test"),
        ("bandit -r src", "bandit -r src --exit-zero"), ("eslint", "eslint --no-error-on-unmatched-pattern x"),
        ("golangci-lint run", "golangci-lint run --issues-exit-code=0"), ("gofmt", "gofmt -l ."), ("black",
        "black --diff ."),
    ],
)  # fmt: skip
def test_a_command_that_only_pretends_to_work_does_not_count(
    needed: str, command: str, root: Path
) -> None:
    line = f"require command {needed} before git commit"
    assert judge_last(line, [command, "git commit -m a"], root) == "deny"


@pytest.mark.parametrize(
    ("needed", "command"),
    [
        ("ruff check", "ruff check --select E ."), ("pytest", "pytest --exitfirst -q"), ("pytest", "uv run pytest -x"),
        ("pytest", "python -m pytest"), ("pytest", "pytest --cov=src"), ("make test", "make -k test"),
        ("make test", "make -j4 test"),
        ("eslint", "eslint --max-warnings 0 ."), ("go test", "go test -race ./..."), ("cargo test", "cargo test --all"),
        ("mvn verify", "mvn -V verify"), ("black --check", "black --check ."), ("gofmt -l", "gofmt -l ."),
    ],
)  # fmt: skip
def test_a_command_that_works_counts(needed: str, command: str, root: Path) -> None:
    line = f"require command {needed} before git commit"
    assert judge_last(line, [command, "git commit -m a"], root) == ""


@pytest.mark.parametrize(
    "writer",
    [
        "python rewrite_ci.py", "python update_tests.py", "make clean-test", "make update-tests", "sh check.sh",
        "./run-tests",
        "python x.py --check", "codegen tests", "python -m gen tests", "make test deploy", "ruff check --fix",
        "npm run build-tests",
        "uv run test.py", "node test.js", "cargo generate test", "./lint",
    ],
)  # fmt: skip
def test_the_name_of_a_script_does_not_show_that_it_writes_nothing(writer: str, root: Path) -> None:
    line = "require command pytest before git commit"
    assert judge_last(line, [f"pytest && {writer} && git commit -m a"], root) == "deny"


@pytest.mark.parametrize(
    "check",
    [
        "mypy .", "uv run mypy", "make lint", "npm run test:unit", "npx eslint .", "ruff check .",
        "cargo clippy", "go vet ./...",
        "python -m mypy src", ".venv/bin/mypy src", "black --check .", "tox -e lint", "make -C src test lint",
        "npm test",
        "poetry run pytest tests/unit", "node_modules/.bin/eslint src",
    ],
)  # fmt: skip
def test_programs_and_targets_that_check_write_nothing(check: str, root: Path) -> None:
    line = "require command pytest before git commit"
    assert judge_last(line, [f"pytest && {check} && git commit -m a"], root) == ""


def test_braces_with_many_choices_are_expanded_or_widened(root: Path) -> None:
    for count in (40, 150):
        names = ",".join(f"f{number}" for number in range(count))
        for number in (0, 35, count - 1):
            line = f"deny write {{{names}}}.txt"
            assert judge_command(line, f"touch f{number}.txt", root) == "deny"
        assert judge_command(line, "touch g.txt", root) == ""


def test_braces_with_too_many_choices_are_a_mistake_and_fail_closed(root: Path) -> None:
    group = "{" + ",".join("abcdefghij") + "}"
    line = f"deny write src/{group * 3}.txt"
    compiled, problems = compile_lines([line])
    assert "braces" in problems[0][1]
    assert compiled.check is not None
    assert judge_command(line, "touch src/jjj.txt", root) == "deny"
    # An exception that is too long allows nothing.
    line = f"deny write src/** except src/{group * 3}.txt"
    assert compile_lines([line])[1]
    assert judge_command(line, "touch src/aaa.txt", root) == "deny"
    assert path_patterns(f"src/{{a/b,c}}{group * 3}/x", PurePosixPath()) == ("/src/**",)


@pytest.mark.parametrize(
    "command",
    [
        f"for x in {MANY} push; do git $x; done", f"printf '{LINES}\\npush\\n' | xargs -n1 git",
        f"parallel git ::: {MANY} push",
        f"printf '{LINES}\\npush\\n' | while read x; do git $x; done",
        f"mapfile -t a < <(printf '{LINES}\\npush\\n'); git ${{a[80]}}",
    ],
)  # fmt: skip
def test_the_rest_of_a_long_list_is_unknown(command: str, root: Path) -> None:
    assert judge_command(PUSH, command, root) == "ask"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X := $(shell git push)\n", "deny"), ("X != git push\n", "deny"), ("X := ${shell git push}\n", "deny"),
        ("include *.mk\n", "deny"), ("include $(Z)\n", "ask"), ("$(eval all: ; git push)\n", "deny"),
        ("SHELL = /bin/x\n", "ask"),
        (".SHELLFLAGS = -x\n", "ask"), ("SHELL := /usr/bin/env bash\nX := $(shell git status)\n", ""),
        ("SHELL = bash\n", ""),
    ],
)  # fmt: skip
def test_what_make_runs_while_it_reads_a_makefile_is_judged(
    text: str, expected: str, own_root: Path
) -> None:
    (own_root / "Makefile").write_text(f"{text}all:\n\techo\n")
    (own_root / "more.mk").write_text("Y := $(shell git push)\n")
    assert judge_command(PUSH, "make", own_root) == expected


def test_what_just_runs_for_a_variable_is_judged(own_root: Path) -> None:
    (own_root / "justfile").write_text("x := `git push`\nall:\n  echo\n")
    assert judge_command(PUSH, "just all", own_root) == "deny"
