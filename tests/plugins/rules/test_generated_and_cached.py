"""What programs generate, format and cache is not edited or deleted by hand; what is beside it is."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum_checks import compile_lines, compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
FILES = """
    requirements.lock openapi.json scripts/dump.py app/core/log.py data/a.csv .env src/.pytest_cache/x
    docs/architecture.md
""".split()
OLD = 1_000_000_000
BY_HAND = "Never edit `uv.lock`, `requirements.lock` or `openapi.json` by hand."
DELETING = "Ask before deleting files."
READ_FIRST = "Read `docs/architecture.md` before editing `app/core/`."
CORE = "Never edit `app/core/`."
INPLACE = "Never use `inplace=True`."
ENV = "Never read `.env`."


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        is_line = sentence.startswith("deny")
        compiled = compile_lines([sentence])[0] if is_line else compile_rule(sentence, hard=False)
        self.check = compiled.check
        assert self.check is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an old project with some caches that Git does not track."""
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n")
        os.utime(root / name, (OLD, OLD))
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "1")):
        subprocess.run(["git", *words], cwd=root, check=True)
    for name in (".mypy_cache", "htmlcov", "app/__pycache__", "node_modules", ".venv", "dist"):
        (root / name).mkdir()
        (root / name / "a.pyc").write_text("x")
    (root / ".ruff_cache").symlink_to("app")
    (root / "scripts/new.py").write_text("print('{}')\n")
    return root


def find_verdict(root: Path, sentence: str, command: str) -> Any:
    return judge([Ruled(sentence)], json.dumps({"command": command}), SHELL, root)


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (BY_HAND, "uv export > requirements.lock"),
        (BY_HAND, "uv pip compile pyproject.toml -o requirements.lock"),
        (BY_HAND, "uv pip freeze > requirements.lock && git diff requirements.lock"),
        (BY_HAND, "pip freeze > requirements.lock"),
        (BY_HAND, "python -m pip freeze > requirements.lock"),
        (BY_HAND, "python scripts/dump.py > openapi.json"),
        (BY_HAND, "uv run python scripts/dump.py > openapi.json"),
        (DELETING, "rm -rf .pytest_cache .mypy_cache htmlcov"),
        (DELETING, "find app -name __pycache__ -type d -prune -exec rm -rf {} +"),
        (DELETING, "find . -name '*.pyc' -path '*__pycache__*' -delete"),
        (DELETING, "rm -rf app/__pycache__/*.pyc"),
        (READ_FIRST, "ruff format app/core/log.py"),
        (READ_FIRST, "ruff check --fix app/core/log.py && black app/core/log.py"),
        (INPLACE, "awk -F, '{print $1\",\"$2}' data/a.csv > data/big.csv"),
        (INPLACE, "python app/core/log.py 2>&1 | awk '{print $1}' > out.log"),
        (ENV, "docker compose --env-file .env up -d"),
        (ENV, "docker compose -f a.yml --env-file=.env build web"),
        (ENV, "docker-compose --env-file .env down"),
        (ENV, "ls -l .env; git check-ignore .env"),
    ],
)
def test_what_programs_make_is_allowed(sentence: str, command: str, root: Path) -> None:
    assert find_verdict(root, sentence, command) is None


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (BY_HAND, "echo x > requirements.lock"),
        (BY_HAND, "cat > openapi.json <<'X'\n{}\nX"),
        (BY_HAND, "jq . openapi.json > openapi.json"),
        (BY_HAND, "uv export | sed s/a/b/ > requirements.lock"),
        (BY_HAND, "echo x > requirements.lock; uv export > requirements.lock"),
        (BY_HAND, "uv export > requirements.lock && sed -i s/a/b/ requirements.lock"),
        (BY_HAND, "echo x | python scripts/dump.py > openapi.json"),
        (BY_HAND, "python scripts/dump.py <<< x > openapi.json"),
        (BY_HAND, "python scripts/new.py > openapi.json"),
        (BY_HAND, "python -c 'print(1)' > openapi.json"),
        (BY_HAND, "echo 'print(1)' > scripts/dump.py; python scripts/dump.py > openapi.json"),
        (BY_HAND, "cp /tmp/d.py scripts/dump.py; python scripts/dump.py > openapi.json"),
        ("Never edit `app/core/`.", "python scripts/dump.py > app/core/log.py"),
        (DELETING, "rm -rf src/.pytest_cache"),
        (DELETING, "rm -rf .mypy_cache app/core"),
        (DELETING, "rm -rf .mypy_cache/../app"),
        (DELETING, "rm -rf .ruff_cache/core/log.py"),
        (DELETING, "rm -rf node_modules"),
        (DELETING, "rm -rf .venv"),
        (DELETING, "rm -rf dist"),
        (DELETING, "find . -name 'log*' -delete"),
        ("Never delete files in `app/`.", "rm -r app/__pycache__"),
        (READ_FIRST, "ruff format app/core/log.py && echo x >> app/core/log.py"),
        (READ_FIRST, "sed -i s/a/b/ app/core/log.py"),
        (CORE, "ruff format app/core/log.py"),
        (INPLACE, "awk '{print $1}' data/a.csv > app/a.py"),
        (INPLACE, "echo 'df.drop(inplace=True)' > app/a.py"),
        ("deny content inplace=True in *.csv", "echo inplace=True > data/b.csv"),
        (ENV, "docker compose --env-file .env config"),
        (ENV, "docker compose --env-file .env run web env"),
        (ENV, "docker run --env-file .env alpine env"),
        (ENV, "docker compose --env-file x -f .env up"),
    ],
)
def test_what_is_done_by_hand_is_refused(sentence: str, command: str, root: Path) -> None:
    assert find_verdict(root, sentence, command) is not None
