"""What must run before a commit, in one call: the commit runs only if the command has succeeded."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hilum.messages import ToolResult
from hilum_checks import call_history, compile_rule, judge
from hilum_checks.call_history import MAX_COVERED, CallHistory

from tests.support.obedience.judging import make_tool

ONE = "Run `make check` before you commit."
TWO = "Run `bin/lint` and `bin/spec` before you commit."
SHELL = make_tool("run_terminal_cmd")


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    files = {"Makefile": "check:\n\t@true\n", "README.md": "a\n", "app/a.rb": "a\n"}
    files |= {"bin/lint": "true\n", "bin/spec": "true\n", "bin/other": "true\n"}
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


def is_refused(root: Path, sentence: str, *calls: str) -> bool:
    """Return whether the last of several calls is refused, after the others have succeeded."""
    history = CallHistory()
    *earlier, last = calls
    for number, command in enumerate(earlier):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), root, result)
    found = judge([Ruled(sentence)], json.dumps({"command": last}), SHELL, root, history)
    return found is not None


@pytest.mark.parametrize(
    "command",
    [
        "git add README.md\nmake check && git commit -qm 'One'",
        "git add README.md; make check && git commit -qm x",
        "MSG='x'; make check && git commit -qam \"$MSG\"",
        "if make check; then git commit -qm x; fi",
        "set -e\nmake check\ngit commit -qm x",
        "set -euo pipefail\nmake check\ngit add -A\ngit commit -qm x",
        "(make check) && git commit -qm x",
        "make check && git diff --stat | cat && git commit -qm x",
        "make check > /tmp/log 2>&1 && git commit -qm x",
        "make check && { git add -A; git commit -qm x; }",
        "cd app || exit 1; cd ..; make check && git commit -qm x",
        "make check 2>&1 | tail -3; make check && git commit -qm x",
        "[ -f Makefile ] && make check && git commit -qm x",
        "echo x >> README.md; make check && git commit -qam x",
        "make check && git commit -q -F - <<'EOF'\nWords\nEOF",
        "set -o pipefail; make check 2>&1 | tail -5 && git commit -qam x",
        "set -o pipefail && make check | tee /tmp/log | tail -5 && git commit -qam x",
        "set -eo pipefail\nmake check | tail -5 && git commit -qam x",
        "set -o pipefail && make check 2>&1 | tail -5 && git commit -qam x",
        "set -o pipefail && cd . && make check 2>&1 | tail -5 && git commit -qam x",
        "make check || exit 1; git commit -qam x",
        "make check || exit; git commit -qam x",
        "make check || { echo failed; exit 1; }; git commit -qam x",
        "cd . && make check || exit 2\ngit add -A\ngit commit -qam x",
        "if ! make check; then echo failed; exit 1; fi; git commit -qam x",
        "(make check || exit 1; git commit -qam x)",
        "x=1; make check && git commit -qam x",
        "start=$(date +%s); make check && git commit -qam x; echo $(($(date +%s) - start))",
        'export PATH="$PWD/node_modules/.bin:$PATH"; make check && git commit -qam x',
        'export PATH="$(pwd)/node_modules/.bin:$PATH" && make check && git commit -qam x',
        "export PATH=$HOME/.cargo/bin:~/go/bin:$PATH; make check && git commit -qam x",
        'PATH="$PATH:$(go env GOPATH)/bin"; make check && git commit -qam x',
        'PATH="${PWD}/vendor/bin:${PATH}" make check && git commit -qam x',
        "make check && git cherry-pick -x main",
    ],
)
def test_a_commit_that_runs_only_after_success_is_allowed(command: str, project: Path) -> None:
    assert not is_refused(project, ONE, command)


@pytest.mark.parametrize(
    "command",
    [
        "make check & git commit -qam x",
        "if make check; then echo; else git commit -qam x; fi",
        "if ! make check; then git commit -qam x; fi",
        "if make check || true; then git commit -qam x; fi",
        "set -e\nmake check && echo ok\ngit commit -qm x",
        "set -e\nmake check || true\ngit commit -qm x",
        "set -e; make check | cat; git commit -qm x",
        "set -e; if true; then make check; fi; git commit -qm x",
        "set +e\nmake check\ngit commit -qm x",
        "(set -e; make check; git commit -qm x) && true",
        "make() { true; }; make check && git commit -qm x",
        "alias make=true; make check && git commit -qm x",
        "PATH=/tmp:$PATH; make check && git commit -qm x",
        "for i in 1; do make check; done && git commit -qm x",
        "! make check && git commit -qm x",
        "make check && echo; git commit -qm x",
        "make check 2>&1 | tail -5 && git commit -qam x",
        "(set -o pipefail); make check | tail -5 && git commit -qam x",
        "set -o pipefail | make check 2>&1 | tail -5 && git commit -qam x",
        "set -o pipefail 2>&1 | make check | tail -5 && git commit -qam x",
        "{ set -o pipefail && true; } 2>&1 | make check | tail -5 && git commit -qam x",
        "true || set -o pipefail && make check 2>&1 | tail -5 && git commit -qam x",
        "true || set -o pipefail; make check | tail -5 && git commit -qam x",
        "set -o pipefail; set +o pipefail; make check | tail -5 && git commit -qam x",
        "make check | tail -5 && git commit -qam x; set -o pipefail",
        "if false; then set -o pipefail; fi; make check | tail -5 && git commit -qam x",
        "(sleep 1; echo x >> README.md) & make check && git commit -qam x",
        "if make check; then echo x >> README.md; git commit -qam x; fi",
        "make check || exit 0; git commit -qam x",
        "make check || exit 256; git commit -qam x",
        "make check || (exit 1); git commit -qam x",
        "make check || exit 1 | cat; git commit -qam x",
        "make check || echo exit 1; git commit -qam x",
        "make check || { exit; echo 1; }; git commit -qam x",
        "make check || { echo failed && exit 1; }; git commit -qam x",
        "(make check || exit 1); git commit -qam x",
        "make check | tail || exit 1; git commit -qam x",
        "make check || true || exit 1; git commit -qam x",
        "make check && exit 1; git commit -qam x",
        "if ! make check; then exit 1; else true; fi; git commit -qam x; git commit -qam x",
        "if ! make check; then echo failed; fi; git commit -qam x",
        "if make check; then exit 1; fi; git commit -qam x",
        "make check || exit 1; echo x >> README.md; git commit -qam x",
        "HOME=/tmp; make check && git commit -qam x",
        "export x=1; make check && git commit -qam x",
        "x=1; export x; make check && git commit -qam x",
        "set -a; x=1; make check && git commit -qam x",
        "EXECIGNORE=/usr/bin/make; make check && git commit -qam x",
        "BASH_CMDS[make]=/bin/true; make check && git commit -qam x",
        'export PATH="$PWD/tools:$PATH"; make check && git commit -qam x',
        'export PATH="/tmp/node_modules/.bin:$PATH"; make check && git commit -qam x',
        'export PATH="$PWD/../node_modules/.bin:$PATH"; make check && git commit -qam x',
        'PATH="$(mktemp -d):$PATH"; make check && git commit -qam x',
        "PATH=~/bin:$PATH make check && git commit -qam x",
    ],
)
def test_a_commit_that_also_runs_after_a_failure_is_refused(command: str, project: Path) -> None:
    assert is_refused(project, ONE, command)


@pytest.mark.parametrize(
    "calls",
    [
        ("bin/lint && bin/spec && git commit -qam x",),
        ("bin/spec && bin/lint && git commit -qam x && git push",),
        ("bin/lint && git add -A", "bin/spec && git commit -qam x"),
    ],
)
def test_several_required_commands_do_not_make_each_other_necessary(
    calls: tuple[str, ...], project: Path
) -> None:
    assert not is_refused(project, TWO, *calls)


@pytest.mark.parametrize(
    "call",
    [
        "bin/lint && git commit -qam x",
        "bin/lint; bin/spec && git commit -qam x",
        "bin/lint && bin/spec && echo x >> README.md && git commit -qam x",
        "bin/lint && bin/spec && bin/other && git commit -qam x",
    ],
)
def test_a_required_command_that_is_missing_or_out_of_date_is_noticed(
    call: str, project: Path
) -> None:
    assert is_refused(project, TWO, call)


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        ("Run `pnpm nx lint` before you commit.", "pnpm nx lint && git commit -qam x"),
        ("Run `clang-format -i` before you commit.", "git ls-files | xargs clang-format -i && git commit -qam x"),
        ("Run `ctest` before you commit.", "git ls-files | xargs clang-format -i && ctest && git commit -qam x"),
    ],
)  # fmt: skip
def test_what_another_program_runs_counts(sentence: str, call: str, project: Path) -> None:
    assert not is_refused(project, sentence, call)


@pytest.mark.parametrize(
    "call",
    [
        "git ls-files | xargs clang-format -i; git commit -qam x",
        "git ls-files | xargs clang-format -i | cat && git commit -qam x",
        "git ls-files | xargs echo clang-format -i && git commit -qam x",
    ],
)
def test_a_formatter_that_may_have_failed_does_not_count(call: str, project: Path) -> None:
    assert is_refused(project, "Run `clang-format -i` before you commit.", call)


def test_a_required_command_that_generates_comes_before_the_tests(project: Path) -> None:
    sentence = "Run `make gen` and `make check` before you commit."
    assert not is_refused(project, sentence, "make gen && make check && git commit -qam x")
    assert is_refused(project, sentence, "make check && make gen && git commit -qam x")


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        ("mkdir -p /tmp/w && cd /tmp/w && git init -q . && git commit -qm x", False),
        ("cd app && git commit -qm x", True),
        ("git worktree add /tmp/w9 && cd /tmp/w9 && git commit -qm x", True),
        ("cd /tmp && git --git-dir=/a/.git commit -qm x", True),
        ("cd /tmp && export GIT_DIR=/a/.git && git commit -qm x", True),
        ("cd /tmp/w && git push", True),
    ],
)
def test_a_commit_in_another_repository_need_not_wait(
    call: str, refused: bool, project: Path
) -> None:
    sentence = ONE if "commit" in call else "Run `make check` before pushing."
    assert is_refused(project, sentence, call) is refused


@pytest.mark.parametrize(
    "between",
    [
        "python -V",
        "python3 -m pip list",
        "pip show attrs",
        "uv pip freeze",
        "uv tree",
        "npm ls --depth=0",
        "go version",
        "docker compose ps",
        "docker logs api",
        "kubectl get pods -o yaml",
        "terraform show",
        "node -v",
        "lsof -i :80",
        "systemctl status nginx",
        "conda env list",
        "buf lint",
        "golangci-lint run ./...",
        "sqlc vet",
        "npx prisma validate",
        "pnpm prisma validate",
        "cargo deny check",
        "cargo nextest run",
        "actionlint",
        "pnpm exec knip",
        "terraform fmt -check -recursive",
        "kubeconform -output json a.yaml",
        "govulncheck ./...",
        "gofmt -l .",
        "bandit -r app -f json",
        "npm audit",
        "trivy fs .",
        "npx commitlint --from main",
        "npx changeset status",
        "npx playwright test",
        "cypress run",
        "turbo run lint",
    ],
)
def test_commands_that_only_show_something_keep_the_success(between: str, project: Path) -> None:
    assert not is_refused(project, ONE, "make check", between, "git commit -qam x")
    assert not is_refused(project, ONE, "make check", f"{between} && git commit -qam x")


@pytest.mark.parametrize(
    "between",
    [
        "pip install attrs",
        "uv add attrs",
        "uv lock",
        "npm install",
        "npm update",
        "go generate ./...",
        "go list -mod=mod ./...",
        "docker compose run api x",
        "terraform apply",
        "cloc . --out=report.py",
        "./pip list",
        "python pip list",
        "cargo fix",
        "node -e 'x'",
        "kubectl get pods -o yaml > app/pods.yaml",
        "buf generate",
        "buf build -o app/a.bin",
        "golangci-lint run --fix",
        "golangci-lint fmt",
        "npm audit fix",
        "pnpm audit --fix",
        "cargo audit fix",
        "pnpm exec knip --fix",
        "./buf lint",
        "terraform fmt",
        "gofmt -l -w .",
        "npx playwright test --update-snapshots",
        "npx playwright test -u",
        "vitest run -u",
        "markdownlint -f .",
        "rubocop -a",
        "npx changeset version",
        "gosec -out=app/a.go ./...",
        "actionlint -shellcheck=app/a",
        "turbo run build",
        "git cherry-pick -x main",
    ],
)
def test_commands_that_may_write_make_the_check_necessary_again(
    between: str, project: Path
) -> None:
    assert is_refused(project, ONE, "make check", f"{between} && git commit -qam x")


FORMATTED = "Run `uv run ruff check .` and `uv run ruff format .` before committing."


@pytest.mark.parametrize(
    ("sentence", "calls"),
    [
        (FORMATTED, ("uv run ruff check . && uv run ruff format . && git commit -qam x",)),
        (FORMATTED, ("uv run ruff check . && uv run ruff format app && git commit -qam x",)),
        (
            FORMATTED,
            (
                "uv run ruff check . && uv run ruff format . && uv run pytest -q && git commit -qm x",
            ),
        ),
        (FORMATTED, ("uv run ruff check .", "uv run ruff format app", "git commit -qam x")),
        (FORMATTED, ("uvx ruff check . && uvx ruff format app", "git commit -qam x")),
        (FORMATTED, ("bash -lc 'uv run ruff check . && uv run ruff format .'", "git commit -qm x")),
        (
            "Run `bin/spec` and `npx prettier --write .` before you commit.",
            ("bin/spec && npx prettier --write . && git commit -qam x",),
        ),
    ],
)
def test_a_required_formatter_does_not_make_another_command_necessary_again(
    sentence: str, calls: tuple[str, ...], project: Path
) -> None:
    assert not is_refused(project, sentence, *calls)


@pytest.mark.parametrize(
    ("sentence", "calls"),
    [
        (FORMATTED, ("uv run ruff check . && git commit -qam x",)),
        (FORMATTED, ("uv run ruff format . && git commit -qam x",)),
        (
            FORMATTED,
            ("uv run ruff check . && uv run ruff format . && bin/other && git commit -qam x",),
        ),
        (
            FORMATTED,
            ("uv run ruff check . && uv run ruff format .", "bin/other && git commit -qm x"),
        ),
        (
            FORMATTED,
            ("uv run ruff check . && black . && uv run ruff format . && git commit -qm x",),
        ),
        (FORMATTED, ("bash -c 'ruff check . && bin/other; ruff format .' && git commit -qm x",)),
        (ONE, ("make check && ruff format . && git commit -qam x",)),
        (ONE, ("make check", "ruff format app", "git commit -qam x")),
        (
            "Run `make check` and `make gen` before you commit.",
            ("make check && make gen && git commit -qam x",),
        ),
    ],
)
def test_other_writes_make_a_required_command_necessary_again(
    sentence: str, calls: tuple[str, ...], project: Path
) -> None:
    assert is_refused(project, sentence, *calls)


def test_the_files_that_a_required_formatter_has_changed_do_not_matter(project: Path) -> None:
    rules = [Ruled(FORMATTED), Ruled("Run `bin/spec` before you commit.")]
    history = CallHistory()
    calls = ("bin/spec", "uv run ruff check .", "uv run ruff format .")
    for number, command in enumerate(calls):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), project, result)
    history.add_changes("2", ["app/a.rb"], project)
    commit = json.dumps({"command": "git commit -qam x"})
    assert judge(rules, commit, SHELL, project, history) is None
    assert judge([rules[1]], commit, SHELL, project, history) is not None


@pytest.mark.parametrize(
    "calls",
    [
        ("make check > test.log 2>&1", "git commit -qam x"),
        ("make check", "echo x > run.log", "git commit -qam x"),
        ("make check && echo x > build/out.txt && git add -A && git commit -qam x",),
        ("echo x > run.log", "make check && git add -f run.log && git commit -qm x"),
    ],
)
def test_files_that_git_ignores_do_not_make_the_check_necessary(
    calls: tuple[str, ...], own_project: Path
) -> None:
    (own_project / ".gitignore").write_text("*.log\nbuild/\n")
    assert not is_refused(own_project, ONE, *calls)


@pytest.mark.parametrize(
    "calls",
    [
        ("make check > test.txt 2>&1", "git commit -qam x"),
        ("make check", "echo x > tracked.log", "git commit -qam x"),
        ("make check", "echo x > link.log", "git commit -qam x"),
        ("make check", "echo x > same.log", "git commit -qam x"),
        ("make check && ln README.md new.log && echo x > new.log && git commit -qam x",),
        ("make check && echo x > a.log && git add -f a.log && git commit -qm x",),
        ("make check", "echo x > a.log", "git add --force a.log && git commit -qm x"),
        ("make check && echo x > a.log && cat a.log > app/a.rb && git commit -qam x",),
        ("make check", "echo x > keep.log", "git commit -qam x"),
        ("make check", "echo '*.rb' >> .gitignore", "git commit -qam x"),
    ],
)
def test_files_that_git_tracks_make_the_check_necessary(
    calls: tuple[str, ...], own_project: Path
) -> None:
    (own_project / ".gitignore").write_text("*.log\n!keep.log\n")
    (own_project / "tracked.log").write_text("a\n")
    (own_project / "link.log").symlink_to("app/a.rb")
    (own_project / "same.log").hardlink_to(own_project / "README.md")
    subprocess.run(["git", "add", "-f", "tracked.log"], cwd=own_project, check=True)
    assert is_refused(own_project, ONE, *calls)


def test_an_ignored_file_that_git_tracks_later_makes_the_check_necessary(own_project: Path) -> None:
    (own_project / ".gitignore").write_text("*.log\n")
    (own_project / "a.log").write_text("a\n")
    history = CallHistory()
    for number, command in enumerate(("make check", "echo x > a.log")):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), own_project, result)
    commit = json.dumps({"command": "git commit -qm x"})
    assert judge([Ruled(ONE)], commit, SHELL, own_project, history) is None
    subprocess.run(["git", "add", "-f", "a.log"], cwd=own_project, check=True)
    assert judge([Ruled(ONE)], commit, SHELL, own_project, history) is not None


@pytest.mark.parametrize(
    ("calls", "hidden"),
    [
        (("make check 2>&1 | tail -20",), "`make check` ran, but `|` hid whether it succeeded."),
        (("make check; echo done",), "`make check` ran, but `;` hid whether it succeeded."),
        (("make check || true",), "`make check` ran, but `||` hid whether it succeeded."),
        (("! make check",), ""),
        (("bash -c 'make check | tail'",), "`make check` ran, but `|` hid whether it succeeded."),
        (("make check | tail", "echo x >> README.md"), ""),
        (("make check && git status",), None),
        (("bin/other | tail",), ""),
        ((), ""),
    ],
)
def test_a_refusal_says_what_hid_the_success(
    calls: tuple[str, ...], hidden: str | None, project: Path
) -> None:
    history = CallHistory()
    for number, command in enumerate(calls):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), project, result)
    commit = json.dumps({"command": "git commit -qam x"})
    found = judge([Ruled(ONE)], commit, SHELL, project, history)
    if hidden is None:
        assert found is None
        return
    assert found is not None
    assert hidden in found.reason
    assert ("hid whether" in found.reason) is bool(hidden)


def test_a_refusal_says_what_hides_the_success_in_the_same_call(project: Path) -> None:
    call = json.dumps({"command": "make check | tail -3 && git commit -qam x"})
    found = judge([Ruled(ONE)], call, SHELL, project, CallHistory())
    assert found is not None
    assert "`make check` ran" not in found.reason


def test_only_the_newest_hidden_commands_are_compared_with_a_required_one(project: Path) -> None:
    hidden = "`make check` ran, but `|` hid whether it succeeded."
    commit = json.dumps({"command": "git commit -qam x"})
    history = CallHistory()
    for number in range(MAX_COVERED):
        command = "make check | tail" if number == 0 else "bin/other | tail"
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), project, result)
    found = judge([Ruled(ONE)], commit, SHELL, project, history)
    assert found is not None
    assert hidden in found.reason
    result = ToolResult("last", SHELL.name, (), data={"exit_code": 0})
    history.add(SHELL, json.dumps({"command": "bin/other | tail"}), project, result)
    found = judge([Ruled(ONE)], commit, SHELL, project, history)
    assert found is not None
    assert hidden not in found.reason


def test_git_is_not_consulted_about_ignored_files_that_are_older_than_the_check(
    own_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_project / ".gitignore").write_text("*.log\n")
    asked: list[str] = []

    def note(paths: list[str], root: str) -> list[str]:
        asked.extend(paths)
        return []

    monkeypatch.setattr(call_history, "filter_tracked", note)
    history = CallHistory()
    for number, command in enumerate(("echo x > a.log", "make check", "echo x > b.log")):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), own_project, result)
    commit = json.dumps({"command": "git commit -qm x"})
    assert judge([Ruled(ONE)], commit, SHELL, own_project, history) is None
    assert {os.path.basename(path) for path in asked} == {"b.log"}


SCRIPTS = {
    "check": "npm run lint && npm test",
    "lint": "eslint .",
    "test": "vitest run",
    "half": "npm run lint; npm test",
    "piped": "npm run lint && npm test | cat",
    "all": "npm run check",
    "loop": "npm run loop && npm run lint",
    "named": "npm run $X && npm test",
}


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        ("npm run check", False),
        ("npm run -s all", False),
        ("npm run lint && npm test", False),
        ("npm run half", True),
        ("npm run piped", True),
        ("npm run loop", True),
        ("npm run named", True),
        ("npm run check --if-present", True),
        ("npm run check -- --help", True),
        ("npm run missing", True),
        ("cd app && npm run check", True),
    ],
)
def test_a_script_counts_as_what_it_certainly_runs(
    call: str, refused: bool, own_project: Path
) -> None:
    (own_project / "package.json").write_text(json.dumps({"scripts": SCRIPTS}))
    os.utime(own_project / "package.json", (1_700_000_000, 1_700_000_000))
    subprocess.run(["git", "add", "-A"], cwd=own_project, check=True)
    sentence = "Run `npm run lint` and `npm test` before committing."
    assert is_refused(own_project, sentence, call, "git commit -qam x") is refused


def test_a_changed_file_does_not_say_what_its_scripts_run(own_project: Path) -> None:
    (own_project / "package.json").write_text(json.dumps({"scripts": SCRIPTS}))
    subprocess.run(["git", "add", "-A"], cwd=own_project, check=True)
    sentence = "Run `npm run lint` and `npm test` before committing."
    assert is_refused(own_project, sentence, "npm run check", "git commit -qam x")


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        ('. "$HOME/.nvm/nvm.sh" && nvm use && make check && git commit -qam x', False),
        ("source ~/.nvm/nvm.sh; nvm use 20; make check && git commit -qam x", False),
        ("source ~/.cargo/env && make check && git commit -qam x", True),
        ("source ~/.bashrc && make check && git commit -qam x", True),
        ("source ~/.asdf/asdf.sh && make check && git commit -qam x", True),
        ('HOME=/tmp/x; . "$HOME/.nvm/nvm.sh"; make check && git commit -qam x', True),
        (". .nvm/nvm.sh && make check && git commit -qam x", True),
        ("echo x > ~/.nvm/nvm.sh; . ~/.nvm/nvm.sh; make check && git commit -qam x", True),
    ],
)
def test_a_version_manager_of_the_user_changes_nothing(
    call: str, refused: bool, own_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = own_project.parent / "home"
    # One of these scripts is new, and one is a link into the own_project.
    for name in (".nvm/nvm.sh", ".bashrc", ".cargo/env"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("nvm() { true; }\n")
        os.utime(home / name, None if name == ".cargo/env" else (1, 1))
    (own_project / ".nvm").mkdir()
    (own_project / ".nvm" / "nvm.sh").write_text("make() { true; }\n")
    os.utime(own_project / ".nvm" / "nvm.sh", (1, 1))
    (home / ".asdf").mkdir()
    (home / ".asdf" / "asdf.sh").symlink_to(own_project / ".nvm" / "nvm.sh")
    monkeypatch.setenv("HOME", str(home))
    assert is_refused(own_project, ONE, call) is refused
