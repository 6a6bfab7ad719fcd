"""Messages about mistakes in files contain no words of Python or of a library."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hilum_hooks_claude.settings_files import read_file
from hilum_rules.field_mistakes import describe_mistake
from hilum_rules.hidden_characters import escape_name
from hilum_rules.lock_file import parse_lock


class Fields(msgspec.Struct, forbid_unknown_fields=True):
    """Some fields."""

    name: str
    lines: list[str] | None = None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "'name' is missing"),
        ('{"name": 1}', "'name' must be a text, and is a number"),
        ('{"name": "a", "lines": "b"}', "'lines' must be a list or nothing, and is a text"),
        ('{"name": "a", "more": 1}', "'more' is not one of its fields"),
        ("[]", "it must be fields with values, and is a list"),
        ("x", "it is not valid JSON"),
    ],
)
def test_mistakes_in_fields_are_named_in_plain_words(text: str, message: str) -> None:
    with pytest.raises(msgspec.DecodeError) as raised:
        msgspec.json.decode(text, type=Fields)
    assert describe_mistake(raised.value) == message


def test_a_lock_names_the_missing_field() -> None:
    lock = parse_lock('[[rule]]\nfile = "a"\nenforce = ["deny write a"]\n', Path("l"), "l")
    (mistake,) = [message for _, message in lock.mistakes]
    assert mistake.endswith("is missing.")
    assert "Object" not in mistake


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Path.mkdir, "The file cannot be read: Is a directory."),
        (
            lambda path: path.write_bytes(b'{"a": "\xe9"}'),
            "The file cannot be read: it is neither UTF-8 nor UTF-16.",
        ),
    ],
)
def test_a_file_of_hooks_that_cannot_be_read(
    make: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    make(path)
    (mistake,) = read_file(path, "settings.json", "user").mistakes
    assert mistake.problem == message


def test_a_line_feed_and_a_tab_in_a_name_have_their_own_codes() -> None:
    assert escape_name("a\nb\tc\x0b") == "a<U+000A>b<U+0009>c<U+000B>"
