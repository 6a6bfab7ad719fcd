"""find_paths: what a face offers after @, and both tools through the loop."""

import hilum_prompt
import hilum_search
import pytest
import trio
import trio.testing
from hilum import ToolDenied, ToolError
from hilum.testing import plugin
from hilum_search.path_index import PathIndex

FILES = {
    "src/engine.py": "def start():\n    pass\n",
    "src/search_engine.py": "",
    "src/engines/diesel.py": "",
    "docs/the-eng-in-e.md": "",
    "build/engine.py": "",
    ".gitignore": "build/\n",
}


async def test_the_best_paths_come_first(bench) -> None:
    """The name begins with the query, the name has it, the path has it, its characters are there.

    Ignored files are not.
    """
    b = await bench(hilum_search, files=FILES)
    expected = [
        "src/engine.py",
        "src/search_engine.py",
        "src/engines/diesel.py",
        "docs/the-eng-in-e.md",
    ]
    assert await hilum_search.find_paths(b.session, "engine") == expected
    assert await hilum_search.find_paths(b.session, "ENGINE", limit=2) == expected[:2]
    assert await hilum_search.find_paths(b.session, "s/die") == ["src/engines/diesel.py"]
    assert await hilum_search.find_paths(b.session, "zzz") == []
    assert (await hilum_search.find_paths(b.session, "", limit=1)) == [".gitignore"]


async def test_new_files_are_found_soon(bench, monkeypatch) -> None:
    """The old list serves until the new one is there."""
    b = await bench(hilum_search, files=FILES)
    assert await hilum_search.find_paths(b.session, "novel") == []
    (b.session.workspace.root / "novel.py").write_text("")
    assert await hilum_search.find_paths(b.session, "novel") == []
    monkeypatch.setattr("hilum_search.path_index.MAX_AGE_SECONDS", -1.0)
    assert await hilum_search.find_paths(b.session, "novel") == []
    with trio.fail_after(60):
        await trio.testing.wait_all_tasks_blocked()  # the new list is being made
        async with b.session.plugin(PathIndex)._lock:  # held while the new list is made
            pass
    assert await hilum_search.find_paths(b.session, "novel") == ["novel.py"]


async def test_without_the_plugin_it_says_so(bench) -> None:
    """A face that asks a session without it gets an error with words."""
    b = await bench(hilum_prompt)
    with pytest.raises(ToolError, match="is off"):
        await hilum_search.find_paths(b.session, "x")


async def test_both_tools_through_the_loop(bench) -> None:
    """Called by a model, allowed in a read-only session and in the modes that only read."""
    b = await bench(
        hilum_search, hilum_prompt, files=FILES, settings={"approve": "readonly", "mode": "plan"}
    )
    found = await b.call("search_files", pattern=r"def \w+\(")
    assert found.text == "1 matching line in 1 file\nsrc/engine.py\n1:def start():\n2-    pass"
    assert (await b.call("glob_search", pattern="src/*.py")).data["count"] == 2
    bad = await b.call("search_files", pattern="(")
    assert bad.code == "E_BAD_ARGS"
    assert [(tool.risk, tool.effect) for tool in hilum_search.provide_tools(b.session)] == [
        ("read", "pure")
    ] * 2


async def test_a_refusal_to_start_processes_holds(bench) -> None:
    """ripgrep passes wrap_process, as every process does."""

    def wrap_process(command):
        raise ToolDenied("No processes today.")

    b = await bench(hilum_search, plugin(wrap_process=wrap_process), files=FILES)
    assert (await b.call("search_files", pattern="x")).code == "E_DENIED"
    assert (await b.call("glob_search", pattern="*")).code == "E_DENIED"
