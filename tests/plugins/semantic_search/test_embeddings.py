"""Embeddings from a server and from a local model: fused, and never needed."""

import json
import math
import random

import hilum_guard
import hilum_search
import hilum_semantic_search
import pytest
import trio
from hilum.testing import open_bench
from hilum_semantic_search.ranking import fuse
from hilum_semantic_search.store import Found
from hilum_semantic_search.vectors import VectorCache, pack

pytestmark = pytest.mark.slow(cases=16, of="file")

PLUGINS = (hilum_semantic_search, hilum_search, hilum_guard)
FILES = {
    "car.py": "def drive_vehicle(speed):\n    return speed\n",
    "tree.py": "def grow_plant(water):\n    return water\n",
    "other.py": "def compute_total(values):\n    return sum(values)\n",
}
CONCEPTS = [{"vehicle", "automobile"}, {"plant", "flower"}]


def settings(server, **more):
    chosen = {"embeddings": "endpoint", "embedding_url": server.url, "embedding_model": "m", **more}
    return {f"semantic_search.{key}": value for key, value in chosen.items()}


async def search(bench, query, **arguments):
    return await bench.call("semantic_search", query=query, **arguments)


async def embedded(bench):
    """Wait until all chunks have embeddings, and return the index."""
    index = bench.session.plugin(hilum_semantic_search.SessionIndex)
    with trio.fail_after(30):
        await index.embedded.wait()
    return index._parts.store


async def test_what_shares_no_word_with_the_question_is_found(embedding_server):
    embedding_server.concepts = CONCEPTS
    async with open_bench(*PLUGINS, files=FILES, settings=settings(embedding_server)) as bench:
        await search(bench, "automobile")
        await embedded(bench)
        result = await search(bench, "automobile")
    assert result.text.splitlines()[:2] == [
        "3 results, best first. Ranked by words (BM25) and embeddings.",
        "car.py:1-2 drive_vehicle",
    ]
    assert result.data["ranking"] == "words and embeddings"


async def test_only_new_chunks_are_embedded(embedding_server):
    async with open_bench(*PLUGINS, files=FILES, settings=settings(embedding_server)) as bench:
        await search(bench, "x")
        await embedded(bench)
        (bench.workspace / "car.py").rename(bench.workspace / "moved.py")
        (bench.workspace / "new.py").write_text("def added():\n    pass\n")
        await search(bench, "x")
        store = await embedded(bench)
        (bench.workspace / "new.py").unlink()
        await search(bench, "x")
        await embedded(bench)
        assert len(store.read_vectors("")[1]) == 3
    sent = [text for request in embedding_server.requests for text in request["input"]]
    assert len([text for text in sent if "drive_vehicle" in text]) == 1


async def test_secrets_do_not_reach_the_server(embedding_server):
    key = "ghp_" + "a1B2c3D4e5F6" * 3
    files = {"a.py": f'def connect():\n    token = "{key}"\n', ".env": f"TOKEN={key}\n"}
    async with open_bench(*PLUGINS, files=files, settings=settings(embedding_server)) as bench:
        await search(bench, "connect")
        await embedded(bench)
    sent = json.dumps(embedding_server.requests)
    assert "connect" in sent
    assert key not in sent


@pytest.mark.parametrize("has_guard", [True, False])
async def test_without_a_plugin_that_removes_secrets_nothing_is_sent(
    embedding_server, monkeypatch, has_guard
):
    monkeypatch.setattr("hilum_semantic_search.session_index.find_content_policy", lambda _: None)
    plugins = PLUGINS if has_guard else PLUGINS[:2]
    async with open_bench(*plugins, files=FILES, settings=settings(embedding_server)) as bench:
        result = await search(bench, "drive vehicle")
    assert embedding_server.requests == []
    assert "only if a plugin can remove secrets" in result.text
    assert "car.py" in result.text


