"""Completes sentences with the headings above them.

A heading may contain the verb (``## Never`` above ``- push to main``) or name the file that a
sentence is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache


@cache
def _verb_headings() -> re.Pattern[str]:
    return re.compile(
        r"(?:always )?ask (?:me |the user )?first|never|do not|don't|must not|must never|forbidden"
        r"|禁止|严禁|不要|绝不|不得",
        re.IGNORECASE,
    )


@cache
def _loading_pattern() -> re.Pattern[str]:
    """Return a pattern for a sentence that says when to load something, but not what to load."""
    return re.compile(
        r"^(\W*(?:only|do not|don't|never)\s+(?:load|read|include|inject))"
        r"(?=\s+(?:in|into|during)\s)",
        re.IGNORECASE,
    )


def complete_sentence(sentence: str, heading: str) -> Iterator[str]:
    """Yield possible meanings of a sentence under a heading, beginning with the sentence itself.

    Args:
        sentence: The rule, on one line.
        heading: The innermost heading above the rule; empty for none.
    """
    yield sentence
    plain = re.sub(r"[^\w\s'.`/-]", "", heading.replace("\u2019", "'")).strip(" .:-")
    if _verb_headings().fullmatch(plain):
        yield f"{plain}: {sentence}"
    files = set(re.findall(r"(?<![\w-])[\w-]+\.(?:md|txt|json|ya?ml|toml)\b", plain))
    # With two files, it would be unclear which one the sentence is about.
    if len(files) == 1:
        file = files.pop()
        completed = _loading_pattern().sub(lambda found: f"{found[1]} `{file}`", sentence, count=1)
        if completed != sentence:
            yield completed
