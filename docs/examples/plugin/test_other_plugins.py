"""What the tutorial says of the plugins that it shows beside the first one."""

import hilum_notebook
import hilum_protect
import hilum_status
import hilum_style
import trio
from hilum import hookimpl, tool
from hilum.events import PluginFault
from hilum.testing import use

HELLO = {"path": "a.txt", "content": "hello"}


async def test_layer_and_note_reach_the_model(bench):
    """The setting stands in the system prompt; the note comes after a round that wrote a file."""
    answers = [use("write_file", **HELLO), "Done."]
    b = await bench(hilum_style, "files", answers=answers, settings={"style.most_words": 7})
    await b.run("Write hello.")
    assert b.requests[0].layers[-1].text == "Write texts of at most 7 words."
    assert b.requests[1].messages[-1].text == "Count the words in the text that you wrote."


async def test_setting_can_be_an_environment_variable(bench):
    """Every setting has its variable."""
    b = await bench(hilum_style, answers=["Fine."], environ={"HILUM_STYLE_MOST_WORDS": "9"})
    await b.run("Hello.")
    assert "at most 9 words" in b.requests[0].layers[-1].text


async def test_notebook_keeps_state_for_its_session_and_closes_its_file(bench):
    """The instance's state lasts from prompt to prompt; another session has an instance of its own."""
    b = await bench(
        hilum_notebook, answers=[use("take_note", text="the parser is slow"), "Noted.", "I know."]
    )
    await b.run("The parser is slow.")
    await b.run("What of the parser?")
    assert "<notes>\nthe parser is slow\n</notes>" in b.requests[-1].messages[-1].parts[1].text
    instance = b.session.plugin(hilum_notebook.Notebook)
    async with b.kernel.open_session(b.workspace) as other:
        assert other.plugin(hilum_notebook.Notebook).notes == []
    assert not instance.file.closed
    file = b.folder / "data" / "notebook" / f"{b.session.id}.txt"
    await instance.file.flush()
    assert file.read_text() == "the parser is slow\n"


async def test_process_runs_in_the_workspace(bench):
    """The tool sees the repository that the session works in, and says why where there is none."""
    b = await bench(hilum_status, files={"new.txt": "x"})
    assert (await b.call("changed_files")).code == "E_CMD_FAIL"
    await trio.run_process(["git", "init", "-q", b.workspace])
    assert (await b.call("changed_files")).text == "?? new.txt\n"


async def test_gate_denies_protected_files_by_any_name(bench):
    """A link to a protected file is that file; another one may be written."""
    b = await bench(hilum_protect, "files", files={"uv.lock": "1"})
    (b.workspace / "free.txt").symlink_to("uv.lock")
    for path in ("uv.lock", "./uv.lock", "free.txt"):
        result = await b.call("write_file", path=path, content="2")
        assert result.code == "E_DENIED"
        assert "uv.lock is protected by the setting protect.names." in result.text
    assert (b.workspace / "uv.lock").read_text() == "1"
    assert (await b.call("write_file", **HELLO)).code == ""


async def test_gate_that_fails_denies_and_stays_closed(bench):
    """A failure is a no; after three in a row the plugin is off and no call runs."""

    class Broken:
        @tool(risk="read", effect="pure")
        def ping(self) -> str:
            """Ping."""
            return "pong"

        @hookimpl
        def provide_tools(self):
            return [self.ping]

    class Gate:
        @hookimpl
        def on_tool_call(self, call):
            raise RuntimeError("broken")

    b = await bench(Broken(), Gate(), faults=True)
    first = await b.call("ping")
    assert first.code == "E_DENIED"
    assert "The plugin Gate, which guards this, failed: RuntimeError: broken (" in first.text
    await b.call("ping")
    await b.call("ping")
    assert [fault.switched_off for fault in b.of(PluginFault)] == [False, False, True]
    assert "The plugin 'Gate' guards tool calls and is not working" in (await b.call("ping")).text
