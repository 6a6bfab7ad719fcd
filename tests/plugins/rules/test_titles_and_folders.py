"""Titles that limit nothing, formatters under rules, and folders that programs fill."""

import json
import subprocess
from pathlib import Path
from typing import Any

import hilum_rules
import pytest
from hilum_checks import find_protected_paths, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
RULES = "- Never edit `vendor/`.\n- No `print()` calls in `app/`.\n"


def load(root: Path, text: str) -> list[Any]:
    (root / "AGENTS.md").write_text(text)
    return [rule for rule in hilum_rules.load_rules(root / "AGENTS.md").rules if rule.check]


def judge_line(root: Path, sentence: str, line: str) -> str:
    verdict = judge(load(root, f"- {sentence}\n"), json.dumps({"command": line}), SHELL, root)
    return verdict.kind if verdict else ""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "workspace"
    for name in (
        "core/a.x",
        "src/b.x",
        "deps/a/a.ex",
        "_build/a",
        "public/build/a.js",
        "src/b.py",
        "src/b.cc",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a\n")
    subprocess.run("git init -q . && git add -A", shell=True, cwd=root, check=True)
    return root


@pytest.mark.parametrize(
    "text",
    [
        f"# Walklog for Android\n{RULES}",
        f"# Android app\n\nAn app.\n\n## Ground rules\n{RULES}",
        f"# The backend\n## House rules\n{RULES}",
    ],
)
def test_a_title_limits_nothing(root: Path, text: str) -> None:
    assert len(load(root, text)) == 2


@pytest.mark.parametrize(
    "text",
    [
        f"# Rules for Android\n{RULES}",
        f"# Production\n{RULES}",
        f"# When working on a fork\n{RULES}",
        f"# The backend\n{RULES}# The frontend\n{RULES}",
        f"# Walklog\n## The backend\n{RULES}",
        f"# Walklog for Android\n## In production\n{RULES}",
    ],
)
def test_a_heading_that_limits_its_rules_still_does(root: Path, text: str) -> None:
    assert load(root, text) == []


FORMATTING = (
    "clang-format -i core/a.x", "clang-tidy -p build --fix core/a.x", "goimports -w core/a.x", "rubocop -A core/a.x",
    "bundle exec rubocop -a core/a.x", "vendor/bin/pint core/a.x", "php-cs-fixer fix core/a.x", "ktlint -F core/a.x",
    "terraform fmt core/a.x", "mix format core/a.x", "shfmt -i 2 -w core/a.x", "swiftformat core/a.x",
    "find core -name '*.x' | xargs clang-format -i", "cd core && clang-format -i a.x", "swiftlint --fix core/a.x",
)  # fmt: skip
CHECKING = (
    "clang-format core/a.x", "clang-format --dry-run -Werror core/a.x", "rubocop core/a.x", "pint --test core/a.x",
    "php-cs-fixer fix --dry-run core/a.x", "ktlint core/a.x", "terraform fmt -check core/a.x", "mix test core/a.x",
    "mix format --check-formatted core/a.x", "shfmt -d core/a.x", "swiftformat --lint core/a.x", "yapf core/a.x",
    "clang-format -i src/b.x", "find src | xargs clang-format -i", "swiftformat src --exclude core",
)  # fmt: skip


def test_what_formats_a_file_needs_the_approval_that_editing_it_needs(root: Path) -> None:
    ask = "Ask before editing `core/`."
    assert {line: judge_line(root, ask, line) for line in FORMATTING} == dict.fromkeys(
        FORMATTING, "ask"
    )
    assert {line: judge_line(root, ask, line) for line in CHECKING} == dict.fromkeys(CHECKING, "")


def test_kustomize_changes_the_file_in_its_folder(root: Path) -> None:
    (root / "core/kustomization.yaml").write_text("a\n")
    ask = "Never change `core/` without my approval."
    assert judge_line(root, ask, "cd core && kustomize edit set image a=b") == "ask"
    assert judge_line(root, ask, "kustomize build core") == ""


def test_the_sandbox_keeps_a_formatter_from_one_of_many_files(root: Path) -> None:
    line = "git ls-files '*.x' | xargs clang-format -i"
    assert judge_line(root, "Never edit `core/`.", line) == ""
    assert judge_line(root, "Never edit `core/`.", "clang-format -i core/a.x") == "deny"
    assert judge_line(root, "Ask before editing `core/`.", line) == "ask"


def test_the_words_of_a_formatter_are_no_text_of_its_file(root: Path) -> None:
    long = f"clang-format -i src/b.cc && black src/b.py && {'true && ' * 15}git status"
    assert judge_line(root, "Lines must not exceed 100 characters.", long) == ""
    assert judge_line(root, "Never use `print()`.", "black src/b.py && echo 'print(1)'") == ""
    echo = "echo 'print(1)' >> src/b.py && black src/b.py"
    assert judge_line(root, "Never use `print()`.", echo) == "deny"
    header = "Every new `.py` file must start with `import a`."
    assert judge_line(root, header, "black src/b.py && clang-format -i src/b.x") == ""


DEPS = "Don't edit anything under `deps/` or `_build/`."
BUILD = "Never edit files in `public/build/` by hand."


@pytest.mark.parametrize(
    ("sentence", "line", "kind"),
    [
        (DEPS, "rm -rf _build && mix compile", ""),
        (DEPS, "rm -rf deps _build && mix deps.get", ""),
        (DEPS, "rm -rf sub/_build && mix compile", ""),
        (DEPS, "rm -rf _build", "deny"),
        (DEPS, "rm -rf _build && ls", "deny"),
        (DEPS, "sed -i s/a/b/ deps/a/a.ex", "deny"),
        (DEPS, "echo a > _build/a", "deny"),
        (BUILD, "rm -rf public/build && npm run build", ""),
        (BUILD, "rm -rf public/build", "deny"),
        (BUILD, "rm public/build/a.js && npm run build", "deny"),
        ("Never delete `public/build/`.", "rm -rf public/build && npm run build", "deny"),
        ("Never edit `core/`.", "rm -rf core && make core", "deny"),
    ],
)
def test_folders_that_programs_fill_are_made_anew(
    root: Path, sentence: str, line: str, kind: str
) -> None:
    assert judge_line(root, sentence, line) == kind


def test_folders_that_programs_fill_are_not_mounted_read_only(root: Path) -> None:
    assert find_protected_paths(load(root, f"- {DEPS}\n"), root) == ((), ())
    assert find_protected_paths(load(root, "- Never edit `core/`.\n"), root)[0]
