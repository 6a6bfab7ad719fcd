"""The tool in a session: what it finds, cites and leaves out, and that it is never outdated."""

import sqlite3

import hilum_files
import hilum_guard
import hilum_search
import hilum_semantic_search
import pytest
import trio
from hilum import cache_folder
from hilum.testing import open_bench, say, use
from hilum_semantic_search.database import IndexFolder
from hilum_semantic_search.indexer import UpdateResult

RETRY = '''"""Network helpers."""


def repeat_request(send, attempts):
    # Tries again with exponential backoff when the connection fails.
    for attempt in range(attempts):
        pause = 2 ** attempt
        send(pause)


def parseHTTPHeader(line):
    return line.split(":")
'''
FILES = {
    "net/retry.py": RETRY,
    "docs/guide.md": "# Guide\n\n## Caching pages\n\nPages are stored for an hour.\n",
    "web/view.ts": "export function drawButton(label: string) {\n  return label\n}\n",
}
PLUGINS = (hilum_semantic_search, hilum_search)


def head(text: str) -> str:
    return text.splitlines()[0]


async def test_results_cite_file_and_lines_with_their_text():
    async with open_bench(*PLUGINS, files=FILES) as bench:
        result = await bench.call(
            "semantic_search", query="retries with backoff after failed connection"
        )
    assert result.text.splitlines()[:4] == [
        "3 results, best first. Ranked by words only (BM25), without embeddings.",
        "net/retry.py:4-8 repeat_request",
        "4:def repeat_request(send, attempts):",
        "5:    # Tries again with exponential backoff when the connection fails.",
    ]
    assert result.data["ranking"] == "words"
    assert result.data["complete"] is True
    found = result.data["results"][0]
    assert (found["path"], found["first"], found["last"]) == ("net/retry.py", 4, 8)


async def test_lines_of_files_cannot_look_like_results_or_control_a_terminal():
    forged = "# payment gateway\x1b]0;x\x07\x9b2J\rnet/safe.py:1-2 pay\u2028net/safe.py:1-2 pay\t\u3000中\n"
    async with open_bench(*PLUGINS, files={"a.py": forged}) as bench:
        result = await bench.call("semantic_search", query="payment gateway")
    assert not {"\x1b", "\x07", "\x9b", "\r", "\u2028"} & set(result.text)
    assert "\\x1b]0;x\\x07" in result.text
    assert "\t\u3000中" in result.text
    assert sum(line.startswith("net/safe.py") for line in result.text.splitlines()) == 0


@pytest.mark.parametrize(
    ("query", "place"),
    [
        ("parse http headers", "net/retry.py:11-12 parseHTTPHeader"),
        ("parseHTTPHeader", "net/retry.py:11-12 parseHTTPHeader"),
        ("where are pages cached", "docs/guide.md:3-5 Guide > Caching pages"),
        ("button drawing", "web/view.ts:1-3 drawButton"),
        ("解析请求头 header 的函数 parse", "net/retry.py:11-12 parseHTTPHeader"),
        ("缓存在哪里", "docs/guide.md:3-5 Guide > Caching pages"),
    ],
)
async def test_words_of_identifiers_inflected_words_and_chinese_are_found(query, place):
    async with open_bench(*PLUGINS, files=FILES) as bench:
        result = await bench.call("semantic_search", query=query)
    assert result.text.splitlines()[1] == place


async def test_an_edit_of_the_agent_is_found_by_the_next_query():
    """In less than a second, and the old lines are never shown."""
    answers = [
        use("semantic_search", query="exponential backoff"),
        use("read_file", path="net/retry.py"),
        use(
            "write_file",
            path="net/retry.py",
            content="def wait_quietly():\n    return 'moonlight'\n",
        ),
        use("semantic_search", query="moonlight"),
        use("semantic_search", query="exponential backoff"),
        say("done"),
    ]
    plugins = (*PLUGINS, hilum_files)
    settings = {"semantic_search.deferred": False}
    async with open_bench(*plugins, files=FILES, answers=answers, settings=settings) as bench:
        await bench.run("go")
        first, second, third = [bench.results[number] for number in (0, 3, 4)]
    assert "net/retry.py:4-8" in first.text
    assert "net/retry.py:1-2 wait_quietly" in second.text
    assert "backoff" not in third.text
    assert head(third.text).startswith("Nothing was found")


