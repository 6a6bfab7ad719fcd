"""What a text that the user enters is; the same in both faces."""

import pytest
from hilum_terminal.input_kinds import UserInput, read_argument, read_input


@pytest.mark.parametrize(
    ("text", "kind", "meant"),
    [
        ("Fix it.", "prompt", "Fix it."),
        ("/model", "command", "/model"),
        ("  ", "prompt", "  "),
        ("/", "command", "/"),
        ("/ x", "prompt", "/ x"),
        ("/etc/hosts is wrong", "prompt", "/etc/hosts is wrong"),
        ("!ls -l ", "shell", "ls -l"),
        ("!", "prompt", "!"),
        ("# use tabs", "memory", "use tabs"),
        ("#", "prompt", "#"),
        ("# Title\ntext", "prompt", "# Title\ntext"),
        ("!echo a\necho b", "shell", "echo a\necho b"),
        (" /model", "prompt", " /model"),
        (" !ls", "prompt", " !ls"),
    ],
)
def test_kinds(text, kind, meant):
    assert read_input(text) == UserInput(kind, meant)


@pytest.mark.parametrize("text", ["/model", "!rm -rf /", "# x", "text"])
def test_pasted_text_is_a_prompt(text):
    # The space keeps plugins from reading it as a command.
    assert read_input(text, is_typed=False) == UserInput("prompt", f" {text}")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("#42: fix the failing test", "prompt"),
        ("!rm x", "prompt"),
        ("@explore Where is it?", "prompt"),
        ("/model", "command"),
    ],
)
def test_an_argument_of_the_program_is_never_a_shell_line_or_a_memory(text, kind):
    """The argument may be the title of an issue, which another program passes on."""
    assert read_argument(text) == UserInput(kind, text)
