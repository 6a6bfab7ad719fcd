"""Deterministic simulation testing of the kernel: see ``tests/simulation/README.md``."""
