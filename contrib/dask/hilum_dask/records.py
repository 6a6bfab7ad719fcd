"""The data that driver, workers and child processes exchange, and that a batch keeps on disk."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

State = Literal[
    "completed", "partial_success", "failed", "timed_out", "cancelled", "stopped", "lost"
]
"""How an attempt ended. After ``stopped`` and ``lost`` the task is still open."""
TIMEOUT_HINT = "Set a longer --task-timeout, or `timeout` in the task."


class Task(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A task, as a line of the tasks file describes it.

    Attributes:
        id: The task's name in the batch; the number of its line by default.
        prompt: What to do.
        repo: Folder or URL of the repository to work in; that of the batch by default. A folder
            that is no Git repository is copied.
        ref: The commit, branch or tag to start from.
        files: Files to write into the workspace: texts by path, or paths relative to the tasks
            file.
        model: The model; that of the batch by default.
        settings: Settings by dotted key, in addition to those of the batch.
        verify: A shell command that decides whether the task is solved.
        timeout: Seconds that an attempt may take; the limit of the batch by default.
    """

    prompt: str
    id: str = ""
    repo: str = ""
    ref: str = ""
    files: dict[str, str] | list[str] = msgspec.field(default_factory=dict)
    model: str = ""
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    verify: str = ""
    timeout: float | None = None


class Options(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The options of a batch that decide how each of its tasks runs.

    Attributes:
        repo: Folder or URL of the repository for tasks that name none.
        ref: The commit, branch or tag for tasks that name none.
        model: The model for tasks that name none.
        approve: The approval policy; None for the one in the settings.
        mode: The mode; None for the one in the settings.
        settings: Settings, each as ``key=value``, as on the command line.
        plugin: Files of additional plugins.
        without: Names of plugins to leave out.
        verify: The verify command for tasks that have none.
        attempts: Maximum number of attempts for each task.
        task_timeout: Seconds that an attempt may take; 0 for no limit.
        task_dollars: Maximum cost of a task in US dollars; 0 for no limit.
        runner: A function that carries out tasks instead of a session, as ``module:function``.
        keep: Whether to keep the workspaces of finished tasks.
    """

    repo: str = ""
    ref: str = ""
    model: str = ""
    approve: str | None = None
    mode: str | None = None
    settings: list[str] = msgspec.field(default_factory=list)
    plugin: list[str] = msgspec.field(default_factory=list)
    without: list[str] = msgspec.field(default_factory=list)
    verify: str = ""
    attempts: int = 3
    task_timeout: float = 0.0
    task_dollars: float = 0.0
    runner: str = ""
    keep: bool = False


class Assignment(msgspec.Struct, kw_only=True):
    """One attempt at a task: everything that the child process needs.

    Attributes:
        task: The task, with the defaults of the batch filled in.
        options: The options of the batch.
        name: The task's id as a file name.
        attempt: Number of the attempt, from 1.
        retries: How many more attempts there may be after a failure.
        epoch: Epoch of the driver that gave the assignment.
        batch: Random identity of the batch.
        folder: The batch's folder.
        dollars: What the attempt may spend, in US dollars; None for no limit.
        files: The contents of the files to write, by path in the workspace.
        session: The session to continue, of an attempt that its share of the budget ended.
        continues: Number of that attempt, whose workspace and session are used again.
        earlier_cost: What earlier attempts at the task cost, in US dollars.
    """

    task: Task
    options: Options
    name: str
    attempt: int
    retries: int = 0
    epoch: int
    batch: str
    folder: str
    dollars: float | None = None
    files: dict[str, bytes] = msgspec.field(default_factory=dict)
    session: str = ""
    continues: int = 0
    earlier_cost: float = 0.0


class Verification(msgspec.Struct):
    """What the verify command of a task found.

    Attributes:
        passed: Whether the command succeeded.
        exit_code: The exit code; if negative, the signal that ended the command.
        output: The end of its output.
    """

    passed: bool
    exit_code: int
    output: str = ""


class Record(msgspec.Struct, kw_only=True):
    """How an attempt at a task ended: a row of the table of results.

    Attributes:
        id: The task's id.
        state: How it ended.
        passed: Whether the verify command succeeded; None if there is none.
        code: The error code; empty if there was no error.
        error: A sentence about the error.
        hint: What the user can do.
        text: The answer.
        attempts: Number of attempts, this one included.
        model: The model that answered last.
        session: Id of the session.
        turns: Number of model calls of the main agent.
        seconds: Seconds from the start of the child process to its end.
        session_seconds: Seconds in which the session was open.
        input: Input tokens.
        cached: Input tokens that the provider read from its cache.
        output: Output tokens.
        cost: Cost of this attempt in US dollars; None if no price is known.
        task_cost: Cost of all attempts at the task.
        patch: The patch, relative to the batch's folder; empty if nothing was changed.
        files_changed: Number of files in the patch.
        verification: What the verify command found.
        worker: The machine, and the process that carried it out.
        started: Unix time at which the attempt started.
        epoch: Epoch of the driver that gave the assignment.
        retry: Whether another attempt may succeed.
        published: Whether the record is the task's result.
        disk_full: Whether it failed because a disk is full.
    """

    id: str
    state: State
    passed: bool | None = None
    code: str = ""
    error: str = ""
    hint: str = ""
    text: str = ""
    attempts: int = 1
    model: str = ""
    session: str = ""
    turns: int = 0
    seconds: float = 0.0
    session_seconds: float = 0.0
    input: int = 0
    cached: int = 0
    output: int = 0
    cost: float | None = None
    task_cost: float | None = None
    patch: str = ""
    files_changed: int = 0
    verification: Verification | None = None
    worker: str = ""
    started: float = 0.0
    epoch: int = 0
    retry: bool = False
    published: bool = False
    disk_full: bool = False

    @property
    def solved(self) -> bool:
        """Whether the task was completed and its verify command, if any, succeeded."""
        return self.state == "completed" and self.passed is not False


encode = msgspec.json.Encoder().encode
decode_record = msgspec.json.Decoder(Record).decode
decode_assignment = msgspec.json.Decoder(Assignment).decode
