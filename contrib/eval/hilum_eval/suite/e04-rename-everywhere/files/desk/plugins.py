"""Loads the source of the rates that pyproject.toml names."""

import tomllib
from importlib import import_module
from pathlib import Path

DEFAULT = "desk.rates:fetch_rate"


def load_source(path="pyproject.toml"):
    """Return the function that returns a rate."""
    settings = tomllib.loads(Path(path).read_text("utf-8")).get("tool", {}).get("desk", {})
    module, _, name = settings.get("rate_source", DEFAULT).partition(":")
    return getattr(import_module(module), name)
