"""A space before a prompt on the command line keeps it from being read as a command."""

import pytest
from hilum_cli import options


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([" /nope x"], " /nope x"),
        (["  @a", "b "], " @a b"),
        (["/review", "a.py"], "/review a.py"),
        (["fix it\n"], "fix it"),
        (["  "], ""),
    ],
)
def test_one_space_before_the_prompt_is_kept(
    words: list[str], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "_is_piped", lambda: False)
    monkeypatch.setattr(options, "_read_stdin", lambda wanted: "")
    assert options.read_prompt(words).text == text
