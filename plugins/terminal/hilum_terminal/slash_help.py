"""``/help``: lists the commands."""

from __future__ import annotations

from hilum_terminal.chat_protocol import Chat, Choice
from hilum_terminal.key_bindings import find_key
from hilum_terminal.slash import list_commands
from hilum_terminal.slash_arguments import split_words
from hilum_terminal.slash_table import GROUPS, SlashCommand
from hilum_terminal.styles import Theme
from hilum_terminal.text_width import cells, cut, escape_text, pad, wrap

MAX_USAGE = 30
# Below this number of columns, each description is on a separate row.
MIN_TWO_COLUMNS = 60
ORIGINS = {
    "plugin": "A plugin of this session carries it out.",
    "program": "Runs `hilum {name}` and shows its output; --help lists its arguments.",
    "terminal": "",
}
NOTES = (
    "Skills: /NAME REQUEST uses a skill.",
    "!COMMAND runs a command, @ names a file or an agent, # adds a memory or a rule.",
    "Text that begins with a space is always sent to the agent.",
)
KEYS_NOTE = "? in an empty input lists the keys."


async def show_help(chat: Chat, arguments: str) -> None:
    """Show all commands, or the help for one command."""
    commands = list_commands(chat.session)
    words = split_words(arguments)
    if words:
        _show_one(chat, commands, words[0].removeprefix("/"))
        return

    def make_rows(width: int, theme: Theme) -> list[str]:
        rows = []
        for group in GROUPS:
            rows += _group_rows(group, commands, width, theme, has_keys=chat.has_keys)
        for note in [*NOTES, KEYS_NOTE] if chat.has_keys else NOTES:
            rows += [theme.paint(row, "dim") for row in wrap(note, width)]
        return rows

    chat.say_rows(make_rows)


def _group_rows(
    group: str, commands: list[SlashCommand], width: int, theme: Theme, *, has_keys: bool
) -> list[str]:
    members = [command for command in commands if command.group == group]
    if not members:
        return []
    rows = [theme.paint(group.capitalize(), "heading")]
    usages = [cut(escape_text(command.usage), MAX_USAGE) for command in members]
    size = max(cells(usage) for usage in usages)
    for command, usage in zip(members, usages, strict=True):
        text = escape_text(command.summary)
        key = find_key(command.name) if has_keys else ""
        if key:
            text += theme.paint(f" ({key})", "accent")
        if width < MIN_TWO_COLUMNS:
            rows.append(cut(f"  {theme.paint(usage, 'accent')}", width))
            rows += wrap(f"    {text}", width, "    ")
            continue
        indent = " " * (size + 4)
        first, *rest = wrap(text, width - len(indent))
        rows.append(f"  {theme.paint(pad(usage, size), 'accent')}  {first}")
        rows += [indent + row for row in rest]
    return [*rows, ""]


def _show_one(chat: Chat, commands: list[SlashCommand], name: str) -> None:
    for command in commands:
        if name in (command.name, *command.aliases):
            lines = [command.usage, f"{command.summary}."]
            if command.aliases:
                lines.append("Also: " + ", ".join(f"/{alias}" for alias in command.aliases))
            if command.words:
                lines.append("First word: " + ", ".join(command.words))
            key = find_key(command.name)
            if key and chat.has_keys:
                lines.append(f"Key: {key}")
            lines.append(ORIGINS[command.origin].format(name=command.name))
            chat.say("\n".join(filter(None, lines)))
            return
    chat.say(f"There is no command /{name}.", style="bad")


async def complete_names(chat: Chat, typed: str) -> list[Choice]:
    """Return the names of all commands."""
    return [
        Choice(command.name, command.name, command.summary)
        for command in list_commands(chat.session)
    ]
