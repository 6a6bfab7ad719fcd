"""Notifications of changes: lists, and sessions that clients watch."""

import mcp_types as t
import pytest
import trio
from hilum import hookimpl, tool
from hilum.store import MemoryStore
from hilum.testing import open_bench, say
from hilum_mcp.serving import notifications
from mcp.shared import subscriptions as events

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
SKILL = "---\nname: {}\ndescription: Says hello.\n---\nSay hello to {}.\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(notifications, "POLL_INTERVAL", 0.01)


class Growing:
    """A plugin that provides another tool later."""

    def __init__(self):
        self.more = False

    @tool(risk="read", effect="pure")
    def first(self) -> str:
        """The first one."""
        return "1"

    @tool(risk="read", effect="pure")
    def second(self) -> str:
        """The second one."""
        return "2"

    @hookimpl
    def provide_tools(self):
        return [self.first, self.second] if self.more else [self.first]


class Ears:
    """The notifications of a client of either version, in the terms of the newer one."""

    WORDS = {
        t.ToolListChangedNotification: "tools", t.PromptListChangedNotification: "prompts",
        t.ResourceListChangedNotification: "resources", t.ResourceUpdatedNotification: "updated",
        events.ToolsListChanged: "tools", events.PromptsListChanged: "prompts",
        events.ResourcesListChanged: "resources", events.ResourceUpdated: "updated",
    }  # fmt: skip

    def __init__(self):
        self.send, self.heard = trio.open_memory_channel(100)

    async def take(self, message):
        """Take a message of the older protocol."""
        if type(message) in self.WORDS:
            await self.send.send(self.WORDS[type(message)])

    async def until(self, word):
        """Wait for a notification of one kind."""
        while await self.heard.receive() != word:
            pass

    async def listen(self, served, client, nursery, addresses=()):
        """Listen in the tested protocol version."""
        if served.mode == "legacy":
            for address in addresses:
                await client.session.subscribe_resource(address)
            return

        async def stream(task_status):
            kinds = {
                "tools_list_changed": True,
                "prompts_list_changed": True,
                "resources_list_changed": True,
            }
            async with client.listen(
                **kinds, resource_subscriptions=list(addresses)
            ) as subscription:
                task_status.started()
                async for event in subscription:
                    await self.send.send(self.WORDS[type(event)])

        await nursery.start(stream)


async def test_a_new_tool_is_notified_and_listed(serve):
    """A request for the list then returns it."""
    plugin, ears = Growing(), Ears()
    async with (
        serve(plugin) as served,
        served.client(message_handler=ears.take) as client,
        trio.open_nursery() as nursery,
    ):
        assert client.server_capabilities.tools.list_changed
        await ears.listen(served, client, nursery)
        await served.polled(3)
        plugin.more = True
        served.bench.session.tools_changed()
        assert await ears.heard.receive() == "tools"
        names = {each.name for each in (await client.list_tools(cache_mode="refresh")).tools}
        assert "second" in names
        nursery.cancel_scope.cancel()


async def test_a_new_or_changed_session_is_notified(serve, tmp_path):
    """Another process works in the folder. The list changes, and so does a watched session."""
    store, ears = MemoryStore(), Ears()
    options = {"store": store, "folder": tmp_path, "workspace": tmp_path / "workspace"}
    async with (
        serve("files", **options) as served,
        served.client(message_handler=ears.take) as client,
        trio.open_nursery() as nursery,
    ):
        mine = f"hilum://sessions/{served.bench.session.id}"
        await ears.listen(served, client, nursery, [mine])
        await served.polled()
        async with open_bench("files", answers=[say("Done.")], **options) as other:
            await other.run("Do it.")
        assert await ears.heard.receive() == "resources"
        await client.call_tool("list_directory", {})
        await ears.until("updated")
        nursery.cancel_scope.cancel()


async def test_sessions_are_notified_only_to_watchers(serve):
    """Only lists are notified without a subscription."""
    ears = Ears()
    async with (
        serve("files") as served,
        served.client(message_handler=ears.take) as client,
        trio.open_nursery() as nursery,
    ):
        mine = f"hilum://sessions/{served.bench.session.id}"
        await ears.listen(served, client, nursery, [mine] if served.mode == "legacy" else [])
        if served.mode == "legacy":
            await client.session.unsubscribe_resource(mine)
        await served.polled()
        await client.call_tool("list_directory", {})
        await served.polled(3)
        nursery.cancel_scope.cancel()
        heard = []
        while ears.heard.statistics().current_buffer_used:
            heard.append(ears.heard.receive_nowait())
    assert "updated" not in heard


async def test_skills_are_prompts(serve, tmp_path):
    """The client's user selects a skill by name and adds a task. A new skill is notified."""
    folder, ears = tmp_path / "bench" / "config" / "skills", Ears()

    def write(name):
        (folder / name).mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(SKILL.format(name, "sk-abcdefghijklmnop1234567890"))

    write("greet")
    async with (
        serve("skills", "guard", folder=tmp_path / "bench") as served,
        served.client(message_handler=ears.take) as client,
        trio.open_nursery() as nursery,
    ):
        (prompt,) = (await client.list_prompts()).prompts
        assert (prompt.name, prompt.description) == ("greet", "Says hello.")
        await ears.listen(served, client, nursery)
        await served.polled()
        (message,) = (await client.get_prompt("greet", {"task": "In French."})).messages
        assert "Say hello to [REDACTED:OPENAI_KEY]." in message.content.text
        assert message.content.text.endswith("In French.")
        with pytest.raises(Exception, match="There is no prompt none"):
            await client.get_prompt("none")
        write("part")
        await ears.until("prompts")
        assert len((await client.list_prompts(cache_mode="refresh")).prompts) == 2
        nursery.cancel_scope.cancel()


async def test_the_id_of_a_session_is_completed(serve):
    """It is completed by its prefix, for the template of the server. Nothing else is completed."""
    form = t.ResourceTemplateReference(uri="hilum://sessions/{id}")
    async with serve("files") as served, served.client() as client:
        own = served.bench.session.id
        assert (
            await client.complete(form, {"name": "id", "value": own[:4]})
        ).completion.values == [own]
        assert (await client.complete(form, {"name": "id", "value": "x"})).completion.values == []
        other = t.PromptReference(name="greet")
        assert (await client.complete(other, {"name": "task", "value": ""})).completion.values == []


async def test_nothing_is_polled_without_a_client(autojump_clock):
    """A server without a listening client does nothing."""
    looks = []
    watched = notifications.Notifications(lambda: looks.append(1))
    with trio.move_on_after(100):
        await watched.watch()
    assert not looks
