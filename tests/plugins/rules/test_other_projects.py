"""Rules of projects in C++, Ruby, Kotlin, Elixir, PHP and Ansible: what keeps and what breaks them."""

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hilum_checks import compile_rule, judge
from hilum_checks.verdicts import describe_rewrite

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
WRITE = make_tool("write_file")
DEPLOY = "Do not deploy."
CHECKED = "Never run `ansible-playbook` without `--check`."
FREE = "Never use `malloc()` or `free()`."
SOURCES = "No `printf()`, no `std::cout` in `src/`."
PRINT = "No `print()` calls in `app/`."
SAFE = "Never use `.html_safe`."
DUMP = "Never use `dd()`."
STARS = "Never use wildcard imports."
LONG = "Lines must not exceed 100 characters."
COLUMNS = "Never use `update_columns()`."
BASE = "Pull requests must target `staging`."
PACKAGES = "Ask before adding dependencies."
TICKET = "Include the issue number in commit messages."


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    files = {
        "app/a.py": "a\n",
        "AGENTS.md": "a\n",
        "docs/sub/AGENTS.md": "a\n",
        "docs/a.md": "a\n",
        "mix.exs": 'defp deps, do: [{:phoenix, "~> 1.7"}]\n',
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


@pytest.fixture
def own_root(root: Path, tmp_path: Path) -> Path:
    """Create a copy that a test may change."""
    return shutil.copytree(root, tmp_path / "workspace", symlinks=True)


def find_verdict(root: Path, sentence: str, call: str | tuple[str, str]) -> Any:
    if isinstance(call, str):
        arguments, tool = {"command": call}, SHELL
    else:
        arguments, tool = {"path": call[0], "content": call[1]}, WRITE
    return judge([Ruled(sentence)], json.dumps(arguments), tool, root)


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (DEPLOY, "ansible-playbook site.yml --check --diff"),
        (DEPLOY, "ansible-playbook -C site.yml"),
        (DEPLOY, "kubectl rollout status deploy/shop"),
        (DEPLOY, "argocd app sync shop --dry-run"),
        (DEPLOY, "helm history shop"),
        (CHECKED, "ansible-playbook --syntax-check site.yml"),
        (FREE, ("src/a.cc", "void free(int id);\npool.free(1);\npool->free(1);\nArena::free(2);\n")),
        (FREE, ("src/a.cc", "static void *malloc(size_t size) {\n")),
        (SOURCES, ("tests/a.cc", "printf(1); std::cout << 1;\n")),
        (PRINT, "for f in $(git ls-files 'app/*.py'); do sed -i 's/[ ]*$//' \"$f\"; done"),
        (PRINT, "sed -i 's/[ ]*$//' $(git ls-files 'app/*.py')"),
        (SAFE, ("a.html.erb", "<%# .html_safe is banned %>\n")),
        (DUMP, ("a.blade.php", "{{-- dd($x) --}}\n")),
        (STARS, ("a.kt", "import java.util.List\n// import java.util.*\n")),
        (LONG, ("a.cc", "x" * 100 + "\n")),
        (LONG, "sed -i 's/a + b/b + a/' app/a.py && clang-format -i app/a.cc && ctest --preset dev && git commit -qam 'Add'"),
        (LONG, f"git add app/a.py && git commit -q -F - <<'E' && touch app/b.py\n{'word ' * 30}\nE"),
        (COLUMNS, ("a.rb", "def update_columns\n# o.update_columns a: 1\nx.update_columns_later b: 1\n")),
        (COLUMNS, ("a.html", "See o.update_columns for more.\n")),
        (BASE, "gh pr edit 3 --title x"),
        (BASE, "gh pr edit 3 --base staging"),
        (PACKAGES, ("mix.exs", 'defp deps, do: [{:phoenix, "~> 1.8"}]\n')),
        (PACKAGES, "bundle install"),
        (PACKAGES, ("app/build.gradle.kts", 'implementation(project(":core"))\n')),
        (TICKET, "git commit -m 'UTF-8: read (#3)'"),
        (TICKET, "git commit -m 'ABC-12: read'"),
    ],
)  # fmt: skip
def test_what_keeps_a_rule_is_allowed(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is None


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (DEPLOY, "ansible-playbook site.yml"),
        (DEPLOY, "argocd app sync shop"),
        (DEPLOY, "helm rollback shop 1"),
        (DEPLOY, "kubectl rollout undo deploy/shop"),
        (CHECKED, "ansible-playbook site.yml"),
        (FREE, ("src/a.cc", "free(p);\n")),
        (FREE, ("src/a.cc", "  std::free(p);\n")),
        (FREE, ("src/a.cc", "return free(p);\n")),
        (FREE, ("src/a.cc", "char *p = (char*)malloc(3);\n")),
        (FREE, ("src/a.c", "x = 1; free (p);\n")),
        (SOURCES, ("src/a.cc", "printf(1);\n")),
        (SOURCES, ("src/a.cc", "std::cout << 1;\n")),
        (PRINT, "sed -i 's/a/print(1)/' $(git ls-files 'app/*.py')"),
        (PRINT, "for f in $(git ls-files 'app/*.py'); do sed -i \"s/a/$X/\" \"$f\"; done"),
        (SAFE, ("a.html.erb", "<!-- <%= x.html_safe %> -->\n")),
        (DUMP, ("a.blade.php", "{{ dd($x) }}\n")),
        (STARS, ("a.kt", "import kotlinx.coroutines.*\n")),
        (STARS, "printf 'import java.util.*\\n' > a.kt"),
        (STARS, ("a.java", "import java.util.*;\n")),
        (LONG, ("a.cc", "x" * 101 + "\n")),
        (LONG, ("a.ex", "x" * 101 + "\n")),
        (LONG, f"cat > app/a.cc <<'E'\n{'x' * 101}\nE"),
        (LONG, f"echo '{'x' * 101}' >> app/a.cc"),
        (LONG, f"python3 -c \"open('app/a.cc', 'w').write('{'x' * 101}')\""),
        (LONG, f"python3 - <<'E'\nopen('app/a.cc', 'w').write('{'x' * 101}')\nE"),
        (COLUMNS, ("a.rb", "o.update_columns a: 1\n")),
        (COLUMNS, ("a.rb", "o.update_columns :a, 1\n")),
        (BASE, "gh pr edit 3 --base main"),
        (BASE, "gh pr create -t x -b y --base main"),
        (PACKAGES, "echo 'gem \"pry\"' >> Gemfile && bundle install"),
        (PACKAGES, ("mix.exs", 'defp deps, do: [{:phoenix, "~> 1.7"}, {:oban, "~> 2.1"}]\n')),
        (PACKAGES, ("app/build.gradle.kts", 'implementation("a.b:c:1.0")\n')),
        (PACKAGES, ("gradle/libs.versions.toml", 'c = { module = "a.b:c", version = "1" }\n')),
        (PACKAGES, "mix igniter.install oban"),
        (PACKAGES, "pnpm nx add @nx/vite"),
        (TICKET, "git commit -m 'Read files as UTF-8'"),
        (TICKET, "git commit -m 'Check SHA-256'"),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_refused(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is not None


@pytest.mark.parametrize(
    ("command", "default", "refused"),
    [
        ("gh pr create -t x -b y", "main", True),
        ("gh pr create -t x -b y", "staging", False),
        # Nobody knows which branch it would be, and naming it costs nothing.
        ("gh pr create -t x -b y", "", True),
        ("gh pr create -t x --base staging", "main", False),
        ("gh pr create --web", "main", False),
        ("gh pr create --help", "main", False),
        ("gh pr create -R a/b -t x", "main", False),
        ("gh pr view 3", "main", False),
    ],
)
def test_a_pull_request_without_a_base_targets_the_default_branch(
    command: str, default: str, refused: bool, own_root: Path
) -> None:
    if default:
        (own_root / ".git/refs/remotes/origin").mkdir(parents=True)
        (own_root / ".git/refs/remotes/origin/HEAD").write_text(
            f"ref: refs/remotes/origin/{default}\n"
        )
    verdict = find_verdict(own_root, BASE, command)
    assert (verdict is not None) is refused
    if refused:
        assert "`--base staging`" in verdict.reason


LOOP = "for p in {0}:\n    p.write_text(p.read_text().rstrip())\n"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (LOOP.format("Path('docs').glob('*.md')"), False),
        ("d = Path('docs')\n" + LOOP.format("d.glob('*.md')"), False),
        (LOOP.format("Path('app').rglob('*.md')"), False),
        (LOOP.format("Path('docs').rglob('*.md')"), True),
        (LOOP.format("Path('docs').glob('**/*.md')"), True),
        (LOOP.format("Path('.').glob('*.md')"), True),
        (LOOP.format("Path('docs').glob('../*.md')"), True),
        ("d = Path('docs')\nd = Path('.')\n" + LOOP.format("d.glob('*.md')"), True),
        ("import os\nos.chdir('..')\n" + LOOP.format("Path('docs').glob('*.md')"), True),
    ],
)
def test_code_changes_the_rules_files_that_its_patterns_match(
    code: str, found: bool, root: Path
) -> None:
    call: Any = SimpleNamespace(
        arguments=json.dumps({"command": f"python3 - <<'E'\nfrom pathlib import Path\n{code}E"})
    )
    agent: Any = SimpleNamespace(session=SimpleNamespace(workspace=SimpleNamespace(root=root)))
    rewrite = describe_rewrite(["AGENTS.md", "docs/sub/AGENTS.md"], agent, call, SHELL)
    assert bool(rewrite) is found
