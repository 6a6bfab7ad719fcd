"""Sessions as resources: those of the folder, in pages, as transcripts without secrets."""

import json

import pytest
from hilum.store import MemoryStore
from hilum.testing import open_bench, say, use
from hilum_mcp.serving import sessions as pages
from mcp import MCPError

KEY = "sk-abcdefghijklmnop1234567890"


@pytest.fixture
async def store(tmp_path):
    """Return a store with a session of the folder and one of another folder."""
    store = MemoryStore()
    for name, prompt in (("workspace", f"Keep {KEY} for me."), ("other", "Something else.")):
        answers = [use("read_file", path="a.txt"), say("```\nIt is kept.")]
        files = {"a.txt": "```\none\n"}
        options = {"workspace": tmp_path / name, "folder": tmp_path, "files": files, "store": store}
        async with open_bench("files", answers=answers, **options) as bench:
            await bench.run(prompt)
    return store


async def test_the_sessions_of_the_folder_are_listed_and_read(serve, store, tmp_path):
    """A transcript has messages and calls, without keys.

    The session of another folder is missing.
    """
    options = {"store": store, "folder": tmp_path, "workspace": tmp_path / "workspace"}
    async with serve("files", "guard", **options) as served, served.client() as client:
        resources = (await client.list_resources()).resources
        uris = [str(each.uri) for each in resources]
        assert uris[0] == "hilum://sessions"
        assert len(uris) == 3
        (content,) = (await client.read_resource(uris[0])).contents
        rows = json.loads(content.text)
        assert {row["uri"] for row in rows} == set(uris[1:])
        (old,) = [row for row in rows if row["id"] != served.bench.session.id]
        (page,) = (await client.read_resource(old["uri"])).contents
        (template,) = (await client.list_resource_templates()).resource_templates
    assert page.mime_type == "text/markdown"
    assert "Keep [REDACTED:OPENAI_KEY] for me." in page.text
    assert "**read_file** · ok" in page.text
    assert "````\n1 | ```\n" in page.text
    assert KEY not in page.text + content.text + str(resources)
    assert template.uri_template == "hilum://sessions/{id}"


async def test_sessions_of_other_folders_are_not_visible(serve, store, tmp_path):
    """Their ids and unknown ones cause the same error."""
    (other,) = [info.id for info in await store.list() if info.workspace == str(tmp_path / "other")]
    options = {"store": store, "folder": tmp_path, "workspace": tmp_path / "workspace"}
    async with serve("files", **options) as served, served.client() as client:
        for name in (other, "", "2", "../x", f"{other}/y"):
            with pytest.raises(MCPError, match="There is no resource"):
                await client.read_resource(
                    f"hilum://sessions/{name}" if name else "file:///etc/passwd"
                )


async def test_a_long_list_comes_in_pages(serve, store, tmp_path, monkeypatch):
    """Cursors lead from page to page; an invalid one is an error."""
    monkeypatch.setattr(pages, "PAGE", 1)
    options = {"store": store, "folder": tmp_path, "workspace": tmp_path / "workspace"}
    async with serve("files", **options) as served, served.client() as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
        assert (len(first.resources), len(second.resources), second.next_cursor) == (2, 1, None)
        with pytest.raises(MCPError, match="cursor"):
            await client.list_resources(cursor="-1")


async def test_sessions_can_be_switched_off(serve):
    """Then the server has no resources at all."""
    async with serve("files", sessions=False) as served, served.client() as client:
        assert client.server_capabilities.resources is None
