"""The command ``hilum skills``. The command needs neither a model nor an API key."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio
from hilum import HilumError, UsageError
from hilum.command import Parser, say, say_json
from hilum.errors import E_BAD_ARGS, unknown_name_error
from hilum.processes import Warden
from hilum.settings import load

from hilum_skills import formatting, lazy
from hilum_skills.catalog import CatalogEntry, SkillCatalog, build_catalog, list_sources
from hilum_skills.clones import Clone, Clones
from hilum_skills.discovery import find_skills
from hilum_skills.settings import SkillsSettings
from hilum_skills.source import SkillSource, parse_source
from hilum_skills.user_choices import HINT, read_choices, set_choice

TAKES = {
    "add": "a repository or a folder",
    "show": "the name of a skill",
    "enable": "names of skills",
    "disable": "names of skills",
    "remove": "a source, as shown in the list",
    "validate": "the folder of a skill",
}
ABOUT = """\
Skills are instructions for specific tasks. They come from Git repositories, from folders, and from
.hilum/skills, .agents/skills, .claude/skills and those of other agents in a project (once you trust it) and in your home.

  hilum skills                          all skills, where they come from, whether they are on
  hilum skills add owner/name           a GitHub repository; owner/name/path@v1: a part of it at a tag
  hilum skills add https://host/x.git@main#path      any repository; also ssh://, git@host:path, file://
  hilum skills add ~/skills             a folder, which hilum uses without copying it
  hilum skills show NAME                its description, instructions, files, tools, problems
  hilum skills disable NAME             remove it from the prompt; enable restores it
  hilum skills update [SOURCE]          fetch new commits
  hilum skills remove SOURCE            forget a repository or folder
  hilum skills validate DIR             check a skill against the Agent Skills specification
