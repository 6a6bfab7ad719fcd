"""``hilum skills``: add, list, show, switch, update, remove and check skills.

No model and no key is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import trio
from hilum import HilumError, SettingsError, UsageError
from hilum.errors import E_BAD_ARGS, unknown
from hilum_commandline import Parser, say, say_json

from hilum_skills import shown
from hilum_skills.catalog import Catalog, Entry, look, sources
from hilum_skills.chosen import keep, read_chosen
from hilum_skills.clones import Clone, Clones
from hilum_skills.finding import find_skills
from hilum_skills.settings import SkillsSettings
from hilum_skills.source import Source, parse_source
from hilum_skills.strict import validate

TAKES = {
    "add": "a repository or a folder",
    "show": "the name of a skill",
    "enable": "names of skills",
    "disable": "names of skills",
    "remove": "a source, as the list shows it",
    "validate": "the folder of a skill",
}
ABOUT = """\
Skills are instructions for special tasks. They come from git repositories, from folders, and from .hilum/skills,
.agents/skills and .claude/skills of a project (once you trust it) and of your home.

  hilum skills                          all skills, where they come from, whether they hold
  hilum skills add owner/name           a repository at GitHub; owner/name/path@v1 a part of it at a tag
  hilum skills add https://host/x.git@main#path      any repository; also ssh://, git@host:path, file://
  hilum skills add ~/skills             a folder; it is used where it is
  hilum skills show NAME                its description, instructions, files, tools, problems
  hilum skills disable NAME             take it out of the prompt; enable puts it back
  hilum skills update [SOURCE]          fetch what is new
  hilum skills remove SOURCE            forget a repository or folder
  hilum skills validate DIR             check a skill against the Agent Skills specification
"""


def main(argv: Sequence[str]) -> int:
    """Add, list, switch, update, remove and check skills.

    Returns:
        The exit code: 1 where something failed or is not valid.
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
        options = parser.parse_intermixed_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    if options.action in TAKES and not options.what:
        raise UsageError(
            f"hilum skills {options.action} takes {TAKES[options.action]}.", code=E_BAD_ARGS
        )
    if options.action == "list" and options.what:
        raise UsageError(
            "hilum skills list takes nothing.",
            code=E_BAD_ARGS,
            hint="hilum skills show NAME shows one.",
        )
    code = ACTIONS[options.action](options)
    sys.stdout.flush()
    return code


# --- looking --------------------------------------------------------------------------------------


def _settings(options: argparse.Namespace) -> SkillsSettings:
    from hilum_settings import App

    app = App(
        "hilum",
        error=SettingsError,
        hint="hilum config shows all settings and where they come from.",
    )
    return app.load([SkillsSettings], workspace=_folder(options), known=None).get(SkillsSettings)


def _catalog(options: argparse.Namespace) -> Catalog:
    return look(_settings(options), _folder(options), Clones())


def _folder(options: argparse.Namespace) -> Path:
    folder = Path(os.path.realpath(os.path.expanduser(options.workspace)))
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {options.workspace}.", hint="Name an existing folder."
        )
    return folder


def _list(options: argparse.Namespace) -> int:
    catalog = _catalog(options)
    settings = _settings(options)
    complaints: list[str] = []
    known = list(sources(settings, read_chosen(), complaints))
    if options.json:
        say_json(shown.listed(catalog, known, Clones()))
        return 0
    for row in shown.rows(catalog, known, Clones()):
        say(row)
    return 0


def _show(options: argparse.Namespace) -> int:
    catalog = _catalog(options)
    for name in options.what:
        entry = _named(catalog, name)
        if options.json:
            say_json(shown.about(entry, body=True))
        else:
            say(shown.page(entry))
    return 0


def _named(catalog: Catalog, name: str) -> Entry:
    entry = catalog.get(name)
    if entry is None:
        known = {entry.skill.name for entry in catalog.entries}
        raise unknown("skill", name, known, hint="hilum skills add fetches some.")
    return entry


def _validate(options: argparse.Namespace) -> int:
    failed = False
    results: dict[str, Any] = {}
    for path in options.what:
        problems = validate(os.path.expanduser(path))
        broken = any(problem.fatal for problem in problems)
        failed |= broken
        results[path] = [problem._asdict() for problem in problems]
        if not options.json:
            say(f"{path}: {'not valid' if broken else 'valid'}")
            for problem in problems:
                say(
                    f"  {'error' if problem.fatal else 'advice'}  line {problem.line}:"
                    f" {problem.message}"
                )
    if options.json:
        say_json(results)
    return 1 if failed else 0


# --- changing -------------------------------------------------------------------------------------


def _enable(options: argparse.Namespace) -> int:
    return _switch(options, on=True)


def _disable(options: argparse.Namespace) -> int:
    return _switch(options, on=False)


def _switch(options: argparse.Namespace, *, on: bool) -> int:
    catalog = _catalog(options)
    settings = _settings(options)
    for name in options.what:
        if (
            not on or name not in read_chosen().disabled
        ):  # what is gone can still be taken from the list
            _named(catalog, name)
        if on and name in settings.disabled:
            hint = (
                "Take it out of the setting skills.disabled; hilum config says where that stands."
            )
            raise UsageError(f"{name} is disabled in the settings.", hint=hint)
        changed = keep("disabled", name, present=not on)
        say(f"{name} is {'enabled' if on else 'disabled'}{'' if changed else ' already'}.")
    return 0


