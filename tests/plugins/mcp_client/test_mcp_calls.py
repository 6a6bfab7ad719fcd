"""Calls of servers' tools in both protocol versions: results, cancellation, time limits."""

import io
import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import hilum_plan
import pytest
import trio
import trio.lowlevel
from hilum import Profile, ToolError
from hilum.events import CallDone, Delta, PluginEvent
from hilum.messages import Image
from hilum.testing import Bench, say, use
from hilum_mcp import session_servers
from hilum_mcp.client import MAX_PROPOSALS
from hilum_mcp.commands import CommandContext, run
from hilum_mcp.forms import read_form
from hilum_plan import Plan, question_asked

from .conftest import Opened, client, known, plain, until

ERAS = [(), ("new",)]


@pytest.mark.parametrize("era", ERAS)
async def test_tools_are_called_with_their_own_argument_names(
    servers: Opened, era: tuple[str, ...]
) -> None:
    async with servers({"plain": plain(*era)}) as kit:
        await known(kit)
        result = await kit.call("plain__echo", call="x", self="y")
        assert json.loads(result.text) == {"call": "x", "self": "y"}
        assert not result.code
        tool = kit.session.tools["plain__echo"]
        assert (tool.risk, tool.effect, tool.description) == ("network", "once", "The tool echo.")


async def test_results_keep_images_links_resources_and_structure(servers: Opened) -> None:
    async with servers() as kit:
        await known(kit)
        picture = await kit.call("plain__image")
        images = [part for part in picture.parts if isinstance(part, Image)]
        assert [(image.media_type, image.source) for image in images] == [
            ("image/png", "tool:plain__image")
        ]
        linked = await kit.call("plain__link")
        assert linked.text == "[resource plain://one] one: the first\n\n[resource plain://two]\ntwo"
        assert linked.data == {"structured": {"n": 1}}
        failed = await kit.call("plain__fail")
        assert (failed.code, failed.text) == ("E_FAILED", "E_FAILED: it failed")


async def test_an_error_of_the_protocol_is_told_and_the_server_stays(
    servers: Opened, tmp_path: Path
) -> None:
    async with servers({"plain": plain(f"count={tmp_path}/count")}) as kit:
        await known(kit)
        refused = await kit.call("plain__refuse")
        assert refused.code == "E_SERVER"
        assert "not today" in refused.text
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'
        assert len((tmp_path / "count").read_text().split()) == 1


async def test_progress_reaches_faces_and_renews_the_time_limit(servers: Opened) -> None:
    async with servers({"plain": plain("step=0.3")}, settings={"mcp.call_seconds": 0.8}) as kit:
        await known(kit)
        seen: list[str] = []
        async with trio.open_nursery() as nursery:

            async def read() -> None:
                async for event in kit.session.events(kit.session.journal.last, deltas=True):
                    if isinstance(event, Delta) and event.kind == "output":
                        seen.append(event.text)
                    if isinstance(event, CallDone):
                        return

            nursery.start_soon(read)
            result = await kit.call("plain__slow")
        assert result.text == "done"
        assert "4/4 step 4" in "".join(seen)


async def test_a_call_without_a_sign_of_life_ends_and_the_server_is_told(
    servers: Opened, tmp_path: Path
) -> None:
    async with servers(settings={"mcp.call_seconds": 0.3}) as kit:
        await known(kit)
        result = await kit.call("plain__hang", path=str(tmp_path / "end"))
        assert result.code == "E_TIMEOUT"
        assert "0.3 seconds" in result.text
        await _written(tmp_path / "end", "cancelled")
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'


@pytest.mark.parametrize("era", ERAS)
async def test_stopping_a_run_cancels_the_call_on_the_server(
    servers: Opened, tmp_path: Path, era: tuple[str, ...]
) -> None:
    answers = [use("plain__hang", path=str(tmp_path / "end")), say("never")]
    async with servers({"plain": plain(*era)}, answers=answers) as kit:
        server = await known(kit)
        run = await kit.session.prompt("hang")
        assert await until(lambda: server._requests and server._requests._calls)
        assert await until((tmp_path / "end").exists)
        run.stop()
        assert (await run.wait()).state == "stopped"
        await _written(tmp_path / "end", "cancelled")
        kit.model.next(use("plain__echo", call="1"), say("ok"))  # type: ignore[attr-defined]
        await kit.run("go on")
        assert [event.result.text for event in kit.of(CallDone)][-1] == '{"call": "1"}'


