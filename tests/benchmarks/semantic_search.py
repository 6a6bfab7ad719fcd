"""How often ``semantic_search`` finds the right place, and what its index costs.

Run: ``python tests/benchmarks/semantic_search.py``; ``--onnx`` adds the local embedding model, which
takes many minutes
(``--packages rich`` fewer), ``--speed`` measures only the speed and ``--hits`` only the hit rates.

The questions are about four installed packages that were not used to tune the ranking: the first
sentences of docstrings, which are removed from the code before it is indexed, and those in
``semantic_questions.txt``. Two ways to search with grep rank the same chunks, so they profit from the
division into functions and sections as well:

- words: whole words, ignoring case; chunks with more of the words come first, then those with more
  matching lines.
- stems: words without endings anywhere in a word, ignoring case; chunks with the rarest words come
  first, then shorter ones. This is what an agent could compute from several runs of ripgrep.
"""

import argparse
import ast
import math
import os
import random
import re
import resource
import shutil
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import hilum_guard
import hilum_search
import hilum_semantic_search
import trio
from hilum import find_content_policy
from hilum.processes import Command, Processes, Warden
from hilum.settings import load
from hilum.testing import open_bench
from hilum_semantic_search import SemanticSearchSettings
from hilum_semantic_search.database import IndexFolder
from hilum_semantic_search.embedding_update import EmbeddingUpdater
from hilum_semantic_search.indexer import Indexer
from hilum_semantic_search.local_model import LocalEmbedder
from hilum_semantic_search.query import find_words, stem
from hilum_semantic_search.reader.chunking import split_file
from hilum_semantic_search.reader.files import UnsuitableFile
from hilum_semantic_search.searching import Searcher
from hilum_semantic_search.store import IndexStore
from search import Beat, plant

QUESTIONS = Path(__file__).with_name("semantic_questions.txt")
PACKAGES = ("trio", "rich", "werkzeug", "_pytest")
MIN_WORDS = 4
MAX_DOCSTRINGS = 100
"""Maximum number of questions from the docstrings of one package."""
TOP = 5
RESAMPLES = 10_000


class Question(NamedTuple):
    """A question with its acceptable answers, as pairs of a file and a test of a chunk."""

    kind: str
    text: str
    is_right: Callable[[str, int, int, str], bool]


class Chunk(NamedTuple):
    """A chunk for the ways to search with grep."""

    path: str
    first: int
    last: int
    symbol: str
    text: str


# --- questions ------------------------------------------------------------------------------------


def strip_docstrings(source: str) -> tuple[str, list[tuple[str, int, int]]]:
    """Return code without the docstrings of its functions, and the first sentence of each."""
    lines = source.split("\n")
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        if not text or len(node.body) < 2:
            continue
        string = node.body[0]
        for number in range(string.lineno - 1, string.end_lineno):
            lines[number] = ""
        sentence = re.split(r"(?<=[.!?])\s|\n\n", text.strip())[0].replace("\n", " ")
        sentence = re.sub(r"[`*]|:\w+:", "", sentence)
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        if len(sentence.split()) >= MIN_WORDS:
            found.append((sentence, first, node.end_lineno))
    return "\n".join(lines), found


def in_lines(path: str, first: int, last: int) -> Callable[[str, int, int, str], bool]:
    return lambda found, begin, end, _: found == path and begin <= last and end >= first


def in_symbols(answers: str) -> Callable[[str, int, int, str], bool]:
    accepted = [answer.partition(":")[::2] for answer in answers.split(",")]

    def is_right(path: str, first: int, last: int, symbol: str) -> bool:
        return any(
            path == file and (not name or symbol == name or symbol.startswith(f"{name}."))
            for file, name in accepted
        )

    return is_right


