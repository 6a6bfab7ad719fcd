"""Checks the result. The current folder is the agent's workspace.

The last line of the output is the verdict. A program that only exits with 0 (all done) or another code (not done; the
last line of standard error is the reason) is a verifier, too. HILUM_EVAL_ATTEMPT is the path of a JSON file with the
agent's answer and its calls.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

# Run the result instead of looking for words in it.
tests = subprocess.run([sys.executable, "-m", "unittest"], capture_output=True, text=True)
uses = subprocess.run(
    [sys.executable, "-c", "from prices import order_total; print(order_total([60, 50]))"],
    capture_output=True,
    text=True,
)
texts = [path.read_text() for path in Path(".").glob("*.py")]
attempt = json.loads(Path(os.environ["HILUM_EVAL_ATTEMPT"]).read_text())
checks = {
    "the tests pass": tests.returncode == 0 and "Ran 2 tests" in tests.stderr,
    "the new name works": uses.stdout.strip() == "99",
    "the old name is gone": not any("total_price" in text for text in texts),
    "the agent answered": bool(attempt["answer"].strip()),
}
failed = [name for name, passed in checks.items() if not passed]
print(
    json.dumps(
        {
            "completion": 10 * (len(checks) - len(failed)) / len(checks),
            "reason": ", ".join(f"not true: {name}" for name in failed),
            "checks": checks,
        }
    )
)
