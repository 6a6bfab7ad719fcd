"""Which sentences sound binding, and which texts are no rules."""

from collections.abc import Callable
from typing import Any

import pytest
from hilum_rules.binding import is_description, sounds_binding
from hilum_rules.rule import Rule, RuleType


def make_rule(sentence: str, **fields: Any) -> Rule:
    given = {"type": RuleType.SOFT_GUIDELINE, "section": "House", **fields}
    return Rule(id="id", content=sentence, path="AGENTS.md", line=3, **given)


@pytest.mark.parametrize(
    ("text", "binding"),
    [
        ("You must run the tests.", True),
        ("Never be late.", True),
        ("All changes go through review, always.", True),
        ("No direct writes to the database.", True),
        ("提交前必须运行测试。", True),
        ("禁止直接修改生成的文件", True),
        ("Commit subjects use an area prefix: `docs:`.", True),
        ("Use the logger (not `console.log`).", True),
        ("It makes the tag — do **not** create one.", True),
        ("安装时只允许覆盖安装", True),
        ("Kein `git add -A`", True),
        ("Vor dem Push nachfragen", True),
        ("НЕ ИСПОЛЬЗУЙ `cargo`", True),
        ("コミット前に実行：`make test`", True),
        ("`.data/` 파일은 삭제하지 않는다.", True),
        ("No recrear `CLAUDE.md`", True),
        ("Ne modifiez jamais `vendor/`.", True),
        ("Nunca edite `vendor/`.", True),
        ("Das Projekt ist in Python geschrieben.", False),
        ("Проект написан на Rust.", False),
        ("The server listens on port 80.", False),
        ("项目使用 Python 编写", False),
        ("Build: `make`", False),
        ("!!!", False),
        ("must " * 400, False),
    ],
)
def test_which_sentences_sound_binding(text: str, binding: bool) -> None:
    assert sounds_binding(make_rule(text)) is binding


@pytest.mark.parametrize(
    ("rule", "describes"),
    [
        (make_rule("```\nsrc/\n├── a.py\n└── b.py\n```"), True),
        (make_rule("src\n|-- a.py\n`-- b.py"), True),
        (make_rule("Layout:\n```\nsrc/\n├── never.py\n```"), True),
        (make_rule("Never add files here:\n```\nsrc/\n├── a.py\n```"), False),
        (make_rule("Folder: src/; Content: the code", is_row=True), True),
        (make_rule("Folder: src/; Rule: never edit", is_row=True), False),
        (make_rule("The code is in src/."), False),
    ],
)
def test_tables_that_describe_and_trees_are_no_rules(rule: Rule, describes: bool) -> None:
    assert is_description(rule) is describes
    assert not (describes and sounds_binding(rule))


def test_rows_are_read_as_rows(put: Callable[..., None], current: Callable[..., Any]) -> None:
    put({"AGENTS.md": "| Folder | Content |\n|---|---|\n| src | code |\n\nUse tabs.\n"})
    assert [rule.is_row for rule in current().snapshot.bundle.rules] == [True, False]


def test_what_a_table_is_introduced_by_belongs_to_its_rows(
    put: Callable[..., None], current: Callable[..., Any]
) -> None:
    table = "| Folder | Rule |\n|---|---|\n| `help/` | on request |\n"
    put({"AGENTS.md": f"Do not create new pages; specific rules:\n\n{table}\nUse tabs.\n"})
    row, other = current().snapshot.bundle.rules
    assert (
        row.sentence == "Do not create new pages; specific rules: Folder: `help/`; Rule: on request"
    )
    assert other.lead == ""
