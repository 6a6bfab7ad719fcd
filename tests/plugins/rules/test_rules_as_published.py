"""Rules files as they are found in the field: what readers got wrong with one of them, each in its
smallest form.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hilum_rules.comments import blank_code_spans, remove_comments
from hilum_rules.discovery import find_paths
from hilum_rules.loading import load_rules
from hilum_rules.parsing import find_imports, parse_drafts
from hilum_rules.rule_store import RuleStore
from hilum_rules.settings import RulesSettings


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Fail what goes on for longer, however busy the machine is: what this is for never ends."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def read(text: str) -> list[tuple[int, tuple[str, ...], str]]:
    return [(draft.line, draft.titles, draft.content) for draft in parse_drafts(text)[0]]


def test_a_heading_with_nothing_under_it_is_a_rule_or_is_told():
    text = "# Rules\n\n## Never push to main\n\n## 不要提交文件\n\n### Input\n\n## Style\n- Tabs.\n\n# Keep this file empty\n"
    assert read(text) == [
        (3, ("Rules",), "Never push to main"),
        (10, ("Rules", "Style"), "Tabs."),
        (12, (), "Keep this file empty"),
    ]
    assert [line for line, _ in parse_drafts(text)[1]] == [7]
    assert parse_drafts("## Input\n")[1] == [(1, "There is nothing under the heading 'Input'.")]


def test_the_sentences_before_one_that_introduces_a_list_are_a_rule():
    text = "**Never use `npx`.** It is slow. Instead, use:\n\n- `yarn x`\n- `bin/x`\n"
    drafts = [(draft.line, draft.lead, draft.content) for draft in parse_drafts(text)[0]]
    assert drafts == [
        (1, "", "**Never use `npx`.** It is slow."),
        (3, "Instead, use:", "`yarn x`"),
        (4, "Instead, use:", "`bin/x`"),
    ]
    assert [draft.lead for draft in parse_drafts("You must never:\n- push\n")[0]] == [
        "You must never:"
    ]


def test_a_heading_with_code_a_table_or_a_tag_under_it_is_no_rule():
    for inner in (
        "```\nx\n```\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "<rules>\n- one\n</rules>\n",
        "**Short:**\n- one\n",
    ):
        assert [content for _, _, content in read(f"## What you must do\n{inner}")] != []
        assert "What you must do" not in [
            content for _, _, content in read(f"## What you must do\n{inner}")
        ]


def test_a_table_without_rows_gives_its_head():
    for after in ("", "\n", "| | | |\n", "text\n", "# Next\n- a\n"):
        assert read(f"## Risks\n| Risk | Impact |\n|---|---|\n{after}")[0] == (
            2,
            ("Risks",),
            "Risk; Impact",
        )
    assert read("| a | b |\n|---|---|\n| 1 | 2 |\n") == [(3, (), "a: 1; b: 2")]


def test_a_bold_line_that_another_one_follows_is_not_lost():
    text = "# T\n\n**Annotation patterns:**\n\n**Functions:**\n```js\nx\n```\n\n**Last:**\n\n# U\n- a\n"
    assert read(text) == [
        (3, ("T",), "**Annotation patterns:**"),
        (6, ("T", "Functions"), "```js\nx\n```"),
        (10, ("T", "Functions"), "**Last:**"),
        (13, ("U",), "a"),
    ]


def test_lines_with_bold_labels_and_chinese_numbers_are_rules_of_their_own():
    assert read("**可自由做**: 读文件\n**先问**: 发邮件\n以及推文\n") == [
        (1, (), "**可自由做**: 读文件"),
        (2, (), "**先问**: 发邮件\n以及推文"),
    ]
    assert read("**Note:** a line\nthat goes on\n") == [(1, (), "**Note:** a line\nthat goes on")]
    assert read("1，先做好设计\n2，编码严谨\n10，000 元\n") == [
        (1, (), "先做好设计"),
        (2, (), "编码严谨\n10，000 元"),
    ]


LONG = 99_000


@pytest.mark.parametrize(
    "text",
    [
        "# a" + " " * LONG + "x",
        "# a" + " #" * (LONG // 2) + "x",
        "`<!--` " * (LONG // 7),
        "x" + "`" * LONG + "<!-- @a.md",
        "- x " + " ".join("`" * length for length in range(1, 430)) + "<!-- @a.md",
        "|a|\n|-" + " " * LONG + "x",
        "|a|\n" + " " * LONG + "|x",
        "- " * (LONG // 2) + "x",
        "**" + " **b" * (LONG // 4),
        "> " * (LONG // 2) + "x",
    ],
)
def test_a_line_as_long_as_the_file_is_read_at_once(text):
    with limited(10):  # seconds; they take well under one, and took minutes or hours
        found, problems = parse_drafts(text)
        assert found or problems
        for draft in found:
            assert list(find_imports(draft.content)) in ([], ["a.md"])


def test_spans_of_code_end_at_as_many_backticks():
    assert blank_code_spans("a `b` ``c ` d`` `e") == f"a {' ' * 3} {' ' * 9} `e"
    assert blank_code_spans("no ``` such") == "no ``` such"
    assert remove_comments(["`<!--` x <!-- y --> `z`"])[0] == ["`<!--` x  `z`"]


def test_names_and_problems_without_end_are_bounded(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "AGENTS.md").write_text(
        "".join(f"- @missing{number}.md\n" for number in range(1_200)) + "- Tabs.\n"
    )
    file = load_rules(tmp_path / "AGENTS.md")
    assert len(file.rules) == 1_201
    assert len(file.problems) == 201
    assert "And 801 more problems, the last on line 1001" in file.problems[-1].message
    (tmp_path / "CLAUDE.md").write_text("# a\n" * 400)
    assert len(load_rules(tmp_path / "CLAUDE.md").problems) == 201


def test_links_in_a_circle_and_names_of_any_bytes_cost_no_other_file(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "project" / ".cursor" / "rules"
    folder.mkdir(parents=True)
    (folder / "b").symlink_to("a.mdc")
    (folder / "a.mdc").symlink_to("b")
    strange = os.fsencode(folder) + b"/bad\xff.mdc"
    with open(strange, "w", encoding="utf-8") as file:
        file.write("---\nalwaysApply: true\n---\n- One.\n")
    (folder / "good.mdc").write_text("---\nalwaysApply: true\n---\n- Two.\n")
    current = RuleStore(find_paths(tmp_path / "project", tmp_path / "config"), RulesSettings())
    current.load()
    assert [rule.content for rule in current.snapshot.bundle.rules] == ["One.", "Two."]
    assert any("a.mdc" in problem.path for problem in current.snapshot.problems)
    for file in (*current.snapshot.files, load_rules(os.fsdecode(strange))):
        file.path.encode()
        file.name.encode()


@pytest.mark.parametrize(
    "title",
    ["When working on a fork", "If the task is a review", "In production", "Plan mode", "Phase 1: Analysis", "Step 2",
     "For maintainers", "Bad example", "Reviewer agent", "Docs agents", "Production", "Windows only", "只读模式",
     "当用户要求评审时", "代码评审阶段", "示例", "在测试环境中"],
)  # fmt: skip
def test_what_stands_under_a_condition_is_not_enforced(title: str, tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_text(
        f"# Hard rules\n\n## {title}\n\n- NEVER edit `src/`.\n\n### More\n\n- 禁止修改 `src/`\n"
    )
    rules = load_rules(path).rules
    assert [rule.check for rule in rules] == [None, None]
    assert all("may limit it" in rule.why for rule in rules)


@pytest.mark.parametrize(
    "title",
    ["Never", "Git workflow", "For all agents", "AI agents", "Read-only", "Safety", "当前规则"],
)
def test_a_title_that_is_a_subject_bounds_nothing(title: str, tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_text(f"# Hard rules\n\n## {title}\n\n- NEVER edit `src/`.\n")
    assert load_rules(path).rules[0].check is not None
