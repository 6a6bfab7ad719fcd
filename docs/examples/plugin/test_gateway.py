import hilum_words
import pytest
from hilum.testing import use
from hilum_replay import Fault, serve

FILES = {"poem.txt": "so much\ndepends upon\n"}
ANSWERS = [use("count_words", path="poem.txt"), "It has four words."]


@pytest.mark.parametrize("model", ["openai/m", "anthropic/m", "gemini/m"])
async def test_the_tool_works_over_every_wire_format(bench, model):
    async with serve(ANSWERS) as server:
        b = await bench(
            hilum_words, "models", files=FILES, environ=server.environ, settings={"model": model}
        )
        ended = await b.run("How long is the poem?")
        assert ended.text == "It has four words."
        assert server.requests[0].tools == ("count_words",)
        assert not server.failures


async def test_a_connection_that_breaks_off_is_retried(bench):
    async with serve(ANSWERS, faults=[Fault(cut_after=100)]) as server:
        settings = {"model": "openai/m"}
        b = await bench(
            hilum_words, "models", files=FILES, environ=server.environ, settings=settings
        )
        assert (await b.run("How long is the poem?")).state == "completed"
        assert server.count == 3
