"""Commands are found, listed and completed; unknown ones never reach the model."""

import threading
from typing import get_args

import hilum_agents
import hilum_mcp
import pytest
import trio
from hilum import Interpretation, PromptCommand
from hilum.errors import ModelError
from hilum.testing import plugin
from hilum_agents.dispatch import ACTIONS as AGENT_ACTIONS
from hilum_mcp.commands import ACTIONS as MCP_ACTIONS
from hilum_terminal import slash, slash_settings
from hilum_terminal.chat_protocol import Choice
from hilum_terminal.input_kinds import is_command
from hilum_terminal.slash import complete, list_commands, run_command
from hilum_terminal.slash_table import BUILT_IN, GROUPS, Group

from .slash_chat import open_chat


def make_plugin(*listed, reply=lambda text: f"did {text}"):
    names = [command.name for command in listed]

    def interpret_prompt(text):
        if any(text.startswith(f"/{name}") for name in names):
            return Interpretation(text, reply=reply(text))
        return None

    return plugin("extra", interpret_prompt=interpret_prompt, list_commands=lambda: listed)


def test_what_is_a_command():
    cases = {
        "/help": True,
        "/": True,
        "/ ": True,
        "/?": True,
        "/compact the tests": True,
        "/nonsense": True,
        "/server:prompt a b": True,
        "/Ünknown": False,
        " /help": False,
        "help": False,
        "": False,
        "/etc/hosts is wrong": False,
        "/usr/": False,
        "// a comment": False,
        "/* a comment */": False,
        "/ two words": False,
        "/1": False,
    }
    wrong = [text for text, expected in cases.items() if is_command(text) != expected]
    assert not wrong


async def test_text_that_is_no_command_is_left_to_the_model():
    async with open_chat() as chat:
        for text in ("hello", " /help", "/etc/hosts is wrong", "// a comment", "/ two words"):
            assert not await run_command(chat, text)
        assert (chat.said, chat.errors) == ([], [])


async def test_an_unknown_command_is_an_error_with_similar_names():
    async with open_chat() as chat:
        cases = {
            "/modle": "/model",
            "/rewnd": "/rewind",
            "/EXIT": "/exit",
            "/xyzzy now": "/help lists the commands",
        }
        wrong = []
        for text, hint in cases.items():
            await chat.type(text)
            if hint not in chat.error or "type a space before it" not in chat.error:
                wrong.append((text, chat.error))
        assert not wrong
        assert not chat.session.runs
        assert chat.view.totals.runs == 0


async def test_a_name_without_its_folder_is_an_error_with_the_whole_names():
    extra = make_plugin(PromptCommand("backend:test", "Test"), PromptCommand("web:test", "Test"))
    async with open_chat(extra) as chat:
        await chat.type("/test x")
        assert "Did you mean /backend:test or /web:test?" in chat.error
        # The same code as in `hilum run`.
        assert chat.error.startswith("E_UNKNOWN: ")
        assert not chat.session.runs


async def test_plugins_list_their_commands_and_carry_them_out():
    extra = make_plugin(
        PromptCommand("greet", "Greet somebody", "NAME", ("Ada", "Alan")),
        PromptCommand("srv:a prompt", "A prompt with a space in its name"),
        PromptCommand("quit", "Hijack a command of the terminal"),
        PromptCommand("new", "Hijack an alias"),
        PromptCommand("bad\x1b[2J", "Drive the terminal"),
    )
    async with open_chat(extra) as chat:
        listed = {command.name: command for command in list_commands(chat.session)}
        assert listed["greet"].origin == "plugin"
        assert listed["quit"].origin == "terminal"
        assert "new" not in listed
        assert not [name for name in listed if not name.isprintable()]
        assert await chat.type("/greet Ada") == "did /greet Ada"
        assert await chat.type("/srv:a prompt with words") == "did /srv:a prompt with words"
        await chat.type("/quit")
        assert chat.has_quit
        assert chat.view.totals.runs == 0


async def test_a_plugins_command_may_start_a_run():
    extra = plugin(
        "extra",
        interpret_prompt=lambda text: Interpretation("Explain it."),
        list_commands=lambda: [PromptCommand("explain")],
    )
    async with open_chat(extra, answers=["It is so."]) as chat:
        await chat.type("/explain")
        for run in list(chat.session.runs.values()):
            await run.wait()
        assert chat.view.outcome.end.text == "It is so."


async def test_every_command_of_the_program_is_a_command_here():
    async with open_chat() as chat:
        listed = {command.name: command for command in list_commands(chat.session)}
        assert {"rules", "memory", "skills", "doctor", "config"} <= listed.keys()
        # These hold a conversation of their own.
        assert not {"run", "chat", "demo"} & listed.keys()
        assert listed["rules"].summary
        assert await chat.type("/rules show 'my rule'") == "fine"
        assert chat.commands == [["rules", "show", "my rule"]]
        await chat.type("/sessions resume 2026")
        assert "Use /resume" in chat.error
        await chat.type("/rules 'open")
        assert "Close the quotes" in chat.error
        assert len(chat.commands) == 1


async def test_agents_and_mcp_are_answered_by_their_plugins_in_this_session():
    async with open_chat(hilum_agents, hilum_mcp) as chat:
        listed = {command.name: command for command in list_commands(chat.session)}
        assert (listed["agents"].origin, listed["mcp"].origin) == ("plugin", "plugin")
        assert listed["agents"].words == tuple(AGENT_ACTIONS)
        assert listed["mcp"].words == tuple(MCP_ACTIONS)
        assert "Reviews code" in await chat.type("/agents list")
        assert "MCP" in await chat.type("/mcp")
        assert not chat.commands


