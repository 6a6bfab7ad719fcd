"""The template's tool, hook and setting, in a real session with a scripted model."""

import hilum_template
from hilum.testing import use


async def test_words_of_a_file_are_counted(bench):
    """The model calls the tool and gets the number of words."""
    b = await bench(
        hilum_template,
        answers=[use("count_words", path="poem.txt"), "It has four words."],
        files={"poem.txt": "so much\ndepends upon\n"},
    )
    ended = await b.run("How long is the poem?")
    assert ended.text == "It has four words."
    assert b.assert_tool_called("count_words", path="poem.txt").text == "4 words"


async def test_missing_file_is_reported_to_the_model(bench):
    """A wrong path does not crash the tool: the model reads an error."""
    b = await bench(hilum_template)
    result = await b.call("count_words", path="nothing.txt")
    assert result.code == "E_FILE_NOT_FOUND"


async def test_limit_is_in_the_prompt(bench):
    """The layer contains the limit from the settings."""
    b = await bench(hilum_template, answers=["Fine."], settings={"template.most_words": 7})
    await b.run("Write me a poem.")
    layer = next(layer for layer in b.requests[0].layers if layer.name == "template")
    assert "at most 7 words" in layer.text
