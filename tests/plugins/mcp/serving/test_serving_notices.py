"""Clients are told what has changed: lists, and sessions that they watch."""

import mcp_types as t
import pytest
import trio
from hilum import hookimpl, tool
from hilum.store import MemoryStore
from hilum.testing import open_bench, say
from hilum_mcp.serving import notices
from mcp.shared import subscriptions as events

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
SKILL = "---\nname: {}\ndescription: Says hello.\n---\nSay hello to {}.\n"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(notices, "PERIOD", 0.01)


class Growing:
    """A plugin that gives another tool later."""

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
    """What a client of either era hears, in the words of the newer one."""

    WORDS = {
        t.ToolListChangedNotification: "tools", t.PromptListChangedNotification: "prompts",
        t.ResourceListChangedNotification: "resources", t.ResourceUpdatedNotification: "updated",
        events.ToolsListChanged: "tools", events.PromptsListChanged: "prompts",
        events.ResourcesListChanged: "resources", events.ResourceUpdated: "updated",
    }  # fmt: skip

    def __init__(self):
        self.send, self.heard = trio.open_memory_channel(100)

    async def take(self, message):
        """Take a message of the older era."""
        if type(message) in self.WORDS:
            await self.send.send(self.WORDS[type(message)])

    async def until(self, word):
        """Wait for one of a kind."""
        while await self.heard.receive() != word:
            pass

    async def listen(self, served, client, nursery, addresses=()):
        """Listen in the way of the era."""
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


async def test_a_tool_that_comes_later_is_told_and_listed(serve):
    """The list that is asked for then has it."""
    plugin, ears = Growing(), Ears()
    async with (
        serve(plugin) as served,
        served.client(message_handler=ears.take) as client,
        trio.open_nursery() as nursery,
    ):
        assert client.server_capabilities.tools.list_changed
        await ears.listen(served, client, nursery)
        await served.looked(3)
        plugin.more = True
        served.bench.session.tools_changed()
        assert await ears.heard.receive() == "tools"
        names = {each.name for each in (await client.list_tools(cache_mode="refresh")).tools}
        assert "second" in names
        nursery.cancel_scope.cancel()


async def test_a_session_that_begins_or_goes_on_is_told(serve, tmp_path):
    """Another process works in the folder: the list is news, and so is the session to who watches
    it.
    """
    store, ears = MemoryStore(), Ears()
    options = {"store": store, "folder": tmp_path, "workspace": tmp_path / "workspace"}
    async with (
        serve("files", **options) as served,
        served.client(message_handler=ears.take) as client,
        trio.open_nursery() as nursery,
    ):
        mine = f"hilum://sessions/{served.bench.session.id}"
        await ears.listen(served, client, nursery, [mine])
        await served.looked()
        async with open_bench("files", answers=[say("Done.")], **options) as other:
            await other.run("Do it.")
        assert await ears.heard.receive() == "resources"
        await client.call_tool("list_directory", {})
        await ears.until("updated")
        nursery.cancel_scope.cancel()


async def test_who_watches_nothing_is_told_of_no_session(serve):
    """Only the lists are told without asking."""
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
        await served.looked()
        await client.call_tool("list_directory", {})
        await served.looked(3)
        nursery.cancel_scope.cancel()
        heard = []
        while ears.heard.statistics().current_buffer_used:
            heard.append(ears.heard.receive_nowait())
    assert "updated" not in heard


async def test_skills_are_prompts(serve, tmp_path):
    """The client's user picks a skill by its name; what it is to be done with stands below.

    One that comes later is told.
    """
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
        await served.looked()
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
    """By its beginning, for the form of addresses that the server gave.

    Nothing else is completed.
    """
    form = t.ResourceTemplateReference(uri="hilum://sessions/{id}")
    async with serve("files") as served, served.client() as client:
        own = served.bench.session.id
        assert (
            await client.complete(form, {"name": "id", "value": own[:4]})
        ).completion.values == [own]
        assert (await client.complete(form, {"name": "id", "value": "x"})).completion.values == []
        other = t.PromptReference(name="greet")
        assert (await client.complete(other, {"name": "task", "value": ""})).completion.values == []


async def test_nobody_there_means_no_looks(autojump_clock):
    """A server that nobody listens to does nothing."""
    looks = []
    watched = notices.Notices(lambda: looks.append(1))
    with trio.move_on_after(100):
        await watched.watch()
    assert not looks
