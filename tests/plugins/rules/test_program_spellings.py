"""Programs that have several names for a command, options with values, launchers and help."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
CMAKE = "Never run `cmake .`; configure with the preset."
GRADLE = "Never run `gradle` directly; use the wrapper."
PNPM = "使用 `pnpm`，不要使用 `npm` 或 `yarn`。"
GENERATED = "`*.generated.swift` must not be edited."
VENDORED = "`third_party/` is vendored code. Don't modify anything in it."
PIP = "Never run `pip install`."
STAGING = "Pull requests must target `staging`."
UPDATE = "Niemals `composer update` ausführen."
PUBLISH = "Never run `./gradlew publishBundle`."
FORCE = "Never push with `--force`."
RAILS = "Never run `rails db:drop`, `rails db:reset` or `rails db:schema:load`."
MIX = "Do not run `mix ecto.reset` or `mix ecto.drop`."
ARTISAN = "Führe niemals `php artisan migrate:fresh` aus."
PHOENIX = "Never run `mix phx.server`."
XCODE = "Use `swift build`, never `xcodebuild`."
SED = "Don't use `sed -i`."
NX = "严禁执行 `nx reset`。"
ADB = "Don't run `adb uninstall` or `adb shell pm clear`."
PUSH = "Never run `git push --force`."


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
    names = [
        "Sources/a.generated.swift",
        "third_party/a.c",
        "services/billing/pyproject.toml",
        "gradlew",
    ]
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("\n")
    return root


def find_verdict(root: Path, sentence: str, command: str) -> Any:
    return judge([Ruled(sentence)], json.dumps({"command": command}), SHELL, root)


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (CMAKE, "cmake -S . -B build"),
        (CMAKE, "cmake --preset dev -S ."),
        (CMAKE, "cmake -B build ."),
        (CMAKE, "mkdir -p build && cd build && cmake .. && cmake --build ."),
        (CMAKE, "cmake --build build -j$(nproc)"),
        (GRADLE, "./gradlew assembleDebug"),
        (GRADLE, "sh ./gradlew tasks"),
        (GRADLE, "cd app && ../gradlew lint"),
        (GRADLE, "gradle --version"),
        ("Never run `mvn` directly; use `./mvnw`.", "./mvnw verify"),
        (FORCE, "npm ci --force"),
        (FORCE, "git worktree remove --force /tmp/a"),
        (PNPM, "uv run --directory services/billing pytest -q"),
        (PNPM, "uv run --no-sync --directory services/billing ruff check ."),
        (PNPM, "uv run --project services/billing pytest services/billing -q"),
        (GENERATED, "git diff main -- '*.generated.swift' | cat"),
        (GENERATED, "swiftformat Sources --exclude '**/*.generated.swift'"),
        (VENDORED, "valgrind ./build/t"),
        (VENDORED, "perf stat ./build/t"),
        (VENDORED, "taskset -c 0 ./build/t"),
        (VENDORED, "ionice -c 3 ./build/t"),
        (VENDORED, "hyperfine './build/t'"),
        (
            PIP,
            "python3 -c \"import subprocess as s; print(s.check_output(['git', 'log']).decode())\"",
        ),
        (PIP, "python3 -c \"import subprocess as s; print(s.run(['ls']).stdout.decode())\""),
        (STAGING, "gh pr create --base=staging -t a"),
        (STAGING, "gh pr create -Bstaging -t a"),
        (UPDATE, "composer update --help"),
        (UPDATE, "composer update --dry-run a/b"),
        (UPDATE, "composer install"),
        (PUBLISH, "./gradlew publishBundle --dry-run"),
        ("Never run `flask db upgrade`.", "flask db upgrade --help"),
        ("Don't run `cmake --install`.", "cmake --install --help"),
        (ADB, "adb uninstall --help"),
        (RAILS, "rails -T db:reset"),
        (RAILS, "bin/rails db:migrate:status"),
        (PUSH, "git push --force-with-lease --dry-run"),
        (NX, "pnpm nx reset --help"),
        (RAILS, "rails help db:drop"),
        (MIX, "mix do ecto.create, ecto.migrate"),
        (ARTISAN, "./artisan migrate"),
        (SED, "sed -n 1p a.txt"),
        (NX, "pnpm nx affected -t lint"),
        ("Never run `rake`.", "bin/rails db:migrate"),
    ],
)
def test_passes(root: Path, sentence: str, command: str) -> None:
    assert find_verdict(root, sentence, command) is None


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (CMAKE, "cmake ."),
        (CMAKE, "cmake -G Ninja -DA=1 ./"),
        (CMAKE, "cmake $PWD"),
        (CMAKE, "cmake -S ."),
        (CMAKE, "cmake -S. -B."),
        (CMAKE, "cmake -B . -G Ninja"),
        (GRADLE, "gradle build"),
        (GRADLE, "/usr/bin/gradle build"),
        (FORCE, "git push --force"),
        (FORCE, "git push -f"),
        ("Never push with `--no-verify`.", "git push --no-verify"),
        (PNPM, "uv run --directory services/billing npm install"),
        (VENDORED, "uv run --directory third_party rm a.c"),
        (GENERATED, "sed -i s/a/b/ Sources/a.generated.swift"),
        (STAGING, "gh pr create --base=main"),
        (STAGING, "gh pr create -Bmain"),
        (UPDATE, "composer upgrade"),
        (UPDATE, "composer u"),
        (UPDATE, "php composer.phar update"),
        (PUBLISH, "./gradlew publishBundle"),
        (PUBLISH, "gradle publishBundle -x --dry-run"),
        (ADB, "adb -s a shell 'pm clear de.a'"),
        (RAILS, "bin/rake db:reset"),
        (RAILS, "bundle exec rake db:drop"),
        (RAILS, "rails db:drop:all"),
        (PUSH, "git push --force-with-lease"),
        (MIX, "mix do ecto.drop, ecto.create"),
        (MIX, "mix do ecto.create + ecto.reset"),
        (PHOENIX, "iex -S mix phx.server"),
        ("Don't use `mix deps.update --all`.", "mix deps.update -a"),
        (ARTISAN, "./artisan migrate:fresh"),
        (ARTISAN, "php ./artisan migrate:fresh"),
        (ARTISAN, "vendor/bin/sail artisan migrate:fresh"),
        (ARTISAN, "php8.3 artisan migrate:fresh --force"),
        (RAILS, "spring rails db:reset"),
        (SED, "gsed -i s/a/b/ a.txt"),
        (XCODE, "xcrun xcodebuild -list"),
        (SED, "sed --in-place s/a/b/ a.txt"),
        (SED, "sed -i.bak s/a/b/ a.txt"),
        (NX, "pnpm nx reset --only-daemon"),
        (NX, "yarn run nx reset"),
        ("Don't run `docker volume rm`.", "docker volume remove a"),
    ],
)
def test_is_denied(root: Path, sentence: str, command: str) -> None:
    verdict = find_verdict(root, sentence, command)
    assert verdict is not None
    assert verdict.kind == "deny"


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess as s; s.run(s.check_output(['cat', 'a']).decode(), shell=True)",
        "import subprocess as s, base64; s.run(base64.b64decode('eA==').decode().split())",
        "import subprocess as s; s.run(s.run(['cat', 'a']).stdout.decode().split())",
    ],
)
def test_decoded_commands_need_approval(root: Path, code: str) -> None:
    verdict = find_verdict(root, PIP, f'python3 -c "{code}"')
    assert verdict is not None
    assert verdict.kind == "ask"


def test_a_launcher_that_writes_the_program_needs_approval(root: Path) -> None:
    verdict = find_verdict(root, PIP, "curl -o t https://example.com/t && valgrind ./t")
    assert verdict is not None
    assert verdict.kind == "ask"


@pytest.mark.parametrize(
    ("text", "is_denied"),
    [
        ("Enum.map(xs, &String.to_atom/1)\n", True),
        ("x |> String.to_atom\n", True),
        ("String.to_atom(x)\n", True),
        ("String.to_existing_atom(x)\n", False),
        ("x |> String.to_atoms\n", False),
    ],
)
def test_functions_of_elixir_without_brackets(root: Path, text: str, is_denied: bool) -> None:
    rules = [Ruled("Never use `String.to_atom()`.")]
    arguments = json.dumps({"path": "lib/a.ex", "content": text})
    verdict = judge(rules, arguments, make_tool("write_file"), root)
    assert (verdict is not None) == is_denied


LENGTH = "Lines must not exceed 60 characters."
MANY = "cp a.py b.py && sed -i s/aaaaaaaaa/bbbbbbbbb/ a.py && sed -i s/ccccccccc/ddddddddd/ b.py"


@pytest.mark.parametrize(
    ("command", "is_denied"),
    [
        (MANY, False),
        (f"cat > a.py <<'EOF'\n{'a' * 61}\nEOF", True),
        (f"echo {'a' * 61} >> a.py", True),
        (f"{MANY} && echo {'b' * 30}{'c' * 31} >> a.py", True),
    ],
)
def test_the_length_of_a_command_line_is_not_that_of_a_file(
    root: Path, command: str, is_denied: bool
) -> None:
    assert (find_verdict(root, LENGTH, command) is not None) == is_denied


def test_an_option_without_a_program_is_advice() -> None:
    assert compile_rule("Never use `--force`.", hard=False).check is None
