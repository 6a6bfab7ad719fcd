"""What the rest of a rule says about each of its sentences."""

from __future__ import annotations

from pathlib import PurePosixPath

import attrs


@attrs.frozen
class Scope:
    """What the rest of a rule says about its sentences.

    Attributes:
        folder: The folder that the rules file governs, relative to the workspace.
        hard: Whether the rule is in a section of hard constraints.
        generated: Whether the rule says that a program generates its files.
        new_files: Whether the rule calls for new files.
        binding: Whether the rule says "always" or "must".
        omitted: The parts of lists that were not understood, in order. Readers add to it.
    """

    folder: PurePosixPath
    hard: bool
    generated: bool
    new_files: bool
    binding: bool = False
    omitted: list[str] = attrs.field(factory=list, eq=False)