def _add(options: argparse.Namespace) -> int:
    for text in options.what:
        source = parse_source(text)
        _check_place(source)
        if source.kind == "git":
            clone = trio.run(_fetch, options, [source], False)[0]
        else:
            clone = None
        if isinstance(clone, HilumError):
            raise clone
        _check_skills(options, source, clone)
        new = keep("sources", source.text, present=True)
        catalog = _catalog(options)
        say(f"{source.text} is {'added' if new else 'there already'}.")
        mine = [entry for entry in catalog.entries if entry.source == source.text]
        for entry in mine:
            say(shown.row(entry))
        for complaint in catalog.complaints:
            if source.text in complaint:
                say(f"  ! {complaint}")
    return 0


def _check_place(source: Source) -> None:
    """Refuse what is probably not what the user means, before anything is fetched or looked
    through.

    Raises:
        UsageError: The folder is not there, holds the user's whole home, or has the name of a
            repository.
    """
    if source.kind == "git":
        if os.path.lexists(source.text):
            message = f"{source.text} is here, and could be a repository at GitHub as well."
            hint = f"Write ./{source.text} for what is here, or {source.where} for the repository."
            raise UsageError(message, code=E_BAD_ARGS, hint=hint)
    elif not os.path.exists(source.where):
        raise UsageError(
            f"There is no {source.where}.",
            hint="owner/name without ./ means a repository at GitHub.",
        )
    elif Path.home().resolve().is_relative_to(os.path.realpath(source.where)):
        message = f"{source.where} holds your whole home; skills of any project in it would count."
        raise UsageError(message, code=E_BAD_ARGS, hint="Name the folder that the skills are in.")


def _check_skills(options: argparse.Namespace, source: Source, clone: Clone | None) -> None:
    """Refuse a source in which there is no skill that loads; what was fetched for it goes.

    Raises:
        UsageError: It says what was looked for.
    """
    if clone is None:
        root = Path(source.where)
        shown_as = source.where
        found = find_skills(root, None, whole=True)
    else:
        root = clone.folder / source.path
        shown_as = source.text
        found = find_skills(root, clone.folder, whole=True)
    if any(not skill.error for skill in found.skills):
        return
    others = list(sources(_settings(options), read_chosen(), []))
    if clone is not None and all(other.key != source.key for other in others):
        trio.run(Clones().remove, source)
    why = [
        *(f"{os.path.relpath(skill.file, root.parent)}: {skill.error}" for skill in found.skills),
        *found.complaints,
    ]
    hint = (
        "A skill is a folder with a SKILL.md that has a name and a description at its top, or a"
        " Markdown file."
    )
    if root.is_dir() and not why:
        why = ["no SKILL.md in it or in the folders below, and no README.md"]
    raise UsageError(
        f"There is no skill in {shown_as}: {'; '.join(why[:3])}".rstrip(".") + ".", hint=hint
    )


def _update(options: argparse.Namespace) -> int:
    mistake = read_chosen().mistake
    if mistake:
        raise UsageError(mistake, hint="Mend or remove the file.")
    known = [
        source for source in sources(_settings(options), read_chosen(), []) if source.kind == "git"
    ]
    for text in options.what:
        if text not in {source.text for source in known}:
            raise unknown(
                "repository",
                text,
                {source.text for source in known},
                hint="hilum skills lists them.",
            )
    chosen = [source for source in known if not options.what or source.text in options.what]
    if not chosen:
        say("There are no repositories to update.")
        return 0
    before = {source.text: Clones().find(source) for source in chosen}
    failed = False
    for source, outcome in zip(chosen, trio.run(_fetch, options, chosen, True), strict=True):
        if isinstance(outcome, HilumError):
            failed = True
            kept = "; what was fetched before is still used" if before[source.text] else ""
            say(f"{source.text}: {outcome}{kept}")
            continue
        old = before[source.text]
        same = old is not None and old.commit == outcome.commit
        say(f"{source.text}: {'nothing new' if same else 'updated'} ({outcome.commit[:10]})")
        for left in outcome.left_out:
            say(f"  ! {left}")
    return 1 if failed else 0


async def _fetch(
    options: argparse.Namespace, wanted: list[Source], update: bool
) -> list[Clone | HilumError]:
    """Fetch sources one after another; what fails stands in the place of what was fetched."""
    from hilum_warden import Warden

    from hilum_skills.git import Git

    settings = _settings(options)
    results = list[Clone | HilumError]()
    async with Warden() as warden:
        git = Git(warden, settings.timeout, settings.megabytes * 1_000_000)
        for source in wanted:
            with shown.progress(source.text) as step:
                try:
                    results.append(await Clones().fetch(source, git, update=update, progress=step))
                except HilumError as error:
                    results.append(error)
    return results


def _remove(options: argparse.Namespace) -> int:
    chosen = read_chosen()
    for text in options.what:
        names = {text, parse_source(text).text} if text not in chosen.sources else {text}
        found = next((name for name in names if name in chosen.sources), None)
        if found is None:
            settings = _settings(options)
            if text in settings.sources:
                hint = "It stands in the setting skills.sources."
            else:
                hint = "hilum skills lists them."
            raise unknown("source", text, chosen.sources, hint=hint)
        keep("sources", found, present=False)
        source = parse_source(found)
        others = list(sources(_settings(options), read_chosen(), []))
        if source.kind == "git" and all(other.key != source.key for other in others):
            trio.run(Clones().remove, source)
        say(f"{found} is removed.")
    return 0


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "add": _add,
    "show": _show,
    "enable": _enable,
    "disable": _disable,
    "update": _update,
    "remove": _remove,
    "validate": _validate,
}
