"""The usual forms of a required command, and what only looks like one of them."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import hilum_guard
import hilum_rules
import hilum_shell
import pytest
import trio
from hilum.events import CallDone
from hilum.messages import ToolResult
from hilum.testing import open_bench, use
from hilum_checks import compile_rule, judge
from hilum_checks.call_history import CallHistory

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
PUSH = "git push origin x"
COMMIT = "git commit -qam x"
# The usual wrapper reads the arguments of its options and starts a program that a variable names.
GRADLEW = """\
#!/bin/sh
APP_HOME=$( cd -P "${APP_HOME:-./}" > /dev/null && printf '%s\\n' "$PWD" ) || exit
if [ -n "$JAVA_HOME" ] ; then JAVACMD=$JAVA_HOME/bin/java ; else JAVACMD=java ; fi
set -- -classpath "$CLASSPATH" org.gradle.wrapper.GradleWrapperMain "$@"
eval "set -- $(printf '%s\\n' "$JAVA_OPTS" | xargs -n1 | sed ' s~[^-[:alnum:]]~\\\\&~g; ')" '"$@"'
exec "$JAVACMD" "$@"
"""
FILES = {
    "package.json": '{"scripts": {"test": "jest", "lint": "eslint"}}',
    "Makefile": "check:\n\t@true\nlint test:\n\t@true\n",
    "gradlew": GRADLEW,
    "short": '#!/bin/sh\nexec "$JAVACMD" "$@"\n',
    "check.sh": "#!/bin/sh\nset -e\nrm -rf out\nmkdir -p out\npytest > out/report.txt\n$RUNNER lint\n",
    "fix.sh": "#!/bin/sh\nsed -i s/a/b/ a.py\n",
    "push.sh": "git push --force\n",
    "pass.sh": 'exec "$@"\n',
    "named.sh": 'exec "$G" "$@"\n',
    "lines.sh": "while read -r line; do $line; done\n",
    "publish.sh": "./gradlew publish\n",
    "manage.py": "import sys\n",
    "other.py": "import sys\n",
    "legacy/a": "a\n",
    "a.py": "a = 1\n",
}


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None, sentence


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forms").resolve() / "workspace"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        # Older than this process, so that they are the project's own.
        os.utime(path, (1e9, 1e9))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


def is_refused(root: Path, sentence: str, *calls: str) -> bool:
    """Return whether the last of several calls is refused, after the others have succeeded."""
    history = CallHistory()
    rules = [Ruled(sentence)]
    *earlier, last = calls
    for number, command in enumerate(earlier):
        arguments = json.dumps({"command": command})
        assert judge(rules, arguments, SHELL, root, history) is None, command
        result = ToolResult(str(number), SHELL.name, (), data={"exit_code": 0})
        history.add(SHELL, arguments, root, result)
    return judge(rules, json.dumps({"command": last}), SHELL, root, history) is not None


NX = "Run `nx affected -t lint test` before pushing."
PNPM_NX = "Run `pnpm nx affected -t lint` before pushing."
TURBO = "Run `turbo run lint test` before pushing."
CHECK = "Run `make check` before pushing."
BOTH = "Run `make lint test` before pushing."
NPM = "Run `npm test` before pushing."
PNPM = "Run `pnpm run lint` before pushing."
PYTEST = "Run `pytest` before pushing."
PNPM_TEST = "Run `pnpm test` before pushing."
ESLINT = "Run `npx eslint .` before pushing."
DJANGO = "Run `python manage.py test` before pushing."
HOOKS = "Run `pre-commit run --all-files` before pushing."
RUFF = "Run `ruff check .` before pushing."
GO = "Run `go test ./...` before pushing."
UV = "Run `uv run pytest -q` before pushing."
COVER = "Run `pytest --cov=app` before pushing."
WARNINGS = "Run `eslint --max-warnings 0` before pushing."
BUNDLE = "Run `bundle exec rspec` before pushing."
GRADLE = "Run `./gradlew lint` and `./gradlew test` before you push."
SHORT = "Run `./short lint` before you push."
SCRIPT = "Run `./check.sh` before committing."


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (NX, "npx nx affected -t lint test"),
        (NX, "npx --yes nx affected -t lint test"),
        (NX, "pnpm exec nx affected -t lint test"),
        (NX, "pnpm dlx nx affected -t lint test"),
        (NX, "pnpm nx affected -t lint test"),
        (NX, "yarn nx affected -t lint test"),
        (NX, "yarn exec nx affected -t lint test"),
        (NX, "bunx nx affected -t lint test"),
        (NX, "npm exec -- nx affected -t lint test"),
        (NX, "NX_DAEMON=false nx affected -t lint test"),
        (NX, "CI=1 npx nx affected -t lint test"),
        (NX, "env CI=1 nx affected -t lint test"),
        (NX, "nx affected --target=lint,test"),
        (NX, "nx affected --targets=lint,test"),
        (NX, "nx affected --targets lint test"),
        (NX, "nx affected -t=lint,test"),
        (NX, "nx affected -t test lint build --parallel=3"),
        (NX, "nx affected --base=main -t lint -t test"),
        (PNPM_NX, "npx nx affected -t lint"),
        (PNPM_NX, "pnpm exec nx affected --target=lint"),
        (TURBO, "npx turbo run test lint"),
        (TURBO, "pnpm turbo lint test --filter=web"),
        (CHECK, "CI=1 make check"),
        (CHECK, "poetry run make check"),
        (CHECK, "MAKEFLAGS=-j4 make check"),
        (BOTH, "make test lint"),
        (NPM, "npm run test"),
        (NPM, "CI=true npm t"),
        (PNPM, "pnpm lint"),
        (PNPM_TEST, "pnpm t"),
        (PYTEST, "CI=1 python -m pytest"),
        (UV, "uv run pytest --quiet"),
        (UV, ".venv/bin/pytest -q"),
        (ESLINT, "pnpm eslint ."),
        (ESLINT, "node_modules/.bin/eslint ."),
        (ESLINT, "npx --no-install eslint . --max-warnings=0"),
        (DJANGO, "python3 manage.py test"),
        (DJANGO, "./manage.py test --keepdb"),
        (DJANGO, "DJANGO_SETTINGS_MODULE=a.b uv run manage.py test"),
        (HOOKS, "uv run pre-commit run -a"),
        (RUFF, "ruff check"),
        (RUFF, "python -m ruff check ."),
        (GO, "CGO_ENABLED=0 GOFLAGS=-mod=mod go test ./..."),
        (PYTEST, "uvx pytest"),
        (PYTEST, "PYTHONPATH=. pytest"),
        (PYTEST, "PYTHONPATH=src:tests uv run pytest -q"),
        (UV, "poetry run pytest -q"),
        (UV, "PYTHONPATH=$PWD/src uv run --frozen pytest -q"),
        (COVER, "pytest --cov app"),
        (WARNINGS, "npx eslint . --max-warnings=0"),
        (WARNINGS, "eslint . --max-warnings 0"),
        (BUNDLE, "RAILS_ENV=test bundle exec rspec"),
    ],
)
def test_another_form_of_a_required_command_counts(sentence: str, command: str, root: Path) -> None:
    assert not is_refused(root, sentence, command, PUSH)
    assert not is_refused(root, sentence, f"{command} && {PUSH}")


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (NX, "nx affected -t lint"),
        (NX, "nx affected -t lint --exclude test"),
        (NX, "nx run-many -t lint test"),
        (NX, "nx affected -t lint test --dry-run"),
        (NX, "nx affected --graph -t lint test"),
        (NX, "nx affected --base=HEAD -t lint test"),
        (NX, "NX_DRY_RUN=1 nx affected -t lint test"),
        (NX, "PATH=/tmp/x:$PATH nx affected -t lint test"),
        (NX, "npx --help nx affected -t lint test"),
        (NX, "pnpm --filter none exec nx affected -t lint test"),
        (NX, "npx jest nx affected -t lint test"),
        (NX, "CI=1 nx affected -t lint test || true"),
        (PNPM_NX, "npx nx affected -t test"),
        (TURBO, "turbo run lint --filter test"),
        (CHECK, "MAKEFLAGS=-n make check"),
        (CHECK, "MAKEFLAGS=$(echo -n) make check"),
        (CHECK, "CI=$(date) make check"),
        (CHECK, "CI=1 make -n check"),
        (BOTH, "make lint"),
        (NPM, "npm run lint"),
        (NPM, "npm run t"),
        (PNPM_TEST, "pnpm run t"),
        (ESLINT, "pnpm exec tsc ."),
        (ESLINT, "/tmp/bin/eslint ."),
        (DJANGO, "python other.py test"),
        (HOOKS, "SKIP=ruff pre-commit run -a"),
        (HOOKS, "pre-commit run"),
        (GO, "GOFLAGS=-run=^$ go test ./..."),
        (PYTEST, "PYTEST_ADDOPTS=--co pytest"),
        (PYTEST, "PYTHONPATH=/tmp/x pytest"),
        (PYTEST, "PYTHONPATH=../x pytest"),
        (UV, "uv run mypy"),
        (COVER, "pytest --cov lib app"),
        (WARNINGS, "eslint --max-warnings=10 ."),
        (BUNDLE, "bundle install"),
    ],
)
def test_what_may_do_less_does_not_count(sentence: str, command: str, root: Path) -> None:
    # Some of these may not even run without approval.
    line = f"{command} && {PUSH}"
    assert is_refused(root, sentence, line)


@pytest.mark.parametrize(
    "command",
    [
        f"make check && GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL='a b@c' {COMMIT}",
        f"make check && HUSKY=0 {COMMIT}",
        f"make check && A=1 timeout 60 {COMMIT}",
        f"make check && env A=1 {COMMIT}",
        f"npx cowsay hi && make check && {COMMIT}",
    ],
)
def test_variables_of_the_command_that_waits_do_not_matter(command: str, root: Path) -> None:
    sentence = CHECK.replace("pushing", "committing")
    assert not is_refused(root, sentence, command)
    assert is_refused(root, sentence, command.replace("make check", "make lint"))
    assert is_refused(root, sentence, command.replace("make check &&", "make check;"))


# --- scripts of the project -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "calls",
    [
        (f"./gradlew lint && ./gradlew test && {PUSH}",),
        ("./gradlew lint", "./gradlew test", PUSH),
        ("sh gradlew lint test", PUSH),
        (f"CI=1 ./gradlew --no-daemon lint test && {PUSH}",),
        (f"JAVA_HOME=/usr/lib/jvm/17 ./gradlew lint && ./gradlew test && {COMMIT}",),
    ],
)
def test_a_required_script_counts_whatever_it_contains(calls: tuple[str, ...], root: Path) -> None:
    assert not is_refused(root, GRADLE, *calls)


@pytest.mark.parametrize(
    ("sentence", "calls", "refused"),
    [
        (SHORT, (f"./short lint && {PUSH}",), False),
        (SHORT, ("./short lint", PUSH), False),
        (SHORT, ("./short test", PUSH), True),
        (SCRIPT, (f"./check.sh && {COMMIT}",), False),
        (SCRIPT, ("./check.sh", COMMIT), False),
        (SCRIPT, ("sh check.sh", COMMIT), False),
        (SCRIPT, ("./check.sh", "echo x >> a.py", COMMIT), True),
        (SCRIPT, (f"./check.sh && echo x >> a.py && {COMMIT}",), True),
        (SCRIPT, (f"./check.sh; {COMMIT}",), True),
        (GRADLE, (f"./gradlew lint && {PUSH}",), True),
        (GRADLE, (f"./gradlew lint; ./gradlew test; {PUSH}",), True),
        (GRADLE, (f"./gradlew -m lint test && {PUSH}",), True),
        (PYTEST.replace("pushing", "committing"), ("pytest", "./fix.sh", COMMIT), True),
        (PYTEST.replace("pushing", "committing"), (f"pytest && ./fix.sh && {COMMIT}",), True),
    ],
)
def test_what_a_script_writes_is_its_work(
    sentence: str, calls: tuple[str, ...], refused: bool, root: Path
) -> None:
    assert is_refused(root, sentence, *calls) is refused


FORCE = "Never run `git push --force`."
MAIN = "Never push to `main`."
PUBLISH = "Never run `gradle publish`."
LEGACY = "Never edit `legacy/`."


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (MAIN, "./gradlew clean build -x test"),
        (LEGACY, "./gradlew test"),
        (PUBLISH, "./gradlew lint test"),
        (FORCE, "./short lint"),
        (FORCE, "CI=1 sh named.sh status"),
        (FORCE, "git add . && ./gradlew test | tail"),
    ],
)
def test_an_unknown_program_in_a_script_of_the_project_is_its_own(
    sentence: str, command: str, root: Path
) -> None:
    assert not is_refused(root, sentence, command)


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (FORCE, "sh push.sh"),
        (FORCE, "sh pass.sh git push --force"),
        (FORCE, "sh pass.sh $(cat words)"),
        (FORCE, "sh pass.sh $WORDS"),
        (FORCE, "xargs sh pass.sh < words"),
        (FORCE, "cat words | sh lines.sh"),
        (FORCE, "sh lines.sh < words"),
        (FORCE, "read -r G; sh named.sh push --force"),
        (FORCE, "G=git sh named.sh push --force"),
        (FORCE, "export G=git; sh named.sh push --force"),
        (FORCE, "env G=git sh named.sh push --force"),
        (FORCE, "cat > n.sh <<'E'\n$G push --force\nE\nsh n.sh"),
        (PUBLISH, "./gradlew test publish"),
        (PUBLISH, "sh publish.sh"),
        (LEGACY, "sh pass.sh rm legacy/a"),
    ],
)
def test_a_forbidden_command_in_a_script_is_refused(
    sentence: str, command: str, root: Path
) -> None:
    assert is_refused(root, sentence, command)


def test_a_new_script_hides_nothing(root: Path) -> None:
    path = root / "new"
    path.write_text('#!/bin/sh\nexec "$G" push --force\n')
    try:
        assert is_refused(root, FORCE, "sh new")
    finally:
        path.unlink()


async def test_a_required_command_counts_in_a_session() -> None:
    """The whole loop lets a push pass after a form of the command, and not after another one."""
    rules = "- Run `make check` before pushing.\n"
    commands = ["CI=1 make check", "git push x y", "CI=1 make -n check && echo > a", "git push x y"]
    async with open_bench(
        hilum_guard,
        hilum_shell,
        hilum_rules,
        files={"AGENTS.md": rules, "Makefile": "check:\n\t@true\n"},
        settings={"guard.unsandboxed": "run"},
        answers=[*(use("run_terminal_cmd", command=each) for each in commands), "Done."],
    ) as kit:
        await trio.run_process(["git", "init", "-q"], cwd=kit.session.workspace.root)
        await kit.run("Push it.")
        results: list[Any] = [event.result for event in kit.of(CallDone)]
    assert [result.code for result in results] == ["", "E_CMD_FAIL", "", "E_DENIED"]
