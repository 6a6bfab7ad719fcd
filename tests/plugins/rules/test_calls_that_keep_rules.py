"""Calls that look like what a rule forbids, and keep it; next to each, the call that breaks it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum.messages import ToolResult
from hilum_checks import compile_rule, judge
from hilum_checks.call_history import CallHistory

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
WRITE = make_tool("write_file")


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    files = {"Cargo.lock": "a\n", "app/a.py": "a\n", "internal/a.go": "package a\n"}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *author, "commit", "-qm", "1"], cwd=root, check=True)
    # A tag, and a branch and a tag that have the same name.
    for words in (("tag", "v1"), ("tag", "both"), ("branch", "both")):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


def find_verdict(root: Path, sentence: str, call: str | tuple[str, str]) -> Any:
    rules = [Ruled(sentence)]
    if isinstance(call, str):
        return judge(rules, json.dumps({"command": call}), SHELL, root)
    path, content = call
    return judge(rules, json.dumps({"path": path, "content": content}), WRITE, root)


TAGS = "Never push tags."
INIT = "No `init()` functions."
LOCK = "Don't touch `Cargo.lock` by hand."
SIGNED = "Sign off every commit (`git commit -s`)."
STYLE = "Use conventional commits."
IMPORTS = "Wildcard imports are not allowed."
SIGNATURE = "Signed-off-by: A B <a@b.c>"


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (TAGS, "git tag -a v1.0 -m local"),
        (TAGS, "git tag v1.1"),
        (TAGS, "git push origin fix"),
        (TAGS, "git push -u origin v2-parser"),
        (TAGS, "git push origin both"),
        (TAGS, "git tag v2 && git push origin fix"),
        (INIT, ("ring.go", "func (r *Ring) init(n int) {}\n// replaces the old init() function\n")),
        (INIT, ("web/app.js", "init();\n")),
        ("Never call `setup()`.", ("a.go", "func (r *Ring) setup(n int) {}\n")),
        (LOCK, "git restore Cargo.lock"),
        (LOCK, "git checkout -- Cargo.lock"),
        (LOCK, "git checkout main -- ."),
        (LOCK, "git checkout main -- Cargo.lock"),
        (SIGNED, "git commit -s -m x"),
        (SIGNED, "git commit --amend --no-edit"),
        (SIGNED, f"git commit -m x --trailer '{SIGNATURE}'"),
        (SIGNED, f"git commit -m x -m '{SIGNATURE}'"),
        (SIGNED, f"git commit -F - <<'E'\nx\n\n{SIGNATURE}\nE"),
        ("Never run `terraform plan`.", "terraform plan -help"),
        ("Never run `cargo update`.", "cargo update --help"),
        ("Never run `pip install`.", "pip install --help"),
        ("Never push to `main`.", "git push --dry-run origin main"),
        (STYLE, "printf 'feat: d\\n' > /tmp/m4 && git commit --allow-empty -F /tmp/m4"),
        (STYLE, "printf '%s\\n' 'feat: d' > m && git add -A && git commit -F m"),
        (STYLE, "echo 'feat: d' > /tmp/m4; git commit -F /tmp/m4"),
        (IMPORTS, ("A.java", "import static org.junit.jupiter.api.Assertions.*;\n")),
    ],
)
def test_what_keeps_a_rule_is_allowed(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is None


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (TAGS, "git push --tags"),
        (TAGS, "git push origin --tags"),
        (TAGS, "git push --follow-tags"),
        (TAGS, "git push origin refs/tags/v1"),
        (TAGS, "git push origin tag v1"),
        (TAGS, "git push origin v1.2.0"),
        (TAGS, "git push origin v1"),
        (TAGS, "git push origin +v1:v1"),
        (TAGS, "git tag -a beta -m x && git push origin beta"),
        (INIT, ("ring.go", "package a\n\nfunc init() {}\n")),
        ("Never call `setup()`.", ("a.go", "func f() { setup() }\n")),
        (LOCK, "echo x >> Cargo.lock"),
        (LOCK, "sed -i s/a/b/ Cargo.lock"),
        (LOCK, ("Cargo.lock", "b\n")),
        (SIGNED, "git commit -m x"),
        (SIGNED, "git commit --amend -m x"),
        (SIGNED, "git commit --amend --no-edit -m x"),
        (SIGNED, "git commit --amend --no-edit --no-signoff"),
        (SIGNED, "git commit -m 'see Signed-off-by: in the guide'"),
        ("Never run `terraform plan`.", "terraform plan"),
        ("Never run `cargo update`.", "cargo update -p help"),
        ("Never run `cargo run`.", "cargo run -- --help"),
        ("Never run `pip install`.", "pip install x -r --help"),
        ("Never push to `main`.", "git push origin main"),
        ("Never push to `main`.", "git push --dry-run --no-dry-run origin main"),
        ("Never push to `main`.", "git push -o --dry-run origin main"),
        (STYLE, "printf 'wip\\n' > /tmp/m4 && git commit -F /tmp/m4"),
        (STYLE, "echo feat: x > /tmp/m4; echo wip > /tmp/m4; git commit -F /tmp/m4"),
        (STYLE, "echo feat: x > /tmp/m4; sed -i s/feat/x/ /tmp/m4; git commit -F /tmp/m4"),
        (STYLE, "echo feat: x > m; git checkout old -- m; git commit -F m"),
        (STYLE, 'echo "$M" > /tmp/m4; git commit -F /tmp/m4'),
        (STYLE, "false && echo 'feat: x' > m; git commit -F m"),
        (STYLE, "printf 'feat%s\\n' ': a' wip > /tmp/m4 && git commit -F /tmp/m4"),
        (IMPORTS, ("A.java", "import java.util.*;\n")),
    ],
)
def test_what_breaks_a_rule_is_refused(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is not None


# --- help and trials ------------------------------------------------------------------------------

PUSH = "Never push to `main`."


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        ("Never run `mkdocs gh-deploy`.", "mkdocs gh-deploy --help"),
        ("Never run `docker system prune`.", "docker system prune --help"),
        ("Never run `docker run`.", "docker run --help"),
        ("Never run `make deploy`.", "make deploy --help"),
        ("Never run `go mod tidy`.", "go mod tidy -h"),
        ("Never use `npm`.", "npm help install"),
        ("Never use `npm`.", "npm --version"),
        ("Never push.", "git push -h"),
        ("Never push.", "git push --dry-run"),
        ("Never push.", "git push -n origin main"),
        ("Never run `git clean`.", "git clean -nfd"),
        ("Do not commit.", "git commit --dry-run"),
        ("Never run `cargo publish`.", "cargo publish --dry-run"),
        ("Never run `npm publish`.", "npm publish --dry-run --tag next"),
        ("Never run `kubectl delete`.", "kubectl delete pod x --dry-run=client"),
        ("Never install packages.", "pip install x --dry-run"),
    ],
)
def test_help_and_trials_do_nothing(sentence: str, command: str, root: Path) -> None:
    assert find_verdict(root, sentence, command) is None


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        ("Never run `docker run`.", "docker run image --help"),
        ("Never run `cargo run`.", "cargo run x --help"),
        ("Never run `cargo xtask`.", "cargo xtask deploy --help"),
        ("Never run `git deploy`.", "git deploy now -h"),
        ("Never run `./deploy.sh`.", "./deploy.sh --help"),
        ("Never run `./deploy.sh`.", "./deploy.sh --dry-run"),
        ("Never use sudo.", "sudo ls --help"),
        ("Never use `npm`.", "npm install --version"),
        (PUSH, "git push --dry-run --no-dry-ru origin main"),
        (PUSH, "git push origin main -- --dry-run"),
        (PUSH, "echo --no-dry-run | xargs git push --dry-run origin main"),
        ("Never run `git clean`.", "git clean -fd -e -n"),
        ("Do not commit.", "git commit -n -m x"),
        ("Never run `npm publish`.", "npm publish --dry-run --dry-run=false"),
        ("Never run `npm publish`.", "npm publish --tag --dry-run"),
        ("Never run `kubectl delete`.", "kubectl delete pod x --dry-run=none"),
        ("Never run `git push --dry-run`.", "git push --dry-run"),
    ],
)
def test_what_only_looks_like_help_or_a_trial_is_refused(
    sentence: str, command: str, root: Path
) -> None:
    assert find_verdict(root, sentence, command) is not None


# --- what runs later ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "(sleep 1; echo x > app/a.py) &",
        "{ sleep 1 && cp Cargo.lock app/a.py; } & echo started",
        "nohup sh -c 'sleep 9; echo x > app/a.py' >/dev/null 2>&1 &",
        "setsid sh -c 'touch app/new.py' & disown",
        "(cd app; sleep 1; echo x > a.py) &",
        "while sleep 1; do echo x > app/a.py; done &",
        "coproc { echo x > app/a.py; }",
        "trap 'echo x > app/a.py' EXIT",
        "echo 'echo x > app/a.py' | at now",
        "systemd-run --user sh -c 'echo x > app/a.py'",
        "python3 -c \"import time; time.sleep(9); open('app/a.py', 'w')\" &",
    ],
)
def test_what_is_written_in_the_background_is_judged(command: str, root: Path) -> None:
    assert find_verdict(root, "Never edit `app/`.", command).kind == "deny"
    # What these two may run otherwise is not known completely.
    if not command.startswith(("coproc", "systemd-run")):
        assert find_verdict(root, "Never edit `web/`.", command) is None


@pytest.mark.parametrize(
    "sentence",
    ["No `setup()` functions.", "Do not add `print()` functions.", "No `main()` methods."],
)
def test_how_other_functions_are_defined_is_not_guessed(sentence: str) -> None:
    assert compile_rule(sentence, hard=False).check is None


# --- what must run first --------------------------------------------------------------------------


def is_refused(
    root: Path, sentence: str, *commands: str, failed: str = "", history: CallHistory | None = None
) -> bool:
    """Return whether a commit is refused after some commands, and after a failed write."""
    history = history or CallHistory()
    for number, command in enumerate(commands):
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, json.dumps({"command": command}), root, result)
    if failed:
        result = ToolResult("w", WRITE.name, (), code="E_OUTSIDE")
        history.add(WRITE, json.dumps({"path": failed, "content": ""}), root, result)
    commit = json.dumps({"command": "git commit -m x"})
    return judge([Ruled(sentence)], commit, SHELL, root, history) is not None


BOTH = "Run `ruff format` and `ruff check --fix` before committing."
VET = "Run `gofmt` and `go vet ./...` before committing."
TESTS = "Run `uv run pytest -q` before you commit."


@pytest.mark.parametrize(
    ("sentence", "commands"),
    [
        ("Run `black` before committing.", ["black app"]),
        ("Run `ruff format` before committing.", ["ruff format app"]),
        ("Run `prettier --write` before committing.", ["prettier --write app"]),
        ("Run `eslint --fix` before committing.", ["eslint --fix app"]),
        (VET, ["gofmt -w internal", "go vet ./..."]),
        (VET, ["gofmt -w internal && go vet ./internal/..."]),
        (BOTH, ["ruff format app", "ruff check --fix app"]),
        (BOTH, ["ruff check --fix app && ruff format app"]),
        (TESTS, ["uv run pytest -q", "mkdir -p build"]),
        (TESTS, ["uv run pytest -q", "rm -rf .pytest_cache"]),
        # The rule requires the formatter, too.
        (VET, ["go vet ./...", "gofmt -w internal"]),
    ],
)
def test_work_that_changes_no_code_keeps_the_credit(
    sentence: str, commands: list[str], root: Path
) -> None:
    assert not is_refused(root, sentence, *commands)


@pytest.mark.parametrize(
    ("sentence", "commands"),
    [
        ("Run `black` before committing.", ["black app", "echo x >> app/a.py"]),
        (VET, ["gofmt -w internal", "go vet"]),
        (BOTH, ["ruff format app", "ruff check --fix app", "echo x >> app/a.py"]),
        (BOTH, ["ruff format app"]),
        (TESTS, ["uv run pytest -q", "mkdir -p build && echo x > build/a.py"]),
        (TESTS, ["uv run pytest -q", "rm -rf app"]),
        (TESTS, ["uv run pytest -q", "black app"]),
    ],
)
def test_a_change_of_code_ends_the_credit(sentence: str, commands: list[str], root: Path) -> None:
    assert is_refused(root, sentence, *commands)


def test_a_failed_write_outside_the_workspace_keeps_the_credit(root: Path) -> None:
    assert not is_refused(root, TESTS, "uv run pytest -q", failed="/tmp/message.txt")
    assert is_refused(root, TESTS, "uv run pytest -q", failed="app/a.py")


def test_what_a_formatter_has_changed_counts_for_tests_only(root: Path) -> None:
    for sentence, refused in ((TESTS, True), ("Run `black` before committing.", False)):
        history = CallHistory()
        is_refused(root, sentence, "black app", "uv run pytest -q", "isort app", history=history)
        history.add_changes("2", ["app/a.py"], root)
        assert is_refused(root, sentence, history=history) is refused


def test_one_call_may_check_and_commit(root: Path) -> None:
    for command in ("uv run pytest -q", "uv run pytest -q && git add -A"):
        line = json.dumps({"command": f"{command} && git commit -m x"})
        assert judge([Ruled(TESTS)], line, SHELL, root, CallHistory()) is None
    line = json.dumps({"command": "ruff format app && ruff check --fix app && git commit -m x"})
    assert judge([Ruled(BOTH)], line, SHELL, root, CallHistory()) is None
    line = json.dumps({"command": "uv run pytest -q; git commit -m x"})
    assert judge([Ruled(TESTS)], line, SHELL, root, CallHistory()) is not None
