import hilum_words
from hilum.testing import use


async def test_the_model_gets_the_number_of_words(bench):
    b = await bench(
        hilum_words,
        answers=[use("count_words", path="poem.txt"), "It has four words."],
        files={"poem.txt": "so much\ndepends upon\n"},
    )
    ended = await b.run("How long is the poem?")
    assert ended.text == "It has four words."
    assert b.assert_tool_called("count_words", path="poem.txt").text == "4 words"


async def test_a_missing_file_is_told_to_the_model(bench):
    b = await bench(hilum_words)
    result = await b.call("count_words", path="nothing.txt")
    assert result.code == "E_FILE_NOT_FOUND"
