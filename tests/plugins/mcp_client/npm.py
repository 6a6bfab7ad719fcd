"""Test servers from npm: ``NPM_SERVERS`` names a folder with ``node_modules``."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("NPM_SERVERS") or "no-such-folder").absolute()


there = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules").is_dir(),
    reason="needs Node.js, and servers from npm in the folder that NPM_SERVERS names",
)


def program(package: str) -> list[str]:
    """Return the command of a package; skip the test if it is not installed."""
    folder = FOLDER / "node_modules" / package
    if not folder.is_dir():
        pytest.skip(
            f"needs npm's {package} in the folder that NPM_SERVERS names (npm install --prefix FOLDER)"
        )
    bins = json.loads((folder / "package.json").read_text())["bin"]
    return ["node", str(folder / (bins if isinstance(bins, str) else next(iter(bins.values()))))]


def described(package: str, *words: str, **more: Any) -> dict[str, Any]:
    """Return the configuration of such a server."""
    command, *args = program(package)
    return {"command": command, "args": [*args, *words], **more}