def plant_packages(root: Path, packages: Sequence[str], *, docstrings: bool) -> list[Question]:
    """Copy the packages, and return the questions about them."""
    questions = []
    library = Path(sysconfig.get_path("purelib"))
    for package in packages:
        of_package = []
        for path in sorted((library / package).rglob("*.py")):
            name = path.relative_to(library).as_posix()
            if "/_tests/" in name or "/tests/" in name:
                continue
            text = path.read_text()
            if not docstrings:
                text, found = strip_docstrings(text)
                of_package += [
                    Question("docstrings", sentence, in_lines(name, first, last))
                    for sentence, first, last in found
                ]
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        chosen = random.Random(package)
        chosen.shuffle(of_package)
        questions += of_package[:MAX_DOCSTRINGS]
    if docstrings:
        questions = list(read_questions(root, packages))
    return questions


def split_questions() -> list[list[str]]:
    """Return language, answers and text of each question written by hand."""
    lines = QUESTIONS.read_text().splitlines()
    return [
        [part.strip() for part in line.split("|")] for line in lines if not line.startswith("#")
    ]


def read_questions(root: Path, packages: Sequence[str]) -> Iterator[Question]:
    for language, answers, text in split_questions():
        if answers.split("/")[0] not in packages:
            continue
        for answer in answers.split(","):
            file, _, name = answer.partition(":")
            source = (root / file).read_text()
            last = name.rpartition(".")[2]
            assert not last or re.search(rf"(def|class) {last}\b", source), answer
        kind = "by hand, English" if language == "en" else "by hand, Chinese"
        yield Question(kind, text, in_symbols(answers))


# --- ways to search -------------------------------------------------------------------------------


def read_chunks(root: Path) -> list[Chunk]:
    chunks = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        data = path.read_bytes()
        lines = data.decode().split("\n")
        try:
            for each in split_file(name, data):
                text = "\n".join(lines[each.first - 1 : each.last])
                chunks.append(Chunk(name, each.first, each.last, each.symbol, text))
        except UnsuitableFile:
            continue
    return chunks


class GrepRanking:
    """Ranks chunks as several runs of grep allow it."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks
        self._lower = [f"{chunk.path}\n{chunk.text}".lower() for chunk in chunks]
        # Which chunks contain a whole word, and in how many lines.
        self._lines: dict[str, dict[int, int]] = {}
        for number, text in enumerate(self._lower):
            for line in text.split("\n")[1:]:
                for word in set(re.findall(r"\w+", line)):
                    holders = self._lines.setdefault(word, {})
                    holders[number] = holders.get(number, 0) + 1

    async def by_words(self, question: str) -> list[tuple[str, int, int, str]]:
        """Rank by the number of different words, then by the number of lines with any of them."""
        counts: dict[int, list[int]] = {}
        for word in find_words(question):
            for number, lines in self._lines.get(word, {}).items():
                counts.setdefault(number, []).append(lines)
        best = sorted(counts, key=lambda n: (-len(counts[n]), -sum(counts[n]), n))
        return [self._chunks[number][:4] for number in best[:TOP]]

    async def by_stems(self, question: str) -> list[tuple[str, int, int, str]]:
        """Rank by the sum of the stems' weights, then by length."""
        scores: dict[int, float] = {}
        for each in {stem(word) for word in find_words(question) if word.isascii()}:
            numbers = [number for number, text in enumerate(self._lower) if each in text]
            for number in numbers:
                weight = math.log(len(self._chunks) / len(numbers))
                scores[number] = scores.get(number, 0.0) + weight
        best = sorted(scores, key=lambda n: (-scores[n], len(self._lower[n])))
        return [self._chunks[number][:4] for number in best[:TOP]]


class Workspace(NamedTuple):
    """An indexed folder."""

    root: Path
    store: IndexStore
    processes: Processes
    settings: SemanticSearchSettings
    indexer: Indexer


async def accept(command: Command) -> Command:
    return command


