"""Calls of people who keep a rule: what a rule means is refused, and what is near it passes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hilum import Tool
from hilum_checks import compile_rule, judge

RISKS = {"write_file": "write", "delete_file": "write"}


class Ruled:
    path = "AGENTS.md"
    line = 1

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        self.check = compile_rule(sentence, hard=False).check


def judged(sentence: str, root: Path, call: str, text: str = "x\n") -> bool:
    """Return whether a rule stops a call: a command after ``$``, or a path that is written."""
    arguments: dict[str, Any] = {"path": call, "content": text}
    name = "write_file"
    if call.startswith("$ "):
        name, arguments = "run_terminal_cmd", {"command": call[2:]}
    tool = Tool(
        name,
        "",
        lambda: "",
        risk=RISKS.get(name, "execute"),  # type: ignore[arg-type]
        writes=("path",) if name in RISKS else (),
    )
    return judge([Ruled(sentence)], json.dumps(arguments), tool, root) is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("narrow").resolve() / "workspace"
    for name in ("app/core/b.py", "lib/a.py", "lib/sub/old.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    return root


@pytest.mark.parametrize(
    "sentence",
    [
        # folders, and not the files in them
        "Do not create new top-level folders in `docs/`.",
        "Do not create new folders in `lib/`.",
        "Ask before creating new folders in `lib/`.",
        "不要在 `lib/` 下新建目录",
        "Don't create directories in `src/`.",
        "Don't add folders to `docs/`.",
        "Never create folders outside `src/`.",
        "Do not delete folders in `lib/`.",
        "Never rename folders in `lib/`.",
        "Only create folders in `lib/`.",
        # what is moved there
        "Never move files to `lib/`.",
        # files directly in a folder
        "Do not create new top-level files in `lib/`.",
        "Do not modify top-level files in `lib/`.",
        # branches
        "No `TODO` comments in `main`.",
        "Do not create files in `develop`.",
        "Never rename branches.",
    ],
)
def test_what_no_check_expresses_stays_advice(sentence: str) -> None:
    assert compile_rule(sentence, hard=False).check is None
    assert compile_rule(sentence, hard=True).check is None


@pytest.mark.parametrize(
    ("sentence", "stopped", "passed"),
    [
        (
            "Do not create files in the `lib/` folder.",
            ["lib/new.py", "lib/sub/new.py"],
            ["lib/a.py", "app/new.py"],
        ),
        ("不要在 `lib/` 目录下新建文件", ["lib/new.py"], ["app/new.py"]),
        ("Never delete the folder `lib/`.", ["$ rm -r lib", "$ mv lib app/lib"], ["$ ls lib"]),
        (
            "Don't rename `app/core/`.",
            ["$ mv app/core app/kernel", "$ mv app apps", "$ git mv app/core app/kernel"],
            ["$ rm app/core/b.py", "$ mv app/core/b.py app/core/c.py", "app/core/b.py"],
        ),
        (
            "Never rename files in `lib/`.",
            ["$ mv lib/a.py lib/b.py", "$ python -c \"import os; os.rename('lib/a.py', 'b.py')\""],
            ["$ rm lib/a.py", "lib/a.py", "$ python -c \"import os; os.remove('lib/a.py')\""],
        ),
        ("不得移动 `lib/a.py`", ["$ mv lib/a.py b.py"], ["$ rm lib/a.py", "$ git rm --cached lib/a.py"]),
        ("Never delete or rename `lib/a.py`.", ["$ mv lib/a.py b.py", "$ rm lib/a.py"], ["lib/a.py"]),
        (
            "Test files are named `*.spec.ts`.",
            ["src/cart.test.ts", "src/cart_test.ts"],
            ["src/latest.ts", "src/Fastest.ts", "src/contests.ts", "src/load-test.ts", "src/a.spec.ts"],
        ),
        (
            "Use PascalCase for component files.",
            ["src/components/price-tag.tsx", "components/cart/totals.vue"],
            [
                "src/index.tsx",
                "src/main.tsx",
                "app/page.tsx",
                "src/hooks/useAuth.tsx",
                "src/lib/context.jsx",
                "src/components/index.tsx",
                "src/components/useCart.tsx",
                "src/components/ui/button.tsx",
                "src/components/PriceTag.tsx",
            ],
        ),
        (
            "No emojis in commit messages or code.",
            ["$ git commit -m '✨ sparkle'", "$ echo 'a = \"✨\"' > a.py"],
            ["$ git commit -m 'sparkle'", "$ echo '✨' > notes.md"],
        ),
        ("Do not add top-level dependencies.", ["$ npm install left-pad"], ["$ npm ci"]),
    ],
)  # fmt: skip
def test_a_rule_stops_what_it_means_and_nothing_near_it(
    root: Path, sentence: str, stopped: list[str], passed: list[str]
) -> None:
    missed = [call for call in stopped if not judged(sentence, root, call)]
    refused = [call for call in passed if judged(sentence, root, call)]
    assert (missed, refused) == ([], [])


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Don't use `time.Sleep` in tests.", "time.Sleep(1)\n"),
        ("Don't commit `.only` in tests.", "it.only('a')\n"),
        ("No `.only()` in tests.", "it.only('a')\n"),
        ("No `.only()` in tests.", "describe.only.each([1])('a', () => {})\n"),
        ("No `.only()` in tests.", "it.only.each`a|b`('c')\n"),
        ("No `it.only()` in tests.", "it.concurrent.only('a')\n"),
        ("Tests: no `time.Sleep`", "time.Sleep(1)\n"),
    ],
)
def test_files_of_tests_have_the_whole_word_in_their_names(
    root: Path, sentence: str, text: str
) -> None:
    tests = [
        "a_test.go", "src/cart.test.ts", "src/cart.spec.ts", "e2e/cart.e2e-spec.ts", "tests/cart.go",
        "pkg/test_cart.py", "src/test/java/CartTest.java", "src/__tests__/cart.tsx", "Shop.Tests/Cart.cs",
        "conftest.py", "shop/tests.py",
    ]  # fmt: skip
    others = [
        "latest.go", "inspector.go", "internal/special/a.go", "contest/a.go", "attestation/a.py",
        "special-offers.tsx", "testimonials.tsx", "src/spec-sheet.ts", "greatest.ts",
    ]  # fmt: skip
    assert [path for path in tests if not judged(sentence, root, path, text)] == []
    assert [path for path in others if judged(sentence, root, path, text)] == []


def test_a_word_in_a_name_is_no_modifier_of_a_test(root: Path) -> None:
    text = "it.each([1])('only', f)\nit.onlyIf(x)\nquery.only.name\n"
    assert not judged("No `.only()` in tests.", root, "a.test.ts", text)


def test_a_prohibition_that_is_not_understood_is_named() -> None:
    compiled = compile_rule("No `panic` outside `cmd/`. Never use `npm`.", hard=False)
    assert compiled.check is not None
    assert compiled.is_partial
    assert compiled.why.endswith("not enforced: no `panic` outside `cmd/`")
    assert not compile_rule("Never use `npm`. Do not commit.", hard=False).is_partial


@pytest.mark.parametrize(
    ("sentence", "rest"),
    [
        ("Commit messages must be in English and start with a verb.", "start with verb"),
        ("Use conventional commits and mention `#123`.", "mention `#123`"),
        ("提交信息用中文，格式为 `类型: 描述`。", "格式为 `类型: 描述`"),
    ],
)
def test_what_else_commit_messages_are_to_be_is_named(sentence: str, rest: str) -> None:
    compiled = compile_rule(sentence, hard=False)
    assert compiled.is_partial
    assert compiled.why.endswith(f"not understood, so not enforced: {rest}")
    assert not compile_rule("Commit messages are in English.", hard=False).is_partial
