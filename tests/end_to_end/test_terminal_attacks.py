"""Nothing that comes from a model, a tool, a file or a plugin acts on the terminal: all paths that
show it (G6).
"""

import json
import re

import pytest
from hilum.messages import AssistantMessage, ToolCall

# Moves the cursor, sets the title, writes to the clipboard, hides text, turns its direction; each
# with a mark to find it by.
EVIL = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x9b31m\u202eesrever\u2066\u200bzero\x08\x7f\rback"
# What a terminal would obey or show falsely. Our own colours and cursor moves on a terminal are CSI
# sequences.
HARMFUL = re.compile("\x1b\\]|\x1b\\[2J|\x9b|\x07|[\u202a-\u202e\u2066-\u2069\u200b]|\x08\x7f")


def call(**arguments):
    """A model that says something evil and calls a command with it."""
    return AssistantMessage(
        (ToolCall("c1", "run_terminal_cmd", json.dumps(arguments)),), stop="calls"
    )


def harmless(text):
    """Fail where a text would do something to a terminal."""
    found = HARMFUL.search(text)
    assert found is None, text[max(found.start() - 100, 0) : found.end() + 60]


async def test_progress_answer_and_sessions_show_are_neutralised(cli):
    """Arguments, output, the answer, the session's title and its transcript."""
    (cli.workspace / "evil.txt").write_text(EVIL)
    async with cli.model(
        call(command=f"cat evil.txt; : '{EVIL.replace(chr(0x9B), '')}'"), f"Done {EVIL}"
    ):
        done = await cli("run", f"go {EVIL}".replace("\r", " "), "--approve", "auto")
    harmless(done.err)
    info, *_ = json.loads((await cli("sessions", "list", "--json")).out)
    for arguments in (("list",), ("show", info["id"]), ("show", info["id"], "--full")):
        harmless((await cli("sessions", *arguments)).out)


async def test_an_approval_shows_what_would_run_and_obeys_none_of_it(cli):
    """On a real terminal: the call, the reason, and the rule that is offered."""
    command = f"make '{EVIL.replace(chr(0x9B), '')}'"
    async with (
        cli.model(call(command=command), "Then not."),
        cli.on_terminal("run", "go") as terminal,
    ):
        await terminal.see("Run it?")
        shown = terminal.raw
        terminal.type("n\n")
        await terminal.end()
    harmless(shown)
    assert "owned" in shown


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("words", [("sessions", "show", EVIL), ("permissions", "deny", EVIL), ("permissions", "test", EVIL),
                                   ("run", "x", "--model", f"openai{EVIL}"), ("trust", EVIL), (EVIL,)])  # fmt: skip
async def test_errors_name_what_was_wrong_without_obeying_it(cli, words):
    """What a script passed on from elsewhere."""
    done = await cli(*words)
    assert done.code != 0
    harmless(done.err + done.out)


async def test_rules_trust_and_doctor_show_foreign_text_harmlessly(cli):
    """A project's rules and file names."""
    (cli.workspace / ".hilum").mkdir()
    toml = json.dumps(f"write_file({EVIL})").replace("\\u009b", "\\u009B")
    (cli.workspace / ".hilum" / "permissions.toml").write_text(f'deny = [{toml}, {toml[:-2]}"]\n')
    (cli.workspace / ".hilum" / "x\x1b]0;owned\x07\u202e").write_text("")
    for words in (("permissions",), ("doctor",), ("trust",), ("trust", "--list")):
        done = await cli(*words)
        harmless(done.out + done.err)


async def test_names_of_plugins_are_shown_harmlessly(cli):
    """A distribution can call its entry point whatever it likes, and raise what it likes when it is
    loaded.
    """
    info = cli.folder / "plugins" / "hilum_evil-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: hilum-evil\nVersion: 1.0\nSummary: {EVIL[:20]}\n"
    )
    (info / "entry_points.txt").write_text(
        "[hilum]\nev\x1b[2J\x07owned\u202e = hilum_evil\nevil = hilum_evil\n"
    )
    (info.parent / "hilum_evil.py").write_text(f"raise RuntimeError({EVIL!r})\n")
    for words in (("plugins",), ("doctor",), ("config",), ("--help",), ("evil",)):
        done = await cli(*words, PYTHONPATH=str(info.parent))
        harmless(done.out + done.err)