async def _written(path: Path, text: str) -> None:
    assert await until(lambda: path.exists() and path.read_text() == text)


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_comes_in_a_call_is_listed(servers: Opened, era: tuple[str, ...]) -> None:
    async with servers({"plain": plain(*era)}) as kit:
        await known(kit)
        await kit.call("plain__grow")
        assert await until(lambda: "plain__grown_0" in kit.session.tools)
        assert kit.session.tools["plain__grown_0"].deferred, "it came after the list was frozen"
        found = await kit.call("find_tools", query="grown_0")
        assert "plain__grown_0: The tool grown_0." in found.text


async def test_pages_are_followed_and_lists_without_an_end_are_cut(servers: Opened) -> None:
    described = {"paged": plain("tools=40", "page=7"), "endless": plain("endless", "page=3")}
    async with servers(described) as kit:
        paged = await known(kit, "paged")
        assert len(paged.tools) == 25 + 40
        endless = await known(kit, "endless")
        assert endless.offer is not None
        assert "is endless" in " ".join(endless.offer.left_out)
        assert (await kit.call("endless__echo", call="1")).text == '{"call": "1"}'


async def test_only_the_tools_that_the_description_lets_be_used_are_there(servers: Opened) -> None:
    described = {"a b": {**plain(), "includeTools": ["echo", "crash"], "excludeTools": ["crash"]}}
    async with servers(described) as kit:
        found = await known(kit, "a b")
        assert [tool.name for tool in found.tools] == ["a_b__echo"]


# --- what servers ask -----------------------------------------------------------------------------


async def answering(kit: Bench, given: dict[str, str]) -> None:
    """Answer questions by a word in them, as a user interface does."""
    plan = kit.session.plugin(Plan)
    assert plan is not None
    async for event in kit.session.events(kit.session.journal.last):
        if (asked := question_asked(event)) is not None:
            plan.answer(
                asked.id, next(answer for word, answer in given.items() if word in asked.question)
            )


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_is_asked_field_by_field(servers: Opened, era: tuple[str, ...]) -> None:
    given = {"colour": "blue", "How many": "12", "sure": "Yes", "note": "Leave it empty"}
    async with servers({"plain": plain(*era)}, hilum_plan) as kit, trio.open_nursery() as nursery:
        await known(kit)
        nursery.start_soon(answering, kit, given)
        await trio.lowlevel.checkpoint()
        result = await kit.call("plain__ask")
        nursery.cancel_scope.cancel()
        assert json.loads(result.text) == {
            "action": "accept",
            "content": {"colour": "blue", "count": 12, "sure": True},
        }
        asked = [question for event in kit.events if (question := question_asked(event))]
        assert asked[0].question.startswith("The MCP server plain asks: Please")
        assert asked[0].options == ("red", "blue", "Decline")
        assert "\n(2 of 4) How many" in asked[1].question
        assert asked[2].options == ("No", "Yes", "Decline"), "Enter agrees to nothing"


@pytest.mark.parametrize(
    ("about", "first", "value"),
    [
        ({"type": "string", "default": "Ada"}, "Ada", "Ada"),
        ({"type": "integer", "default": 30}, "30", 30),
        ({"type": "number", "default": 9.5}, "9.5", 9.5),
        ({"type": "boolean", "default": False}, "No", False),
        ({"type": "string", "enum": ["a", "b"], "default": "b"}, "b", "b"),
        (
            {
                "type": "string",
                "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}],
                "default": "b",
            },
            "B",
            "b",
        ),
        ({"type": "integer", "default": "many"}, "Leave it empty", None),
        ({"type": "string", "enum": ["a"], "default": "z"}, "Leave it empty", None),
        ({"type": "string", "default": "Decline"}, "Leave it empty", None),
    ],
)
def test_a_servers_proposal_is_the_first_answer(
    about: dict[str, object], first: str, value: object
) -> None:
    """A proposal that is not a value of the field is not offered."""
    (field,) = read_form({"properties": {"x": about}})
    assert field.options[0] == first
    assert field.parse((first,)) == value


