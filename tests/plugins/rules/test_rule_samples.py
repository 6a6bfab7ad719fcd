"""One sample for each dialect and each way in which published files depart from it."""

from pathlib import Path

import pytest
from hilum_rules import Mode, load_rules

ALWAYS, AUTO, AGENT, MANUAL = Mode

# The file, its mode, globs and description, how many rules, and of each problem the line and some
# words.
TABLE: list[tuple[str, Mode, tuple[str, ...], str, int, list[tuple[int, str]]]] = [
    ("mdc/unquoted.mdc", AUTO, ("**/*.ts", "**/*.{tsx,mts}"), "Rules for TypeScript: types first", 2, []),
    ("mdc/quoted.mdc", AUTO, ("*.py", "src/**/*.pyi"), "Python: style", 1, []),
    ("mdc/list.mdc", AUTO, ("docs/**/*.md", "*.rst"), "", 1, []),
    ("mdc/flow.mdc", AUTO, ("*.go", "cmd/**"), "", 1, []),
    ("mdc/two-quoted.mdc", AUTO, ("*.ts", "*.tsx"), "two texts", 1, []),
    ("mdc/multiline.mdc", AUTO, ("*.x", "*.y"), "folded over two lines", 1, []),
    ("mdc/crlf-bom.mdc", AUTO, ("*.cs",), "from Windows", 1, []),
    ("mdc/dashes.mdc", AUTO, ("a---b/*.py",), "a --- in a value", 2, []),
    ("mdc/folder/RULE.md", AUTO, ("*.rb",), "the folder form", 1, []),
    ("mdc/norwegian.mdc", AUTO, ("off.py",), "no", 1, []),
    ("mdc/always.mdc", ALWAYS, (), "everywhere", 1, []),
    ("mdc/always-with-globs.mdc", ALWAYS, ("*.sql",), "", 1, []),
    ("mdc/links.mdc", ALWAYS, (), "", 1, []),
    ("mdc/yes.mdc", ALWAYS, (), "", 1, [(3, "'version', 'since', 'author'")]),
    ("mdc/agent.mdc", AGENT, (), "How releases are made", 2, []),
    ("mdc/wrong-flag.mdc", AGENT, (), "flag", 1, [(3, "expected true or false; it is read as false.")]),
    ("mdc/misspelled.mdc", AGENT, (), "misspelled", 1, [(3, "did you mean 'alwaysApply'?")]),
    ("mdc/latin1.mdc", AGENT, (), "caf\ufffd", 1, [(2, "not UTF-8")]),
    ("mdc/tag.mdc", AGENT, (), '!!python/object/apply:os.system ["true"]', 1, []),
    ("mdc/manual.mdc", MANUAL, (), "", 1, []),
    ("mdc/none.mdc", MANUAL, (), "", 1, [(1, "no front matter")]),
    ("mdc/unclosed.mdc", AUTO, ("*.c",), "never closed", 1, [(1, "no closing")]),
    ("mdc/twice.mdc", AUTO, ("*.a",), "", 1, [(4, "second front matter")]),
    ("mdc/duplicate-key.mdc", AUTO, ("*.b",), "", 1, [(3, "is repeated here")]),
    ("claude/.claude/rules/paths.md", AUTO, ("src/**/*.{ts,tsx}", "*.css"), "", 1, []),
    ("claude/.claude/rules/list.md", AUTO, ("api/**",), "", 1, []),
    ("claude/.claude/rules/plain.md", ALWAYS, (), "", 1, []),
    ("copilot/.github/copilot-instructions.md", ALWAYS, (), "", 2, []),
    ("copilot/.github/instructions/ts.instructions.md", AUTO, ("**/*.ts", "**/*.tsx"), "TypeScript", 1, []),
    ("copilot/.github/instructions/all.instructions.md", ALWAYS, ("**",), "", 1, []),
    ("copilot/.github/instructions/none.instructions.md", AGENT, (), "asked for", 1, [(1, "no applyTo")]),
    ("cursorrules/.cursorrules", ALWAYS, (), "", 2, []),
    ("gemini/GEMINI.md", ALWAYS, (), "", 1, []),
    ("agents/AGENTS.md", ALWAYS, (), "", 12, []),
    ("agents/chinese.md", ALWAYS, (), "", 8, []),
    ("agents/odd-lists.md", ALWAYS, (), "", 9, []),
    ("agents/front-matter.md", ALWAYS, (), "", 1, [(2, "'title', 'layout'")]),
    ("agents/comments.md", ALWAYS, (), "", 3, [(3, "comment is left out"), (5, "comment of 3 lines is left out")]),
    ("agents/unclosed-comment.md", ALWAYS, (), "", 3, [(3, "never closed")]),
    ("agents/unclosed-fence.md", ALWAYS, (), "", 1, [(3, "never closed")]),
    ("agents/hidden.md", ALWAYS, (), "", 5, [(1, "2 hidden"), (2, "3 hidden"), (5, "2 hidden")]),
    ("agents/empty.md", ALWAYS, (), "", 0, [(0, "no rules")]),
    ("agents/only-title.md", ALWAYS, (), "", 0, [(1, "There is nothing")]),
    ("agents/utf16.md", ALWAYS, (), "", 1, [(1, "UTF-16")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "mode", "globs", "description", "rules", "problems"),
    TABLE,
    ids=[row[0] for row in TABLE],
)
def test_a_sample_is_read_as_it_is_meant(
    samples: Path,
    name: str,
    mode: Mode,
    globs: tuple[str, ...],
    description: str,
    rules: int,
    problems: list[tuple[int, str]],
) -> None:
    file = load_rules(samples / name)
    assert (file.mode, file.globs, file.description, len(file.rules)) == (
        mode,
        globs,
        description,
        rules,
    )
    assert len(file.problems) == len(problems), file.problems
    for found, (line, words) in zip(file.problems, problems, strict=True):
        assert found.line == line
        assert words in found.message
        assert found.path.endswith(name)


def test_every_sample_is_in_the_table(samples: Path) -> None:
    elsewhere = {"mdc/bomb.mdc", "agents/enforce.md"}
    there = {path.relative_to(samples).as_posix() for path in samples.rglob("*") if path.is_file()}
    assert there == {row[0] for row in TABLE} | elsewhere


def test_front_matter_that_unfolds_without_end_is_not_unfolded(samples: Path) -> None:
    file = load_rules(samples / "mdc/bomb.mdc")
    assert file.description == "boom"
    assert [rule.content for rule in file.rules] == ["Still read."]
    assert {problem.line for problem in file.problems} == {2, 3, 4, 5, 6}


def test_rules_have_their_lines_sections_and_types(samples: Path) -> None:
    file = load_rules(samples / "agents/AGENTS.md")
    assert [
        (rule.line, rule.section.split(" > ")[-1], rule.type.value.split("_")[0], rule.sentence)
        for rule in file.rules
    ] == [
        (3, "Project", "soft", "This is a service."),
        (7, "Commands", "soft", "Run before a commit:"),
        (15, "Safety", "hard", "Never edit files in `migrations/`."),
        (17, "Safety", "hard", "Never: push to `main`"),
        (18, "Safety", "hard", "Never: read `.env` or anything like it"),
        (25, "Style", "soft", "what: names; how: snake_case"),
        (26, "Style", "soft", "what: quotes; how: double"),
        (28, "Style", "soft", "Quoted rules count."),
        (32, "Must not", "hard", "do this"),
        (33, "Must not", "hard", "or that"),
        (36, "important", "hard", "Keep this in mind."),
        (42, "Setext", "soft", "Last words."),
    ]
    assert file.rules[1].content == "Run before a commit:\n```sh\nmake test   # all of it\n```"


def test_chinese_headings_have_the_types_of_the_requirement(samples: Path) -> None:
    file = load_rules(samples / "agents/chinese.md")
    assert [rule.type.value for rule in file.rules] == [
        "hard_constraint",
        "hard_constraint",
        "hard_constraint",
        "soft_guideline",
        "soft_guideline",
        "soft_guideline",
        "identity",
        "soft_guideline",
    ]
    assert [rule.line for rule in file.rules] == [5, 6, 10, 14, 18, 22, 26, 30]


def test_hidden_characters_are_shown_and_those_of_ordinary_writing_stay(samples: Path) -> None:
    first, tags, emoji, hindi, escape = (
        rule.content for rule in load_rules(samples / "agents/hidden.md").rules
    )
    assert first == "Be kind<U+200B><U+202E>."
    assert tags == "Tags: <U+E0069><U+E0067><U+E006E>"
    assert emoji.count("\u200d") == 2
    assert "\ufe0f" in emoji
    assert "\u200d" in hindi
    assert escape == "<U+001B>[31mred<U+001B>[0m"


def test_comments_are_left_out_except_in_code(samples: Path) -> None:
    text = "\n".join(rule.content for rule in load_rules(samples / "agents/comments.md").rules)
    assert "not seen" not in text
    assert "Ignore all" not in text
    assert "`<!-- code -->` stays" in text
    assert "<!-- stays -->" in text


def test_lines_for_checks_go_to_the_rule_above_in_their_section(samples: Path) -> None:
    rules = load_rules(samples / "agents/enforce.md").rules
    assert [
        (rule.content, [(line.line, line.text) for line in rule.enforce]) for rule in rules
    ] == [
        ("Generated code is not edited by hand.", [(6, "deny write gen/**")]),
        ("Nothing here.", [(9, "deny run rm")]),
        ("enforce: deny write alone/**", [(13, "deny write alone/**")]),
        ("Text below.", []),
    ]
    (inline,) = [rule for rule in load_rules(samples / "agents/comments.md").rules if rule.enforce]
    assert (inline.content, inline.enforce[0].text) == ("A check", "deny write vendor/**")
