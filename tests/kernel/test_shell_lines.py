"""Commands that the user runs."""

from hilum.events import PluginEvent
from hilum.shell_lines import ShellLine, note_end, run_shell_line
from hilum.testing import open_bench


async def test_a_command_whose_keeper_is_killed_did_start(tmp_path):
    async with open_bench("shell", workspace=tmp_path) as bench:
        command = "echo begun; until [ -e seen ]; do sleep 0.01; done; kill -KILL $PPID; sleep 1000"
        line = ShellLine(command)
        # Called with the first output, which is then not lost with the keeper.
        await run_shell_line(bench.session, line, (tmp_path / "seen").touch)
        assert (line.output, line.status, line.lost) == ("begun\n", None, True)
        _, outcome, output = line.attached.split("\n")
        assert outcome == f"ended unexpectedly: {line.error}"
        assert output == "begun"
        note_end(bench.session, line, "The user", "in the terminal")
        [note] = [event.data["say"] for event in bench.of(PluginEvent) if "say" in event.data]
        assert note.endswith("in the terminal; it ended unexpectedly.")


async def test_a_command_that_cannot_start_says_why(tmp_path):
    async with open_bench("shell", workspace=tmp_path) as bench:
        line = ShellLine("echo \0")
        await run_shell_line(bench.session, line, lambda: None)
        assert line.error
        assert not line.lost
        assert line.attached.split("\n")[1] == f"did not start: {line.error}"
