"""What skills cost: a first look, a turn in which nothing changed, reading files of skills.

Run: ``python tests/benchmarks/skills.py``. Bars: with 200 skills a turn costs less than 10 ms and
does not grow with the turns.
"""

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import hilum_skills
import trio
from hilum.frontmatter import read
from hilum.testing import open_bench
from hilum_skills.session_skills import Skills

COUNTS = (0, 20, 200)
TURNS = 60


def make(root: Path, count: int) -> None:
    """Write skills of the user."""
    for number in range(count):
        folder = root / "home/.agents/skills" / f"group-{number % 10}" / f"skill-{number}"
        (folder / "scripts").mkdir(parents=True)
        text = f"---\nname: skill-{number}\ndescription: Does things of kind {number}. Use when: needed\nlicense: MIT\n---\n"
        (folder / "SKILL.md").write_text(text + "Do this, then that.\n" * 100)
        (folder / "scripts/a.py").write_text("print()\n")


async def measure(count: int) -> None:
    """Print the costs with so many skills."""
    with TemporaryDirectory() as base:
        make(Path(base), count)
        begun = time.perf_counter()
        async with open_bench(hilum_skills, folder=base) as bench:
            opened = time.perf_counter() - begun
            half, agent = bench.session.plugin(Skills), bench.session.agents["main"]
            times = []
            for _ in range(TURNS):
                begun = time.perf_counter()
                await half.build_prompt_layer(agent)
                times.append(time.perf_counter() - begun)
            first, last = (
                statistics.median(times[: TURNS // 3]),
                statistics.median(times[-TURNS // 3 :]),
            )
            print(
                f"{count:4} skills: session opened in {opened * 1000:6.1f} ms, "
                f"a turn {first * 1000:5.2f} ms, later {last * 1000:5.2f} ms"
            )


def reading() -> None:
    """Print what front matter costs, good and broken."""
    good = b"---\nname: pdf\ndescription: Reads PDF files.\nallowed-tools: Read Bash(git:*)\nmetadata:\n  v: '1.0'\n---\nBody\n"
    for name, data in (("good", good), ("to repair", good.replace(b"Reads", b"Reads: [all]"))):
        read(data)
        times = []
        for _ in range(200):
            begun = time.perf_counter()
            read(data)
            times.append(time.perf_counter() - begun)
        print(f"front matter, {name}: {statistics.median(times) * 1e6:.0f} us")


if __name__ == "__main__":
    reading()
    for how_many in COUNTS:
        trio.run(measure, how_many)
