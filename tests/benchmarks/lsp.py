"""What warm checkers and language servers cost: diagnostics after an edit, navigation, edit turns.

``python tests/benchmarks/lsp.py`` measures every server of Python that is on the ``PATH``, in the
sandbox, in a project of 40 files. With ``--turns``, it also measures edit turns of the installed
program beside a bare script, with and without running checkers, in one run.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import real_project
import trio
from hilum.testing import Bench, open_bench
from hilum_lint.syntax_worker import SyntaxWorker
from hilum_lsp import LanguageServers
from hilum_lsp.renames import RenameRequest
from hilum_lsp.server_process import ServerProcess
from hilum_lsp.servers import SERVERS

TIMES = 40
BARS = {"ruff": 5.0, "ty": 15.0, "pyright": 400.0, "basedpyright": 400.0}
RUFF = '\n[tool.ruff]\nlint.select = ["E", "F"]\n'


def show(name: str, values: list[float], bar: float = 0.0) -> None:
    """Print the median and the largest of some times in seconds."""
    median = statistics.median(values) * 1000
    largest = max(values) * 1000
    limit = f"   (bar {bar:g})" if bar else ""
    print(f"{name:52} {median:8.1f} {largest:8.1f}{limit}")


async def measure(function: Callable[[int], Awaitable[object]], times: int) -> list[float]:
    """Return the seconds of each call of a function, which gets the number of the call."""
    taken = []
    for number in range(times):
        began = time.perf_counter()
        await function(number)
        taken.append(time.perf_counter() - began)
    return taken


def read_shares(pid: int) -> float:
    """Return the memory of a process and its descendants in megabytes (PSS)."""
    total = 0.0
    left = [pid]
    while left:
        current = left.pop()
        for thread in Path(f"/proc/{current}/task").iterdir():
            left += map(int, (thread / "children").read_text().split())
        try:
            rollup = Path(f"/proc/{current}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(row.split()[1]) for row in rollup.splitlines() if row.startswith("Pss:"))
    return total / 1024


async def measure_server(bench: Bench, root: Path, name: str, program: str) -> None:
    """Print the figures of one server."""
    server = next(each for each in SERVERS if each.name == name)
    plugin = bench.session.plugin(LanguageServers)
    assert plugin is not None
    await plugin.warm_up("none", program, root)
    process = plugin.pool._get(server, program, root)
    assert isinstance(process, ServerProcess)
    path = root / real_project.path_of(0)
    text = path.read_text()

    async def diagnose(number: int) -> None:
        found = await process.diagnose(path, f"{text}\nx{number} = missing_{number}\n", 60)
        assert found, f"{name} finds nothing"

    began = time.perf_counter()
    await process.wait_ready(60)
    show(f"{name}: start", [time.perf_counter() - began])
    show(f"{name}: first diagnostics", await measure(diagnose, 1))
    show(f"{name}: diagnostics after an edit", await measure(diagnose, TIMES), BARS.get(name, 0))
    if server.navigates:
        shown = real_project.path_of(0)
        for tool in ("find_definition", "find_references"):

            async def navigate(_: int, tool: str = tool) -> None:
                find = getattr(plugin.navigator, tool)
                await find("add_3", shown, 0)

            await plugin._import_modules()
            show(f"{name}: {tool}", await measure(navigate, TIMES))

        async def plan(number: int) -> None:
            found = await plugin.renames._make_plan(
                RenameRequest("add_3", f"plus_{number}", shown, 0)
            )
            assert found.error is None, found.error

        show(f"{name}: rename, until the user sees it", await measure(plan, TIMES))
    used = [read_shares(each.pid) for each in bench.session.processes.live]
    print(f"{name + ': memory of its processes, PSS, MB':52} {max(used):8.1f}")


async def measure_syntax(bench: Bench, root: Path) -> None:
    """Print the figures of the running syntax check."""
    text = (root / real_project.path_of(0)).read_text() * 10
    async with trio.open_nursery() as nursery:
        worker = SyntaxWorker(bench.session, nursery)
        worker.start()
        while not worker.is_ready:
            await worker.changed.wait()

        async def check(number: int) -> None:
            assert await worker.check(root / "a.py", f"{text}\nx = (\n", 10)

        lines = text.count("\n")
        show(f"syntax of {lines} lines, running", await measure(check, TIMES))

        async def run(number: int) -> None:
            argv = [sys.executable, "-I", "-S", str(program), "-", "a.py"]
            await bench.session.processes.run(argv, input=text.encode(), purpose="look")

        program = Path(sys.modules[SyntaxWorker.__module__].__file__ or "").with_name(
            "compile_files.py"
        )
        show("the same, a new process in the sandbox", await measure(run, TIMES // 2))
        nursery.cancel_scope.cancel()


async def measure_servers() -> None:
    """Print the figures of all servers that are installed."""
    print(f"load {os.getloadavg()[0]:.1f}; milliseconds{'':29} {'median':>8} {'largest':>8}")
    with tempfile.TemporaryDirectory(prefix="lsp-", dir=Path.home()) as folder:
        root = await trio.to_thread.run_sync(Path(folder).resolve)
        real_project.make_project(root, real_project.FILES)
        settings: dict[str, object] = {"lint.trusted": [str(root)], "lsp.timeout": 60.0}
        plugins = ("guard", "files", "lint", "lsp")
        async with open_bench(*plugins, settings=settings, workspace=root) as bench:
            await measure_syntax(bench, root)
        names = {server.name for server in SERVERS}
        for server in SERVERS:
            program = shutil.which(server.program)
            if ".py" not in server.languages or not program:
                continue
            # Otherwise, the tools would use the server that comes first.
            settings["lsp.off"] = sorted(names - {server.name})
            async with open_bench(*plugins, settings=settings, workspace=root) as bench:
                await measure_server(bench, root, server.name, program)


def measure_turns(rounds: int) -> None:
    """Print the times of edit turns, paired in one run."""
    script = real_project.make_scripts()["edit"]
    sides: dict[str, tuple[str, str, tuple[str, ...]]] = {
        "bare script": ("bare", RUFF, ()),
        "no checks after edits": ("hilum", RUFF, ("--set", "lint.after_edit=false")),
        "ruff as a new process": ("hilum", RUFF, ("--set", "lsp.enabled=false")),
        "ruff running": ("hilum", RUFF, ()),
        "ruff running, no wait": ("hilum", RUFF, ("--set", "lint.wait=0")),
        "no linter: syntax check running": ("hilum", "", ()),
    }
    found: dict[str, list[float]] = {name: [] for name in sides}
    with real_project.project(real_project.FILES) as work:
        for _ in range(rounds):
            for name, (side, config, options) in sides.items():
                played = real_project.play(side, script, work, config=config, options=options)
                found[name].append(statistics.median(played["turns"][5:]))
    print(f"load {os.getloadavg()[0]:.1f}; edit turns, milliseconds")
    for name, values in found.items():
        print(f"{name:52} {statistics.median(values):8.1f}")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=0, help="rounds of edit turns")
    rounds = parser.parse_args().turns
    trio.run(measure_servers)
    if rounds:
        measure_turns(rounds)


if __name__ == "__main__":
    main()
