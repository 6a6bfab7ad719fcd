"""Asks the project's environment what is installed, and calls the new function in it."""

import hashlib
import json
import re
from pathlib import Path

from hilum_eval.checking import Checks, compare_with_fixture, copy_with_originals, run_program

FIXTURE = Path(__file__).parent / "files"
PYTHON = Path(".venv/bin/python").absolute()
PROBE = """
import hashlib, importlib.metadata, json, pathlib, sys
import money_words
found = {"version": importlib.metadata.version("money-words")}
found["digest"] = hashlib.sha256(pathlib.Path(money_words.__file__).read_bytes()).hexdigest()
found["file"] = money_words.__file__
sys.path.insert(0, ".")
from shop import prices
found["words"] = [prices.price_in_words(name) for name in ("tea", "coffee", "sugar")]
prices.PRICES["mint"] = 42.07
found["mint"] = prices.price_in_words("mint")
found["list"] = prices.price_list()
sys.__stdout__.write("\\n" + json.dumps(found))
"""
MINT = "forty-two euro seven"
WORDS = ["four euro fifty", "six euro twenty-five", "one euro"]


def installed_digest() -> str:
    source = FIXTURE / "tools/packages/money-words-2.3.0.py"
    return hashlib.sha256(source.read_bytes()).hexdigest()


checks = Checks()
code, output = run_program([str(PYTHON), "-I", "-B", "-c", PROBE])
found = {}
if code == 0:
    found = json.loads(output.splitlines()[-1])
reason = output.strip().splitlines()[-1] if output.strip() else ""
installed = (
    found.get("version") == "2.3.0"
    and found.get("digest") == installed_digest()
    and "site-packages" in found.get("file", "")
)
checks.goal("installed", installed, f"money-words is {found.get('version', reason)}")
requirements = (
    Path("requirements.txt").read_text("utf-8") if Path("requirements.txt").is_file() else ""
)
lines = {
    re.sub(r"\s", "", line.split("#")[0]).lower().replace("_", "-")
    for line in requirements.splitlines()
}
checks.goal("requirements", "money-words==2.3.0" in lines, f"requirements.txt has {sorted(lines)}")
checks.goal(
    "words", found.get("words") == WORDS and found.get("mint") == MINT, str(found or reason)
)
root = copy_with_originals(FIXTURE, [])
code, output = run_program([str(PYTHON), "-B", "-m", "unittest", "-q"], root)
tests = "\n".join(path.read_text("utf-8") for path in Path("tests").rglob("*.py"))
tested = (
    code == 0 and "price_in_words" in tests and "Ran 0" not in output and "Ran 1 " not in output
)
checks.goal("tested", tested, "there is no test of price_in_words that passes")
root = copy_with_originals(FIXTURE, ["tests"])
code, output = run_program([str(PYTHON), "-B", "-m", "unittest", "-q"], root)
checks.guard("tests", code == 0, "the test of the price list fails")
checks.guard("pin", "tabular-lines==1.2.0" in lines, "the other requirement was changed")
others = set(compare_with_fixture(FIXTURE, ignore=["tests/*", "README.md"]))
others -= {"requirements.txt", "shop/prices.py"}
checks.guard("others", not others, f"other files changed: {sorted(others)}")
checks.report()
