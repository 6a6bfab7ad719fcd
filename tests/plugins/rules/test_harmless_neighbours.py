"""Harmless calls beside the ones that a rule forbids."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum_checks import compile_lines, compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
WRITE = make_tool("write_file")
FILES = "a.py config/prod.secret.exs config/dev.exs pkg/vendor/a.go pkg/b.go data/x".split()
STASH = "Never stash changes."
GIT_STASH = "Never use `git stash`."
DELETE = "Never delete files without asking."
IMPORT = "Never import `requests`."
LODASH = "Never import `lodash`."
SECRET = "Never read `config/prod.secret.exs`."
VENDOR = "Do not modify `vendor/`."
TARGET = "Pull requests must target `develop`."
ROOT = "deny create /*"
CORE = "deny create core/"
TREE = "git worktree add ../wt -b x && cd ../wt && make test; cd - && git worktree"
LIST = "rg -l a pkg | while read -r f; do"


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
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a\n")
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "-A"), (*author, "commit", "-qm", "1")):
        subprocess.run(["git", *words], cwd=root, check=True)
    return root


@pytest.fixture
def own_root(root: Path, tmp_path: Path) -> Path:
    """Create a copy that a test may change."""
    return shutil.copytree(root, tmp_path / "workspace", symlinks=True)


def find_verdict(root: Path, sentence: str, call: str | tuple[str, str]) -> Any:
    rules = [Ruled(sentence)]
    if isinstance(call, str):
        return judge(rules, json.dumps({"command": call}), SHELL, root)
    path, content = call
    return judge(rules, json.dumps({"path": path, "content": content}), WRITE, root)


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (STASH, "git stash list"),
        (STASH, "git stash show -p stash@{0}"),
        (GIT_STASH, "git stash show -p"),
        (DELETE, "git worktree add ../x && ls ../x && git worktree remove ../x"),
        (CORE, f"{TREE} remove ../wt"),
        (CORE, f"{TREE} lock ../wt"),
        (CORE, f"{TREE} list"),
        (CORE, 'cd "$X" && git worktree unlock ../wt && git worktree repair'),
        (IMPORT, ("b.py", 'T = """\nimport requests\n"""\n')),
        (IMPORT, ("b.py", 'def f():\n    """Not:\n\n    from requests import get\n    """\n')),
        (IMPORT, ("b.py", "# import requests\nx = 'import requests'\n")),
        (IMPORT, "cat > b.py <<'E'\nT = '''\nimport requests\n'''\nE"),
        (LODASH, ("b.js", "const t = `\nimport x from 'lodash'\n`;\n")),
        (ROOT, "mktemp -t name"),
        (ROOT, "mktemp -d -t x.XXXX"),
        (ROOT, "mktemp --tmpdir x.XXXX"),
        (ROOT, "mktemp -p /tmp x.XXXX"),
        (ROOT, "mktemp -d"),
        (SECRET, "wc -l config/d*.exs"),
        (SECRET, "ls -l config/*.exs"),
        (VENDOR, f'{LIST} head -3 "$f"; done'),
        (VENDOR, f'{LIST} n=$(wc -l < "$f"); echo "$n $f"; done'),
        (VENDOR, f'{LIST} grep -n a "$f" | head; done'),
        (VENDOR, f'{LIST} echo "$f" >> /tmp/list; done'),
    ],
)
def test_a_harmless_call_is_allowed(sentence: str, call: str | tuple[str, str], root: Path) -> None:
    assert find_verdict(root, sentence, call) is None


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (STASH, "git stash"),
        (STASH, "git stash -u"),
        (GIT_STASH, "git stash drop"),
        (CORE, 'cd "$X" && git worktree add core'),
        (CORE, "mkdir core && touch core/a.py"),
        (GIT_STASH, "git stash push -m list"),
        ("Never run `git stash list`.", "git stash list"),
        (DELETE, "rm a.py"),
        ("Never delete anything in `data/`.", "git worktree add ../x && rm ../x/data/x"),
        (IMPORT, ("b.py", "import requests\n")),
        (IMPORT, ("b.py", "x = '''a'''\nimport requests\n")),
        (IMPORT, ("b.py", '"""\nText.\n"""\n\nfrom requests import get\n')),
        (IMPORT, "cat > b.py <<'E'\nimport requests\nE"),
        (LODASH, ("b.js", "import x from 'lodash'\n")),
        (LODASH, ("b.js", "const t = `\n`;\nimport x from 'lodash'\n")),
        (ROOT, "mktemp x.XXXX"),
        (ROOT, "mktemp ./x.XXXX"),
        (ROOT, "mktemp -p . x.XXXX"),
        (ROOT, "mktemp --tmpdir=. x.XXXX"),
        (ROOT, "touch new"),
        # The shell puts the name of the protected file into the command.
        (SECRET, "wc -l config/*.exs"),
        (SECRET, "cat config/*.exs"),
        (VENDOR, f'{LIST} sed -i s/a/b/ "$f"; done'),
        (VENDOR, f"{LIST} gofmt -w $f; done"),
        (VENDOR, f'{LIST} echo y > "$f"; done'),
    ],
)
def test_its_forbidden_neighbour_is_refused(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is not None


# --- the base of pull requests --------------------------------------------------------------------


def set_default_branch(root: Path, name: str) -> None:
    """Let the remote's default branch have a name, as if Git had cloned it."""
    remote = f"refs/remotes/origin/{name}"
    subprocess.run(["git", "update-ref", remote, "HEAD"], cwd=root, check=True)
    subprocess.run(
        ["git", "symbolic-ref", "refs/remotes/origin/HEAD", remote], cwd=root, check=True
    )


OPENING = ("gh pr create --fill", "gh pr new -t x -b y", "glab mr create --fill")


@pytest.mark.parametrize("command", OPENING)
def test_a_base_must_be_named_unless_the_default_branch_is_allowed(
    command: str, own_root: Path
) -> None:
    option = "--target-branch" if command.startswith("glab") else "--base"
    for default in ("", "main"):
        if default:
            set_default_branch(own_root, default)
        verdict = find_verdict(own_root, TARGET, command)
        assert verdict.kind == "deny"
        assert f"Run the command with `{option} develop`." in verdict.reason


@pytest.mark.parametrize("command", OPENING)
def test_a_default_branch_that_is_allowed_needs_no_option(command: str, own_root: Path) -> None:
    set_default_branch(own_root, "develop")
    assert find_verdict(own_root, TARGET, command) is None


@pytest.mark.parametrize(
    "command",
    [
        "gh pr create --base develop --fill",
        "glab mr create --target-branch develop --fill",
        "glab mr create -b develop --fill",
        "glab mr update 3 --target-branch=develop",
        "glab mr update 3 --title x",
        "gh pr create -R other/x --fill",
        "glab mr list",
    ],
)
def test_a_request_with_the_right_base_is_allowed(command: str, root: Path) -> None:
    assert find_verdict(root, TARGET, command) is None


@pytest.mark.parametrize(
    "command",
    [
        "glab mr create --target-branch main --fill",
        "glab mr create -b main",
        "glab mr update 3 --target-branch main",
    ],
)
def test_a_merge_request_with_another_base_is_denied(command: str, root: Path) -> None:
    assert find_verdict(root, TARGET, command).kind == "deny"