async def test_completion_offers_names_then_words_then_values():
    extra = make_plugin(
        PromptCommand("greet", "Greet", "NAME", ("Ada", "Alan")),
        PromptCommand("srv:a prompt", "A prompt", "COLOR", ("red",)),
    )
    async with open_chat(extra) as chat:
        cases = {
            "/rew": ["/rewind"],
            "/ex": ["/export", "/quit", "/context", "/index"],
            # What is complete comes first, also under another name.
            "/mode": ["/mode", "/model", "/models"],
            "/exit": ["/exit"],
            "/greet ": ["/greet Ada", "/greet Alan"],
            "/greet  al": ["/greet  Alan"],
            "/greet Alan": ["/greet Alan"],
            "/greet Alan ": [],
            "/srv:a pr": ["/srv:a prompt"],
            "/srv:a prompt": ["/srv:a prompt"],
            "/srv:a prompt ": ["/srv:a prompt red"],
            "/mode ": ["/mode agent"],
            "/approve re": ["/approve readonly"],
            "/help appr": ["/help approve"],
            "/xyzzy": [],
            "no": [],
        }
        wrong = []
        for text, expected in cases.items():
            found = [choice.value for choice in await complete(chat, text)]
            if found != expected:
                wrong.append((text, found))
        assert not wrong
        assert len(await complete(chat, "/")) == len(list_commands(chat.session))


async def test_the_program_is_searched_for_commands_once(monkeypatch):
    searches = []

    def search():
        searches.append(threading.current_thread())
        return {"rules": "Show the rules"}

    slash._program_commands.cache_clear()
    monkeypatch.setattr(slash, "list_program_commands", search)
    try:
        async with open_chat() as chat:
            for text in ("/", "/r", "/ru"):
                assert "/rules" in [choice.value for choice in await complete(chat, text)]
    finally:
        slash._program_commands.cache_clear()
    assert len(searches) == 1
    # Reading the sources of all commands would block the terminal.
    assert searches[0] is not threading.main_thread()


async def test_values_are_asked_for_once(monkeypatch, autojump_clock):
    asked = []

    async def complete_slowly(chat, typed):
        asked.append(typed)
        await trio.sleep(3)
        return [Choice("anthropic/best", "anthropic/best"), Choice("openai/fast", "openai/fast")]

    monkeypatch.setattr(slash_settings, "complete_models", complete_slowly)
    found = {}
    async with open_chat() as chat:
        values = slash.ArgumentValues()

        async def complete_text(text):
            found[text] = [choice.value for choice in await complete(chat, text, values)]

        async with trio.open_nursery() as nursery:
            for text in ("/model ", "/model o", "/model op"):
                nursery.start_soon(complete_text, text)
        assert found["/model op"] == found["/model o"] == ["/model openai/fast"]
        assert len(found["/model "]) == 2
        await complete_text("/model a")
        assert found["/model a"] == ["/model anthropic/best"]
        assert asked == [""]
        await trio.sleep(slash.FRESH)
        await complete_text("/model a")
        values.forget()
        await complete_text("/model a")
        assert len(asked) == 3


async def test_a_failed_completer_is_asked_again_soon(monkeypatch, autojump_clock):
    """One failure must not disable the completion for a minute; every key must not repeat it."""
    asked = []

    async def fail_once(chat, typed):
        asked.append(typed)
        if len(asked) == 1:
            await trio.sleep(1)
            raise ModelError("No connection.", kind="connect")
        return [Choice("openai/fast", "openai/fast")]

    monkeypatch.setattr(slash_settings, "complete_models", fail_once)
    errors = []
    async with open_chat() as chat:
        values = slash.ArgumentValues()

        async def complete_text(text):
            try:
                return await complete(chat, text, values)
            except ModelError as error:
                errors.append(error)

        async with trio.open_nursery() as nursery:
            for text in ("/model ", "/model o"):
                nursery.start_soon(complete_text, text)
        await complete_text("/model op")
        assert len(errors) == 3
        assert len(asked) == 1
        await trio.sleep(slash.FRESH_FAILURE)
        found = await complete_text("/model op")
        assert [choice.value for choice in found] == ["/model openai/fast"]


async def test_help_lists_skills():
    skills = plugin("skills", list_commands=lambda: [PromptCommand("pdf", "Fill in forms")])
    assert get_args(Group) == GROUPS
    async with open_chat(skills) as chat:
        assert "Skills\n  /pdf" in await chat.type("/help")


async def test_help_lists_every_command_and_describes_one():
    async with open_chat() as chat:
        text = await chat.type("/")
        missing = [each.name for each in BUILT_IN if f"  /{each.name}" not in text]
        assert not missing
        one = await chat.type("/help /rewind")
        assert one.startswith("/rewind\nGo back to an earlier prompt")
        assert "hilum rules" in await chat.type("/help rules")


@pytest.mark.parametrize("command", BUILT_IN, ids=lambda command: command.name)
def test_every_built_in_command_has_its_function(command):
    for target in filter(None, (command.target, command.completer)):
        assert callable(slash._load(target))
    assert command.summary
    assert not command.summary.endswith(".")
