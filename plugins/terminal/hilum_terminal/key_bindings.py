"""The keys of the conversation: one table for ``?``, ``/help``, the menu of commands and the docs.

``Face`` and ``Composer`` carry them out. The keys of questions, lists and the full-screen view are
shown where they apply.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class KeyBinding:
    """A key, or several related ones, and what it does.

    Attributes:
        keys: The keys, as the user reads them.
        summary: What the keys do, for the list that ``?`` shows; may contain line breaks.
        details: The same in Markdown for the docs; empty to use ``summary``.
        command: Name of the command that does the same or a similar thing.
        command_keys: The keys that do what the command does; empty if these are ``keys``.
        docs_keys: The keys in Markdown for the docs; empty to use ``keys``.
    """

    keys: str
    summary: str
    details: str = ""
    command: str = ""
    command_keys: str = ""
    docs_keys: str = ""


KEY_BINDINGS = (
    KeyBinding(
        "Enter",
        "send; a running agent reads the message after its current call",
        "sends the message; a running agent reads it after its current call",
    ),
    KeyBinding(
        "Tab",
        "complete; while the agent is running: send the message when it has finished",
        "completes the word; while the agent is running, queues the message until the agent has"
        " finished",
    ),
    KeyBinding(
        "Alt-Enter",
        "new line (also Ctrl-J, or a backslash before Enter)",
        "inserts a line break; Shift-Enter does so, too, if your terminal distinguishes it from"
        " Enter",
        docs_keys="Alt-Enter, Ctrl-J, `\\` before Enter",
    ),
    KeyBinding(
        "Esc",
        "stop; twice in an empty input: go back to an earlier message",
        "stops the agent; pressed twice in an empty input, goes back to an earlier message"
        " (`/rewind`)",
        "rewind",
        "Esc Esc",
    ),
    KeyBinding(
        "Ctrl-C",
        "clear the draft (Up restores it); without a draft: stop; twice: exit",
        "with a draft: clears it (Up restores it); otherwise stops the agent; pressed twice when"
        " nothing is running, exits hilum",
    ),
    KeyBinding(
        "Ctrl-D",
        "in an empty input, twice: exit",
        "pressed twice in an empty input, exits hilum (`/quit`)",
        "quit",
        "Ctrl-D Ctrl-D",
    ),
    KeyBinding(
        "Shift-Tab",
        "move between the input and the open question",
        "moves the focus between the input and the open question",
    ),
    KeyBinding(
        "Up, Down",
        "earlier inputs; Ctrl-R searches them",
        "recalls earlier prompts, first those from this project, then those from others; Ctrl-R"
        " searches them",
        docs_keys="Up, Down; Ctrl-R",
    ),
    KeyBinding(
        "Alt-Up",
        "return the last queued message to the input",
        "returns the last queued message to the input; `/queue` lists all of them",
        "queue",
    ),
    KeyBinding(
        "Ctrl-O",
        "show the last call in full; again: the call before it",
        "shows the last call in full; pressed again, the call before it",
    ),
    KeyBinding(
        "Alt-O",
        "open it in a full-screen view; q returns",
        "opens the last call, or the one that Ctrl-O showed last, in the"
        " [full-screen view](#the-full-screen-view)",
    ),
    KeyBinding(
        "Ctrl-B",
        "in an empty input: move the running command to the background",
        "in an empty input, moves the command that the agent is waiting for to the background: the"
        " agent continues, and so does the command (`/background`)",
        "background",
    ),
    KeyBinding(
        "Ctrl-T",
        "in an empty input: show all todo items and agents, or fewer",
        "in an empty input, shows all todo items and agents, or fewer",
    ),
    KeyBinding("Alt-M", "next mode", "switches to the next mode; `/mode` lists them", "mode"),
    KeyBinding("Ctrl-G", "edit the draft in $EDITOR", "edits the draft in `$VISUAL` or `$EDITOR`"),
    KeyBinding(
        "Ctrl-V", "attach the image in the clipboard", "attaches the image in the clipboard"
    ),
    KeyBinding("Ctrl-L", "draw the screen again", "redraws the screen"),
    KeyBinding("Ctrl-Z", "suspend hilum", "suspends hilum (`fg` resumes it)"),
    KeyBinding(
        "?",
        "in an empty input: show this list; /help lists the commands",
        "in an empty input, lists the keys; `/help` lists the commands",
        "help",
        docs_keys="`?`",
    ),
)
CHARACTERS = "/ commands · @ files and agents · ! run a command · # remember a sentence"


def find_key(command: str) -> str:
    """Return the key that does the same as a command; empty if there is none."""
    for binding in KEY_BINDINGS:
        if binding.command and binding.command == command:
            return binding.command_keys or binding.keys
    return ""


def list_keys() -> str:
    """Return the keys and what they do, one per line."""
    size = max(len(binding.keys) for binding in KEY_BINDINGS)
    lines = [f"{binding.keys:<{size}}   {binding.summary}" for binding in KEY_BINDINGS]
    return "\n".join([*lines, CHARACTERS])


def keys_table() -> str:
    """Return the keys as a table in Markdown, for the docs."""
    lines = ["| key | what it does |", "|---|---|"]
    for binding in KEY_BINDINGS:
        keys = binding.docs_keys or binding.keys
        lines.append(f"| {keys} | {binding.details or binding.summary} |")
    return "\n".join(lines)
