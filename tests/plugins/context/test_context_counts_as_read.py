"""A file that came whole with a prompt was read: it may be changed as it came, and only so."""

import pytest
from hilum import Block
from hilum.events import PluginEvent
from hilum.store import MemoryStore
from hilum.testing import plugin, use


def edit(path="a.py"):
    return use("edit_file", path=path, old_string="one", new_string="two")


@pytest.mark.parametrize("name", ["a.py", 'x" & <y>.py'])
async def test_a_file_that_came_whole_need_not_be_read_again(opened, put, ask, root, name) -> None:
    """Nor when it has Windows line ends, a mark at its beginning, or comes a second time as a
    pointer.
    """
    put({name: "\ufeff# one\r\n" + "# more\r\n" * 300})
    async with opened(answers=["ok", edit(name), "done"]) as bench:
        await ask(bench, open_files=[{"path": name}])
        await ask(bench, open_files=[{"path": name}])
        assert bench.result("edit_file").code == ""
    assert "# two" in (root / name).read_text()


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("one\n" * 40_000, {"open_files": [{"path": "a.py"}]}),
        ("one\n", {"open_files": [{"path": "a.py", "text": "one\nunsaved\n"}]}),
        ("one\n" * 200, {"cursor": {"path": "a.py", "line": 100}}),
    ],
    ids=["cut", "unsaved", "around the cursor"],
)
async def test_a_part_or_another_text_does_not_count(opened, put, ask, text, state) -> None:
    put({"a.py": text})
    async with opened(answers=[edit(), "done"]) as bench:
        await ask(bench, **state, recent_edits=[])
        assert bench.result("edit_file").code == "E_STALE"


async def test_what_changed_since_it_came_does_not_count(opened, put, ask, root) -> None:
    put({"a.py": "one\n"})
    async with opened(answers=["ok", edit(), "done"]) as bench:
        await ask(bench, open_files=[{"path": "a.py"}])
        put({"a.py": "one\nmore\n"})
        await bench.run("go on")
        assert bench.result("edit_file").code == "E_STALE"
        assert "changed since you last saw it" in bench.result("edit_file").text


async def test_what_the_kernel_left_out_for_want_of_room_does_not_count(opened, put, ask) -> None:
    """Another plugin's block took it."""
    put({"a.py": "one " * 900})
    big = plugin(
        "big",
        gather_context=lambda request: Block("big", "x " * (2 * request.budget - 60), priority=99),
    )
    async with opened(big, answers=[edit(), "done"]) as bench:
        sent = await ask(bench, open_files=[{"path": "a.py"}])
        assert not sent.of("open_file")
        assert any(event.name == "files.shown" for event in bench.of(PluginEvent))
        assert bench.result("edit_file").code == "E_STALE"


async def test_a_resumed_session_knows_what_came(opened, put, ask) -> None:
    put({"a.py": "one\n"})
    store = MemoryStore()
    async with opened(answers=["ok"], store=store) as bench:
        await ask(bench, open_files=[{"path": "a.py"}])
        session = bench.session.id
    async with opened(answers=[edit(), "done"], store=store, resume=session) as bench:
        await bench.run("go on", state={"open_files": [], "recent_edits": []})
        assert bench.result("edit_file").code == ""
