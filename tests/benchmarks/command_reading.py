"""What reading a command costs. Run: ``python tests/benchmarks/command_reading.py``."""

import statistics
import tempfile
import time
from pathlib import Path

from hilum_guard import judge_command

BAR = 0.002
TEXTS = {
    "git status": "git status",
    "a pipeline": "cd src && git log --oneline -5 | head -3; grep -n foo main.py 2>/dev/null",
    "nested": "sudo bash -c 'cd / && rm -rf *'",
    "a long script": "echo one && ls -la | sort\n" * 40,
}


def main() -> None:
    """Print the first reading, then the median of each text as a share of the bar."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        (workspace / "src").mkdir()
        begun = time.perf_counter()
        judge_command("ls", workspace=workspace)
        print(f"first reading, grammar loaded: {(time.perf_counter() - begun) * 1e3:.1f} ms")
        for name, text in TEXTS.items():
            times = []
            for _ in range(200):
                begun = time.perf_counter()
                verdict = judge_command(text, workspace=workspace)
                times.append(time.perf_counter() - begun)
            median = statistics.median(times)
            print(f"{name} ({verdict.kind}): {median * 1e3:.2f} ms, {median / BAR:.2f} of the bar")


if __name__ == "__main__":
    main()
