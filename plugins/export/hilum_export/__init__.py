"""Writes a project's agents, skills and rules in the formats of other coding agents."""

from __future__ import annotations