async def test_a_form_can_be_declined_and_a_question_costs_no_time(servers: Opened) -> None:
    async with (
        servers(None, hilum_plan, settings={"mcp.call_seconds": 0.5}) as kit,
        trio.open_nursery() as nursery,
    ):
        await known(kit)

        async def late() -> None:
            asked = await kit.wait_for(PluginEvent, lambda event: question_asked(event) is not None)
            await trio.sleep(0.7)  # longer than a call may take
            plan = kit.session.plugin(Plan)
            assert plan is not None
            plan.answer(asked.data["id"], "Decline")

        nursery.start_soon(late)
        assert json.loads((await kit.call("plain__ask")).text) == {"action": "decline"}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("allowed", [True, False])
async def test_the_model_answers_a_server_after_the_user_has_agreed(
    servers: Opened, era: tuple[str, ...], allowed: bool
) -> None:
    given = {"Say hello.": "Yes, this once" if allowed else "No"}
    answers = [use("plain__sample", about="x"), say("Hello."), say("Done.")] if allowed else None
    async with servers({"plain": plain(*era)}, hilum_plan, answers=answers or ()) as kit:
        await known(kit)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answering, kit, given)
            await trio.lowlevel.checkpoint()
            if allowed:
                await kit.run("go")
                found = json.loads(kit.of(CallDone)[0].result.text)
                assert found["content"] == {"type": "text", "text": "Hello."}
            else:
                result = await kit.call("plain__sample", about="x")
                assert "does not allow" in result.text
            nursery.cancel_scope.cancel()


async def test_where_nobody_can_be_asked_servers_are_not_offered_to_ask(servers: Opened) -> None:
    async with servers({"plain": plain("new")}, hilum_plan, kind="headless") as kit:
        await known(kit)
        result = await kit.call("plain__ask")
        assert result.code == "E_SERVER"


async def test_an_unattended_session_keeps_the_cached_offer(
    servers: Opened, tmp_path: Path
) -> None:
    """The cache has the offer for attended sessions, also after ``hilum mcp test``."""
    described = {"plain": plain("asks")}
    async with servers(described, hilum_plan, kind="headless") as kit:
        assert "plain__form" not in {tool.name for tool in (await known(kit)).tools}
        desk = CommandContext(Path(kit.session.workspace.root), io.StringIO(), session=kit.session)
        assert await run(["test", "plain"], desk) == 0
        assert "form" in desk.out.getvalue()
    async with servers(described, hilum_plan, kind="headless") as kit:
        assert (await kit.call("plain__echo", call="1")).text
        assert await until(lambda: "plain__form" not in kit.session.tools), (
            "nobody can be asked here"
        )
    async with servers(described, hilum_plan) as kit:
        assert "plain__form" in kit.session.tools
        assert client(kit).state == "idle"
        assert (await kit.call("plain__form")).text == "shown"


@pytest.mark.parametrize("era", ERAS)
async def test_the_workspace_is_the_only_root(servers: Opened, era: tuple[str, ...]) -> None:
    async with servers({"plain": plain(*era)}) as kit:
        await known(kit)
        found = json.loads((await kit.call("plain__roots")).text)
        assert [root["uri"] for root in found["roots"]] == [kit.session.workspace.root.as_uri()]


# --- resources and prompts ------------------------------------------------------------------------


