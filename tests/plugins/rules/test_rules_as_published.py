"""Rules files as they are found in the field: what readers got wrong with one of them, each in its smallest form."""

from hilum_rules.parsing import drafts


def read(text: str) -> list[tuple[int, tuple[str, ...], str]]:
    return [(draft.line, draft.titles, draft.content) for draft in drafts(text)[0]]


def test_a_heading_with_nothing_under_it_is_a_rule_or_is_told():
    text = "# Rules\n\n## Never push to main\n\n## 不要提交密钥文件\n\n### Input\n\n## Style\n- Tabs.\n\n# Keep this file empty\n"
    assert read(text) == [
        (3, ("Rules",), "Never push to main"),
        (10, ("Rules", "Style"), "Tabs."),
        (12, (), "Keep this file empty"),
    ]
    assert [line for line, _ in drafts(text)[1]] == [7]
    assert drafts("## Input\n")[1] == [(1, "Nothing stands under the heading 'Input'.")]


def test_a_heading_with_code_a_table_or_a_tag_under_it_is_no_rule():
    for inner in ("```\nx\n```\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "<rules>\n- one\n</rules>\n", "**Short:**\n- one\n"):
        assert [content for _, _, content in read(f"## What you must do\n{inner}")] != []
        assert "What you must do" not in [content for _, _, content in read(f"## What you must do\n{inner}")]