async def test_a_key_for_openai_is_not_sent_elsewhere(embedding_server):
    environ = {"OPENAI_API_KEY": "sk-for-openai-only"}
    async with open_bench(
        *PLUGINS, files=FILES, settings=settings(embedding_server), environ=environ
    ) as bench:
        await search(bench, "x")
    assert all("authorization" not in headers for headers in embedding_server.headers)
    chosen = settings(embedding_server, embedding_key="own-key")
    async with open_bench(*PLUGINS, files=FILES, settings=chosen) as bench:
        await search(bench, "y")
    assert embedding_server.headers[-1]["authorization"] == "Bearer own-key"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((500, b"{}"), "answered with 500"),
        ((401, b"no"), "answered with 401"),
        ((200, b"not json"), "did not return embeddings"),
        ((200, b"{}"), "did not return embeddings"),
        ((200, b'{"data": []}'), "incomplete embeddings"),
        ((200, b'{"data": [{"embedding": []}]}'), "incomplete embeddings"),
        ((200, b'{"data": [{"embedding": ["x"]}]}'), "did not return embeddings"),
        ((200, b'{"data": [{"embedding": [1e999]}]}'), ""),
        ((200, b'{"data": [{"embedding": [1e308]}]}'), "only zeros or too large"),
        ((200, b'{"data": [{"embedding": [0, 0]}]}'), "only zeros or too large"),
        ((200, b'{"data": [{"embedding": [1], "index": -1}]}'), "indexes that do not match"),
        ((200, b'{"data": [{"embedding": [1], "index": 7}]}'), "indexes that do not match"),
        ((200, b"[" * 100_000), "did not return embeddings"),
        ((307, b""), "answered with 307"),
    ],
)
async def test_a_broken_server_leaves_the_words(embedding_server, answer, says):
    embedding_server.answer = answer
    async with open_bench(*PLUGINS, files=FILES, settings=settings(embedding_server)) as bench:
        await search(bench, "drive vehicle")
        result = await search(bench, "drive vehicle")
    assert "car.py:1-2 drive_vehicle" in result.text
    assert "Ranked by words only (BM25)" in result.text
    assert says in result.text


async def test_an_answer_that_is_too_large_is_named(embedding_server, monkeypatch):
    monkeypatch.setattr("hilum_semantic_search.endpoint.MAX_ANSWER", 100_000)
    embedding_server.answer = (200, b" " * 1_000_000)
    async with open_bench(*PLUGINS, files=FILES, settings=settings(embedding_server)) as bench:
        await search(bench, "drive vehicle")
        result = await search(bench, "drive vehicle")
    assert "answered with more than 100,000 bytes" in result.text
    assert "car.py:1-2 drive_vehicle" in result.text


async def test_a_server_that_is_down_leaves_the_words():
    chosen = {
        "semantic_search.embeddings": "endpoint",
        "semantic_search.embedding_url": "http://127.0.0.1:9/v1",
    }
    async with open_bench(*PLUGINS, files=FILES, settings=chosen) as bench:
        result = await search(bench, "drive vehicle")
    assert "car.py:1-2 drive_vehicle" in result.text
    assert "cannot be reached" in result.text


async def test_a_slow_server_does_not_hold_the_search(embedding_server):
    embedding_server.gate.clear()
    chosen = settings(embedding_server, embedding_timeout=0.3)
    async with open_bench(*PLUGINS, files=FILES, settings=chosen) as bench:
        with trio.fail_after(10):
            result = await search(bench, "drive vehicle")
        embedding_server.gate.set()
    assert "car.py:1-2 drive_vehicle" in result.text
    assert "did not answer within 0.3 s" in result.text


async def test_another_model_or_dimension_replaces_all_vectors(embedding_server, tmp_path):
    embedding_server.concepts = CONCEPTS
    environ = {"HILUM_CACHE": str(tmp_path / "cache")}
    workspace = tmp_path / "work"
    for name, size in (("m", 16), ("m", 24), ("other", 24)):
        embedding_server.size = size
        chosen = settings(embedding_server, embedding_model=name)
        async with open_bench(
            *PLUGINS, files=FILES, settings=chosen, workspace=workspace, environ=environ
        ) as bench:
            await search(bench, "automobile")
            store = await embedded(bench)
            status = await trio.to_thread.run_sync(store.read_status)
            assert status.embedding.startswith(f"{name} at 127.0.0.1")
            assert status.embedding.endswith(f"{size} dimensions")
            result = await search(bench, "automobile")
        assert "car.py" in result.text.splitlines()[1]
        assert {len(vector) for _, vector in store.read_vectors("")[1]} == {size}


