"""What a sentence leaves to the title above it: the verb (``## Never``: ``- push to main``), or the
file it is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache


@cache
def _frames() -> re.Pattern[str]:
    """Titles that the items below them complete."""
    return re.compile(
        r"(?:always )?ask (?:me |the user )?first|never|do not|don't|must not|must"
        r" never|forbidden|禁止|严禁|不要|绝不|不得",
        re.IGNORECASE,
    )


@cache
def _open() -> re.Pattern[str]:
    """The beginning of a sentence that says when something is loaded, and not what."""
    return re.compile(
        r"^(\W*(?:only|do"
        r" not|don't|never)\s+(?:load|read|include|inject))(?=\s+(?:in|into|during)\s)",
        re.IGNORECASE,
    )


def completed(sentence: str, title: str) -> Iterator[str]:
    """Yield what a sentence may mean under a title, as it stands first.

    Args:
        sentence: The rule, in one line.
        title: The innermost title above it; empty for none.
    """
    yield sentence
    plain = re.sub(r"[^\w\s'.`/-]", "", title.replace("\u2019", "'")).strip(" .:-")
    if _frames().fullmatch(plain):
        yield f"{plain}: {sentence}"
    files = set(re.findall(r"(?<![\w-])[\w-]+\.(?:md|txt|json|ya?ml|toml)\b", plain))
    if len(files) == 1:
        whole = _open().sub(lambda found: f"{found[1]} `{files.pop()}`", sentence, count=1)
        if whole != sentence:
            yield whole
