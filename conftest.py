"""Tests everywhere in this repository may use the fixtures of ``hilum.testing``."""

pytest_plugins = ["hilum.testing"]