async def test_resources_are_listed_and_read(servers: Opened) -> None:
    async with servers({"plain": plain("page=2")}) as kit:
        await known(kit)
        listed = await kit.call("list_resources", server="plain")
        assert listed.text.split("\n") == [
            "plain://one rone",
            "plain://two rtwo",
            "plain://three rthree",
        ]
        assert "rtwo" in (await kit.call("list_resources", server="plain", query="TWO")).text
        read = await kit.call("read_resource", server="plain", uri="plain://two")
        assert read.text == "[resource plain://two]\nthe text of plain://two"
        assert (await kit.call("read_resource", server="plan", uri="x")).code == "E_NOT_FOUND"
        for arguments, wrong in (
            ({"server": "plain"}, "uri"),
            ({"server": 1, "uri": "x", "more": ""}, "more, server"),
        ):
            refused = await kit.call("read_resource", **arguments)
            assert refused.code == "E_BAD_ARGS"
            assert f"are invalid: {wrong}." in refused.text


async def test_prompts_are_commands(servers: Opened) -> None:
    async with servers(answers=["reviewed"]) as kit:
        await known(kit)
        ended = await kit.run("/plain:review a.py rather harsh")
        assert ended.text == "reviewed"
        assert "Review a.py, and be rather harsh." in str(kit.requests[-1].messages[-1])
        reply = (await kit.session.prompt("/plain:review")).reply
        assert reply == "It requires path. /plain:review path [tone]"
        assert "Review it." in ((await kit.session.prompt("/prompts")).reply or "")


async def test_what_an_argument_may_be_is_shown_where_it_is_missing(servers: Opened) -> None:
    async with servers({"plain": plain("completes")}) as kit:
        await known(kit)
        reply = (await kit.session.prompt("/plain:review tone=kind")).reply or ""
        problem, proposed = reply.split("\n")
        assert problem == "It requires path. /plain:review path [tone]"
        assert proposed.startswith("path: a b, path 0 {'tone': 'kind'}, path 1 ")
        assert len(proposed.split(", ")) == MAX_PROPOSALS


async def test_a_server_that_proposes_nothing_in_time_costs_the_answer_little(
    servers: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_servers, "PROMPT_TIMEOUT", 0.1)
    async with servers({"plain": plain("completes=never")}) as kit:
        await known(kit)
        reply = (await kit.session.prompt("/plain:review")).reply
        assert reply == "It requires path. /plain:review path [tone]"


async def test_the_start_is_lazy_once_the_offer_is_known(servers: Opened, tmp_path: Path) -> None:
    described = {"plain": plain(f"count={tmp_path}/count")}
    async with servers(described) as kit:
        await known(kit)
    async with servers(described, answers=[say("hi"), say("and")]) as kit:
        await kit.run("hello")
        assert "plain__echo" in [tool.name for tool in kit.requests[0].tools]
        assert "find_tools" not in [tool.name for tool in kit.requests[0].tools]
        assert client(kit).connection.state == "idle"
        assert len((tmp_path / "count").read_text().split()) == 1
        kit.model.next(use("plain__echo", call="1"), say("so"))  # type: ignore[attr-defined]
        await kit.run("call it")
        assert len((tmp_path / "count").read_text().split()) == 2


async def test_an_unknown_server_delays_no_prompt_and_its_tools_come_late(servers: Opened) -> None:
    answers = [
        say("first"),
        use("call_tool", name="plain__echo", arguments={"call": "1"}),
        say("second"),
    ]
    async with servers({"plain": plain("slow-list=0.5")}, answers=answers) as kit:
        began = time.perf_counter()
        await kit.run("hello")
        assert time.perf_counter() - began < 5
        first = kit.requests[0]
        assert [tool.name for tool in first.tools] == ["find_tools", "call_tool"]
        assert any("it is starting" in layer.text for layer in first.layers)
        await known(kit)
        await kit.run("again")
        assert [tool.name for tool in kit.requests[1].tools] == ["find_tools", "call_tool"], (
            "the list stays as it was"
        )
        assert kit.of(CallDone)[0].result.text == '{"call": "1"}'


async def test_who_looks_for_tools_waits_for_a_server_that_is_being_started(
    servers: Opened,
) -> None:
    answers = [
        use("find_tools", query="echo"), use("call_tool", name="plain__echo", arguments={"call": "1"}), say("so")
    ]  # fmt: skip
    described = {"plain": plain("slow-list=0.5"), "gone": {"command": "no-such-program-at-all"}}
    async with servers(described, answers=answers) as kit:
        await kit.run("echo 1")
        found, echoed = [event.result for event in kit.of(CallDone)]
        assert found.text.startswith("plain__echo: ")
        assert echoed.text == '{"call": "1"}'


