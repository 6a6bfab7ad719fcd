"""Messages name commands as the user can enter them in a conversation."""

import pytest
from hilum import list_program_commands
from hilum_terminal.slash_names import _NAMES, name_slash_commands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`hilum trust` trusts it.", "`/trust` trusts it."),
        ("Run hilum models test, or hilum run x.", "Run /models test, or hilum run x."),
        ("hilum mcp serve is a program; hilum mcp list", "hilum mcp serve is a program; /mcp list"),
        (
            "hilum agentsmith, hilum-skills, myhilum trust",
            "hilum agentsmith, hilum-skills, myhilum trust",
        ),
    ],
)
def test_commands_are_named_as_in_a_conversation(text: str, expected: str) -> None:
    assert name_slash_commands(text) == expected


def test_every_command_of_the_program_is_known() -> None:
    """A new one is either a command in a conversation or a program."""
    # `/cost` and `/export` are about the conversation alone.
    programs = {
        "acp",
        "batch",
        "bench",
        "chat",
        "cost",
        "demo",
        "eval",
        "export",
        "fork-server",
        "import",
        "replay",
        "run",
        "serve",
    }
    assert set(list_program_commands()) - set(_NAMES) == programs
