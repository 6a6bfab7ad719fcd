"""Prints the size of a folder in bytes."""

import sys
from pathlib import Path

print(sum(path.stat().st_size for path in Path(sys.argv[1]).rglob("*") if path.is_file()))
