"""The MCP conformance suite against hilum's client.

Run it with ``python tests/benchmarks/conformance.py [--packages DIR] [SCENARIO …]``.

``--suite 0.2.0-alpha.12`` takes another version of it. Without ``--packages`` the suite and a Node
that is new enough for it are installed from the npm registry into a temporary folder (about 240
MB). Two scenarios run at a time: all at once, as the suite does it, they wait for each other.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SUITE = "@modelcontextprotocol/conformance"
CLIENT = Path(__file__).resolve().parents[1] / "conformance" / "client.py"


def main() -> int:
    """Run the scenarios and print a table; gives 1 where one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--packages", type=Path, help="a folder in which the npm packages are installed"
    )
    parser.add_argument(
        "--suite",
        default="0.1.16",
        metavar="VERSION",
        help="the version that is installed (0.1.16)",
    )
    parser.add_argument("--seconds", type=int, default=90, help="for one scenario")
    parser.add_argument(
        "scenarios", nargs="*", metavar="SCENARIO", help="all of a client, if none is named"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.packages or Path(name)
        if not options.packages:
            subprocess.run(
                [
                    "npm",
                    "install",
                    "--silent",
                    "--prefix",
                    name,
                    "node@22",
                    f"{SUITE}@{options.suite}",
                ],
                check=True,
            )
        node = folder.absolute() / "node_modules/.bin/node"
        suite = folder.absolute() / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
        known = subprocess.run(
            [node, suite, "list", "--client"], check=True, capture_output=True, text=True
        ).stdout
        scenarios = options.scenarios or re.findall(
            r"^\s+- (\S+)", known.partition("Server scenarios")[0], re.M
        )
        if "Client scenarios" in known and not options.scenarios:
            scenarios = re.findall(
                r"^\s+- (\S+)",
                known.partition("Client scenarios")[2].partition("Server scenarios")[0],
                re.M,
            )

        def run(scenario: str) -> tuple[str, int, int]:
            out = Path(name) / scenario.replace("/", "_")
            command = [
                node, suite, "client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario, "--timeout",
                str(options.seconds * 1_000), "-o", out,
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            checks = [
                check["status"]
                for file in out.rglob("checks.json")
                for check in json.loads(file.read_text())
            ]
            passed, failed = checks.count("SUCCESS"), checks.count("FAILURE")
            print(
                f"{'✓' if done.returncode == 0 else '✗'} {scenario:50} {passed:3} passed {failed:3} failed",
                flush=True,
            )
            if done.returncode:
                print(done.stdout[-1_500:], done.stderr[-1_500:])
            return scenario, done.returncode, passed

        with ThreadPoolExecutor(2) as pool:
            results = list(pool.map(run, scenarios))
    good = [scenario for scenario, code, _ in results if code == 0]
    print(
        f"{len(good)} of {len(results)} scenarios, {sum(passed for _, _, passed in results)} checks passed"
    )
    return 0 if len(good) == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
