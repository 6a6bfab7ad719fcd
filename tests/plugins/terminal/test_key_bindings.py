"""The table of keys, and where it is shown."""

from hilum_terminal.key_bindings import KEY_BINDINGS, find_key, keys_table, list_keys
from hilum_terminal.slash_table import BUILT_IN

from .slash_chat import open_chat


def test_every_command_with_a_key_exists():
    names = {command.name for command in BUILT_IN}
    bound = [binding.command for binding in KEY_BINDINGS if binding.command]
    assert set(bound) <= names
    assert len(bound) == len(set(bound))
    assert find_key("mode") == "Alt-M"
    assert find_key("rewind") == "Esc Esc"
    assert find_key("cost") == find_key("") == ""


def test_the_list_has_a_line_for_each_key():
    lines = list_keys().splitlines()
    assert len(lines) == len(KEY_BINDINGS) + 1
    # A window of 90 columns shows each key on one row.
    assert all(len(line) <= 90 for line in lines)


def test_the_table_for_the_docs_is_valid_markdown():
    rows = keys_table().splitlines()
    assert all(row.count(" | ") == 1 for row in rows if "---" not in row)


async def test_help_shows_keys_only_where_they_work():
    async with open_chat() as chat:
        said = await chat.type("/help")
        assert "(Alt-M)" in said
        assert "? in an empty input lists the keys." in said
        assert "Key: Esc Esc" in await chat.type("/help rewind")
        chat.has_keys = False
        said = await chat.type("/help")
        assert "Alt-M" not in said
        assert "lists the keys" not in said
        assert "Esc" not in await chat.type("/help rewind")