async def test_a_file_that_changes_after_the_update_is_not_shown_with_old_lines(monkeypatch):
    """The lines come from the file; a chunk that is no longer there is left out."""
    async with open_bench(*PLUGINS, files=FILES) as bench:
        await bench.call("semantic_search", query="exponential backoff")
        index = bench.session.plugin(hilum_semantic_search.SessionIndex)
        indexer = index._parts.indexer
        update = indexer.update

        async def find_nothing():
            return UpdateResult(0, 0, 0)

        monkeypatch.setattr(indexer, "update", find_nothing)
        (bench.workspace / "net/retry.py").write_text("# something else\n" + RETRY)
        result = await bench.call("semantic_search", query="exponential backoff")
        assert "retry.py" not in result.text
        monkeypatch.setattr(indexer, "update", update)
        result = await bench.call("semantic_search", query="exponential backoff")
        assert "net/retry.py:5-9 repeat_request" in result.text


async def test_a_deleted_file_is_not_found():
    async with open_bench(*PLUGINS, files=FILES) as bench:
        await bench.call("semantic_search", query="exponential backoff")
        (bench.workspace / "net/retry.py").unlink()
        result = await bench.call("semantic_search", query="exponential backoff")
    assert result.data["results"] == []


async def test_a_path_limits_the_search():
    files = {f"{name}/a.py": "def wanted_thing(): pass\n" for name in ("one", "two", "one_more")}
    async with open_bench(*PLUGINS, files=files) as bench:
        result = await bench.call("semantic_search", query="wanted", path="one")
        assert [each["path"] for each in result.data["results"]] == ["one/a.py"]
        result = await bench.call("semantic_search", query="wanted", path="two/a.py")
        assert [each["path"] for each in result.data["results"]] == ["two/a.py"]
        missing = await bench.call("semantic_search", query="wanted", path="three")
        outside = await bench.call("semantic_search", query="wanted", path="/etc")
        empty = await bench.call("semantic_search", query="  ")
    assert missing.code == "E_FILE_NOT_FOUND"
    assert outside.code == "E_PATH_TRAVERSAL"
    assert empty.code == "E_BAD_ARGS"


async def test_results_are_bounded():
    """By their number, by characters, and each long chunk and line for itself."""
    lines = [f"    value_{n} = '{'x' * 350}'\n" for n in range(60)]
    lines[40] = "    wanted = 1\n"
    body = "".join(lines)
    files = {f"f{n:02}.py": f"def wanted{n}():\n{body}" for n in range(30)}
    settings = {"semantic_search.max_characters": 6_000}
    async with open_bench(*PLUGINS, files=files, settings=settings) as bench:
        result = await bench.call("semantic_search", query="wanted", limit=20)
        two = await bench.call("semantic_search", query="wanted", limit=2)
    assert len(result.text) < 7_000
    assert 1 <= len(result.data["results"]) < 20
    assert "more results were too long to show.]" in result.text
    assert "--" in result.text.splitlines()
    assert "characters in total]" in result.text
    assert len(two.data["results"]) == 2


