"""Images that come with a prompt: to the model, into the log, and back after a fork."""

import os
from pathlib import Path

import msgspec
import pytest
from hilum import Image, UsageError, read_image
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND
from hilum.events import PluginEvent, PromptQueued, RunStarted
from hilum.images import MAX_BYTES, MAX_IMAGES
from hilum.messages import Text, UserMessage
from hilum.store import MemoryStore
from hilum.testing import ScriptedModel, open_bench
from hilum_agents.history import History
from hilum_replay import Recorder
from hilum_replay.cassette import describe_messages

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40


async def test_an_image_reaches_the_model_and_the_log(bench):
    kit = await bench(answers=["A tree.", "Still a tree."])
    picture = Image("image/png", PNG)
    await kit.run("What is this?", images=[picture], attached="data from a pipe")
    sent = [each for each in kit.requests[0].messages if isinstance(each, UserMessage)]
    assert picture in sent[0].parts
    assert kit.of(PromptQueued)[0].images == (picture,)
    # The event of the run says where the image is, and does not repeat it.
    parts = kit.of(RunStarted)[0].message.parts
    assert [part for part in parts if isinstance(part, Image)] == [Image("image/png", b"")]
    # The text is what the user typed, without a trace of the image.
    assert kit.of(RunStarted)[0].message.typed == "What is this?"
    await kit.run("And now?")
    later = [each for each in kit.requests[1].messages if isinstance(each, UserMessage)]
    assert picture in later[0].parts
    assert not any(isinstance(part, Image) for part in later[1].parts)


async def test_the_log_contains_an_image_once(tmp_path):
    """A resumed session and a fork send the same messages all the same."""
    data = PNG + os.urandom(1_000_000)
    picture = Image("image/png", data)
    store = MemoryStore()
    async with open_bench(answers=["A tree."], store=store, folder=tmp_path) as kit:
        await kit.run("Look", images=[picture], attached="piped")
        events = kit.session.journal.read_all()
        size = sum(len(msgspec.json.encode(event)) for event in events)
        # In base64, the image has 4/3 of its size.
        assert 1.33 * len(data) < size < 1.4 * len(data)
        session, sent = kit.session.id, kit.requests[0].messages
        copy = await kit.kernel.fork(session)
    for resumed in (session, copy):
        opening = open_bench(answers=["Yes."], store=store, folder=tmp_path, resume=resumed)
        async with opening as kit:
            await kit.run("Sure?")
            assert kit.requests[0].messages[: len(sent)] == sent
            assert picture in kit.requests[0].messages[0].parts


def test_a_log_of_an_earlier_version_or_a_damaged_one_is_readable():
    picture = Image("image/png", PNG)
    whole = UserMessage((Text("Look", "user"), picture, picture, Text("more", "context:x")))
    assert whole.with_image_data([]) is whole
    stored = whole.without_image_data()
    assert stored.with_image_data([picture, picture]) == whole
    assert stored.with_image_data([picture]).parts == (whole.parts[0], picture, whole.parts[3])
    assert stored.with_image_data([]).request == "Look"


@pytest.mark.parametrize(
    ("images", "words"),
    [
        ([Image("image/png", PNG)] * (MAX_IMAGES + 1), "maximum is 20"),
        ([Image("image/png", PNG + b"x" * MAX_BYTES)], "larger than 3.9 MB"),
        ([Image("image/png", PNG + b"x" * 3_000_000)] * 6, "15 MB together"),
        ([Image("image/svg+xml", b"<svg/>")], "not a PNG"),
        ([Image("image/png", b"")], "not a PNG"),
        ([Image("image/png", b"<svg onload='alert(1)'/>")], "not a PNG"),
        ([Image("image/png", b"<!DOCTYPE html><script></script>")], "not a PNG"),
        ([Image("image/jpeg", PNG)], "is image/png, not image/jpeg"),
    ],
)
async def test_images_that_no_model_accepts_are_refused_before_anything_is_logged(
    bench, images, words
):
    kit = await bench(answers=["never"])
    with pytest.raises(UsageError, match=words) as caught:
        await kit.session.prompt("Look", images=images)
    assert caught.value.code == E_BAD_ARGS
    assert caught.value.hint
    assert kit.of(PromptQueued) == []


@pytest.mark.parametrize(
    ("name", "content", "media_type"),
    [
        ("a.png", PNG, "image/png"),
        ("wrong name.txt", b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        ("b.gif", b"GIF89a rest", "image/gif"),
        ("c.webp", b"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/webp"),
    ],
)
def test_the_content_decides_the_format(tmp_path: Path, name, content, media_type):
    file = tmp_path / name
    file.write_bytes(content)
    assert read_image(file) == Image(media_type, content)


def test_files_that_are_no_images_are_refused(tmp_path: Path):
    text = tmp_path / "a.png"
    text.write_text("no image")
    empty = tmp_path / "empty.png"
    empty.write_bytes(b"")
    large = tmp_path / "large.png"
    large.write_bytes(PNG + b"x" * MAX_BYTES)
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    found = {}
    for path in (text, empty, large, pipe, tmp_path, tmp_path / "missing.png", "a\0b"):
        with pytest.raises(UsageError) as caught:
            read_image(path)
        found[os.path.basename(path)] = caught.value.code
    assert found == {
        "a.png": E_BAD_ARGS,
        "empty.png": E_BAD_ARGS,
        "large.png": E_BAD_ARGS,
        "pipe.png": E_NOT_FOUND,
        tmp_path.name: E_NOT_FOUND,
        "missing.png": E_NOT_FOUND,
        "a\0b": E_NOT_FOUND,
    }


async def test_readers_of_the_log_find_the_image(bench):
    """A recording and the history of an agent contain it, as the model saw it."""
    kit = await bench(answers=["A tree."])
    picture = Image("image/png", PNG)
    await kit.run("Look", images=[picture])
    recorder = Recorder()
    history = History(kit.session)
    for event in kit.session.journal.read_all():
        recorder.feed(event)
        history._apply_message(event)
    (exchange,) = recorder.cassette.exchanges
    # A cassette contains a digest of the data.
    assert exchange.sent == describe_messages(kit.requests[0].messages)
    assert picture in history._messages["main"][0].parts


@pytest.mark.parametrize("accepts", [False, True])
async def test_the_user_is_told_that_the_model_accepts_no_images(bench, accepts):
    kit = await bench(model=ScriptedModel(["A dot.", "Yes."], images=accepts))
    await kit.run("Look", images=[Image("image/png", PNG)])
    await kit.run("Sure?")
    told = [event.data["say"] for event in kit.of(PluginEvent)]
    say = "scripted/model does not accept images; it reads only that an image was sent."
    assert told == ([] if accepts else [say])
