"""What the guard adds to a call.

It judges the call, redacts its result, and runs its process in a sandbox.

``python tests/benchmarks/guard.py`` prints a table: the same session with and without the guard, in
alternating rounds, an edit and a command each; then what judging alone takes.
"""

import argparse
import json
import statistics
import sys
import time

import hilum_files
import hilum_guard
import hilum_shell
import trio
from hilum.testing import open_bench, say, use

BARS = {"edit": 5.0, "command": 25.0}
WAYS = ("none", "without sandbox", "whole")
RULES = {
    # A rule that protects files would make each command without a sandbox ask.
    "deny": [f"run_terminal_cmd(git push --force-{n} *)" for n in range(11)],
    "ask": ["run_terminal_cmd(git push *)", "*(*.lock)"],
    "allow": ["run_terminal_cmd(make check *)", "run_terminal_cmd(git commit *)"],
}


async def seconds(kit, name, arguments):
    """Seconds from the model's answer to the next request: one call, and the loop round it."""
    kit.model.next(use(name, **arguments), say("ok"))
    began = time.perf_counter()
    await kit.run("x")
    return time.perf_counter() - began


def arguments_of(kind, number):
    """An edit that can be made again and again; a command that no list calls harmless."""
    if kind == "edit":
        return "edit_file", {
            "path": "a.py",
            "old_string": f"x = {number}\n",
            "new_string": f"x = {number + 1}\n",
        }
    return "run_terminal_cmd", {"command": f"cd . && sh -c 'true {number}' | tail -1"}


async def measure(rounds):
    """Batches with and without the guard, one after the other."""
    taken = {(kind, guard): [] for kind in BARS for guard in WAYS}
    judged = {}
    for _ in range(4):
        for guard in WAYS:
            await batch(guard, rounds // 4 + 3, taken, judged)
    return taken, judged


async def batch(guard, rounds, taken, judged):
    """Rounds in a session of its own; the first ones warm up."""
    plugins = (
        (hilum_guard, hilum_files, hilum_shell) if guard != "none" else (hilum_files, hilum_shell)
    )
    settings = (
        {"guard.sandbox": "off", "guard.unsandboxed": "run"} if guard == "without sandbox" else {}
    )
    files = {"a.py": "x = 0\n" + "y = 1\n" * 400}
    async with open_bench(*plugins, files=files, settings=settings, approve="auto") as kit:
        lines = [f"{effect} = {json.dumps(rules)}\n" for effect, rules in RULES.items()]
        (kit.folder / "config" / "permissions.toml").write_text("".join(lines))
        await kit.call("read_file", path="a.py")
        for number in range(rounds):
            for kind in BARS:
                name, arguments = arguments_of(kind, number)
                took = await seconds(kit, name, arguments)
                assert not kit.results[-1].code, kit.results[-1].text
                if number >= 3:
                    taken[kind, guard].append(took * 1000)
        for kind in BARS if guard == "whole" else ():
            name, arguments = arguments_of(kind, 0)
            half, tool, text = (
                kit.session.plugin(hilum_guard.Guard),
                kit.session.tools[name],
                json.dumps(arguments),
            )
            began = time.perf_counter()
            for _ in range(200):
                await half.judge(tool, text)
            judged[kind] = (time.perf_counter() - began) * 1000 / 200


def main():
    """Print the table; the exit code says whether the bars hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    taken, judged = trio.run(measure, parser.parse_args().rounds)
    print(
        "call        no guard ms   no sandbox ms   whole ms   ratio   guard adds ms   judging alone ms   bar ms"
    )
    good = True
    for kind, bar in BARS.items():
        plain, bare, whole = (statistics.median(taken[kind, guard]) for guard in WAYS)
        good &= whole - plain < bar
        figures = f"{plain:12.2f}{bare:16.2f}{whole:11.2f}{whole / plain:8.2f}{whole - plain:16.2f}{judged[kind]:19.2f}"
        print(f"{kind:11}{figures}{bar:9.0f}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