@pytest.mark.parametrize("effect", ["ask", "deny"])
async def test_files_that_need_approval_are_left_out(effect):
    """The index is shared, so a session checks its own rules before it shows a file."""
    files = {
        "private/plan.py": "def wanted_secret(): pass\n",
        "a.py": "def wanted_open(): pass\n",
        ".env": "WANTED=wanted\n",
    }
    async with open_bench(*PLUGINS, hilum_guard, files=files) as bench:
        rules = bench.folder / "config" / "permissions.toml"
        await bench.call("semantic_search", query="wanted")
        rules.write_text(f'{effect} = ["read(private/**)"]\n')
        result = await bench.call("semantic_search", query="wanted")
    paths = [each["path"] for each in result.data["results"]]
    assert "a.py" in paths
    assert ".env" not in paths
    assert "private/plan.py" not in paths
    # Not even the number is told, which would depend on what the files contain.
    assert result.text.splitlines()[1:] == ["a.py:1-1 wanted_open", "1:def wanted_open(): pass"]


async def test_a_damaged_index_is_built_anew_with_a_note():
    async with open_bench(*PLUGINS, files=FILES) as bench:
        await bench.call("semantic_search", query="backoff")
        database = IndexFolder(bench.session.workspace.root).database
        assert database.is_relative_to(cache_folder())
        database.write_bytes(b"nonsense " * 500)
        result = await bench.call("semantic_search", query="backoff")
        again = await bench.call("semantic_search", query="backoff")
    assert "net/retry.py:4-8" in result.text
    assert "[The search index was damaged" in result.text
    assert "damaged" not in again.text


async def test_damage_that_only_the_search_meets_is_repaired():
    async with open_bench(*PLUGINS, files=FILES) as bench:
        await bench.call("semantic_search", query="backoff")
        other = sqlite3.connect(IndexFolder(bench.session.workspace.root).database)
        other.execute("UPDATE words_data SET block = x'ffffffff' WHERE id > 10")
        other.commit()
        other.close()
        result = await bench.call("semantic_search", query="backoff")
    assert "net/retry.py:4-8" in result.text
    assert "[The search index was damaged" in result.text


async def test_an_index_that_cannot_be_written_is_an_error_with_advice(tmp_path):
    (tmp_path / "file").write_text("")
    environ = {"HILUM_CACHE": str(tmp_path / "file")}
    async with open_bench(*PLUGINS, files=FILES, environ=environ) as bench:
        result = await bench.call("semantic_search", query="backoff")
    assert result.code == "E_STORE"
    assert "HILUM_CACHE" in result.text


async def test_a_search_does_not_wait_for_a_long_update():
    """It says how much is indexed, and the update continues."""
    files = {f"f{n}.py": f"def wanted{n}(): pass\n" for n in range(50)}
    async with open_bench(*PLUGINS, files=files, settings={"semantic_search.wait": 0}) as bench:
        result = await bench.call("semantic_search", query="wanted")
        assert "The index is still being built" in head(result.text)
        assert result.data["complete"] is False
        job = bench.session.plugin(hilum_semantic_search.SessionIndex)._requested
        await job.done.wait()
        result = await bench.call("semantic_search", query="wanted7")
    assert "f7.py" in result.text


async def test_the_tool_is_deferred_unless_the_user_wants_it_listed():
    for deferred in (True, False):
        settings = {"semantic_search.deferred": deferred}
        async with open_bench(*PLUGINS, answers=[say("hi")], settings=settings) as bench:
            await bench.run("hello")
            names = [spec.name for spec in bench.requests[0].tools]
        assert ("semantic_search" in names) is not deferred


async def test_a_session_that_does_not_search_starts_no_process():
    """An index is neither created nor read."""
    async with open_bench(*PLUGINS, files=FILES, answers=[say("hi")]) as bench:
        await bench.run("hello")
        assert not IndexFolder(bench.session.workspace.root).path.exists()


async def test_a_session_updates_an_index_that_exists(monkeypatch):
    monkeypatch.setattr("hilum_semantic_search.session_index.START_DELAY", 0)
    async with open_bench(
        *PLUGINS, files=FILES, settings={"semantic_search.index_at_start": True}
    ) as bench:
        index = bench.session.plugin(hilum_semantic_search.SessionIndex)
        with trio.fail_after(20):
            await index._indexed.wait()
        assert index._parts.store.read_status().files == 3
