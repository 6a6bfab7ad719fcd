"""Runs the examples of all modules: python3 check.py"""

import doctest
import importlib
import sys

MODULES = ["units", "codes", "levels", "orders", "prices", "labels"]

for name in MODULES:
    module = importlib.import_module(f"stock.{name}")
    failed, tried = doctest.testmod(module)
    if failed or not tried:
        sys.exit(f"stock/{name}.py: {failed} of {tried} examples fail")
    print(f"stock/{name}.py: {tried} examples")
print("all examples are right")
