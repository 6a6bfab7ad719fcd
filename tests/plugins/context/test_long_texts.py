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
from hilum_cli.previews import _hosts
from hilum_cli.terminal import line, neutral, without_escapes
from hilum_context.words import _PATHS, _matches, identifiers, paths
from hilum_lint.before import undone
from hilum_memory.longterm.said import asked, is_drawn_from, may_last, own, wants_forgotten
from hilum_rules.checks.compiling import compile_rule
from hilum_rules.checks.written import compile_line
from hilum_rules.hidden import reveal
from hilum_rules.parsing import drafts, imports
from hilum_rules.sections import bounds
from hilum_rules.subjects import completed
from hilum_shell.output import clean
from hilum_shell.programs import aim

SIZE = 20_000
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
    "paths": paths,
    "identifiers": identifiers,
    "own": own,
    "asked": asked,
    "may_last": may_last,
    "wants_forgotten": wants_forgotten,
    "is_drawn_from": lambda text: is_drawn_from(text, ["a"]),
    "may_call": may_call,
    "may_call of an agent": lambda text: may_call(f"@explore x{text}x"),
    "is_yes": is_yes,
    "split_entry": lambda text: split_entry(f"a{text}b"),
    "drafts": drafts,
    "imports": lambda text: list(imports(text)),
    "reveal": reveal,
    "completed": lambda text: list(completed(text, text)),
    "bounds": bounds,
    "compile_rule": lambda text: compile_rule(text, hard=True),
    "compile_line": lambda text: compile_line(f"deny answer words a{text}b", PurePosixPath(".")),
    "undone": lambda text: undone(text, text),
    "clean": clean,
    "aim": lambda text: aim({"command": text}),
    "terminal": lambda text: (neutral(text), without_escapes(text), line(text)),
    "hosts of a preview": lambda text: list(_hosts({"command": text})),
    "durations": lambda text: _DURATION.sub("", text),
    "notes": lambda text: escape_notes(f"<{text}{NOTE_TAG}"),
}


def seconds(read, text):
    """Return the processor time that a reader takes for a text."""
    began = time.process_time()
    read(text)
    return time.process_time() - began


@pytest.mark.parametrize("name", READERS)
def test_reading_takes_linear_time(name):
    """Four times the text takes about four times as long.

    What takes a few milliseconds is not compared.
    """
    slow = {}
    for unit in UNITS:
        text = (unit * SIZE)[:SIZE]
        once = seconds(READERS[name], text)
        if once > 1:  # four times as much could take a minute
            slow[unit] = (once,)
            continue
        more = seconds(READERS[name], (unit * SIZE * 4)[: 4 * SIZE])
        if more > 1 or more > max(8 * once, 0.1):
            slow[unit] = (once, more)
    assert slow == {}


def test_a_path_next_to_a_long_word_is_found():
    """Neither the word nor what has no blanks around it hides it."""
    assert paths(f"{'x' * 9_000} see src/a.py and b.md") == ["src/a.py", "b.md"]
    assert "src/a.py" in paths(f"{'请看' * 500}src/a.py的第一行")
    assert identifiers(f"{'x' * 9_000} read_config()") == ["read_config"]
