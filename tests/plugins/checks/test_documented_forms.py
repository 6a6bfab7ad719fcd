"""Every example in the tables of docs/enforced-rules.md becomes a check, and every one of advice does not."""

import re
from pathlib import Path

import pytest
from hilum_checks import compile_rule

PAGE = Path(__file__).parents[3] / "docs" / "enforced-rules.md"


def read_examples() -> list[tuple[str, str]]:
    """Return the form or action and the sentence of each example in the tables of sentences."""
    found = []
    text = PAGE.read_text(encoding="utf-8")
    section = text[text.index("\n## Sentences") : text.index("\n## By hand")]
    for line in section.splitlines():
        if not line.startswith("| ") or line.startswith(("| form |", "| action |")):
            continue
        form, _, cell = line.strip("| ").partition(" | ")
        for example in cell.split(" · "):
            found.append((form, example.strip()))
    return found


@pytest.mark.parametrize(("form", "sentence"), read_examples())
def test_a_documented_example_is_enforced(form: str, sentence: str) -> None:
    # A note about the example, in parentheses at its end, is no part of it.
    texts = (sentence, re.sub(r" \([A-Za-z][^()`]*\)$", "", sentence))
    checks = [compile_rule(text, hard=hard).check for text in texts for hard in (False, True)]
    assert any(checks), f"{form}: {sentence}"


def test_the_tables_name_all_forms() -> None:
    assert len(read_examples()) > 120


@pytest.mark.parametrize(
    "sentence",
    [
        "Never edit `a/` in reviews.",
        "Never edit `a/` for the web package.",
        "Never push when possible.",
        "There is no `npm test`.",
        "`dist/` is not committed.",
    ],
)
def test_what_the_page_calls_advice_is_advice(sentence: str) -> None:
    assert compile_rule(sentence, hard=True).check is None
