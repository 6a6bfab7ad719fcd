"""``hilum run --image`` sends images with the prompt."""

import base64

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40


async def test_an_image_is_sent_with_the_prompt(cli):
    cli.settings.parent.mkdir(parents=True, exist_ok=True)
    cli.settings.write_text('[models.models."openai/scripted"]\nimages = true\n')
    (cli.workspace / "page.png").write_bytes(PNG)
    async with cli.model("It is blank.") as server:
        done = await cli("run", "What is wrong?", "-i", "page.png")
        assert (done.code, done.out) == (0, "It is blank.\n")
        assert base64.b64encode(PNG) in server.requests[0].body


async def test_wrong_images_are_errors_that_say_what_to_do(cli):
    (cli.workspace / "notes.txt").write_text("text")
    async with cli.model("never") as server:
        for arguments, code, words in (
            (("run", "Look", "--image", "missing.png"), "E_NOT_FOUND", "missing.png"),
            (("run", "Look", "--image", "notes.txt"), "E_BAD_ARGS", "Convert the image"),
            (("run", "-c", "--image", "notes.txt"), "E_BAD_ARGS", "notes.txt"),
        ):
            done = await cli(*arguments)
            assert done.code == 2
            assert code in done.err
            assert words in done.err
            assert "Traceback" not in done.err
        (cli.workspace / "page.png").write_bytes(PNG)
        done = await cli("run", "-c", "--image", "page.png")
        assert (done.code, "needs a prompt" in done.err) == (2, True)
        assert server.requests == []
