"""A scenario: every decision of a run, as plain data.

A seed generates one; shrinking removes parts of it.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Decision(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """Base of all decisions: plain data with defaults, so that a smaller scenario is a valid
    one.
    """


class Call(Decision):
    """A call that the model makes. ``raw`` is what it writes in place of encoded arguments."""

    tool: str = "look"
    arguments: dict[str, Any] = {}
    raw: str | None = None

    @property
    def text(self) -> str:
        """The arguments as the model writes them."""
        return self.raw if self.raw is not None else msgspec.json.encode(self.arguments).decode()


# What the plugin ``redactor`` knows. The first half of it, the quote and the letter are spelled in
# more ways than one.
SECRET = 'k3y-"of-the-\u00e4gent'
HIDDEN = "[REDACTED:KEY]"


class Answer(Decision):
    """One answer of the model.

    Attributes:
        stop: ``end``, ``length`` or ``refusal``; calls make it ``calls``.
        faults: What goes wrong with the requests before the one that succeeds, see
            ``provider.FAULTS``.
        pace: Seconds between two pieces of the stream.
        usage: ``counted``, ``none`` or ``odd``.
    """

    text: str = ""
    calls: list[Call] = []
    stop: str = "end"
    faults: list[str] = []
    pace: float = 0.0
    usage: str = "counted"


class Prompt(Decision):
    """What the user says, ``at`` seconds after the session opened.

    ``name`` is a word that stands in no other text.
    """

    name: str = "job"
    at: float = 0.0
    padding: int = 0
    secret: bool = False


class Act(Decision):
    """Something that happens ``at`` some moment: ``kind`` is one of ``execution.ACTS``."""

    kind: str = "stop"
    at: float = 0.0
    value: str = ""


class Reply(Decision):
    """How the user answers a question of approval.

    ``accepted`` is ``None`` for no answer at all.
    """

    accepted: bool | None = True
    delay: float = 1.0
    remember: str = "once"


class PluginFault(Decision):
    """The ``number``-th call of a plugin's hook goes wrong: ``how`` is one of
    ``plugins.FAULTS``.
    """

    plugin: str = "faulty"
    hook: str = "remind"
    number: int = 1
    how: str = "raise"


class Life(Decision):
    """One life of the process: from opening the session to its close, or to the kill.

    Attributes:
        resume: How it begins when it is not the first: it resumes what was cut off, or goes on with
            a new ``prompt``.
        terminal: Whether the command line runs it, with the first prompt only.
        kill_at: Number of the event after which the process is killed; ``None`` lets it end.
        store_fails_at: Number of the event that cannot be written any more.
        cancel_open_at: Number of the step of any task at which opening is cancelled.
        cancel_open_of: A plugin; opening is cancelled in the moment in which its lifespan comes up.
    """

    prompts: list[Prompt] = []
    acts: list[Act] = []
    resume: str = "resume"
    terminal: bool = False
    kill_at: int | None = None
    store_fails_at: int | None = None
    cancel_open_at: int | None = None
    cancel_open_of: str = ""


class Scenario(Decision):
    """A whole run.

    Attributes:
        answers: What the main agent's model says, in order; after that it says that it is done.
        tasks: What the models of sub-agents say, by the number in their prompts.
        replies: The user's answers to questions of approval, in order, then from the beginning
            again.
        serial: Whether the user is shown one question at a time.
        letters_per_token: How the model's own tokenizer counts.
        strict: Whether the model refuses requests that exceed its window.
        probe_at: Where the log is cut to check that a resume goes on with the same request, in
            thousandths; -1 for nowhere.
    """

    seed: int = 0
    wire: str = "anthropic"
    window: int = 100_000
    max_output: int = 1_000
    letters_per_token: float = 4.0
    strict: bool = True
    identities: str = "unique"
    approve: str = "auto"
    plugins: list[str] = []
    turns: int = 25
    timeout: float | None = None
    summaries: str = "sound"
    serial: bool = False
    answers: list[Answer] = []
    tasks: list[list[Answer]] = []
    replies: list[Reply] = []
    faults: list[PluginFault] = []
    lives: list[Life] = []
    probe_at: int = -1


def encode(scenario: Scenario) -> bytes:
    """Encode a scenario as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(scenario))


def decode(text: bytes) -> Scenario:
    """Decode what ``encode`` wrote."""
    return msgspec.json.decode(text, type=Scenario)
