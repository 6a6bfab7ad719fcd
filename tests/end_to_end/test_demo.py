"""``hilum demo``: the recording is current, and the demo does what it says."""

import difflib
import sys
from pathlib import Path

from hilum_cli import demo
from hilum_replay import dumps, load

sys.path.insert(0, str(Path(__file__).parent))

import record_demo


async def test_the_demo_finds_fixes_and_verifies_the_bug(cli):
    """Red, a failed edit, the right edit, green.

    With no model, no key and no settings of the user's.
    """
    cli.write_settings('model = "nobody/nothing"\n[plugins]\nblock = ["files"]\n')
    done = await cli("demo", "--keep", TMPDIR=str(cli.folder), OPENAI_API_KEY="")
    assert done.code == 0, done.err
    for part in (
        "answers are a recording", "FAILED (failures=3)", "E_STALE", "✓ edit_file", "… OK",
        "+        return (self.end - self.start) % DAY", "tokens", "hilum sessions show 2", "OPENAI_API_KEY",
    ):  # fmt: skip
        assert part in done.err
    assert done.out.startswith("Fixed.")
    (folder,) = cli.folder.glob("hilum-demo-*/tally")
    assert str(folder) in done.err
    assert "% DAY" in (folder / "tally" / "entries.py").read_text()
    session = done.err.partition("hilum sessions show ")[2].split()[0]
    assert (await cli("sessions", "show", session)).code == 0


async def test_the_folder_is_taken_away(cli):
    """Unless it is to be kept."""
    done = await cli("demo", TMPDIR=str(cli.folder))
    assert done.code == 0
    assert not list(cli.folder.glob("hilum-demo-*"))


async def test_on_a_terminal_it_has_the_pace_of_a_model_that_thinks(cli):
    """Less than 15 seconds; --fast has no pauses."""
    async with cli.on_terminal("demo", "--fast") as terminal:
        await terminal.see("What changed")
        assert await terminal.end() == 0
    recorded = sum(exchange.seconds for exchange in load(demo.CASSETTE).exchanges)
    assert 3 < recorded < 12


async def test_recording_again_gives_the_same_cassette():
    """It was not written by hand: a scripted model, the real gateway, the real tools and the real
    tests give it.
    """
    cassette, change = await record_demo.record()
    assert change == demo.EXPECTED.read_text()
    old, new = demo.CASSETTE.read_text().splitlines(), dumps(cassette).splitlines()
    # What Python's own tools print differs between its versions, and is not compared when the demo
    # plays.
    changed = [
        line
        for line in difflib.unified_diff(old, new, lineterm="", n=0)
        if line[:1] in "+-" and line[3:4]
    ]
    assert not [
        line
        for line in changed[2:]
        if line[1:].startswith(("call", "tool", "arguments", "code", "result"))
    ]
    assert [e.answer for e in cassette.exchanges] == [
        e.answer for e in load(demo.CASSETTE).exchanges
    ]


def test_a_demo_that_goes_otherwise_is_a_failure():
    """Each of the three promises is checked."""
    right = demo.EXPECTED.read_text()
    assert demo.verdict(["E_CMD_FAIL", ""], right) == ""
    assert "did not fail" in demo.verdict(["", ""], right)
    assert "did not fail" in demo.verdict([""], right)
    assert "do not pass" in demo.verdict(["E_CMD_FAIL", "E_CMD_FAIL"], right)
    assert "differs from the recorded one" in demo.verdict(["E_CMD_FAIL", ""], right + "more")
