"""The profile of a simulated model: how often it slips, and how it recovers."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path

import attrs
from hilum import UsageError
from hilum.errors import E_BAD_ARGS, E_FILE_NOT_FOUND

from hilum_eval.converter import structure

BUILTIN = ("perfect", "strong", "mid", "weak")


@attrs.frozen(kw_only=True)
class SlipRates:
    """How often the first try of a step goes wrong, as shares from 0 to 1.

    Args:
        edit: Edits whose old text is wrong.
        arguments: Calls whose arguments break the tool's schema.
        path: Reads and edits with a wrong path.
        rule: Edits of a file that the model has not read, although it could have read it; also the
            share of refused changes that it tries to make in another way.
        loop: Calls that the model repeats although they succeeded.
        long_output: Reads, searches and commands with far more output than needed.
        stop: Rounds before which the model says that it is done although it is not.
        forget: Facts that the model leaves out of a summary.
    """

    edit: float = 0.0
    arguments: float = 0.0
    path: float = 0.0
    rule: float = 0.0
    loop: float = 0.0
    long_output: float = 0.0
    stop: float = 0.0
    forget: float = 0.0


@attrs.frozen(kw_only=True)
class EditSlips:
    """Shares of the kinds of wrong old texts; they need not add up to 1.

    Args:
        stale: The text has other words than the file, as the model remembers it wrongly.
        whitespace: Indentation or blanks differ.
        typographic: Quotes and dashes are typographic, or the other way round.
        not_unique: The text is too short to identify one place.
        identical: The old and the new text are the same.
    """

    stale: float = 0.45
    whitespace: float = 0.30
    typographic: float = 0.05
    not_unique: float = 0.13
    identical: float = 0.07


@attrs.frozen(kw_only=True)
class Recovery:
    """How likely the next call is the right one after a failure.

    Args:
        plain: Probability that a step's next call is right after its first, second, third … failure
            if the agent says only that the call failed; the last value also holds for all further
            failures.
        shows_text: Factor on the odds if the error shows the text that the call was about.
        names_parameters: Factor on the odds if the error names the parameter that is wrong.
        shows_path: Factor on the odds if the error shows the right path.
        advice: Factor on the odds if the error says what to do next.
        instructions: Factor on the odds if the system prompt says what to do after such a failure.
        note: Factor on the odds if the agent points out that the model repeats itself.
        repeat: Share of the wrong reactions that repeat the call unchanged.
        vary: Share of the wrong reactions that change the call, but not its mistake. The other
            wrong reactions give the step up.
        keep_looping: Probability that a model in a loop repeats the call once more.
        reread: Probability that the model reads a file again before it edits a text that it cannot
            see any more.
        search_again: Probability that the model searches again after an incomplete result.
        recheck: Probability that the model looks for a mistake of its own after a command failed
            that should have succeeded.
    """

    plain: tuple[float, ...] = (0.57, 0.48, 0.40, 0.33)
    shows_text: float = 3.0
    names_parameters: float = 3.0
    shows_path: float = 4.0
    advice: float = 1.5
    instructions: float = 2.0
    note: float = 4.0
    repeat: float = 0.5
    vary: float = 0.35
    keep_looping: float = 0.9
    reread: float = 0.6
    search_again: float = 0.6
    recheck: float = 0.6


@attrs.frozen(kw_only=True)
class Profile:
    """How a simulated model behaves.

    Args:
        slips: How often it slips.
        edit_slips: Which kinds of wrong old texts it writes.
        recovery: How it recovers.
        tokens_per_second: Speed of its answers, for the time that the server takes if it keeps pace.
        first_token: Seconds until the first token of an answer.
    """

    slips: SlipRates = SlipRates()
    edit_slips: EditSlips = EditSlips()
    recovery: Recovery = Recovery()
    tokens_per_second: float = 80.0
    first_token: float = 0.6


def load_profile(name: str) -> Profile:
    """Read a profile.

    Args:
        name: ``perfect``, ``strong``, ``mid``, ``weak``, or the path of a TOML file.

    Raises:
        UsageError: There is no such profile, or the file has mistakes.
    """
    if name in BUILTIN:
        text = files("hilum_eval.simulation").joinpath("profiles", f"{name}.toml").read_text()
        return _parse(text, f"the profile {name}")
    try:
        text = Path(name).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The profile {name!r} cannot be read: {error}.",
            code=E_FILE_NOT_FOUND,
            hint=f"Use one of {', '.join(BUILTIN)}, or the path of a TOML file.",
        ) from None
    return _parse(text, name)


def _parse(text: str, source: str) -> Profile:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{source} is not TOML: {error}.", code=E_BAD_ARGS) from None
    profile = structure(data, Profile, source)
    _check_shares(profile, source)
    return profile


def _check_shares(profile: Profile, source: str) -> None:
    """Check that all probabilities are between 0 and 1.

    Raises:
        UsageError: A value is not.
    """
    recovery = profile.recovery
    values = attrs.asdict(profile.slips) | attrs.asdict(profile.edit_slips)
    for name in ("repeat", "vary", "keep_looping", "reread", "search_again", "recheck"):
        values[name] = getattr(recovery, name)
    values.update((f"plain[{index}]", each) for index, each in enumerate(recovery.plain))
    wrong = [name for name, value in values.items() if not 0 <= value <= 1]
    if wrong or not recovery.plain:
        raise UsageError(
            f"{source}: {', '.join(wrong) or 'plain'} must be between 0 and 1.",
            code=E_BAD_ARGS,
            hint="Write shares, such as 0.1 for 10 %.",
        )
