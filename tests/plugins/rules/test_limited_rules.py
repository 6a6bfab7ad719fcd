"""Rules that a person reads as limited: by headings, labels, lines above and exceptions below."""

from pathlib import Path, PurePosixPath

import pytest
from hilum import Workspace, config_folder
from hilum_checks import compile_rule
from hilum_checks.code_names import code_expression, ignored_parts
from hilum_checks.code_remarks import blank_remarks
from hilum_checks.expressions import count_matches
from hilum_rules.binding import is_conspicuous
from hilum_rules.discovery import FoundFile, find_paths
from hilum_rules.loading import Loader, load_rules


def enforced(folder: Path, text: str) -> list[str]:
    path = folder / "AGENTS.md"
    path.write_text(text, encoding="utf-8")
    return [rule.content for rule in load_rules(path).rules if rule.check is not None]


@pytest.mark.parametrize(
    "heading",
    [
        "Don't (unless asked)",
        "Never (in production)",
        "Never (except hotfix)",
        "Never in production",
        "Only during releases",
        "Windows-specific",
        "In the frontend",
        "On Fridays",
        "Frontend",
        "Backend conventions",
        "CI",
        "Optional",
        "Draft rules",
        "Temporary",
        "Recommended",
        "Release process",
        "Code review",
    ],
)
def test_a_heading_that_limits_its_rules_makes_them_advice(tmp_path, heading):
    assert enforced(tmp_path, f"# {heading}\n- Never push\n- Never use `npm`; use `pnpm`\n") == []


@pytest.mark.parametrize(
    "heading",
    [
        "Never",
        "Never do (non-negotiable)",
        "Rules (for the assistant)",
        "In this repository",
        "In general",
        "Release Safety",
        "Pull Request Workflow",
        "Testing",
        "Python",
        "Exception handling",
    ],
)
def test_other_headings_limit_no_command(tmp_path, heading):
    text = f"# {heading}\n- Never push\n- Never use `npm`; use `pnpm`\n"
    assert enforced(tmp_path, text) == ["Never push", "Never use `npm`; use `pnpm`"]


def test_a_sentence_is_compiled_for_each_place(tmp_path):
    """One loader keeps what it has compiled, and the same text may mean another check elsewhere."""
    text = (
        "# Rules\n- Never push\n- Never edit `gen/`.\n# Release process\n- Never push\n# Again\n"
        "- Never edit `gen/`.\n  enforce: deny write lib/**\n# Tests\n- No `sleep()`\n# Python\n- No `sleep()`\n"
        "# Never\n- Push to `main`\n# Workflow\n- Push to `main`\n"
    )
    (tmp_path / "sub").mkdir()
    for folder, more in (("", ""), ("sub", "- More\n")):
        (tmp_path / folder / "AGENTS.md").write_text(text + more)
    found = [
        FoundFile(
            tmp_path / folder / "AGENTS.md", "AGENTS.md", "agents", Workspace("/"), folder=folder
        )
        for folder in (PurePosixPath("."), PurePosixPath("sub"))
    ]
    together = Loader(find_paths(tmp_path, config_folder())).load(found)
    alone = [Loader(find_paths(tmp_path, config_folder())).load([each])[0] for each in found]
    checks = [[rule.check for rule in file.rules] for file in together]
    assert checks == [[rule.check for rule in file.rules] for file in alone]
    # Headings, `enforce` lines and folders make the difference.
    push, gen, in_release, by_hand, in_tests, in_python, to_main, elsewhere = checks[0]
    assert push is not None
    assert in_release is None
    assert to_main is not None
    assert elsewhere is None
    patterns = [each.parts[0][1].patterns for each in (gen, by_hand, checks[1][1], checks[1][3])]
    assert patterns == [("gen",), ("/lib/**",), ("/sub/**/gen",), ("/sub/lib/**",)]
    assert in_tests != in_python


def test_rules_about_code_hold_in_the_files_that_a_heading_or_a_label_names(tmp_path):
    path = tmp_path / "AGENTS.md"
    path.write_text(
        "# Testing\n## Test files\n- No `time.sleep()`\n- Never commit `fit`\n# Python\n- Never use `eval()`\n"
        "- Never use `any`\n# Other\n- Tests: no `time.sleep()`\n- Never use `eval()`\n",
        encoding="utf-8",
    )
    rules = load_rules(path).rules
    patterns = [rule.check and rule.check.parts[0][1].patterns[:2] for rule in rules]
    tests = ("test.*", "tests.*")
    assert patterns == [tests, ("test.ts", "tests.ts"), ("*.py", "*.pyi"), None, tests, ("**",)]


@pytest.mark.parametrize(
    "sentence",
    [
        "In the frontend: Never use `npm`; use `pnpm`",
        "In the backend folder: Never use `print()`.",
        "On Fridays: do not push.",
        "CI: never run `make deploy`",
        "(Windows) Never run `make deploy`",
        "Never run `make deploy` (in CI).",
        "Optional: never push",
        "Draft: never push",
        "Temporary: never push",
        "Frontend: never use npm",
        "**Backend:** never use npm",
        "Don't use `print()` for logging.",
        "For the frontend, do not: use npm",
        "There is no `npm test` in this repository.",
        "There is no `make deploy`; it was removed.",
        "There are no `npm test` scripts.",
        "`npm` is not used in this repository.",
        "`dist/` is not committed.",
    ],
)
def test_limited_sentences_and_statements_of_fact_are_advice(sentence):
    assert compile_rule(sentence, hard=True).check is None


