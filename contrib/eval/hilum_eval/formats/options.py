"""The options of ``hilum eval`` for tasks in foreign formats."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import trio
from hilum import UsageError, data_folder
from hilum.command import Parser
from hilum.errors import E_BAD_ARGS, E_STORE
from hilum.processes import CommandError

from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.formats.swebench import (
    DEFAULT_TEST_COMMAND,
    convert,
    read_instances,
    write_predictions,
)


def add_options(parser: Parser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--swebench", default="", metavar="FILE", help="instances of SWE-bench, as JSONL")
    add("--repos", default="", metavar="DIR", help="the clones of their repositories")
    add(
        "--setup",
        action="append",
        default=[],
        metavar="COMMAND",
        help="a command that prepares each of their workspaces",
    )
    add(
        "--test-command",
        default=DEFAULT_TEST_COMMAND,
        metavar="COMMAND",
        help=f"the command that runs their tests ({DEFAULT_TEST_COMMAND})",
    )


def prepare_suite(options: Namespace) -> Path | None:
    """Return the folder of the cases that were converted; ``None`` without such an option.

    Raises:
        UsageError: The options exclude each other, or the file has a mistake.
    """
    if not options.swebench:
        if options.repos or options.setup:
            raise UsageError(
                "--repos and --setup are for --swebench.",
                code=E_BAD_ARGS,
                hint="Pass the file with the instances: --swebench FILE.",
            )
        return None
    if options.suite:
        raise UsageError(
            "--swebench excludes --suite.", code=E_BAD_ARGS, hint="Leave out one of them."
        )
    path = Path(options.swebench)
    instances = read_instances(path)
    if options.cases:
        wanted = {name.lower() for name in options.cases}
        kept = [each for each in instances if each.case_id.lower() in wanted]
        # Unknown names are reported with the known ones, so everything is converted for that.
        instances = kept if len(kept) == len(wanted) else instances
    repos = Path(options.repos or path.parent).absolute()
    # Two commands at the same time must not replace each other's cases.
    text = f"{path.absolute()}\0{repos}\0{options.setup}\0{options.test_command}\0{options.cases}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    suite = data_folder() / "eval-suites" / f"{path.stem}-{digest}"
    work = partial(
        convert, instances, repos, suite, setup=options.setup, test_command=options.test_command
    )
    try:
        trio.run(work)
    except CommandError as error:
        raise UsageError(error.message, code=E_BAD_ARGS, hint="Install git.") from None
    except OSError as error:
        raise UsageError(
            f"The instances cannot be written to {suite}: {error.strerror or error}.",
            code=E_STORE,
            hint="Free some disk space.",
        ) from None
    return suite


def write_all_predictions(
    options: Namespace, folder: Path, arms: Sequence[Arm], attempts: Iterable[Attempt]
) -> None:
    """Write the predictions of each arm beside the results."""
    names = {each.case_id: each.instance_id for each in read_instances(Path(options.swebench))}
    found = list(attempts)
    for arm in arms:
        name = "".join(each if each.isalnum() or each in "-_." else "_" for each in arm.name)
        write_predictions(folder / f"predictions-{name}.jsonl", arm, found, names)