async def test_definitions_beyond_the_threshold_are_found_not_listed(servers: Opened) -> None:
    described = {"small": plain(), "large": plain("tools=300")}
    async with servers(described) as kit:
        await known(kit, "small")
        await known(kit, "large")
    async with servers(described, answers=[say("x")], settings={"mcp.definitions": 2000}) as kit:
        await kit.run("hello")
        names = [tool.name for tool in kit.requests[0].tools]
        assert "small__echo" in names
        assert "find_tools" in names
        assert not [name for name in names if name.startswith("large__")]
        layer = next(layer.text for layer in kit.requests[0].layers if layer.name == "mcp large")
        assert "large__echo" in layer
        assert "and 265 more" in layer
        found = await kit.call("find_tools", query="more_77")
        assert found.text.startswith("large__more_77: The tool more_77.")
        assert (
            await kit.call("call_tool", name="large__echo", arguments={"call": "1"})
        ).text == '{"call": "1"}'


async def test_a_server_can_be_for_some_agents_only(servers: Opened) -> None:
    async with servers(settings={"mcp.agents": {"plain": ["researcher"]}}) as kit:
        await known(kit)
        for tool, arguments in (
            ("plain__echo", {"call": "1"}),
            ("list_resources", {"server": "plain"}),
        ):
            assert (await kit.call(tool, **arguments)).code == "E_DENIED"
        assert "plain__" not in (await kit.call("find_tools", query="echo")).text
        assert not [layer for layer in kit.requests[-1].layers if "mcp" in layer.name]
    # What is known is in the list of those who may use it, and of nobody else.
    async with servers(
        settings={"mcp.agents": {"plain": ["researcher"]}}, answers=[say("x"), say("y")]
    ) as kit:
        await kit.run("hello")
        assert not [tool.name for tool in kit.requests[0].tools]
        kit.session.add_agent(Profile(name="researcher"))
        await kit.run("hello", agent="researcher")
        assert {"plain__echo", "list_resources"} <= {tool.name for tool in kit.requests[1].tools}


async def test_a_list_that_changes_where_nothing_was_expected_comes_with_the_next_prompt(
    servers: Opened,
) -> None:
    async with servers() as kit:
        await known(kit)
    async with servers() as kit:
        await kit.call("plain__grow")
        assert await until(lambda: "plain__grown_0" in kit.session.tools)
        assert not kit.session.tools["plain__grown_0"].deferred
        assert (await kit.call("plain__grown_0")).code == "E_SERVER", (
            "the server knows no such tool after all"
        )


async def test_nothing_configured_costs_nothing(servers: Opened) -> None:
    async with servers({}, answers=[say("x")]) as kit:
        await kit.run("hello")
        assert not kit.requests[0].tools
        assert not [layer for layer in kit.requests[0].layers if "mcp" in layer.name]


async def test_the_real_sdk_server_speaks_the_new_era(
    servers: Opened,
) -> None:
    program = str(Path(__file__).parent / "modern_server.py")
    described = {"command": sys.executable, "args": [program]}
    async with servers({"sdk": described}) as kit:
        found = await known(kit, "sdk")
        assert (await kit.call("sdk__add", a=1, b=2)).data == {"structured": {"total": 3}}
        assert found.connection._client is not None
        assert found.connection._client.protocol_version == "2026-07-28"
        assert any(layer.text.endswith("Call add for sums.") for layer in kit.requests[-1].layers)


async def test_lone_surrogates_do_not_break_the_connection(servers: Opened) -> None:
    """Typed and decoded texts can have them, and the SDK cannot encode them."""
    async with servers() as kit:
        found = await known(kit)
        with suppress(ToolError):
            await found.get_prompt("review", {"path": "a\ud800b"})
        with suppress(ToolError):
            await found.read_resource("note://\ud800", "test")
        assert (await kit.call("plain__echo", call="1")).text == '{"call": "1"}'
        assert found.starts == 1
