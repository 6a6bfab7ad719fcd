r"""A rule holds for other spellings of what it names, and not for what only looks like it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum import Tool
from hilum_checks import compile_rule, judge, judge_answer
from hilum_checks.call_history import CallHistory

from tests.support.judged_commands import Ruled, judge_command, judge_sentence
from tests.support.obedience.judging import make_tool


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a repository with hooks, and with two files of which one has a header."""
    root = tmp_path_factory.mktemp("repository").resolve()
    subprocess.run(["git", "init", "-q", "-b", "main", str(root)], check=True)
    (root / "src").mkdir()
    (root / "src/d.py").write_text("# Copyright A\nimport os\nprint()\n")
    (root / "src/plain.py").write_text("print()\n")
    (root / "other.py").write_text("# Copyright A\n")
    (root / "bare.py").write_text("x = 1\n")
    (root / "WIP.md").write_text("WIP\n")
    (root / "ok.md").write_text("Fix a bug.\n")
    (root / ".githooks").mkdir()
    (root / ".githooks/pre-commit").write_text("make lint\n")
    (root / ".githooks/pre-commit").chmod(0o755)
    (root / ".git/hooks/pre-commit").write_text("make lint\n")
    return root


def rule_for(sentence: str) -> Ruled:
    return Ruled(sentence, compile_rule(sentence, hard=True).check)


def judge_write(rule: Ruled, root: Path, path: str, content: str) -> str:
    arguments = json.dumps({"path": path, "content": content})
    found = judge([rule], arguments, make_tool("write_file"), root)
    return found.kind if found else ""


# --- text in files --------------------------------------------------------------------------------

EVAL = "Never use `eval()`."
PADDING = "x = 1\n" * 20_000


@pytest.mark.parametrize(
    ("rule", "path", "text", "kind"),
    [
        # a long text is searched to its end
        (EVAL, "a.py", f'{PADDING}eval("1")\n', "deny"),
        (EVAL, "a.py", f"{PADDING}evaluate(1)\n", ""),
        # a space before the bracket
        (EVAL, "a.py", 'eval ("1")\n', "deny"),
        (EVAL, "a.py", 'y = eval  ("1")\n', "deny"),
        (EVAL, "a.js", 'return eval ("1")\n', "deny"),
        (EVAL, "a.js", 'f(a, eval\t("1"))\n', "deny"),
        (EVAL, "a.py", "# Do not use eval (it is slow).\n", ""),
        (EVAL, "a.js", "// eval (again)\n", ""),
        (EVAL, "a.js", "/* eval (again) */\n", ""),
        (EVAL, "a.py", 'print("eval (x)")\n', ""),
        (EVAL, "a.py", '"""\nThe caller must not eval (or exec) it.\n"""\n', ""),
        (EVAL, "a.js", "class A {\n  eval (x) { return x }\n}\n", ""),
        (EVAL, "a.py", "def eval (self): ...\n", ""),
        (EVAL, "a.py", "medieval (1)\n", ""),
        ("Never use `print()`.", "a.py", "print (1)\n", "deny"),
        ("Never use `print`.", "a.py", "print (1)\n", "deny"),
        ("Never use `print`.", "a.py", "x = 'to print (1) page'\n", ""),
        ("Never use `print`.", "a.py", "# print (1)\n", ""),
        ("Never use `fetch()`.", "a.ts", 'await fetch ("x")\n', "deny"),
        ("Never use `fetch()`.", "a.ts", 'throw Error("Failed to fetch (404)")\n', ""),
        ("Never use `.unwrap()`.", "a.rs", "x.unwrap ()\n", "deny"),
    ],
)
def test_code(rule: str, path: str, text: str, kind: str, root: Path) -> None:
    assert judge_write(rule_for(rule), root, path, text) == kind


