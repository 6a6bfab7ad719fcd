"""What reads texts of users, models and repositories takes time in proportion to their length,
whatever they are.
"""

import time
from pathlib import PurePosixPath

import pytest
from hilum.messages import NOTE_TAG, escape_notes
from hilum.repetition import _DURATION
from hilum_agents.calls import may_call
from hilum_agents.consent import is_yes
from hilum_agents.definitions.permissions import split_entry
from hilum_checks.compiling import compile_rule
from hilum_checks.enforce_lines import compile_line
from hilum_checks.heading_completion import complete_sentence
from hilum_checks.limiting import is_limiting
from hilum_cli.terminal import escape_terminal, line, without_escapes
from hilum_context.mentions import _PATHS, _matches, find_identifiers, find_path_names
from hilum_guard.previews import _hosts
from hilum_lint.diffs import revert_diff
from hilum_memory.longterm.user_text import (
    asks_to_forget,
    find_requests,
    is_drawn_from,
    may_last,
    remove_foreign_text,
)
from hilum_rules.hidden_characters import reveal
from hilum_rules.parsing import find_imports, parse_drafts
from hilum_shell.output import strip_escapes
from hilum_shell.programs import describe_target

SIZE = 8_000
UNITS = (
    *(
        "x",
        "Aa",
        "a.",
        "/a",
        "<",
        "[",
        "(",
        "{",
        '"',
        "'",
        "`",
        "@",
        "\n",
        " ",
        "a ",
        "-",
        "~",
        "*",
        "_",
        "#",
        ":",
        "1",
    ),
    *(
        "1.",
        "http://",
        "../",
        "`a ",
        "```\n",
        "[a](",
        "<!--",
        "|-",
        "> ",
        "é",
        "中",
        "\r",
        "a-",
        "@a ",
        "a@",
        "\x1b[",
        "{,",
    ),
    *("\\", "a, ", "1 s ", "never", "please ", "use the ", "\n ", "a\t"),
)
READERS = {
    "paths within all of a text": lambda text: [
        list(_matches(text, *patterns)) for patterns in _PATHS
    ],
    "paths": find_path_names,
    "identifiers": find_identifiers,
    "own": remove_foreign_text,
    "asked": find_requests,
    "may_last": may_last,
    "wants_forgotten": asks_to_forget,
    "is_drawn_from": lambda text: is_drawn_from(text, ["a"]),
    "may_call": may_call,
    "may_call of an agent": lambda text: may_call(f"@explore x{text}x"),
    "is_yes": is_yes,
    "split_entry": lambda text: split_entry(f"a{text}b"),
    "parse_drafts": parse_drafts,
    "find_imports": lambda text: list(find_imports(text)),
    "reveal": reveal,
    "complete_sentence": lambda text: list(complete_sentence(text, text)),
    "is_limiting": is_limiting,
    "compile_rule": lambda text: compile_rule(text, hard=True),
    "compile_line": lambda text: compile_line(f"deny answer words a{text}b", PurePosixPath(".")),
    "undone": lambda text: revert_diff(text, text),
    "clean": strip_escapes,
    "aim": lambda text: describe_target({"command": text}),
    "terminal": lambda text: (escape_terminal(text), without_escapes(text), line(text)),
    "hosts of a preview": lambda text: list(_hosts({"command": text})),
    "durations": lambda text: _DURATION.sub("", text),
    "notes": lambda text: escape_notes(f"<{text}{NOTE_TAG}"),
}


def seconds(read, text):
    """Return the processor time that a reader takes for a text."""
    began = time.process_time()
    read(text)
    return time.process_time() - began


@pytest.mark.slow(cases=3)
@pytest.mark.parametrize("name", READERS)
def test_reading_takes_linear_time(name):
    """Four times the text takes about four times as long.

    What takes a few milliseconds is not compared.
    """
    slow = {}
    for unit in UNITS:
        text = (unit * SIZE)[:SIZE]
        once = min(seconds(READERS[name], text) for _ in range(2))
        if once > 1:  # four times as much could take a minute
            slow[unit] = (once,)
            continue
        more = seconds(READERS[name], (unit * SIZE * 4)[: 4 * SIZE])
        if more > max(8 * once, 0.1):  # another program may have taken the caches for a moment
            more = min(more, seconds(READERS[name], (unit * SIZE * 4)[: 4 * SIZE]))
        if more > 1 or more > max(8 * once, 0.1):
            slow[unit] = (once, more)
    assert slow == {}


def test_a_path_next_to_a_long_word_is_found():
    """Neither the word nor what has no blanks around it hides it."""
    assert find_path_names(f"{'x' * 9_000} see src/a.py and b.md") == ["src/a.py", "b.md"]
    assert "src/a.py" in find_path_names(f"{'请看' * 500}src/a.py的第一行")
    assert find_identifiers(f"{'x' * 9_000} read_config()") == ["read_config"]
