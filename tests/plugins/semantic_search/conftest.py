"""An index of a real folder, which real processes build; and a server for embeddings."""

import hashlib
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest
from hilum import find_content_policy
from hilum.processes import Command, Processes, Warden
from hilum.settings import load
from hilum_semantic_search import SemanticSearchSettings
from hilum_semantic_search.database import IndexFolder
from hilum_semantic_search.indexer import Indexer
from hilum_semantic_search.store import IndexStore

Write = Callable[[dict[str, str | bytes]], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "proj"
    root.mkdir()
    return root


@pytest.fixture
def write(root: Path) -> Write:
    """Write files: ``write({"a/b.txt": "text"})``; bytes are written as they are."""

    def write(files: dict[str, str | bytes]) -> None:
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


@attrs.define
class Index:
    """An index with what updates it.

    Attributes:
        store: The index.
        processes: What starts processes; it counts the started ones in ``started``.
        started: The arguments of the processes that were started.
    """

    store: IndexStore
    processes: Processes
    started: list[tuple[str, ...]]

    def indexer(self, **settings: Any) -> Indexer:
        overrides = {f"semantic_search.{key}": value for key, value in settings.items()}
        loaded = load([SemanticSearchSettings], overrides=overrides, environ={"HOME": "/nowhere"})
        policy = find_content_policy()
        assert policy is not None
        return Indexer(
            self.store,
            self.processes,
            loaded.get(SemanticSearchSettings),
            policy.explain_withheld_file,
        )

    def find(self, *words: str, limit: int = 10) -> list[tuple[str, str]]:
        """Return path and symbol of the chunks that contain words, best first."""
        found, _ = self.store.match(words, limit)
        return [(each.path.decode(errors="replace"), each.symbol) for each in found]

    def paths(self) -> set[str]:
        with self.store.folder.open() as connection:
            rows = connection.execute("SELECT path FROM files WHERE skipped = ''")
            return {path.decode(errors="replace") for (path,) in rows}


@pytest.fixture
async def index(root: Path, tmp_path: Path) -> AsyncIterator[Index]:
    started = list[tuple[str, ...]]()

    async def note(command: Command) -> Command:
        started.append(command.argv)
        return command

    async with Warden() as warden:
        store = IndexStore(IndexFolder(root, tmp_path / "cache"))
        yield Index(store, Processes(warden, note, str(root)), started)


@attrs.define
class EmbeddingServer:
    """A server that embeds texts by the letters of a few concepts in them.

    Attributes:
        url: Base URL.
        concepts: Words that share a dimension of the embedding.
        size: Number of dimensions.
        requests: The requests, in order.
        answer: Status and body that are sent instead; or None.
        gate: The server answers only while this is set.
    """

    url: str = ""
    concepts: list[set[str]] = attrs.field(factory=list)
    size: int = 16
    requests: list[dict[str, Any]] = attrs.field(factory=list)
    headers: list[dict[str, str]] = attrs.field(factory=list)
    answer: tuple[int, bytes] | None = None
    gate: threading.Event = attrs.field(factory=threading.Event)

    def embed(self, text: str) -> list[float]:
        vector = [0.0] * self.size
        for word in re.findall("[a-z]+", text.lower()):
            place = int(hashlib.md5(word.encode()).hexdigest(), 16) % self.size
            weight = 0.02
            for number, words in enumerate(self.concepts):
                if word in words:
                    place = number
                    weight = 1.0
            vector[place] += weight
        return vector

    def reply(self, body: bytes) -> tuple[int, bytes]:
        request = json.loads(body)
        self.requests.append(request)
        if self.answer is not None:
            return self.answer
        data = [
            {"index": number, "embedding": self.embed(text)}
            for number, text in enumerate(request["input"])
        ]
        # The order is not guaranteed, only the index.
        return 200, json.dumps({"data": data[::-1]}).encode()


@pytest.fixture
def embedding_server() -> Iterator[EmbeddingServer]:
    state = EmbeddingServer()
    state.gate.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            state.headers.append({key.lower(): value for key, value in self.headers.items()})
            status, data = state.reply(body)
            state.gate.wait(30)
            with suppress(ConnectionError):
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    state.gate.set()
    server.shutdown()
    thread.join()
    server.server_close()
