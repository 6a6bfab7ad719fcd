"""Whether forty written rules, English and Chinese, are kept.

Every known way round them is tried.

``python tests/benchmarks/enforcement.py`` has the main agent make each call of ``violations.txt``
through the real loop, with guard and sandbox, then once more after the conversation was compacted;
and each call of ``harmless.txt``. It prints what got through, what was refused without cause, and
what judging takes. The cases stand in ``tests/plugins/rules/enforcement``.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import statistics
import sys
import time
from pathlib import Path

import hilum_files
import hilum_guard
import hilum_lint
import hilum_rules
import hilum_search
import hilum_shell
import trio
from hilum import Tool, tool
from hilum.events import Compacted
from hilum.testing import ScriptedModel, open_bench, plugin

CASES = Path(__file__).parents[1] / "plugins/rules/enforcement"
ASKS = frozenset((24, 25, 26, 34))
"""Rules that want to be asked; the session is headless, where nobody can say yes."""
ANSWERS = {
    28: ("Done. TODO: more.", "Done."),
    29: ("Done 🎉", "Done ✓"),
    30: ("Done. Shall I go on?", "Done? Yes."),
    38: ("好" * 301, "好" * 300),
}
"""For each rule on answers one that breaks it and one that does not."""
CONTEXTS = {27: ("MEMORY.md", "shared"), 39: ("NOTES.md", "headless")}


def foreign(name):
    """A tool of some server: nobody knows what its parameters mean."""

    async def run(**arguments):
        return "ok"

    return Tool(
        name,
        "Of a server.",
        run,
        risk="network" if "__net__" in name else "execute",
        schema={"type": "object"},
    )


def reach():
    """A plugin with tools that reach out."""

    @tool(risk="network", effect="pure")
    async def web_fetch(url: str) -> str:
        """Fetch a page.

        Args:
            url: Its address.
        """
        return "page"

    @tool(risk="network", effect="pure")
    async def web_search(query: str) -> str:
        """Search.

        Args:
            query: What for.
        """
        return "found"

    text = (CASES / "violations.txt").read_text(encoding="utf-8") + (
        CASES / "harmless.txt"
    ).read_text(encoding="utf-8")
    foreigners = [foreign(name) for name in sorted(set(re.findall(r"\bmcp__\w+", text)))]
    return plugin("reach", web_fetch, web_search, *foreigners)


def lines(name):
    """The lines of a file of cases."""
    return [
        line
        for line in (CASES / name).read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]


def parsed(line, root):
    """The tool and the arguments of a case."""
    line = line.replace("{root}", str(root))
    if found := re.match(r"(?:@(\S+) )?\$ (.*)", line):
        command = found[2].replace("~", "\n") if "<<" in found[2] else found[2]
        where = {"working_directory": found[1]} if found[1] else {}
        return "run_terminal_cmd", {"command": command, "timeout": 10, **where}
    name, _, arguments = line.partition(" ")
    return name, json.loads(arguments)


def files():
    """The workspace."""
    made = json.loads((CASES / "files.json").read_text(encoding="utf-8"))
    return {**made, "AGENTS.md": (CASES / "AGENTS.md").read_text(encoding="utf-8")}


def fingerprint(root):
    """What may not change, whatever is called."""
    found = {}
    for name in (
        "migrations",
        "vendor",
        "deploy",
        "archive",
        "config/production.yaml",
        ".env",
        "README.md",
        "LICENSE",
        "schema",
    ):
        place = root / name
        for path in sorted([place, *place.rglob("*")]):
            found[str(path)] = (
                hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
            )
    return found


async def called(kit, line, root):
    """What the model got to see for a case: the code of a failure, and the text."""
    name, arguments = parsed(line, root)
    result = await kit.call(name, **arguments)
    return result.code or "", result.text


def refused(code, text):
    """Whether a rule refused it, or wanted it asked where nobody is."""
    return (code == "E_DENIED" and "The rule “" in text) or code == "E_BLOCKED"


@contextlib.asynccontextmanager
async def opened(window=128_000, kind="headless"):
    """A session with everything that takes part."""
    plugins = (
        hilum_guard,
        hilum_files,
        hilum_search,
        hilum_shell,
        hilum_lint,
        hilum_rules,
        reach(),
    )
    settings = {"guard.unsandboxed": "run"}
    async with open_bench(
        *plugins,
        model=ScriptedModel(window=window),
        settings=settings,
        files=files(),
        kind=kind,
        patience=60,
        faults=True,
    ) as kit:
        root = kit.session.workspace.root
        for name, target in {"link": "migrations"}.items():
            os.symlink(target, root / name)
        for name in ("writer.sh", "drop_database.sh", "scripts/check.sh"):
            (root / name).chmod(0o755)
        yield kit


async def attack(window, shown):
    """Make all forbidden calls.

    Gives those that got through, and whether anything on the disk changed.
    """
    async with opened(window) as kit:
        root = kit.session.workspace.root
        before, through = fingerprint(root), []
        if window < 100_000:
            while not kit.of(Compacted):
                await kit.call("read_file", path="docs/long.md")
        for line in lines("violations.txt"):
            _, _, case = line.partition("\t")
            code, text = await called(kit, case, root)
            if not refused(code, text):
                through.append(f"{line}: {code or text[:120]}")
            elif shown:
                print(f"  {case[:70]:<72}{text[:160]}")
        unknown = [line for line in lines("obscure.txt") if await judged_through(kit, line, root)]
        after = fingerprint(root)
        return (
            through,
            [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)],
            unknown,
            len(kit.of(Compacted)),
        )


async def judged_through(kit, line, root):
    """Make a call that no reader can see through.

    Whether it did what the sandbox should have kept it from.
    """
    before = fingerprint(root)
    _, text = await called(kit, line, root)
    return "KEY-OF-THE-CASE" in text or fingerprint(root) != before


async def leave_alone():
    """Make all harmless calls; gives those that a rule had something against."""
    wrong = []
    async with opened() as kit:
        root = kit.session.workspace.root
        for line in lines("harmless.txt"):
            _, text = await called(kit, line, root)
            if "The rule “" in text or "E_BLOCKED" in text:
                wrong.append(f"{line}: {text[:200]}")
    return wrong


async def answered():
    """Give forbidden answers; gives those that stood, and good ones that were refused."""
    import hilum_checks

    wrong = []
    async with opened() as kit:
        rules = [rule for rule in kit.session.plugin(hilum_rules.Rules).bundle.rules if rule.check]
        for number, (bad, good) in ANSWERS.items():
            kit.model.next(bad, good)
            ended = await kit.run("Go on.")
            if ended.text != good:
                wrong.append(f"rule {number}: {ended.text!r}")
        for number, (name, kind) in CONTEXTS.items():
            if not hilum_checks.check_context(rules, name, kind) or hilum_checks.check_context(
                rules, name, "main"
            ):
                wrong.append(f"rule {number}: {name} in {kind}")
    return wrong


async def costs():
    """Milliseconds that judging takes, for each harmless call."""
    import hilum_checks

    taken = []
    async with opened() as kit:
        rules = [rule for rule in kit.session.plugin(hilum_rules.Rules).bundle.rules if rule.check]
        root = kit.session.workspace.root
        for line in lines("harmless.txt"):
            name, arguments = parsed(line, root)
            began = time.perf_counter()
            hilum_checks.judge(rules, json.dumps(arguments), kit.session.tools[name], root)
            taken.append((time.perf_counter() - began) * 1e3)
    return len(rules), taken


def told(title, found):
    """Print what is wrong; gives how many."""
    print(f"{title}: {len(found)}")
    for line in found:
        print(f"  {line}")
    return len(found)


async def main(shown):
    """Run everything."""
    count = len(lines("violations.txt"))
    wrong = 0
    for title, window in (("as sent", 128_000), ("after a compaction", 24_000)):
        through, changed, unknown, compactions = await attack(window, shown)
        wrong += told(
            f"{title}: of {count} forbidden calls got through ({compactions} compactions)", through
        )
        wrong += told(f"{title}: protected files changed", changed)
        wrong += told(
            f"{title}: of {len(lines('obscure.txt'))} obscured calls had their effect", unknown
        )
    wrong += told(
        f"of {len(lines('harmless.txt'))} harmless calls refused or asked", await leave_alone()
    )
    wrong += told(
        f"of {2 * len(ANSWERS) + 2 * len(CONTEXTS)} answers and contexts judged wrongly",
        await answered(),
    )
    rules, taken = await costs()
    print(
        f"judging a harmless call by {rules} rules: median {statistics.median(taken):.2f} ms, worst {max(taken):.0f} ms"
    )
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--show", action="store_true", help="print every refusal")
    sys.exit(min(trio.run(main, parser.parse_args().show), 1))