"""


def main(argv: Sequence[str]) -> int:
    """Add, list, enable, disable, update, remove and check skills.

    Returns:
        The exit code: 1 if anything failed or is invalid.
    """
    parser = Parser("hilum skills", ABOUT)
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=tuple(ACTIONS),
        metavar="ACTION",
        help=", ".join(ACTIONS),
    )
    parser.add_argument("what", nargs="*", metavar="WHAT", help="a source, a name, or a folder")
    parser.add_argument("--workspace", "-C", default=".", metavar="DIR", help="another folder")
    parser.add_argument("--json", action="store_true", help="as JSON")
    try:
        # Intermixed parsing allows options between or after names: ``show NAME --json``.
        options = parser.parse_intermixed_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    if options.action in TAKES and not options.what:
        raise UsageError(
            f"hilum skills {options.action} takes {TAKES[options.action]}.", code=E_BAD_ARGS
        )
    if options.action == "list" and options.what:
        raise UsageError(
            "hilum skills list takes no arguments.",
            code=E_BAD_ARGS,
            hint="hilum skills show NAME shows one.",
        )
    code = ACTIONS[options.action](options)
    sys.stdout.flush()
    return code


# --- reading --------------------------------------------------------------------------------------


def _settings(options: argparse.Namespace) -> SkillsSettings:
    # ``known=None`` accepts sections of other plugins, which this command does not load.
    return load([SkillsSettings], workspace=_folder(options), known=None).get(SkillsSettings)


def _catalog(options: argparse.Namespace) -> SkillCatalog:
    return build_catalog(_settings(options), _folder(options), Clones())


def _folder(options: argparse.Namespace) -> Path:
    folder = Path(os.path.realpath(os.path.expanduser(options.workspace)))
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {options.workspace}.", hint="Pass an existing folder."
        )
    return folder


def _list(options: argparse.Namespace) -> int:
    catalog = _catalog(options)
    settings = _settings(options)
    complaints: list[str] = []
    known = list(list_sources(settings, read_choices(), complaints))
    if options.json:
        say_json(formatting.catalog_data(catalog, known, Clones()))
        return 0
    for row in formatting.format_catalog(catalog, known, Clones()):
        say(row)
    return 0


def _show(options: argparse.Namespace) -> int:
    catalog = _catalog(options)
    for name in options.what:
        entry = _named(catalog, name)
        if options.json:
            say_json(formatting.entry_data(entry, body=True))
        else:
            say(formatting.format_skill(entry))
    return 0


def _named(catalog: SkillCatalog, name: str) -> CatalogEntry:
    entry = catalog.get(name)
    if entry is None:
        known = {entry.skill.name for entry in catalog.entries}
        raise unknown_name_error("skill", name, known, hint="`hilum skills add` adds skills.")
    return entry


def _validate(options: argparse.Namespace) -> int:
    failed = False
    results: dict[str, Any] = {}
    for path in options.what:
        problems = lazy.specification.validate(os.path.expanduser(path))
        broken = any(problem.fatal for problem in problems)
        failed |= broken
        results[path] = [problem._asdict() for problem in problems]
        if options.json:
            continue
        say(f"{path}: {'not valid' if broken else 'valid'}")
        for problem in problems:
            kind = "error" if problem.fatal else "advice"
            say(f"  {kind}  line {problem.line}: {problem.message}")
    if options.json:
        say_json(results)
    return 1 if failed else 0


# --- changing -------------------------------------------------------------------------------------


def _switch(options: argparse.Namespace, *, on: bool) -> int:
    catalog = _catalog(options)
    settings = _settings(options)
    for name in options.what:
        # A skill that no longer exists can still be removed from the list of disabled skills.
        if not on or name not in read_choices().disabled:
            _named(catalog, name)
        # The command changes only its own list, never the user's settings file.
        if on and name in settings.disabled:
            hint = "Remove it from the setting skills.disabled; hilum config shows the file."
            raise UsageError(f"{name} is disabled in the settings.", hint=hint)
        is_changed = set_choice("disabled", name, present=not on)
        state = "enabled" if on else "disabled"
        say(f"{name} is {state}." if is_changed else f"{name} is {state} already.")
    return 0


def _add(options: argparse.Namespace) -> int:
    for text in options.what:
        source = parse_source(text)
        # This check comes before the fetch, which may take minutes.
        _check_place(source)
        if source.kind == "git":
            # Fetch the source before adding it, so that a source that does not work is never
            # stored.
            clone = trio.run(_fetch, options, [source], False)[0]
        else:
            clone = None
        if isinstance(clone, HilumError):
            raise clone
        _check_skills(options, source, clone)
        new = set_choice("sources", source.text, present=True)
        catalog = _catalog(options)
        state = "is added" if new else "was already added"
        say(f"{source.text} {state}.")
        mine = [entry for entry in catalog.entries if entry.source == source.text]
        for entry in mine:
            say(formatting.format_entry(entry))
        for complaint in catalog.complaints:
            if source.text in complaint:
                say(f"  ! {complaint}")
    return 0


def _check_place(source: SkillSource) -> None:
    """Reject a source that is probably a mistake, before anything is fetched or searched.

    Raises:
        UsageError: The folder does not exist, contains the user's home folder, or could be mistaken
            for a repository.
    """
    if source.kind == "git":
        if os.path.lexists(source.text):
            message = f"{source.text} is a path here, but could also be a GitHub repository."
            hint = f"Write ./{source.text} for the path, or {source.where} for the repository."
            raise UsageError(message, code=E_BAD_ARGS, hint=hint)
    elif not os.path.exists(source.where):
        raise UsageError(
            f"There is no {source.where}.",
            hint="owner/name without ./ means a GitHub repository.",
        )
    # This check also rejects ``/``. If the home folder were a source, instructions from any project
    # would become the user's own trusted skills.
    elif Path.home().resolve().is_relative_to(os.path.realpath(source.where)):
        message = (
            f"{source.where} contains your whole home folder, with the skills of every project in"
            " it."
        )
        raise UsageError(message, code=E_BAD_ARGS, hint="Pass the folder that contains the skills.")


def _check_skills(options: argparse.Namespace, source: SkillSource, clone: Clone | None) -> None:
    """Reject a source without a usable skill, and remove its fetched files.

    Raises:
        UsageError: The source contains no usable skill. The message names the files that hilum
            looked for.
    """
    if clone is None:
        root = Path(source.where)
        found = find_skills(root, None, whole=True)
    else:
        root = clone.folder / source.path
        found = find_skills(root, clone.folder, whole=True)
    if any(not skill.error for skill in found.skills):
        return
    _remove_unused_clone(options, source)
    reasons = []
    for skill in found.skills:
        path = os.path.relpath(skill.file, root.parent)
        reasons.append(f"{path}: {skill.error}")
    reasons += found.complaints
    if root.is_dir() and not reasons:
        reasons = ["no SKILL.md in it or in the folders below, and no README.md"]
    message = f"There is no skill in {source.text}: {'; '.join(reasons[:3])}"
    raise UsageError(
        f"{message.rstrip('.')}.",
        hint=(
            "A skill is a folder with a SKILL.md that has a name and a description at its top, or"
            " a Markdown file."
        ),
    )


def _remove_unused_clone(options: argparse.Namespace, source: SkillSource) -> None:
    """Remove the fetched files of a repository that none of the user's sources uses."""
    if source.kind == "folder":
        return
    known = list_sources(_settings(options), read_choices(), [])
    # Another source may use a different path in the same repository.
    if all(other.key != source.key for other in known):
        trio.run(Clones().remove, source)


