"""Outputs of the user's commands: the main agent reads each of them once."""

import pytest
import trio
from hilum import Interpretation, PluginError, Profile, UsageError
from hilum.events import RunStarted
from hilum.shell_lines import ShellLine, attach_output, run_shell_line
from hilum.store import MemoryStore
from hilum.testing import open_bench, plugin
from hilum.unread_outputs import ATTACHED, MAX_UNREAD, UnreadOutputs


def test_the_oldest_outputs_are_removed_if_all_are_too_long():
    outputs = UnreadOutputs()
    forgotten = [outputs.add(str(n), f"{n}" * (MAX_UNREAD // 4)) for n in range(10)]
    assert forgotten == [0] * 4 + [1] * 6
    assert list(outputs.take()) == ["6", "7", "8", "9"]
    assert len(outputs) == 0
    outputs.add("1", "x")
    # The newest one always stays.
    assert outputs.add("2", "x" * (2 * MAX_UNREAD)) == 1
    assert "2" in outputs
    assert "1" not in outputs


def test_what_is_put_back_comes_first_and_counts_as_older():
    outputs = UnreadOutputs()
    outputs.add("1", "one")
    outputs.add("2", "two")
    taken = outputs.take()
    outputs.add("3", "three")
    outputs.put_back(taken)
    assert list(outputs.take()) == ["1", "2", "3"]
    outputs.add("3", "x" * (MAX_UNREAD - 5))
    outputs.put_back(taken)
    assert list(outputs.take()) == ["2", "3"]


async def send(kit, text, **more):
    """Prompt the agent, and return what it read."""
    await kit.run(text, **more)
    return str(kit.of(RunStarted)[-1].message)


async def test_only_the_main_agent_reads_them_and_only_once(bench):
    async def interpret(session, text):
        if text.startswith("@helper "):
            return Interpretation(text[8:], "helper")
        if text == "/help":
            return Interpretation(text, reply="Help.")
        return None

    kit = await bench(plugin("p", interpret_prompt=interpret), answers=["ok"] * 5)
    session = kit.session
    session.add_agent(Profile("helper"))
    attach_output(session, "1", "The user ran: one")
    attach_output(session, "2", "The user ran: two")
    assert "The user ran" not in await send(kit, "Go", agent="helper")
    assert "The user ran" not in await send(kit, "@helper Go")
    assert (await session.prompt("/help")).reply == "Help."
    with pytest.raises(UsageError):
        await session.prompt(" ")
    read = await send(kit, "Go", attached="given")
    assert r"The user ran: one\n\nThe user ran: two\n\ngiven" in read
    assert "The user ran" not in await send(kit, "Go")


async def test_a_prompt_that_is_not_queued_reads_nothing(bench):
    def redact_texts(texts):
        if "Refuse this prompt." in texts:
            raise ValueError("no")
        return list(texts)

    kit = await bench(plugin("p", redact_texts=redact_texts), answers=["ok"])
    attach_output(kit.session, "1", "The user ran: one")
    with pytest.raises(PluginError):
        await kit.session.prompt("Refuse this prompt.")
    kit.allow_faults()
    assert "The user ran: one" in await send(kit, "Go")


async def test_the_user_reads_which_outputs_the_agent_will_not_read(bench):
    session = (await bench()).session
    long = "x" * (MAX_UNREAD // 2)
    assert attach_output(session, "1", long) == ""
    assert attach_output(session, "2", long) == ""
    assert attach_output(session, "3", "x").startswith(
        "The agent will not read the oldest output: together, the commands"
    )
    told = attach_output(session, "4", "x" * (2 * MAX_UNREAD))
    assert told.startswith("The agent will not read the oldest 2 outputs: ")


async def test_an_output_that_ends_within_a_character_is_complete(bench, monkeypatch):
    async def check(session, command):
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr("hilum.shell_lines._check_rules", check)
    session = (await bench()).session
    line = ShellLine("printf 'a\\xc3'")
    await run_shell_line(session, line, lambda: None)
    assert (line.status, line.output) == (0, "a\ufffd")


async def test_a_session_that_is_opened_again_still_has_them(tmp_path):
    store = MemoryStore()
    async with open_bench(folder=tmp_path, store=store, answers=["ok"]) as kit:
        session = kit.session.id
        attach_output(kit.session, "1", "The user ran: one")
        await send(kit, "Go")
        attach_output(kit.session, "2", "The user ran: two")
        # Any plugin can write an event with this name.
        kit.session.note(ATTACHED, identity=3, text=["three"])
    async with open_bench(folder=tmp_path, store=store, resume=session, answers=["ok"]) as kit:
        assert len(kit.session.unread_outputs) == 1
        read = await send(kit, "Go on")
        assert "The user ran: two" in read
        assert "The user ran: one" not in read
    async with open_bench(folder=tmp_path, store=store, resume=session, answers=["ok"]) as kit:
        assert "The user ran" not in await send(kit, "And on")


async def test_an_output_that_arrives_while_a_prompt_is_queued_is_kept_for_the_next(tmp_path):
    """The prompt in the log does not contain the output, so a session that is opened again has it."""
    store = MemoryStore()

    def redact_texts(texts):
        # The prompt has taken the first output, and is not yet in the log.
        if "Go on with it." in texts:
            attach_output(kit.session, "2", "The user ran: two")
        return list(texts)

    slow = plugin("p", redact_texts=redact_texts)
    async with open_bench(slow, folder=tmp_path, store=store, answers=["ok"]) as kit:
        session = kit.session.id
        attach_output(kit.session, "1", "The user ran: one")
        read = await send(kit, "Go on with it.")
        assert "one" in read
        assert "two" not in read
    async with open_bench(folder=tmp_path, store=store, resume=session, answers=["ok"]) as kit:
        assert list(kit.session.unread_outputs.take()) == ["2"]
