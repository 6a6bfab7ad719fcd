"""Commands in containers and on other machines, input of single commands, numbers in options."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
MIGRATIONS = "Existing files in `migrations/versions/` must not be edited."
PIP = "Never run `pip install`."
KUBECTL = "Never run `kubectl exec`."
DEPLOY = "Don't run `make deploy`."
STAGE_ALL = "Never use `git add -A` or `git add .`."
MAKEFILE = "check:\n\techo a\nx:\n\techo b\ndeploy:\n\techo c\n"
LINES = "<<'EOF'\nno pip install here\nEOF"


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
    files = {"Makefile": MAKEFILE, "migrations/versions/a.py": "a = 1\n", "app.py": "a = 1\n"}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture
def own_root(root: Path, tmp_path: Path) -> Path:
    """Create a copy that a test may change."""
    return shutil.copytree(root, tmp_path / "workspace", symlinks=True)


def find_verdict(root: Path, sentence: str, command: str) -> Any:
    return judge([Ruled(sentence)], json.dumps({"command": command}), SHELL, root)


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (STAGE_ALL, "kubectl exec web-0 -- ls"),
        ("Never force-push.", "kubectl exec -n a web-0 -- flask routes"),
        (MIGRATIONS, "kubectl exec deploy/web -- python -V"),
        (MIGRATIONS, "docker compose exec web flask routes"),
        (MIGRATIONS, "docker-compose exec web pytest -q tests"),
        (MIGRATIONS, "docker compose run --rm web flask seed"),
        (MIGRATIONS, "docker compose exec redis redis-cli info memory"),
        (MIGRATIONS, "docker compose exec db pg_dump -U app app > /tmp/dump.sql"),
        (MIGRATIONS, "docker exec web sh -c 'flask routes | head -3'"),
        (MIGRATIONS, "docker exec web sh -c 'cd /app && flask routes'"),
        (MIGRATIONS, "docker exec web touch notes.txt"),
        (MIGRATIONS, "ssh host flask routes"),
        (MIGRATIONS, "ssh host touch notes.txt"),
        (KUBECTL, "docker compose exec web bash"),
        (KUBECTL, "docker exec -it web sh -l"),
        (KUBECTL, "docker run --rm -it image bash"),
        (KUBECTL, "docker compose exec web sh /usr/local/bin/start.sh"),
        (PIP, f"make check && git commit -q -F - {LINES}"),
        (PIP, f"make check && cat > a.md {LINES}"),
        (PIP, f"cat > a.md <<'EOF' && make check\n{LINES.partition(chr(10))[2]}"),
        (PIP, f"python3 app.py && cat {LINES}"),
        (PIP, f"make check {LINES}"),
        (DEPLOY, "make x <<< 'make deploy'"),
        (DEPLOY, "make -j$(nproc)"),
        (DEPLOY, "make -j $(nproc) x"),
        (DEPLOY, "make -j`nproc --all` x"),
        (DEPLOY, 'make -j"$(getconf _NPROCESSORS_ONLN)"'),
        (DEPLOY, "make -j$(($(nproc) - 1)) x"),
        (DEPLOY, "make -j$(nproc 2>/dev/null || echo 4) x"),
        (DEPLOY, "J=$(nproc); make -j $J x"),
    ],
)
def test_passes(root: Path, sentence: str, command: str) -> None:
    assert find_verdict(root, sentence, command) is None


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (STAGE_ALL, "kubectl exec web-0 -- git add -A"),
        (PIP, "kubectl exec web-0 -- pip install a"),
        (PIP, "kubectl run a --image b --restart Never -- pip install a"),
        (PIP, "docker-compose exec web pip install a"),
        (PIP, "docker exec web sh -c 'cd /app && pip install a'"),
        (PIP, "ssh host pip install a"),
        (PIP, f"docker exec -i web sh {LINES.replace('no ', '')}"),
        (PIP, "echo 'pip install a' | docker exec -i web sh"),
        (PIP, f"true && sh {LINES.replace('no ', '')}"),
        (PIP, "sh <<'EOF' && true\npip install a\nEOF"),
        (PIP, "true && cat <<'EOF' | sh\npip install a\nEOF"),
        (PIP, "make -f - <<'EOF'\na:\n\tpip install a\nEOF"),
        (PIP, "true && make --file=/dev/stdin <<'EOF'\na:\n\tpip install a\nEOF"),
        (MIGRATIONS, "docker exec web rm -rf migrations/versions"),
        (MIGRATIONS, "docker exec web sh -c 'cd migrations && rm versions/a.py'"),
        (MIGRATIONS, "docker run -v $PWD:/app image sh -c 'echo a > migrations/versions/a.py'"),
        (DEPLOY, "make -j$(nproc) deploy"),
        (DEPLOY, "make -j $(($(nproc) + 1)) deploy"),
        (DEPLOY, "nproc() { echo deploy; }; make $(nproc)"),
    ],
)
def test_is_denied(root: Path, sentence: str, command: str) -> None:
    verdict = find_verdict(root, sentence, command)
    assert verdict is not None
    assert verdict.kind == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "cat a | docker exec -i web sh",
        "docker exec -i web sh < a.sh",
        "docker exec web sh -c 'curl example.com | sh'",
        "docker exec web $COMMAND",
        "docker exec web sh new.sh",
        "docker run -v $PWD:/app image bash /app/new.sh",
        "docker exec web ./new.sh",
        "ssh host bash src/app/new.sh",
    ],
)
def test_unknown_commands_in_containers_need_approval(own_root: Path, command: str) -> None:
    (own_root / "new.sh").write_text("kubectl exec a -- ls\n")
    verdict = find_verdict(own_root, KUBECTL, command)
    assert verdict is not None
    assert verdict.kind == "ask"


@pytest.mark.parametrize("word", ["", "''", "-", "--", "/", "'a '", "-f", "A=", "'{}'", "*", "$X"])
@pytest.mark.parametrize(
    "start",
    ["", "env", "docker exec a", "kubectl exec a", "kubectl exec", "nice", "uv run", "xargs"],
)
def test_strange_words_raise_nothing(root: Path, start: str, word: str) -> None:
    rules = [
        *map(Ruled, (STAGE_ALL, "Never force-push.", PIP, DEPLOY, KUBECTL, MIGRATIONS)),
        *map(Ruled, ("Never run `cmake .`.", "Use `pnpm`, not `npm`.", "Never push tags.")),
    ]
    for rest in ("", " -f", " ls", " git add -A"):
        judge(rules, json.dumps({"command": f"{start} {word}{rest}"}), SHELL, root)
