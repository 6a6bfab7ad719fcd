"""Suggestions for mistyped names."""

import pytest
from hilum.errors import similar_names, unknown_name_error


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("comand", ["command"]),
        ("COMMAND", ["command"]),
        ("env-file", ["envFile"]),
        ("zzz", []),
    ],
)
def test_case_and_separators_make_no_difference(name, similar):
    """Of names that differ only in them, the first one is suggested."""
    assert similar_names(name, ["command", "envFile", "env_file", "url"], 1) == similar


def test_an_error_for_an_unknown_name_suggests_a_name_in_another_case():
    assert unknown_name_error("agent", "LINT", ["lint", "test"]).hint == "Did you mean lint?"