@pytest.mark.parametrize("url", ["ftp://x", "nonsense", "http://", "http://a:b/"])
async def test_an_invalid_url_is_reported_and_words_remain(url):
    chosen = {"semantic_search.embeddings": "endpoint", "semantic_search.embedding_url": url}
    async with open_bench(*PLUGINS, files=FILES, settings=chosen) as bench:
        result = await search(bench, "drive vehicle")
    assert "car.py" in result.text
    assert "embedding_url is not a URL" in result.text


async def test_a_local_model_finds_what_shares_no_word():
    """With the model of the extra `onnx`, in a process of its own."""
    files = {**FILES, "weather.py": "def rain():\n    return 'umbrella'\n"}
    chosen = {"semantic_search.embeddings": "onnx"}
    async with open_bench(*PLUGINS, files=files, settings=chosen) as bench:
        await search(bench, "automobile")
        await embedded(bench)
        result = await search(bench, "automobile")
    assert "Ranked by words (BM25) and embeddings." in result.text
    assert result.text.splitlines()[1] == "car.py:1-2 drive_vehicle"


async def test_a_missing_local_model_is_reported_and_words_remain(tmp_path):
    chosen = {
        "semantic_search.embeddings": "onnx",
        "semantic_search.model_folder": str(tmp_path),
    }
    async with open_bench(*PLUGINS, files=FILES, settings=chosen) as bench:
        result = await search(bench, "drive vehicle")
    assert "car.py" in result.text
    assert "hilum-semantic-search[onnx]" in result.text


async def test_a_local_model_that_cannot_be_loaded_is_reported(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"nonsense")
    (tmp_path / "tokenizer.json").write_bytes(b"{}")
    chosen = {
        "semantic_search.embeddings": "onnx",
        "semantic_search.model_folder": str(tmp_path),
    }
    async with open_bench(*PLUGINS, files=FILES, settings=chosen) as bench:
        result = await search(bench, "drive vehicle")
        again = await search(bench, "drive vehicle")
    assert "car.py" in result.text
    assert "The process of the embedding model ended." in again.text


async def test_packed_vectors_keep_the_order_of_cosines(index):
    chosen = random.Random(5)
    vectors = [[chosen.gauss(0, 1) for _ in range(64)] for _ in range(300)]
    question = [chosen.gauss(0, 1) for _ in range(64)]

    def cosine(vector):
        dot = sum(a * b for a, b in zip(vector, question, strict=True))
        return dot / math.hypot(*vector) / math.hypot(*question)

    rows = {bytes([n // 256, n % 256]): pack(vector) for n, vector in enumerate(vectors)}
    index.store.use_embedding("m")
    assert index.store.add_vectors("m", rows)
    nearest = VectorCache(index.store).find_nearest(question, 10)
    best = sorted(range(300), key=lambda n: -cosine(vectors[n]))[:10]
    assert len({bytes([n // 256, n % 256]) for n in best} & set(nearest)) >= 9
    for digest, value in nearest.items():
        assert abs(value - cosine(vectors[digest[0] * 256 + digest[1]])) < 0.02
    assert pack([0.0, 0.0]) is None
    assert pack([math.nan, 1.0]) is None


def test_fusion_prefers_what_both_rankings_contain():
    def found(name):
        return Found(name, 1, 2, "function", "", b"", 0.0)

    words = [found(b"a"), found(b"b"), found(b"c")]
    meaning = [found(b"d"), found(b"c"), found(b"e")]
    assert fuse((words, meaning))[0].path == b"c"
