"""Spell the functions that code imports, or assigns, under another name as they are called."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

MAX_NAMES = 20
"""Maximum number of renamed functions and modules to replace in a text."""
_MODULES = "os|shutil|pathlib|fs|subprocess"
# `import os as o` in Python, and `import * as f from 'fs'` and `f = require('fs')` in JavaScript.
_MODULE = re.compile(
    rf"\bimport\s+(?:[\w.]+\s*,\s*)*(?P<python>{_MODULES})\s+as\s+(?P<name>\w+)"
    rf"|\bimport\s+(?:\*\s*as\s+)?(?P<star>\w+)\s+from\s+['\"](?:node:)?(?P<script>fs)(?:/promises)?['\"]"
    r"|\b(?P<bound>\w+)\s*=\s*(?:await\s+import|require)\(\s*['\"](?:node:)?(?P<required>fs)(?:/promises)?['\"]\s*\)"
    r"(?!\s*\.\s*\w)"
)
# `from shutil import rmtree as r`.
_FUNCTIONS = re.compile(rf"\bfrom\s+({_MODULES})\s+import\s+(?:\(([^)]+)|([^\n;(]+))")
_AS = re.compile(r"\b(\w+)(?:\s+as\s+(\w+))?")
# `const {rmSync: r} = require('fs')` and `import {rmSync as r} from 'fs'`.
_SCRIPT_FUNCTIONS = re.compile(
    r"\{([^{}]*)\}\s*(?:=\s*(?:await\s+import|require)\(|from)\s*['\"](?:node:)?fs(?:/promises)?['\"]"
)
_COLON = re.compile(r"\b(\w+)\s*(?::|\bas\b)\s*(\w+)")
# `r = os.remove` and `const r = require('fs').rmSync`.
_ASSIGNED = re.compile(
    r"\b(\w+)\s*=\s*(?:(os|shutil|fs)|require\(\s*['\"](?:node:)?fs['\"]\s*\))\.(\w+)\b(?!\s*[(.])"
)


@lru_cache(128)
def spell_imports(text: str) -> str:
    """Return code with the usual names of file functions in place of the names that it gives them.

    Args:
        text: Code in Python or JavaScript.
    """
    modules = dict(_find_modules(text))
    functions = dict(_find_functions(text))
    if not modules and not functions:
        return text
    for name, module in list(modules.items())[:MAX_NAMES]:
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?=\s*\.\s*\w)", module, text)
    for name, function in list(functions.items())[:MAX_NAMES]:
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?=\s*\()", function, text)
    return text


def _find_modules(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of modules that differ from the usual ones, each with the usual name."""
    for found in _MODULE.finditer(text):
        module = found["python"] or found["script"] or found["required"]
        name = found["name"] or found["star"] or found["bound"]
        if name != module:
            yield name, module


def _find_functions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names of functions that differ from the usual ones, each with the usual name."""
    for module, group, line in _FUNCTIONS.findall(text):
        for usual, name in _AS.findall(group or line):
            # A class is called without its module.
            yield name or usual, usual if module == "pathlib" else f"{module}.{usual}"
    for imported in _SCRIPT_FUNCTIONS.finditer(text):
        for usual, name in _COLON.findall(imported[1]):
            yield name, f"fs.{usual}"
    for name, module, usual in _ASSIGNED.findall(text):
        yield name, f"{module or 'fs'}.{usual}"