@pytest.mark.parametrize(
    "sentence",
    [
        "Never run `make deploy` (it no longer works).",
        "We do not use `npm`.",
        "Direct pushes to `main` are not allowed.",
        "In this repository: never push.",
        "In commit messages: no emojis",
        "**Commits**: never commit to `main`",
        "Python: use `uv`, never `pip`",
    ],
)
def test_similar_sentences_are_enforced(sentence):
    assert compile_rule(sentence, hard=False).check is not None


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("- Never edit `a/`\n  - except `a/b/`\n- Never edit `c/`\n", ["Never edit `c/`"]),
        ("- Never edit `a/`\n  - Exception: `a/b/`\n- Never push\n", ["Never push"]),
        ("# Never\n- edit `a/`\n  - except `a/b/`\n- push\n", ["push"]),
        ("You must not:\n- edit `a/`\n- push\n\nThis does not apply to `a/b/`.\n", []),
        ("- Never edit `a/`\n- Never push\n\nExceptions: `a/b/`\n", []),
        ("Never push.\n\n> Unless the user asks for it.\n", []),
        ("Never commit to `main`.\n\nThe exception is the `docs` branch.\n", []),
        ("- Never edit `a/`.\n- Never push\n- You may edit `a/` if I ask\n", ["Never push"]),
        ("- Never push\n- except on branches named `ai/*`\n", []),
        ("## Never\n- push\n## Exceptions\n- `ai/*`\n", []),
        ("- Never push\n# Other\n- Exceptions: `ai/*`\n", ["Never push"]),
        ("- Never push\n- Exceptions must extend `AppError`.\n", ["Never push"]),
        ("- Never push\n- **Exceptions**: never swallow them.\n", ["Never push"]),
        ("# Git\n- Never push\n# Exceptions\n- Raise `AppError`.\n", ["Never push"]),
        (
            "- Never push\n- Unless asked, never commit.\n",
            ["Never push", "Unless asked, never commit."],
        ),
        ("- Never push\n- You may not edit `a/`\n", ["Never push", "You may not edit `a/`"]),
        ("- Never edit `a/`\n- You can run `make` at any time\n", ["Never edit `a/`"]),
    ],
)
def test_an_exception_below_a_rule_makes_it_advice(tmp_path, text, kept):
    assert enforced(tmp_path, text) == kept


def test_the_line_above_a_list_does_not_introduce_a_later_table(tmp_path):
    text = (
        "# Before committing\nBefore committing:\n- `make lint`\n\n"
        "| Path | Policy |\n|---|---|\n| `vendor/` | never edit |\n"
    )
    path = tmp_path / "AGENTS.md"
    path.write_text(text, encoding="utf-8")
    rules = load_rules(path).rules
    assert [rule.lead for rule in rules] == ["Before committing:", ""]
    # The line says the same as the heading.
    assert rules[0].check is not None


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("any", "let x: any;", True),
        ("any", "f('a'); x as any; g('b')", True),
        ("any", "<p>don't</p>; x as any;", True),
        ("any", 'const s = "http://x"; let y: any;', True),
        ("any", "`${x as any}`", True),
        ("any", "/* allows: any, or none */", False),
        ("any", "f('choose one: any, all')", False),
        ("any", "// type: any", False),
        ("any", " * x: any;", False),
        ("unsafe", "impl<'a> X<'a> { unsafe fn f() {}", True),
        ("unsafe", "/// never unsafe { }", False),
        ("eval()", "x = eval(s)", True),
        ("eval()", "if x:\n    eval(s)\n", True),
        ("eval()", "class A:\n    def eval(self):", False),
        ("fetch()", "await fetch(url)", True),
        ("fetch()", "  fetch(url).then(x => {", True),
        ("fetch()", "class A {\n  async fetch(id) {", False),
        ("fetch()", "class A {\n  fetch(id: string): Promise<X> {", False),
        ("fetch()", "fetch() {\n  curl x\n}", False),
    ],
)
def test_names_of_code_are_found_only_where_they_are_used_as_code(name, text, found):
    path = {"unsafe": "a.rs", "eval()": "a.py"}.get(name, "a.ts")
    code = blank_remarks(text, path, ignored_parts([name]))
    assert bool(count_matches(code_expression(name), code)) is found


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "# Do not edit\n- `poetry.lock`\n- `gen/` (generated)\n",
            ["`poetry.lock`", "`gen/` (generated)"],
        ),
        ("# Read only\n- `third_party/`\n", ["`third_party/`"]),
        ("# Files you must not touch\n- `a/b.py`, `c.py`\n", ["`a/b.py`, `c.py`"]),
        ("# Read only\n- `third_party/` (unless asked)\n- Review `b/` first\n", []),
        ("# Read-only mode\n- `third_party/`\n", []),
        ("- ❌ Using `git add -A`\n", ["❌ Using `git add -A`"]),
        ("# Never\n- using `git add -A`\n", ["using `git add -A`"]),
    ],
)
def test_items_that_only_name_files_or_use_something(tmp_path, text, kept):
    assert enforced(tmp_path, text) == kept


def test_a_part_of_a_list_that_is_not_understood_is_told(tmp_path):
    path = tmp_path / "AGENTS.md"
    path.write_text(
        "- Never use `grep` or `find`, use `rg` or `fd`.\n- Never edit `a/` or `b/`.\n",
        encoding="utf-8",
    )
    partial, whole = load_rules(path).rules
    assert partial.check is not None
    assert partial.why.endswith("; not understood, so not enforced: use `find`")
    assert not is_conspicuous(partial)
    assert whole.check is not None


def test_a_cell_of_a_table_limits_its_row(tmp_path):
    table = (
        "| Area | Rule |\n|---|---|\n| Frontend | Never use npm |\n| On Fridays | Never push |\n"
        "| All | Never rebase |\n"
    )
    assert enforced(tmp_path, table) == ["Area: All; Rule: Never rebase"]
