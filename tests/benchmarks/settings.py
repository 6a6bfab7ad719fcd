"""What reading all settings costs, with hilum's own reader and with a cattrs converter.

Run: ``python tests/benchmarks/settings.py``. CPU time, each measurement in a new process.
"""

import statistics
import subprocess
import sys

ROUNDS = 11
MEASURE = """
import importlib, time
import attrs, httpx, msgspec, trio
from importlib.metadata import entry_points
from hilum.settings import KernelSettings, load, sections_of

modules = [importlib.import_module(point.module) for point in entry_points(group="hilum")]
sections = [KernelSettings, *(each for module in modules for each in sections_of(module))]
began = time.process_time()
load(sections)
own = time.process_time() - began
began = time.process_time()
from cattrs import Converter
imported = time.process_time() - began
began = time.process_time()
converter = Converter(forbid_extra_keys=True)
for section in sections:
    converter.structure({}, section)
print(own, imported, time.process_time() - began)
"""


def measure() -> list[float]:
    """Return milliseconds: the own reader, the import of cattrs, its first structuring."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True
    )
    return [1000 * float(word) for word in done.stdout.split()]


def main() -> None:
    """Print the medians."""
    measure()  # compiles bytecode
    columns = zip(*(measure() for _ in range(ROUNDS)), strict=True)
    own, imported, structured = (statistics.median(column) for column in columns)
    print(f"the own reader, first use         {own:6.1f} ms")
    print(f"import cattrs                     {imported:6.1f} ms")
    print(f"structure every section once      {structured:6.1f} ms")


if __name__ == "__main__":
    main()