HEADER = "require content /Copyright/ in src/**"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("printf x > src/d.py", "ask"),
        ("printf x >| src/d.py", "ask"),
        ("sed -i /Copyright/d src/d.py", "ask"),
        ("sed -i '/^#/d' src/d.py", "ask"),
        ("sed -i 1d src/d.py", "ask"),
        ("sed -i 1,2d src/*.py", "ask"),
        ("sed -i 's/# .*//' src/d.py", "ask"),
        ("sed -i -e 's/os/re/' -e 's/copy/x/I' src/d.py", "ask"),
        ("sed -i -f edit.sed src/d.py", "ask"),
        ("perl -pi -e 's/Copyright//' src/d.py", "ask"),
        ("perl -pi -e '$_ = q()' src/d.py", "ask"),
        ("cp bare.py src/d.py", "ask"),
        ("mv bare.py src/d.py", "ask"),
        ("truncate -s 0 src/d.py", "ask"),
        ("echo x | tee src/d.py", "ask"),
        ("echo '# Copyright' > a; echo x > src/d.py", "ask"),
        # the text stays
        ("echo x >> src/d.py", ""),
        ("echo x | tee -a src/d.py", ""),
        ("sed -i s/os/re/ src/d.py", ""),
        ("sed -i 's/os/re/; 3d' src/d.py", ""),
        ("sed -i '/import/d' src/d.py", ""),
        ("sed -i '2a import re' src/d.py", ""),
        ("sed -i -E 's/(os|re)/sys/' src/*.py", ""),
        ("perl -pi -e 's/os/re/g' src/d.py", ""),
        ("sed -i s/Copyright/x/ src/plain.py", ""),
        ("printf x > src/plain.py", ""),
        ("cp other.py src/d.py", ""),
        ("cat other.py bare.py > src/d.py", ""),
        ("printf '# Copyright B\\nx' > src/d.py", ""),
        ("cat > src/d.py <<'E'\n# Copyright B\nE", ""),
        ("touch src/d.py", ""),
        ("chmod +x src/d.py", ""),
        ("ruff format src", ""),
        ("git checkout -- src/d.py", ""),
    ],
)
def test_a_required_text_stays_in_files(command: str, kind: str, root: Path) -> None:
    assert judge_command(HEADER, command, root) == kind


# --- messages -------------------------------------------------------------------------------------

WIP = "deny commit-message /wip/i"
BODY = "deny pr-body /wip/i"
TITLE = "require pr-title /^feat: /"
DOCUMENT = "\"$(cat <<'EOF'\nfine\nEOF\n)\""
OPEN_DOCUMENT = '"$(cat <<EOF\nfix: $X\nEOF\n)"'


@pytest.mark.parametrize(
    ("line", "command", "kind"),
    [
        (WIP, f"git commit -m {DOCUMENT}", ""),
        (WIP, f'echo {DOCUMENT}; git commit -m "$MSG"', "ask"),
        (WIP, f'git commit -m {DOCUMENT} -m "$MSG"', "ask"),
        (WIP, f"git commit -m {OPEN_DOCUMENT}", "ask"),
        (WIP, f"M={OPEN_DOCUMENT}; git commit -m {DOCUMENT}", ""),
        (WIP, "git commit -F - <<'E'\nfine\nE", ""),
        (WIP, "git commit -F - <<'E'\nwip\nE", "deny"),
        (BODY, f'echo {DOCUMENT}; gh pr create -t x -b "$BODY"', "ask"),
        (BODY, f"gh pr create -t x -b {DOCUMENT}", ""),
        # options as their program reads them
        (BODY, "gh pr create -d -b WIP -t x", "deny"),
        (BODY, "gh pr create -db WIP -t x", "deny"),
        (BODY, "gh pr create -d -b fine -t WIP", ""),
        (BODY, "gh pr edit 1 -bWIP", "deny"),
        (BODY, "gh pr edit 1 -FWIP.md", "deny"),
        (BODY, "gh pr edit 1 -F ok.md", ""),
        (BODY, "gh pr edit 1 -b fine -b WIP", "deny"),
        (BODY, "gh pr edit 1 -b WIP -b fine", ""),
        (BODY, "gh -R a/b pr create -t x -b WIP", "deny"),
        (BODY, "gh pr -R a/b new -t x -b WIP", "deny"),
        (BODY, "gh pr create -t x -b fine $MORE", "ask"),
        (BODY, 'gh pr edit "$NUMBER" -b fine', ""),
        (BODY, "gh pr create -t x -F - <<'E'\nWIP\nE", "deny"),
        (BODY, "glab mr new -t x -d WIP", "deny"),
        (BODY, "glab mr new -t x -b main -d fine", ""),
        (TITLE, "gh pr create -tx -b y", "deny"),
        (TITLE, "gh pr new -t 'feat: x' -b y", ""),
        (TITLE, "gh pr create -t 'feat: x' -t x -b y", "deny"),
        (TITLE, "gh pr create -b -t -t 'feat: x'", ""),
    ],
)
def test_messages(line: str, command: str, kind: str, root: Path) -> None:
    assert judge_command(line, command, root) == kind


