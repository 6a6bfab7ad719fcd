"""What every error of hilum has in common."""

import pytest
from hilum import HilumError, UsageError
from hilum.errors import end_once


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("It failed: no such file..", "It failed: no such file."),
        ("It failed: no such file.", "It failed: no such file."),
        ("It failed: and so on...", "It failed: and so on..."),
        ("It failed: and so on….", "It failed: and so on…."),
        ("..", "."),
        ("", ""),
    ],
)
def test_a_sentence_has_one_full_stop(sentence, expected):
    """Reasons of other programs bring a full stop of their own."""
    assert end_once(sentence) == expected


def test_every_error_ends_its_message_once():
    """The message is the same for a program, in ``str`` and in ``args``."""
    error = UsageError("The provider failed: ValueError: No such key..", hint="Choose another.")
    assert error.message == "The provider failed: ValueError: No such key."
    assert error.args == (error.message,)
    assert str(HilumError("It failed..")) == "It failed."
