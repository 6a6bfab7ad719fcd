"""What recalling costs with 10,000 memories: finding them, the whole hook, and what the loop waits
for meanwhile.

Run: ``python tests/benchmarks/memory.py``. The memories are sentences of seeded words, half of them
Chinese.
"""

import random
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import hilum_memory.longterm as longterm
import trio
from hilum import data_folder
from hilum.testing import open_bench
from hilum_memory.longterm import database
from hilum_memory.longterm.memories import Memories
from hilum_memory.longterm.memory import KINDS, USER, Memory
from hilum_memory.longterm.recall import recall_memories

COUNT = 10_000
TIMES = 200
ENGLISH = [f"{a}{b}" for a in "run build test parse load store cache render fetch merge".split() for b in
           "er ing ed able s ment ion or ly ness".split()] + "the a of to in with is are uses needs".split()  # fmt: skip
CHINESE = "测试构建缓存数据库解析加载存储渲染获取合并提交分支接口配置文件目录命令参数错误日志性能内存线程进程网络请求响应"
PROMPTS = (
    "Why does the test of the merger fail when the cache is loaded with the builder of the parser?",
    "为什么缓存测试在加载配置文件的时候会失败，数据库的连接有错误吗？",
    "fix it",
    "Please rework the store: the loader is fetching what the renderer needs with a stored parser, and the building of the "
    "caches in fetcher, merging and testing takes long. " * 20,
)


def sentence(rng: random.Random) -> str:
    """Make a sentence."""
    if rng.random() < 0.5:
        return "".join(rng.choices(CHINESE, k=rng.randint(8, 40)))
    return " ".join(rng.choices(ENGLISH, k=rng.randint(5, 20)))


def fill(path: Path, workspace: str) -> Memories:
    """Write the memories in one transaction, as ``add`` would one by one."""
    from hilum_memory.longterm.memories import _insert

    rng, now = random.Random(1), time.time()
    memories = Memories(path, most=COUNT)
    with database.open_database(path, write=True) as connection:
        for number in range(COUNT):
            at = now - rng.random() * 300 * 86_400
            memory = Memory(
                scope=rng.choice((USER, workspace)),
                kind=rng.choice(KINDS),
                text=sentence(rng),
                created=at,
                updated=at,
            )
            _insert(connection, memory, str(number))
    return memories


def timed(work) -> list[float]:
    """Give the times of a piece of work, in milliseconds, sorted.

    Prints the time of the processor, which a busy machine does not lengthen.
    """
    times, used = [], time.process_time()
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    print(f"  processor {(time.process_time() - used) * 1000 / TIMES:.1f} ms:", end=" ")
    return sorted(times)


def show(name: str, times: list[float]) -> None:
    """Print a line of the table."""
    median, late = statistics.median(times), times[int(len(times) * 0.99)]
    print(f"{name:<60} least {times[0]:6.1f} ms, median {median:6.1f} ms, p99 {late:6.1f} ms")


async def hook(workspace: str, folder: str) -> None:
    """Time the hook in a session, and the longest wait of another task."""
    async with open_bench(
        longterm, workspace=workspace, folder=folder, answers=["ok"] * 50
    ) as bench:
        fill(data_folder() / "memory.db", str(bench.workspace))
        longest = 0.0

        async def tick() -> None:
            nonlocal longest
            while True:
                before = time.perf_counter()
                await trio.sleep(0.001)
                longest = max(longest, (time.perf_counter() - before) * 1000 - 1)

        await bench.run("warm up: load what is loaded once")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tick)
            for number in range(40):
                await bench.run(PROMPTS[number % len(PROMPTS)])
            nursery.cancel_scope.cancel()
        times = sorted(seen.seconds * 1000 for seen in bench.calls("gather_context")[1:])
        show("the hook gather_context in a session", times)
        print(f"{'longest wait of the loop meanwhile':<60} {longest:13.1f} ms")


def main() -> None:
    """Print the table."""
    with TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        memories, scopes = fill(root / "memory.db", "/w"), ["/w", USER]
        for prompt in PROMPTS:
            what = f"recall, {COUNT:,} memories: {prompt[:20]}…"
            show(
                what,
                timed(
                    lambda prompt=prompt: recall_memories(
                        memories, prompt, scopes, time.time(), first=True
                    )
                ),
            )
        began = time.perf_counter()
        memories.add(
            Memory(scope="/w", text="A new memory of the parser that is unlike all others")
        )
        print(f"{'writing one':<60} {(time.perf_counter() - began) * 1000:13.1f} ms")
        began = time.perf_counter()
        memories.forget([7])
        print(
            f"{'forgetting one, index cleaned':<60} {(time.perf_counter() - began) * 1000:13.1f} ms"
        )
        trio.run(hook, str(root / "workspace"), str(root / "bench"))
        database.has_fts5 = lambda: False
        show(
            "recall without FTS5",
            timed(lambda: recall_memories(memories, PROMPTS[0], scopes, time.time(), first=True))[
                :20
            ],
        )
    print("bar: recall < 20 ms with 10,000 memories, off the loop")


if __name__ == "__main__":
    main()