# --- options and names of commands ----------------------------------------------------------------

SIGNED = "Commits must be signed off (`git commit -s`)."
DRAFTS = "Always open pull requests as drafts."
FORCED = "Never run `rm -rf`."
HOOKS = "Never skip hooks."
CLOSED = "Do not open pull requests."


@pytest.mark.parametrize(
    ("sentence", "command", "kind"),
    [
        (SIGNED, "git commit -ms", "deny"),
        (SIGNED, "git commit -am fixes", "deny"),
        (SIGNED, 'git commit -m "-s"', "deny"),
        (SIGNED, "git commit --message --signoff", "deny"),
        (SIGNED, "git commit -s --no-signoff -m x", "deny"),
        (SIGNED, "git commit -Ss -m x", "deny"),
        (SIGNED, "git commit -asm x", ""),
        (SIGNED, "git commit -m x -s", ""),
        (SIGNED, "git -C . commit --signof -m x", ""),
        (DRAFTS, "gh pr create -t -d", "deny"),
        (DRAFTS, "gh pr create -td", "deny"),
        (DRAFTS, "gh pr create -t x --draft=false", "deny"),
        (DRAFTS, "gh pr new -t x", "deny"),
        (DRAFTS, "glab mr create -d --draft", "deny"),
        (DRAFTS, "gh pr create -d -t x", ""),
        (DRAFTS, "gh pr new -t x --draft=true", ""),
        (DRAFTS, "glab mr create --draft -d x", ""),
        (FORCED, "rm -r --forc x", "deny"),
        (FORCED, "rm --rec --f x", "deny"),
        (FORCED, "rm -r --verbose x", ""),
        ("Never run `rm --recursive`.", "rm --rec x", "deny"),
        # other names of sub-commands
        (CLOSED, "gh pr new -t x", "deny"),
        (CLOSED, "glab mr new", "deny"),
        (CLOSED, "python3 -c \"import os; os.system('gh pr new')\"", "deny"),
        (CLOSED, "gh pr list", ""),
        ("Never create an issue.", "gh issue new", "deny"),
        ("Never create an issue.", "glab issue new", "deny"),
        ("Never merge pull requests.", "glab mr accept 3", "deny"),
        ("Never comment on issues.", "glab issue comment 3 -m x", "deny"),
        ("Never run `gh release create`.", "gh release new v1", "deny"),
        ("Never run `gh release create`.", "gh release list", ""),
        # hooks
        (HOOKS, "git commit --no-verify -m x", "deny"),
        (HOOKS, "git -c core.hooksPath=/dev/null commit -m x", "deny"),
        (HOOKS, "git -c core.hookspath= push", "deny"),
        (HOOKS, "git -c core.hooksPath=src commit -m x", "deny"),
        (HOOKS, 'git -c core.hooksPath="$D" commit -m x', "ask"),
        (HOOKS, "git config core.hooksPath /dev/null", "deny"),
        (HOOKS, "git config set core.hooksPath none", "deny"),
        (HOOKS, "git config --unset core.hooksPath", "deny"),
        (
            HOOKS,
            "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null"
            " git commit -m x",
            "deny",
        ),
        (HOOKS, "HUSKY=0 git commit -m x", "deny"),
        (HOOKS, "env HUSKY=0 git commit -m x", "deny"),
        (HOOKS, "export HUSKY=0; git commit -m x", "deny"),
        (HOOKS, "SKIP=ruff git commit -m x", "deny"),
        (HOOKS, "LEFTHOOK=0 git push", "deny"),
        (HOOKS, "rm .git/hooks/pre-commit", "deny"),
        (HOOKS, "mv .git/hooks .git/off", "deny"),
        (HOOKS, "chmod -x .git/hooks/pre-commit", "deny"),
        (HOOKS, "pre-commit uninstall", "deny"),
        (HOOKS, "npx husky uninstall", "deny"),
        (HOOKS, "git commit-tree HEAD^{tree} -m x", "deny"),
        (HOOKS, "git commit -m 'HUSKY is gone'", ""),
        (HOOKS, "git config core.hooksPath .githooks", ""),
        (HOOKS, "git config --get core.hooksPath", ""),
        (HOOKS, "git -c core.hooksPath=.githooks commit -m x", ""),
        (HOOKS, "HUSKY=0 npm ci", ""),
        (HOOKS, "pre-commit install", ""),
        (HOOKS, "chmod +x .git/hooks/pre-commit", ""),
        (HOOKS, "cp .githooks/pre-commit .git/hooks/", ""),
        (HOOKS, "rm .git/hooks/pre-push.sample", ""),
        (HOOKS, "cat .git/hooks/pre-commit", ""),
    ],
)
def test_commands(sentence: str, command: str, kind: str, root: Path) -> None:
    assert judge_sentence(sentence, command, root) == kind


