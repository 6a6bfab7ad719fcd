"""What a worker must do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from hilum_eval.arm import Arm
from hilum_eval.case import Case

READ_LOG = "--read-log"
"""The option with which a worker reads the log of an attempt whose process was killed."""
SESSION_FILE = "session"
"""The file in the folder ``record`` that contains the id of hilum's session."""
EXIT_MARK = "hilum-eval-exit:"
"""The beginning of the line in which the process that forks workers reports an exit code."""


@attrs.frozen(kw_only=True)
class WorkerJob:
    """What a worker must do.

    Args:
        case: The case.
        arm: The arm.
        repeat: Number of the repetition.
        workspace: The prepared workspace.
        home: The home folder of the agent.
        scratch: A folder for other files of the agent.
        prompts: A folder for files with prompts.
        record: A folder for files of the measurement.
        hidden: Folders that the agent must not see.
        environ: The environment of the agent.
        models: The user's own settings of models.
        output: The file to which the transcript is written.
    """

    case: Case
    arm: Arm
    repeat: int
    workspace: Path
    home: Path
    scratch: Path
    prompts: Path
    record: Path
    hidden: tuple[Path, ...] = ()
    environ: Mapping[str, str]
    models: Mapping[str, Any] = attrs.field(factory=dict)
    output: Path
