"""An edit that cannot succeed is a failed card, and no question."""

import pytest
from hilum.messages import AssistantMessage, Text


@pytest.mark.parametrize("plain", [False, True])
async def test_an_edit_whose_text_is_not_there_is_not_asked_about(cli, asks, plain):
    cli.env["OPENAI_API_KEY"] = "k"
    (cli.workspace / "a.py").write_text("x = 1\n")
    answers = [
        asks("read_file", path="a.py"),
        asks("edit_file", path="a.py", old_string="y = 2", new_string="y = 3"),
        AssistantMessage((Text("It is not there.", "model"),), stop="end"),
    ]
    options = ["--plain"] if plain else []
    async with cli.model(*answers), cli.on_screen(*options, "Set y") as screen:
        await screen.wait_for("It is not there.")
        await screen.wait_for("3 turns")
        assert "✗ edit a.py  failed" in screen.text
        assert "Why:" not in screen.text
        assert "waiting" not in screen.text
    assert (cli.workspace / "a.py").read_text() == "x = 1\n"