def open_workspace(warden: Warden, root: Path, cache: Path) -> Workspace:
    settings = load([SemanticSearchSettings], environ={"HOME": str(root)}).get(
        SemanticSearchSettings
    )
    store = IndexStore(IndexFolder(root, cache))
    processes = Processes(warden, accept, str(root))
    explain = find_content_policy().explain_withheld_file
    return Workspace(
        root, store, processes, settings, Indexer(store, processes, settings, explain, niceness=0)
    )


# --- hit rates ------------------------------------------------------------------------------------


def interval(differences: Sequence[int]) -> tuple[float, float]:
    """Return the 95 % interval of a mean by resampling the questions."""
    chosen = random.Random(1)
    count = len(differences)
    means = sorted(sum(chosen.choices(differences, k=count)) / count for _ in range(RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]


def print_rates(hits: dict[str, dict[str, list[int]]]) -> None:
    print(
        f"\n{'questions':22}{'':8}{'top-1':>7}{'top-5':>7}  top-5 against grep by words, by stems"
    )
    for kind, methods in hits.items():
        for method, ranks in methods.items():
            first = statistics.mean(rank == 1 for rank in ranks)
            top = statistics.mean(rank > 0 for rank in ranks)
            row = f"{kind:22}{method:12}{first:7.2f}{top:7.2f}  "
            if method not in ("words", "stems"):
                for other in ("words", "stems"):
                    pairs = zip(ranks, methods[other], strict=True)
                    differences = [(mine > 0) - (theirs > 0) for mine, theirs in pairs]
                    low, high = interval(differences)
                    mean = statistics.mean(differences)
                    row += f"  {mean:+.2f} [{low:+.2f}, {high:+.2f}]"
            print(f"{row}  n={len(ranks)}")


def find_rank(question: Question, places: Sequence[tuple[str, int, int, str]]) -> int:
    for rank, place in enumerate(places[:TOP], 1):
        if question.is_right(*place):
            return rank
    return 0


async def measure_hits(warden: Warden, folder: Path, packages: Sequence[str], onnx: bool) -> None:
    hits: dict[str, dict[str, list[int]]] = {}
    for docstrings in (False, True):
        root = folder / ("with" if docstrings else "without")
        questions = plant_packages(root, packages, docstrings=docstrings)
        workspace = open_workspace(warden, root, folder / "cache")
        await workspace.indexer.update()
        chunks = read_chunks(root)
        print(f"{len(questions)} questions about {len(chunks):,} chunks")
        grep = GrepRanking(chunks)
        methods: dict[str, Callable[[str], Awaitable[list[Any]]]] = {
            "words": grep.by_words,
            "stems": grep.by_stems,
        }
        async with trio.open_nursery() as nursery:
            methods["BM25"] = search_with(Searcher(workspace.store, workspace.settings, None))
            if onnx:
                embedder = LocalEmbedder(workspace.settings, workspace.processes, nursery)
                await embed_all(workspace, embedder)
                searcher = Searcher(workspace.store, workspace.settings, embedder)
                methods["BM25+onnx"] = search_with(searcher)
            for question in questions:
                for name, method in methods.items():
                    rank = find_rank(question, await method(question.text))
                    hits.setdefault(question.kind, {}).setdefault(name, []).append(rank)
            nursery.cancel_scope.cancel()
    by_hand = [hits[kind] for kind in hits if kind.startswith("by hand")]
    hits["by hand, both"] = {
        name: [rank for part in by_hand for rank in part[name]] for name in by_hand[0]
    }
    every = [hits["docstrings"], hits["by hand, both"]]
    hits["all"] = {name: [rank for part in every for rank in part[name]] for name in every[0]}
    print_rates(hits)


def search_with(searcher: Searcher) -> Callable[[str], Awaitable[list[Any]]]:
    async def search(text: str) -> list[Any]:
        result = await searcher.search(text, limit=TOP)
        assert not result.problem, result.problem
        return [(hit.path, hit.first, hit.last, hit.symbol) for hit in result.hits]

    return search


async def embed_all(workspace: Workspace, embedder: LocalEmbedder) -> None:
    begun = time.perf_counter()
    updater = EmbeddingUpdater(
        workspace.store, embedder, workspace.settings, lambda text, path: text
    )
    count = await updater.update()
    seconds = time.perf_counter() - begun
    print(f"{count:,} embeddings in {seconds:.0f} s: {count / seconds:.0f} a second")


# --- speed ----------------------------------------------------------------------------------------


def count_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.py"))


def processor_time() -> float:
    """Return the processor seconds of this process and of the children that have ended."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


async def measure_index(root: Path, cache: Path, count: int, size: int) -> None:
    """Index many files in processes of their own, whose processor time is known at their end."""
    used = processor_time()
    beat = Beat()
    async with Warden() as warden, trio.open_nursery() as nursery:
        workspace = open_workspace(warden, root, cache)
        nursery.start_soon(beat.run)
        begun = time.perf_counter()
        await workspace.indexer.update()
        seconds = time.perf_counter() - begun
        nursery.cancel_scope.cancel()
    used = processor_time() - used
    status = workspace.store.read_status()
    print(
        f"\nindex of {count:,} files ({size / 1e6:.0f} MB, {status.chunks:,} chunks):"
        f" {seconds:.1f} s, of which {used:.1f} s of processor time; {status.size / 1e6:.0f} MB"
    )
    print(f"longest gap of the event loop meanwhile: {beat}")


async def measure_speed(warden: Warden, folder: Path) -> None:
    root = folder / "many"
    await measure_index(root, folder / "cache", plant(root), count_bytes(root))
    workspace = open_workspace(warden, root, folder / "cache")
    times = []
    for _ in range(7):
        begun = time.perf_counter()
        await workspace.indexer.update()
        times.append(time.perf_counter() - begun)
    print(f"update without changes: best {1e3 * min(times):.0f} ms, median {_median(times)}")
    changed = next(root.rglob("threading.py"))
    times = []
    for number in range(7):
        changed.write_text(f"{changed.read_text()}\n\ndef added_{number}():\n    pass\n")
        begun = time.perf_counter()
        await workspace.indexer.update()
        times.append(time.perf_counter() - begun)
    print(f"update after a change: best {1e3 * min(times):.0f} ms, median {_median(times)}")
    searcher = Searcher(workspace.store, workspace.settings, None)
    times = []
    questions = [text for _, _, text in split_questions()]
    computed = []
    for question in questions:
        begun = time.perf_counter()
        used = time.process_time()
        await searcher.search(question, limit=8)
        times.append(time.perf_counter() - begun)
        computed.append(time.process_time() - used)
    print(f"query: median {_median(times)}, 95 % below {_percentile(times)}")
    print(f"of which processor time: {_median(computed)}, 95 % below {_percentile(computed)}")
    environ = {"HILUM_CACHE": str(folder / "cache")}
    plugins = (hilum_semantic_search, hilum_search, hilum_guard)
    times = []
    async with open_bench(*plugins, workspace=root, environ=environ, patience=120) as bench:
        await bench.call("semantic_search", query="warm up")
        for question in questions[::3]:
            begun = time.perf_counter()
            await bench.call("semantic_search", query=question)
            times.append(time.perf_counter() - begun)
    print(
        "call of the tool, with the comparison of all files, guard and sandbox:"
        f" median {_median(times)}, 95 % below {_percentile(times)}"
    )


def _median(times: Sequence[float]) -> str:
    return f"{1e3 * statistics.median(times):.0f} ms"


def _percentile(times: Sequence[float]) -> str:
    return f"{1e3 * sorted(times)[int(0.95 * len(times))]:.0f} ms"


async def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--hits", action="store_true")
    options = parser.parse_args()
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    folder = Path(tempfile.mkdtemp())
    try:
        async with Warden() as warden:
            if not options.speed:
                await measure_hits(warden, folder, options.packages, options.onnx)
            if not options.hits:
                await measure_speed(warden, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    trio.run(main)
