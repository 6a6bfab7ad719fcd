"""Prompts that an earlier process left in the queue."""

from __future__ import annotations

from hilum import Image
from hilum.events import PromptQueued
from hilum.testing import open_bench
from hilum_terminal.left_prompts import (
    describe_left_prompts,
    drop_left_prompts,
    find_left_prompts,
)
from hilum_terminal.prompt_images import PromptImages

IMAGE = Image("image/png", b"\x89PNG")
OTHER = Image("image/png", b"\x89PNG other")


async def test_only_the_users_own_prompts_are_found_with_what_comes_with_them():
    async with open_bench(answers=["done"]) as kit:
        session = kit.session
        agent = session.agents["main"]
        session.emit(PromptQueued(text="long", typed="/init", attached="$ ls"), agent, "one")
        session.emit(PromptQueued(text="from a program", piped=True), agent, "two")
        text = "look at [image #1: /tmp/a.png]"
        session.emit(PromptQueued(text=text, images=(IMAGE,)), agent, "three")
        left = find_left_prompts(session)
        assert [(each.run, each.text) for each in left] == [("one", "/init"), ("three", text)]
        assert left[0].attached == "$ ls"
        assert left[1].images == (IMAGE,)
        assert describe_left_prompts(left).startswith("2 prompts were waiting")
        assert describe_left_prompts(left[:1]).startswith("A prompt was waiting")
        drop_left_prompts(session, left)
        assert [each.run for each in agent.conversation.queue] == ["two"]
        # A prompt of this process is not one of them.
        await kit.run("new")
        assert find_left_prompts(session) == []
        drop_left_prompts(session, left)


async def test_images_are_sent_as_they_were_until_they_are_pasted_again():
    images = PromptImages()
    text = "[image #1: /nowhere/a.png] and [image #2: /nowhere/b.png]"
    images.restore(text, [IMAGE, OTHER])
    assert await images.read("[image #2: /nowhere/b.png]") == [OTHER]
    assert await images.read(text) == [IMAGE, OTHER]
    assert not images.has_others(text)
    # Without an image for each reference, it is unclear which one belongs where.
    others = PromptImages()
    others.restore(text, [IMAGE])
    assert await others.read(text) == []
    assert others.has_others(text)
