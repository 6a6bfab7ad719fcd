"""Formatters that rewrite whole folders, and the files that they leave out."""

import json
import subprocess
from pathlib import Path
from typing import Any

import hilum_files
import hilum_guard
import hilum_rules
import hilum_shell
import pytest
from hilum.testing import open_bench
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
FILES = (
    "legacy/a.php legacy/a.py legacy/lib/a.rs legacy/x.exs docs/a.md app/x.php app/old/a.php"
    " public/build/a.map public/build/a.js Cargo.lock deps/a.lock"
).split()
ASK = "Ask before editing `legacy/`."
NEVER = "Never edit `legacy/`."
EXISTING = "Do not modify existing files in `legacy/`."
DOCUMENTS = "Ask before editing `docs/`."
OLD = "Ask before editing `app/old/`."
REWRITING = (
    "black .",
    "composer exec pint",
    "composer exec -- pint",
    "vendor/bin/pint",
    "pint",
    "phpcbf",
    "php-cs-fixer fix",
    "ruff format",
    "ruff check --fix",
    "cargo fmt",
    "mix format",
)
OTHER = (
    "composer exec -- pint --test",
    "pint app",
    "pint --dirty",
    "black app",
    "ruff check",
    "ruff format --check",
    "ruff format app",
    "cargo fmt -- --check",
    "cargo fmt -p other",
    "cargo build",
    "mix format --check-formatted",
    "rubocop",
    "rubocop -A",
)


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("formatters").resolve() / "workspace"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


def find_kind(root: Path, sentence: str, command: str) -> str:
    found: Any = judge([Ruled(sentence)], json.dumps({"command": command}), SHELL, root)
    return found.kind if found else ""


@pytest.mark.parametrize("command", REWRITING)
def test_a_formatter_without_paths_is_everyday_work(command: str, root: Path) -> None:
    """In the folder of the rule, it rewrites the files of the rule."""
    for sentence in (ASK, EXISTING, NEVER, DOCUMENTS):
        assert find_kind(root, sentence, command) == ""
    assert find_kind(root, ASK, f"cd legacy && {command}") == "ask"
    assert find_kind(root, NEVER, f"cd legacy && {command}") == "deny"


@pytest.mark.parametrize("command", OTHER)
def test_a_formatter_that_rewrites_nothing_there_is_allowed(command: str, root: Path) -> None:
    for sentence in (ASK, EXISTING, NEVER, DOCUMENTS):
        assert find_kind(root, sentence, command) == ""


@pytest.mark.parametrize(
    ("sentence", "command", "kind"),
    [
        (NEVER, "black legacy", "deny"),
        (NEVER, "pint legacy/*.php", "deny"),
        (NEVER, "prettier --write 'legacy/**/*.php'", "deny"),
        (NEVER, "cd legacy && pint", "deny"),
        (NEVER, "prettier --write '**/*.php'", ""),
        (ASK, "prettier --write '**/*.php'", "ask"),
        (DOCUMENTS, "deno fmt", ""),
        (OLD, "vendor/bin/pint app", ""),
        (OLD, "vendor/bin/pint app/old", "ask"),
        (ASK, "black legacy", "ask"),
        (EXISTING, "black legacy/a.py", "deny"),
        (OLD, "cargo fmt", ""),
    ],
)
def test_a_folder_or_a_pattern_means_the_files_in_it(
    sentence: str, command: str, kind: str, root: Path
) -> None:
    assert find_kind(root, sentence, command) == kind


BUILD = "Never edit `public/build` by hand."


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf public/build/*.map; npm run build",
        "rm -f public/build/* && npm run build",
        "cd public && rm -rf build/*.map && npm run build",
    ],
)
def test_files_may_be_removed_for_a_program_that_makes_them_anew(command: str, root: Path) -> None:
    assert find_kind(root, BUILD, command) == ""


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (BUILD, "rm -rf public/build/*.map"),
        (BUILD, "npm run build && rm -f public/build/*.map"),
        (BUILD, "rm public/build/a.js; npm run build"),
        (BUILD, "rm public/*/a.js; npm run build"),
        (BUILD, "sed -i s/a/b/ public/build/*.js; npm run build"),
        ("Never edit `Cargo.lock` by hand.", "rm *.lock && cargo build"),
        ("Never edit `deps/*.lock` by hand.", "rm deps/*.lock && npm i"),
        ("Never edit `public/`.", "rm -rf public/build/*.map; npm run build"),
    ],
)
def test_other_removals_are_edits_by_hand(sentence: str, command: str, root: Path) -> None:
    assert find_kind(root, sentence, command) == "deny"


# --- rules files ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ignored", "command", "is_asked"),
    [
        ("", "prettier --write '**/*.md'", True),
        ("", "npx prettier -w AGENTS.md", True),
        ("", "prettier --write 'docs/**/*.md'", False),
        ("", "prettier --check '**/*.md'", False),
        ("AGENTS.md\n", "prettier --write '**/*.md'", False),
        ("*.md\n", "prettier --write '*.md'", False),
        ("# none\ndocs/\n", "prettier --write '**/*.md'", True),
        ("*.md\n!AGENTS.md\n", "prettier --write '**/*.md'", True),
        ("AGENTS.md\n", "prettier --write '**/*.md' --ignore-path /dev/null", True),
        ("AGENTS.md\n", "rm .prettierignore && prettier --write '**/*.md'", True),
    ],
)
async def test_a_formatter_asks_for_a_rules_file_that_it_does_not_ignore(
    ignored: str, command: str, is_asked: bool
) -> None:
    files = {"AGENTS.md": "- Never edit `legacy/`.\n", "legacy/a": "a\n", "docs/b.md": "b\n"}
    if ignored:
        files[".prettierignore"] = ignored
    async with open_bench(
        hilum_guard,
        hilum_files,
        hilum_shell,
        hilum_rules,
        files=files,
        settings={"guard.unsandboxed": "run"},
        kind="headless",
    ) as kit:
        result = await kit.call("run_terminal_cmd", command=command)
        found = "wants to change rules that are enforced: it changes AGENTS.md" in result.text
        assert found is is_asked
