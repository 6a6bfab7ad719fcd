"""Calls of well-known programs: what their words mean to rules about files, commands and messages."""

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


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=True).check
        assert self.check is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    names = (
        "deploy/app.yaml deploy/secrets.yaml internal/a/a.go migrations/0001.sql src/a.py"
        " src/gen/a.py"
    )
    for name in names.split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a\n")
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *author, "commit", "-qm", "1"], cwd=root, check=True)
    for name in ("data/interim/c.csv", "data/raw/c.csv", "models/v1.bin"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a\n")
    return root


def find_verdict(root: Path, sentence: str, command: str) -> Any:
    return judge([Ruled(sentence)], json.dumps({"command": command}), SHELL, root)


EXISTING = "不要修改 `migrations/` 中已有的文件。"
FOLDER = "Never edit `drafts/`."
SECRET = "不得读取 `deploy/secrets.yaml`。"
GENERATED = "Don't touch `src/gen/`."
CHINESE = "提交信息使用中文"
STYLE = "Use conventional commits."
DATA = "Never commit files from `data/` or `models/`."
OPENING = "`cargo clippy` must pass before opening a pull request."
GRADLE = "Do not run `./gradlew publish`."
MAVEN = "Never run `mvn deploy`."
TESTED = "Always pass `--workspace` to `cargo test`."


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        # Words of sub-commands are no files in a folder that is known only at run time.
        (EXISTING, 'for d in internal/*/; do (cd "$d" && go vet .); done'),
        (EXISTING, 'for d in internal/*/; do (cd "$d" && go test ./...); done'),
        (EXISTING, 'for d in internal/*/; do (cd "$d" && gofmt -l .); done'),
        (EXISTING, 'cd "$D" && cargo check && npm run lint && uv run ruff check && make lint'),
        (FOLDER, 'cd "$D" && go test -run Foo ./...'),
        (FOLDER, 'cd "$D" && gofmt -d a.go'),
        (FOLDER, "cd drafts && make lint"),
        (FOLDER, "cd drafts && gofmt -l ."),
        # What a command leaves out is neither read nor written.
        (SECRET, "tar czf /tmp/s.tgz --exclude=deploy/secrets.yaml ."),
        (SECRET, "tar --exclude deploy/secrets.yaml -czf /tmp/s.tgz ."),
        (SECRET, "rsync -a --exclude deploy/secrets.yaml ./ /tmp/copy/"),
        (SECRET, "zip -r /tmp/a.zip . -x deploy/secrets.yaml"),
        (SECRET, "ruff check --exclude deploy/secrets.yaml ."),
        (SECRET, "git diff main -- . ':!deploy/secrets.yaml'"),
        (SECRET, "git diff ':!deploy/secrets.yaml'"),
        (SECRET, "git diff main -- . ':(exclude)deploy/secrets.yaml' ':!src'"),
        (SECRET, "git log -p -- deploy ':!/deploy/secrets.yaml'"),
        (SECRET, "git diff -- . ':^*.yaml'"),
        (SECRET, "cd deploy && git diff main -- . ':!secrets.yaml'"),
        (GENERATED, "git checkout main -- src ':!src/gen'"),
        (GENERATED, "ruff format --exclude src/gen src/a.py"),
        (GENERATED, "black --exclude src/gen src/a.py"),
        # The text of a message file that the call itself prints is known.
        (CHINESE, "printf '整理\\n' > /tmp/m3 && go test ./... && git commit -F /tmp/m3"),
        (CHINESE, "echo 整理 > /tmp/m3 && terraform fmt -recursive && git commit -F /tmp/m3"),
        (CHINESE, "cat > /tmp/m7 <<'EOF'\n整理代码\nEOF\ngit commit -F /tmp/m7"),
        (CHINESE, "cat <<EOF > /tmp/m7 && git add -A && git commit -F /tmp/m7\n整理\nEOF"),
        (CHINESE, "echo 整理 > /tmp/m3; git add src; git commit -F /tmp/m3; rm /tmp/m3"),
        (STYLE, "cat > /tmp/m <<'EOF'\nfeat: a\n\nbody\nEOF\nmake check && git commit -F /tmp/m"),
        # Marking a draft as ready opens nothing.
        (OPENING, "gh pr ready 12"),
        ("Never open pull requests.", "gh pr ready 12"),
        # Files are named relative to the folder of the command.
        (DATA, "cd src && git add a.py"),
        (DATA, "git -C src add a.py"),
        (DATA, "cd data && git add ../src/a.py"),
        # Other sub-commands, toolchains and tasks.
        (TESTED, "cargo t --workspace"),
        (TESTED, "cargo +nightly test --workspace"),
        ("Never run `cargo +nightly fmt`.", "cargo fmt"),
        ("Do not run `cargo publish`.", "cargo +nightly publish --dry-run"),
        ("Never run `cargo run`.", "cargo rm x"),
        (GRADLE, "./gradlew build -x publish"),
        (GRADLE, "./gradlew -x publish build"),
        (GRADLE, "./gradlew publishToMavenLocal"),
        (GRADLE, "./gradlew help --task publish"),
        (GRADLE, "./gradlew test --tests publish"),
        ("Do not run `./gradlew :lib:publish`.", "./gradlew :app:publish"),
        (MAVEN, "mvn clean verify"),
        (MAVEN, "mvn -pl deploy verify"),
        (MAVEN, "./mvnw verify -P deploy -am"),
    ],
)
def test_what_keeps_a_rule_is_allowed(sentence: str, command: str, root: Path) -> None:
    assert find_verdict(root, sentence, command) is None


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (EXISTING, 'cd "$D" && rm 0001.sql'),
        (EXISTING, 'cd "$D" && gofmt -w .'),
        (EXISTING, "gofmt -w=true migrations/0001.sql"),
        (FOLDER, 'cd "$D" && unknown 0001.sql'),
        (FOLDER, 'cd "$D" && npm run build -- 0001.sql'),
        (FOLDER, 'cd "$D" && cargo new drafts'),
        (FOLDER, "cd drafts && cargo new tool"),
        (FOLDER, "cd drafts && go build -o tool"),
        (SECRET, "tar czf /tmp/s.tgz deploy/secrets.yaml"),
        (SECRET, "tar czf /tmp/s.tgz --exclude=src deploy/secrets.yaml"),
        (SECRET, "tar czf /tmp/s.tgz -X deploy/secrets.yaml ."),
        (SECRET, "tar czf /tmp/s.tgz --exclude -T deploy/secrets.yaml"),
        (SECRET, "rsync -a --exclude src deploy/secrets.yaml /tmp/copy/"),
        (SECRET, "rsync -a --exclude-from=deploy/secrets.yaml ./ /tmp/copy/"),
        (SECRET, "zip a.zip -x b @ deploy/secrets.yaml"),
        (SECRET, "git diff main -- . ':!src'"),
        (SECRET, "git diff main -- . ':!secrets.yaml'"),
        (SECRET, "git log -p -S ':!deploy/secrets.yaml'"),
        (SECRET, "git diff main -- deploy/secrets.yaml ':!deploy/secrets.yam'"),
        (SECRET, "git show main:deploy/secrets.yaml -- ':!deploy/secrets.yaml'"),
        (SECRET, "cd deploy && git diff main -- . ':!deploy/secrets.yaml'"),
        (GENERATED, "git checkout main -- src"),
        (GENERATED, "git checkout main -- src ':!src/a.py'"),
        (GENERATED, "black --exclude src/a.py src/gen"),
        (CHINESE, "printf 'tidy\\n' > /tmp/m3 && go test ./... && git commit -F /tmp/m3"),
        (CHINESE, "cat > /tmp/m7 <<'EOF'\ntidy code\nEOF\ngit commit -F /tmp/m7"),
        (CHINESE, "cat > /tmp/m7 <<EOF\n整理 $X\nEOF\ngit commit -F /tmp/m7"),
        (CHINESE, "cat >> /tmp/m7 <<'EOF'\n整理\nEOF\ngit commit -F /tmp/m7"),
        (CHINESE, "cat a > /tmp/m7 <<'EOF'\n整理\nEOF\ngit commit -F /tmp/m7"),
        (CHINESE, "cat > /tmp/m7 <<'EOF'\n整理\nEOF\nbash x.sh; git commit -F /tmp/m7"),
        (CHINESE, "echo 整理 > /tmp/m3 && sed -i s/整理/a/ /tmp/m3 && git commit -F /tmp/m3"),
        (CHINESE, "echo 整理 > /tmp/m3 && cp a /tmp/m? && git commit -F /tmp/m3"),
        (CHINESE, "echo 整理 > /tmp/m3 && cp -r x/. /tmp && git commit -F /tmp/m3"),
        (CHINESE, "echo 整理 > /tmp/m3; (cd /tmp && unzip a.zip); git commit -F /tmp/m3"),
        (CHINESE, "echo 整理 > m.txt && prettier -w . && git commit -F m.txt"),
        (OPENING, "gh pr create --fill"),
        ("Run `make lint` before marking PR as ready.", "gh pr ready 3"),
        (DATA, "cd data && git add interim/c.csv"),
        (DATA, "git -C data add raw/c.csv"),
        (DATA, "cd models && git add v1.bin"),
        (DATA, "cd models && git add ."),
        (DATA, "cd data && git stage '*.csv'"),
        (DATA, "git -C data/raw add c.csv"),
        (DATA, "cd src && git add ../data/raw/c.csv"),
        ("Do not run `cargo publish`.", "cargo +nightly publish"),
        (TESTED, "cargo t -p parser"),
        (TESTED, "cargo +nightly test"),
        ("Never run `cargo t`.", "cargo test"),
        ("Never run `cargo build`.", "cargo b --release"),
        ("Never run `cargo check`.", "cargo c"),
        ("Never run `cargo run`.", "cargo +stable r -- --help"),
        ("Never run `cargo +nightly fmt`.", "cargo +nightly fmt"),
        (GRADLE, "./gradlew clean publish"),
        (GRADLE, "./gradlew :lib:publish"),
        (GRADLE, "./gradlew clean :lib:publish --info"),
        (GRADLE, "./gradlew publish -x test"),
        (GRADLE, "./gradlew -p lib publish"),
        (GRADLE, "gradle publish"),
        ("Do not run `./gradlew :lib:publish`.", "./gradlew :lib:publish"),
        (MAVEN, "mvn clean deploy"),
        (MAVEN, "mvn -q -ntp -pl lib -am clean deploy -DskipTests"),
        (MAVEN, "./mvnw clean deploy"),
        ("Never run `./mvnw deploy`.", "mvn clean deploy"),
    ],
)
def test_what_breaks_a_rule_is_refused(sentence: str, command: str, root: Path) -> None:
    assert find_verdict(root, sentence, command) is not None


@pytest.mark.parametrize(
    ("command", "is_enough"),
    [
        ("./gradlew check", True),
        ("./gradlew clean check", True),
        ("./gradlew :lib:check", False),
        ("./gradlew build -x check", False),
    ],
)
def test_a_task_of_one_project_does_not_replace_that_of_all(
    command: str, is_enough: bool, root: Path
) -> None:
    history = CallHistory()
    result = ToolResult("1", SHELL.name, (), data={"exit_code": 0})
    history.add(SHELL, json.dumps({"command": command}), root, result)
    rules = [Ruled("Run `./gradlew check` before committing.")]
    commit = json.dumps({"command": "git commit -m x"})
    assert (judge(rules, commit, SHELL, root, history) is None) is is_enough
