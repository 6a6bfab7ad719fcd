"""Text into rules: what belongs together, where it stands, what its title says."""

import re
from pathlib import Path

import pytest
from hilum_checks.braces import expand_braces
from hilum_rules import RuleType, load_rules
from hilum_rules.front_matter import gitignore_patterns, read_front_matter
from hilum_rules.hidden_characters import reveal
from hilum_rules.parsing import Draft, find_imports, parse_drafts
from hilum_rules.sections import choose_type, find_type
from hypothesis import given
from hypothesis import strategies as st

HARD, SOFT, IDENTITY = RuleType


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("安全准则", HARD),
        ("外部操作", HARD),
        ("红线", HARD),
        ("禁止事项", HARD),
        ("必须遵守", HARD),
        ("Safety", HARD),
        ("3. Security considerations", HARD),
        ("🔒 **SECURITY**", HARD),
        ("External actions", HARD),
        ("Hard rules", HARD),
        ("Never", HARD),
        ("You MUST NOT", HARD),
        ("Forbidden", HARD),
        ("Boundaries", HARD),
        ("Constraints", HARD),
        ("Red lines:", HARD),
        ("Don’t", HARD),
        ("Critical Rules (read first)", HARD),
        ("DO NOT", HARD),
        ("避免三连击", SOFT),
        ("表情反应", SOFT),
        ("记忆系统", SOFT),
        ("Memory", SOFT),
        ("Reactions", SOFT),
        ("Avoid triple texting", SOFT),
        ("Type Safety", SOFT),
        ("Memory safety", SOFT),
        ("Do's and Don'ts", SOFT),
        ("Error boundaries", SOFT),
        ("首次启动", IDENTITY),
        ("First run", IDENTITY),
        ("Who you are", IDENTITY),
        ("Persona", IDENTITY),
        ("你的角色", IDENTITY),
        ("Code style", None),
        ("Testing", None),
        ("User roles and access", None),
        ("Musty books", None),
        ("构建", None),
        (
            "Never let a title that is a long sentence of its own say anything about all that stands below it,"
            " whatever it may say in the words it has",
            None,
        ),
    ],
)
def test_titles_say_what_stands_below(title: str, kind: RuleType | None) -> None:
    assert find_type(title) is kind


def test_the_innermost_known_title_decides() -> None:
    assert choose_type(["Safety", "Examples"]) is HARD
    assert choose_type(["Safety", "Memory"]) is SOFT
    assert choose_type(["Unknown"]) is SOFT
    # A title says nothing about the sections within its sections.
    assert choose_type(["Agent identity", "Rules", "Git"]) is SOFT
    assert choose_type(["Identity", "Tone"]) is IDENTITY
    assert choose_type(["Safety", "Rules", "Git"]) is HARD


def contents(text: str) -> list[str]:
    return [draft.content for draft in parse_drafts(text)[0]]


def test_code_stays_with_its_rule() -> None:
    assert contents("- run\n\n  ```sh\n  make\n  ```\n- next") == ["run\n```sh\nmake\n```", "next"]
    assert contents("Run:\n\n```\nmake\n```\n\nNext.") == ["Run:\n```\nmake\n```", "Next."]
    assert contents("## Build\n\n```\nmake\n```") == ["```\nmake\n```"]
    assert contents("- a\n```\n- no item\n# no title\n```\n- b") == [
        "a\n```\n- no item\n# no title\n```",
        "b",
    ]
    assert contents("> ```\n> > in it\n> ```") == ["```\n> in it\n```"]


def test_lists_in_lists_are_introduced_by_what_is_above() -> None:
    found, _ = parse_drafts(
        "You must never:\n\n- push\n- touch:\n  - a\n  - b\n    more of b\n- commit\n\nAfter.\n"
    )
    assert [(draft.lead, draft.content, draft.depth) for draft in found] == [
        ("You must never:", "push", 0),
        ("You must never:\ntouch:", "a", 1),
        ("You must never:\ntouch:", "b\nmore of b", 1),
        ("You must never:", "commit", 0),
        ("", "After.", -1),
    ]


def test_a_list_introduces_no_code_below_a_later_heading() -> None:
    found, _ = parse_drafts("- Always:\n  - lint\n\n# Build\n\n```\nmake\n```\n")
    assert [(draft.lead, draft.content) for draft in found] == [
        ("Always:", "lint"),
        ("", "```\nmake\n```"),
    ]


