"""Rules about code below the name of a language or of another technology."""

from pathlib import Path

import pytest
from hilum_checks import compile_rule
from hilum_checks.model import EVERYTHING, Content
from hilum_rules.loading import load_rules


def read_patterns(folder: Path, text: str) -> tuple[str, ...] | None:
    """Return the files that the only rule of a file covers; ``None`` if it is advice."""
    path = folder / "AGENTS.md"
    path.write_text(text, encoding="utf-8")
    (rule,) = load_rules(path).rules
    if rule.check is None:
        return None
    ((_, constraint),) = rule.check.parts
    assert isinstance(constraint, Content)
    return constraint.patterns


@pytest.mark.parametrize(
    ("heading", "patterns"),
    [
        ("# Lua", ("*.lua",)),
        ("# Perl scripts", ("*.pl", "*.pm", "*.t")),
        ("# .NET", ("*.cs",)),
        ("# hilum\n## CSS", ("*.css",)),
        # what may be a framework or a language that hilum does not know
        ("# Ember", None),
        ("# hilum\n## Rails rules", None),
        # the title of a file is often one word
        ("# hilum\n## Code style", EVERYTHING),
        ("# Logging", EVERYTHING),
        ("# Never", EVERYTHING),
        ("# Conventions of this project", EVERYTHING),
    ],
)
def test_a_heading_limits_rules_about_code_to_its_language(
    tmp_path: Path, heading: str, patterns: tuple[str, ...] | None
) -> None:
    assert read_patterns(tmp_path, f"{heading}\n- Never use `print()`.\n") == patterns


def test_a_heading_of_one_word_limits_no_command(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    path.write_text("# Ember\n- Never push.\n", encoding="utf-8")
    assert load_rules(path).rules[0].check is not None


@pytest.mark.parametrize(
    ("sentence", "patterns"),
    [
        ("Lua: never use `print()`.", ("*.lua",)),
        ("Perl: No `eval()`.", ("*.pl", "*.pm", "*.t")),
        ("Ember: never use `print()`.", None),
        ("IMPORTANT: never use `print()`.", EVERYTHING),
        ("Never use `print()` in Python.", ("*.py", "*.pyi")),
        ("Never use `print()` in CSS, use `x`", ("*.css",)),
        ("In Python, never use `print()`.", None),
    ],
)
def test_a_language_in_a_sentence_limits_it(
    sentence: str, patterns: tuple[str, ...] | None
) -> None:
    check = compile_rule(sentence, hard=False).check
    if check is None:
        assert patterns is None
        return
    ((_, constraint),) = check.parts
    assert isinstance(constraint, Content)
    assert constraint.patterns == patterns