def _update(options: argparse.Namespace) -> int:
    wanted = _choose_repositories(options)
    if not wanted:
        say("There are no repositories to update.")
        return 0
    # The commits are read before fetching, so that changes can be detected.
    before = {source.text: Clones().find(source) for source in wanted}
    outcomes = trio.run(_fetch, options, wanted, True)
    for source, outcome in zip(wanted, outcomes, strict=True):
        _say_outcome(source, before[source.text], outcome)
    return 1 if any(isinstance(outcome, HilumError) for outcome in outcomes) else 0


def _choose_repositories(options: argparse.Namespace) -> list[SkillSource]:
    """Return the repositories to update: those that the command names, or all repositories.

    Raises:
        UsageError: ``skills.toml`` cannot be read, or there is no such repository.
    """
    choices = read_choices()
    if choices.mistake:
        raise UsageError(choices.mistake, hint=HINT)
    known = list_sources(_settings(options), choices, [])
    repositories = {source.text: source for source in known if source.kind == "git"}
    for text in options.what:
        if text not in repositories:
            hint = "hilum skills lists them."
            raise unknown_name_error("repository", text, set(repositories), hint=hint)
    wanted = options.what or repositories
    return [source for text, source in repositories.items() if text in wanted]


def _say_outcome(source: SkillSource, before: Clone | None, outcome: Clone | HilumError) -> None:
    if isinstance(outcome, HilumError):
        kept = "; the version fetched before is still used" if before else ""
        say(f"{source.text}: {outcome}{kept}")
        return
    is_same = before is not None and before.commit == outcome.commit
    result = "nothing new" if is_same else "updated"
    say(f"{source.text}: {result} ({outcome.commit[:10]})")
    for left in outcome.left_out:
        say(f"  ! {left}")


async def _fetch(
    options: argparse.Namespace,
    wanted: list[SkillSource],
    update: bool,
) -> list[Clone | HilumError]:
    """Fetch sources one after another, and return a clone or an error for each."""
    settings = _settings(options)
    results = list[Clone | HilumError]()
    async with Warden() as warden:
        git = lazy.git.GitClient(warden, settings.timeout, settings.megabytes * 1_000_000)
        # Sources are fetched one after another, because all progress is shown on one terminal line.
        for source in wanted:
            with formatting.show_progress(source.text) as step:
                try:
                    results.append(await Clones().fetch(source, git, update=update, progress=step))
                except HilumError as error:
                    results.append(error)
    return results


def _remove(options: argparse.Namespace) -> int:
    chosen = read_choices()
    for text in options.what:
        # First compare the text as typed, because the stored source may no longer be valid.
        found = text if text in chosen.sources else parse_source(text).text
        if found not in chosen.sources:
            hint = "hilum skills lists them."
            if text in _settings(options).sources:
                hint = "It is in the setting `skills.sources`; remove it there."
            raise unknown_name_error("source", text, chosen.sources, hint=hint)
        set_choice("sources", found, present=False)
        _remove_unused_clone(options, parse_source(found))
        say(f"{found} is removed.")
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "add": _add,
    "show": _show,
    "enable": partial(_switch, on=True),
    "disable": partial(_switch, on=False),
    "update": _update,
    "remove": _remove,
    "validate": _validate,
}