def test_a_short_line_before_a_list_makes_its_rules_hard(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Never:\n\n- push\n\nUsually:\n\n- test\n")
    assert [rule.type for rule in load_rules(tmp_path / "AGENTS.md").rules] == [HARD, SOFT]


def test_a_bold_line_is_a_title_unless_it_is_a_sentence() -> None:
    found, _ = parse_drafts("**Hard rules**\n- a\n\n**Never push to main.**\n\nText\n")
    assert [(draft.titles, draft.content) for draft in found] == [
        (("Hard rules",), "a"),
        (("Hard rules",), "**Never push to main.**"),
        (("Hard rules",), "Text"),
    ]


def test_tags_are_titles_until_they_close() -> None:
    found, _ = parse_drafts("# T\n<hard_rules>\n- a\n## In\n- b\n</hard_rules>\n- c\n<br>\n")
    assert [draft.titles for draft in found] == [
        ("T", "hard rules"),
        ("T", "hard rules", "In"),
        ("T",),
    ]


def test_ids_stay_when_something_else_changes(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_text("# T\n\n## A\n- one\n- two\n- one\n\n## B\n- one\n")
    before = {(rule.section, rule.content): rule.id for rule in load_rules(path).rules[1:]}
    assert len({rule.id for rule in load_rules(path).rules}) == 4
    path.write_text(
        "Intro.\n\n# T\n\n## New\n- new\n\n## A\n- two\n- one  \n\n## B\n- one\n- more\n"
    )
    after = {(rule.section, rule.content): rule.id for rule in load_rules(path).rules}
    assert before["T > A", "two"] == after["T > A", "two"]
    assert before["T > B", "one"] == after["T > B", "one"]
    assert after["T > A", "one"] != after["T > B", "one"]


def test_imports_are_found_outside_of_code_and_addresses() -> None:
    text = "See @docs/a.md, (@b.md) and @~/c.md. `@no/d.md` me@example.org @e.md.\n```\n@no/f.md\n```\n@./g.md"
    assert list(find_imports(text)) == ["docs/a.md", "b.md", "~/c.md", "e.md", "./g.md"]


def test_patterns_with_braces_are_several_and_do_not_explode() -> None:
    assert expand_braces("src/**/*.{ts,tsx}") == ["src/**/*.ts", "src/**/*.tsx"]
    assert expand_braces("{a,b}{c,d}") == ["ac", "ad", "bc", "bd"]
    assert len(expand_braces("{a,b}" * 60)) < 300
    assert list(gitignore_patterns(("./x", "y"))) == ["x", "y"]


def test_revealing_keeps_lines_and_plain_text() -> None:
    assert reveal("plain\n\ttext ü 中 1️⃣") == ("plain\n\ttext ü 中 1️⃣", [])
    assert reveal("a\u200d\nb\ufe0f\n") == ("a<U+200D>\nb<U+FE0F>\n", [(1, 1), (2, 1)])
    smuggled = "😀" + "".join(chr(0xE0100 + byte) for byte in b"hi")
    assert "<U+E0168>" in reveal(smuggled)[0]


PIECES = st.sampled_from(
    [
        "# T",
        "## 安全",
        "- item",
        "  - inner",
        "\t- tab",
        "1. one",
        "   more",
        "text words",
        "",
        "",
        "```",
        "~~~py",
        "> quote",
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
        "<!-- c -->",
        "<!--",
        "-->",
        "enforce: deny write x",
        "---",
        "===",
        "**Bold**",
        "<tag>",
        "</tag>",
        "@a.md",
        "    indented",
        "lead:",
        "\u200bhid",
        "* * *",
        "#x",
        "##y",
        "-",
        "1)",
        "•z",
        "`<!--`",
        "\ufeff",
    ]
)
WORD = re.compile(r"[^\W_]+")


def words(found: list[Draft]) -> set[str]:
    texts = [
        " ".join([*draft.titles, draft.lead, draft.content, *(e.text for e in draft.enforce)])
        for draft in found
    ]
    return set(WORD.findall(" ".join(texts)))


@given(st.lists(PIECES, max_size=30))
def test_no_line_gets_lost_whatever_stands_around_it(pieces: list[str]) -> None:
    lines = [
        f"{piece} w{number}"
        if piece.strip() in ("text words", "- item", "1. one", "  - inner", "•z")
        else piece
        for number, piece in enumerate(pieces)
    ]
    found, problems = parse_drafts("\n".join(lines))
    told = {
        line
        for line, message in problems
        if "left out" in message or "There is nothing under" in message
    }
    inside = set()
    for line, message in problems:
        if match := re.search(r"comment of (\d+) lines is left out", message):
            inside |= set(range(line, line + int(match[1])))
    for number, line in enumerate(lines):
        if re.search(r" w\d+$", line) and number + 1 not in told | inside:
            assert f"w{number}" in words(found), (line, found)


@given(st.text(max_size=400))
def test_any_text_is_read(text: str) -> None:
    found, _ = parse_drafts(text.replace("\r", ""))
    for draft in found:
        assert draft.line >= 1


def test_all_mistakes_of_front_matter_are_reported_at_once():
    """Each has its line, the value and what was expected; misspelt fields have a suggestion."""
    text = (
        "---\ndescriptoin: x\nglobs: [src/**, lib\nalwaysAply: true\nalwaysApply: maybe\n"
        "description: {a: b}\ncolour: red\n---\nUse tabs.\n"
    )
    assert sorted(read_front_matter(text.encode(), "mdc").problems) == [
        (2, "The field 'descriptoin' is unknown; did you mean 'description'?"),
        (3, "globs: found '[src/**, lib', in which a bracket is not closed."),
        (4, "The field 'alwaysAply' is unknown; did you mean 'alwaysApply'?"),
        (5, "alwaysApply: found 'maybe', expected true or false; it is read as false."),
        (6, "description: found the mapping '{a: b}', expected a string; it is read as one."),
        (7, "Unknown fields are ignored: 'colour'."),
    ]
    text = "---\npathz: [a]\npaths: {a: {b: c}}\ndescription: [1, 2]\n---\nUse tabs.\n"
    assert sorted(read_front_matter(text.encode(), "claude-rules").problems) == [
        (2, "The field 'pathz' is unknown; did you mean 'paths'?"),
        (3, "paths: found the mapping '{a: {b: c}}', expected a pattern or a list of them."),
        (4, "description: found the list '[1, 2]', expected a string; it is read as one."),
    ]


@pytest.mark.parametrize("globs", ["[ab]*.ts", "{a,b}", "['*.ts', '*.js']", "**/*.{ts,tsx}"])
def test_patterns_in_every_form_are_no_mistake(globs):
    assert not read_front_matter(f"---\nglobs: {globs}\n---\nx\n".encode(), "mdc").problems
