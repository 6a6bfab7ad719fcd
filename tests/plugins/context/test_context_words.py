"""What a prompt names."""

import pytest
from hilum_context.mentions import find_identifiers, find_path_names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "Why does parse_config fail in HttpClient.send()?",
            ["parse_config", "HttpClient", "send"],
        ),
        ("Rename `total` to `grand.total`, please", ["total"]),
        ("修复parse_config函数和UserList", ["parse_config", "UserList"]),
        (
            "MAX_SIZE, _private, utf8Decoder, HTTPServer",
            ["MAX_SIZE", "_private", "utf8Decoder", "HTTPServer"],
        ),
        ("Fix the failing test. Thanks!", []),
        ("See src/my_module.py and https://example.com/some_thing", []),
        ("call(1) me maybe", ["call"]),
    ],
)
def test_identifiers(text: str, names: list[str]) -> None:
    """Names of programs, and no words of plain language, paths or links."""
    assert find_identifiers(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Look at src/app.py:12 and README.md.", {"src/app.py", "README.md"}),
        ("修复src/应用/main.py的错误", {"main.py"}),
        ("in docs/guide, ./x and ~/y", {"docs/guide", "./x", "~/y"}),
        ("see https://example.com/a/b.py", set()),
        ("and ... so on", set()),
    ],
)
def test_paths(text: str, names: set[str]) -> None:
    """What may be a path, also where no space stands before it."""
    assert names <= set(find_path_names(text))
    assert names or not find_path_names(text)
