"""Which sentences a model is asked about."""

from pathlib import Path
from typing import Any

import pytest
from hilum_rules import load_rules
from hilum_rules.rule import Rule, RuleType
from hilum_rules_compile.undecided import may_bind, needs_decision


def make_rule(sentence: str, **fields: Any) -> Rule:
    given = {"type": RuleType.SOFT_GUIDELINE, "section": "House", **fields}
    return Rule(id="id", content=sentence, path="AGENTS.md", line=3, **given)


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        # Half of the sentences that people call enforceable contain no binding word.
        (make_rule("For Node: use `pnpm`."), True),
        (make_rule("Please follow [Conventional Commits](https://www.conventionalcommits.org)."), True),
        (make_rule("After changes run: npm run lint && npm run build"), True),
        (make_rule("`pacman`, `sudo`;", lead="This includes:"), True),
        (make_rule("编辑文件使用补丁方式。"), True),
        (make_rule("Das Projekt nutzt `uv`."), True),
        (make_rule("Area: help; Rule: on request", is_row=True), True),
        (make_rule("The server listens on port 80."), True),
        (make_rule("a " * 1_000), True),
        (make_rule("a " * 2_000), False),
        (make_rule("!!!"), False),
        (make_rule("```\nsrc/\n├── a.py\n└── b.py\n```"), False),
        (make_rule("```\nmake build\n```"), False),
        (make_rule("```\n# Never run this twice.\nmake build\n```"), True),
        (make_rule("```\nmake test\n```", section="House > Run before pushing"), True),
        (make_rule("I am a bot.", type=RuleType.IDENTITY), False),
    ],
)  # fmt: skip
def test_a_model_is_asked_about_all_but_trees_and_bare_code(rule: Rule, asked: bool) -> None:
    assert may_bind(rule) is asked


def test_a_model_is_asked_about_a_sentence_of_which_a_part_is_not_enforced(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_text("- Never use `grep` or `find`, use `rg` or `fd`.\n- Never edit `a/` or `b/`.\n")
    partial, whole = load_rules(path).rules
    assert partial.check is not None
    assert needs_decision(partial)
    assert whole.check is not None
    assert not needs_decision(whole)