# --- commands that must run first -----------------------------------------------------------------


class Succeeded:
    """The result of a command that has exited with 0."""

    call_id = "1"
    code = ""
    changed = False
    data: dict[str, Any] = {"exit_code": 0}


@pytest.mark.parametrize(
    ("needed", "command", "kind"),
    [
        ("pytest", "pytest -n auto", ""),
        ("pytest", "python -m pytest -n 2", ""),
        ("pytest", "uv run pytest -n 2", ""),
        ("sphinx-build -n", "sphinx-build -n docs out", ""),
        ("ruff --version", "ruff --version", ""),
        ("ctest", "ctest -V", ""),
        ("pytest", "pytest --collect-only", "deny"),
        ("pytest", "pytest --markers", "deny"),
        ("make lint", "make -n lint", "deny"),
        ("just lint", "just -n lint", "deny"),
        ("bash check.sh", "bash -n check.sh", "deny"),
        ("ctest", "ctest -N", "deny"),
        ("ruff check", "ruff check --help", "deny"),
    ],
)
def test_a_command_without_its_work_does_not_count(
    needed: str, command: str, kind: str, root: Path
) -> None:
    history = CallHistory()
    tool = make_tool("run_terminal_cmd")
    history.add(tool, json.dumps({"command": command}), root, Succeeded())  # type: ignore[arg-type]
    rule = Ruled(f"require command {needed} before git commit")
    found = judge([rule], json.dumps({"command": "git commit -m x"}), tool, root, history)
    assert (found.kind if found else "") == kind


# --- arguments and answers ------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [1, 12, 200])
def test_arguments_are_read_however_deep_they_are(depth: int, root: Path) -> None:
    tool = Tool("mcp__fs__write", "", lambda: "", risk="network", schema={})
    for path, kind in (("migrations/a.sql", "deny"), ("src/a.sql", "")):
        arguments: Any = {"path": path}
        for _ in range(depth):
            arguments = {"a": [arguments]}
        found = judge([Ruled("deny write migrations/**")], json.dumps(arguments), tool, root)
        assert (found.kind if found else "") == kind


def test_an_answer_is_sent_back_with_what_it_lacks() -> None:
    wanted = judge_answer([rule_for("Final answers must end with `DONE`.")], "Ready.")
    assert wanted is not None
    assert wanted.endswith("Give the answer again in this form.")
    unwanted = judge_answer([rule_for("Answers must not contain `sorry`.")], "I am sorry.")
    assert unwanted is not None
    assert unwanted.endswith("Give the answer again without that.")


@pytest.mark.parametrize(
    ("sentence", "most"),
    [
        ("Keep answers under 200 words.", 199),
        ("Answers must not exceed 200 words.", 200),
    ],
)
def test_a_length_below_a_number_excludes_the_number(sentence: str, most: int) -> None:
    rule = rule_for(sentence)
    assert judge_answer([rule], "word " * most) is None
    assert judge_answer([rule], "word " * (most + 1)) is not None
