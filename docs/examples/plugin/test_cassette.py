"""What the page about tests says of cassettes and of lifespans with tasks."""

import hilum_words
import trio
from hilum import hookimpl, tool
from hilum.events import PluginFault
from hilum.testing import use
from hilum_replay import record, save

FILES = {"poem.txt": "so much\ndepends upon\n"}


async def test_a_recorded_session_plays_again(bench, tmp_path):
    """What was recorded answers; another prompt than the recorded one fails the run."""
    b = await bench(
        hilum_words, answers=[use("count_words", path="poem.txt"), "Four."], files=FILES
    )
    await b.run("How long is the poem?")
    path = tmp_path / "words.cassette"
    save(record(b.events), path)
    settings = {"model": f"cassette/{path}"}
    played = await bench(hilum_words, "replay", settings=settings, files=FILES)
    assert (await played.run("How long is the poem?")).text == "Four."
    assert played.assert_tool_called("count_words").text == "4 words"
    other = await bench(hilum_words, "replay", settings=settings, files=FILES)
    assert (await other.run("How old is the poem?")).state == "failed"


async def test_task_of_a_half_that_fails_ends_its_plugin_alone(bench):
    """The call in flight ends with E_PLUGIN, the tool goes, the session goes on."""
    fail = trio.Event()

    class Half:
        @tool(risk="read", effect="pure")
        async def wait(self) -> str:
            """Wait."""
            fail.set()
            await trio.sleep_forever()

        @hookimpl
        def provide_tools(self):
            return [self.wait]

    class Waiting:
        @hookimpl
        async def open_session(self, session):
            async def watch():
                await fail.wait()
                raise ConnectionError("lost")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(watch)
                yield Half()

    b = await bench(Waiting(), answers=[use("wait"), "I go on."], faults=True)
    assert (await b.run("Wait.")).text == "I go on."
    assert b.result("wait").code == "E_PLUGIN"
    assert b.of(PluginFault)[0].switched_off
    assert b.session.tools == {}
