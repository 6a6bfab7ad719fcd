"""Reads arms from TOML files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import attrs
from hilum import UsageError
from hilum.errors import E_BAD_ARGS

from hilum_eval.arm import Arm
from hilum_eval.converter import structure

PROFILES = ("perfect", "strong", "mid", "weak")
USERS = ("scripted", "simulated", "patient", "strict", "distracted")


def read_arm(path: Path) -> Arm:
    """Return the arm in a file. Without a name, it has that of the file.

    Paths of plugins and profiles are relative to the file.

    Raises:
        UsageError: The file cannot be read or has a mistake; the message names the key.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}.",
            code=E_BAD_ARGS,
            hint="Pass a TOML file that describes an arm.",
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} is not valid TOML: {error}.", code=E_BAD_ARGS, hint="Correct the file."
        ) from None
    arm = structure({"name": path.stem, **data}, Arm, str(path))
    folder = path.parent
    plugins = tuple(_resolve(name, folder) for name in arm.plugins)
    return check_arm(
        attrs.evolve(arm, plugins=plugins, profile=_resolve(arm.profile, folder)), str(path)
    )


def check_arm(arm: Arm, source: str) -> Arm:
    """Return the arm.

    Args:
        arm: The arm.
        source: Where it comes from, for messages.

    Raises:
        UsageError: A value is not possible.
    """
    problem = ""
    if not arm.name.strip():
        problem = "name: is empty"
    elif arm.profile not in PROFILES and not Path(arm.profile).is_file():
        problem = f"profile: {arm.profile!r} is neither a file nor one of {', '.join(PROFILES)}"
    elif arm.user not in USERS:
        problem = f"user: {arm.user!r} is not one of {', '.join(USERS)}"
    else:
        missing = [
            name for name in arm.plugins if name.endswith(".py") and not Path(name).is_file()
        ]
        if missing:
            problem = f"plugins: there is no file {missing[0]}"
    if problem:
        raise UsageError(
            f"{source}: {problem}.", code=E_BAD_ARGS, hint="docs/eval.md describes arms."
        )
    return arm


def _resolve(name: str, folder: Path) -> str:
    """Return the absolute path of a file that is named relative to an arm's file."""
    if name.endswith((".py", ".toml")):
        return str((folder / name).resolve())
    return name
