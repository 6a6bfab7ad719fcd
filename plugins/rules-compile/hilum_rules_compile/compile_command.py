"""``hilum rules compile``: a model proposes checks for sentences, and the user signs them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import msgspec
import trio
from hilum import HilumError, UsageError, open_standard_session
from hilum.command import Parser, check_text, say, say_json
from hilum.errors import E_BAD_ARGS, E_NOT_FOUND
from hilum.hooks import running_plugin
from hilum_rules.counting import count
from hilum_rules.rule import Rule
from hilum_rules.rule_list import INDENT, print_lines, wrap
from hilum_rules.rule_store import read_store
from hilum_rules.signed_rules import hash_rule

from hilum_rules_compile.asking import BATCH, Answers, Rejection, ask_for_proposals
from hilum_rules_compile.decisions import CLOSED, REFUSED, Decision, Item, find_signed, sign
from hilum_rules_compile.past_calls import History, read_history, try_checks
from hilum_rules_compile.proposal import Proposal, Verified, verify
from hilum_rules_compile.proposal_cache import keep_proposals, read_proposals
from hilum_rules_compile.signing import Signing
from hilum_rules_compile.undecided import needs_decision

if TYPE_CHECKING:
    from hilum import Agent
    from hilum_rules.rule_store import RuleStore

ABOUT = """\
Let a model propose a check for each sentence of your rules files that may be
binding and is not enforced. You see each proposal beside its sentence, with what
it would have stopped in your earlier sessions, and accept, edit or refuse it.
Only what you accept is enforced.
"""
EPILOG = """\
  hilum rules compile                     at a terminal: decide one by one
  hilum rules compile --all               accept all checks without a warning, and
                                          show them
  hilum rules compile --json              only propose, for programs
  hilum rules compile --accept 1.4 2.7    sign proposals that were shown before;
                                          those with a warning also need
                                          --despite-warnings
  hilum rules compile --refuse 1.5        leave a sentence as advice, or withdraw
                                          its signed check

Decisions are kept in .hilum/rules.lock, which you commit; those about your own
rules next to your settings.
"""


def main(argv: Sequence[str]) -> int:
    """Let a model propose checks, and sign those that the user accepts.

    Returns:
        The exit code: 1 if the model has proposed nothing usable for any sentence.
    """
    check_text(argv)
    try:
        options = _make_parser().parse_args(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if not is_terminal and not (options.json or options.accept or options.refuse):
        raise UsageError(
            "Nobody can sign here, because this is not a terminal.",
            code=E_BAD_ARGS,
            hint="Print the proposals with --json, and sign them with --accept N or --refuse N.",
        )
    store = read_store(options.workspace)
    items = _find_items(store, options)
    if options.accept or options.refuse:
        return _decide(store, items, options)
    items, history = _propose(store, items, options)
    if options.json:
        say_json({"proposals": [_item_data(item) for item in items]})
    elif not items:
        say("Every sentence that may be binding is enforced, or you have decided about it.")
    else:
        Signing(store, items, history).run(accept_all=options.all)
    are_lost = [bool(item.verified.rejected) for item in items]
    return 1 if items and all(are_lost) else 0


def _make_parser() -> Parser:
    parser = Parser("hilum rules compile", ABOUT, EPILOG)
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="only these rules files, also in nested folders")
    add("--accept", nargs="+", default=[], metavar="N", help="sign the proposals for these rules")
    add(
        "--refuse",
        nargs="+",
        default=[],
        metavar="N",
        help="leave these sentences as advice, or withdraw signed checks",
    )
    add(
        "--all",
        action="store_true",
        help="accept all proposed checks that have no warning (at a terminal)",
    )
    add(
        "--despite-warnings",
        action="store_true",
        help="with --accept: also sign checks that have a warning",
    )
    add("--fresh", action="store_true", help="ask the model again about known proposals")
    add("--model", default="", metavar="PROVIDER/NAME", help="model to use")
    add("--workspace", "-C", default=".", metavar="DIR", help="another folder")
    add(
        "--json",
        action="store_true",
        help="as JSON; without --accept and --refuse, nothing is signed",
    )
    return parser


def _find_items(store: RuleStore, options: argparse.Namespace) -> list[Item]:
    """Return the sentences about which nobody has decided.

    Raises:
        UsageError: A file that the user named has no rules.
    """
    named = {_find_file(store, name) for name in options.files}
    return [
        Item(number, file, rule)
        for number, file, rule in store.snapshot.numbered()
        if needs_decision(rule) and (not named or file.path in named)
    ]


def _find_file(store: RuleStore, name: str) -> str:
    """Return the displayed path of a rules file that the user named by any path.

    Raises:
        UsageError: It is not a file with rules.
    """
    real = os.path.realpath(store.paths.workspace / os.path.expanduser(name))
    for file in store.snapshot.files:
        if name == file.path or (file.sources and real == os.path.realpath(file.sources[0])):
            return file.path
    raise UsageError(
        f"{name!r} is not a rules file of this folder.",
        code=E_NOT_FOUND,
        hint="`hilum rules` lists the files.",
    )


# --- proposing ------------------------------------------------------------------------------------


def _propose(
    store: RuleStore, items: Sequence[Item], options: argparse.Namespace
) -> tuple[list[Item], History]:
    """Return the sentences with their proposals, and the past on which these are tried."""
    if not items:
        return [], History()
    top = store.paths.top
    root = store.paths.workspace
    known = {} if options.fresh else read_proposals(top)
    missing = {hash_rule(item.rule): item.rule for item in items}
    missing = {name: rule for name, rule in missing.items() if name not in known}
    answers = Answers()
    if missing:
        answers = trio.run(_ask, options.model, list(missing.values()), root)
    history = trio.run(read_history, root)
    proposals = known | answers.proposals
    proposed = verify_items(items, proposals, answers.rejected, history, root)
    by_hash = {hash_rule(item.rule): item.verified for item in proposed}
    keep_proposals(top, {name: by_hash[name] for name in by_hash if name in proposals})
    return proposed, history


async def _ask(model: str, rules: Sequence[Rule], root: Path) -> Answers:
    """Ask the model in a session of its own, so that its costs are recorded."""
    requests = -(-len(rules) // BATCH)
    say(
        f"Asking the model about {count(len(rules), 'sentence')} in {count(requests, 'request')} …",
        to=sys.stderr,
    )
    opened = open_standard_session(root, kind="headless", model=model)
    async with opened as session:
        with running_plugin("rules"):
            return await ask_twice(session.agents["main"], model, rules, root)


async def ask_twice(agent: Agent, model: str, rules: Sequence[Rule], root: Path) -> Answers:
    """Return a model's proposals, with a second attempt at those that are rejected.

    Args:
        agent: The agent on whose behalf the model is asked.
        model: The model, ``provider/name`` or a role.
        rules: The sentences.
        root: The workspace.

    Raises:
        HilumError: The model cannot be reached.
    """
    answers = await ask_for_proposals(agent, model, rules, root)
    rejected = await trio.to_thread.run_sync(_find_rejected, answers, rules, root)
    if not rejected:
        return answers
    again = [rule for rule in rules if hash_rule(rule) in rejected]
    try:
        better = await ask_for_proposals(agent, model, again, root, rejected)
    except HilumError:
        # The first answers are worth more than an error about the second ones.
        return answers
    answers.proposals |= better.proposals
    return answers


def _find_rejected(answers: Answers, rules: Sequence[Rule], root: Path) -> dict[str, Rejection]:
    """Return the proposals that are rejected, by the hash of their sentence. Blocks."""
    rejected = {}
    for rule in rules:
        name = hash_rule(rule)
        proposal = answers.proposals.get(name)
        if proposal is None or not proposal.enforce:
            continue
        why = verify(proposal, rule, root).rejected
        if why:
            rejected[name] = Rejection(proposal.enforce, why)
    return rejected


def verify_items(
    items: Sequence[Item],
    proposals: dict[str, Proposal],
    rejected: dict[str, str],
    history: History,
    root: Path,
) -> list[Item]:
    """Return the sentences with their verified proposals. Blocks.

    Args:
        items: The sentences.
        proposals: The proposals, by the hash of their sentence.
        rejected: Why there is no proposal, by the hash of the sentence.
        history: What agents did in the past.
        root: The workspace.
    """
    verified = []
    for item in items:
        name = hash_rule(item.rule)
        if name in proposals:
            verified.append(verify(proposals[name], item.rule, root))
        else:
            reason = rejected.get(name, "the model gave no answer for it")
            verified.append(Verified(Proposal(name), rejected=reason))
    checks = [each.check for each in verified]
    trials = try_checks([item.rule for item in items], checks, history, root)
    return [
        attrs.evolve(item, verified=each, trial=trial)
        for item, each, trial in zip(items, verified, trials, strict=True)
    ]


# --- signing --------------------------------------------------------------------------------------


def _decide(store: RuleStore, items: Sequence[Item], options: argparse.Namespace) -> int:
    """Sign or refuse proposals by the numbers of their rules; the model is not asked."""
    both = set(options.accept) & set(options.refuse)
    if both:
        raise UsageError(f"Rule {min(both)} is accepted and refused.", code=E_BAD_ARGS)
    proposals = read_proposals(store.paths.top)
    by_number = {item.number: item for item in items}
    signed = {item.number: item for item in find_signed(store)} if options.refuse else {}
    decisions = []
    for number in dict.fromkeys([*options.accept, *options.refuse]):
        item = by_number.get(number)
        if number in options.refuse and item is not None:
            decisions.append(_refuse(item))
            continue
        if number in options.refuse and number in signed:
            decisions.append(attrs.evolve(_refuse(signed[number]), withdraws=True))
            continue
        proposal = proposals.get(hash_rule(item.rule)) if item else None
        if item is None or proposal is None:
            raise UsageError(
                f"There is no open proposal for rule {number}.",
                code=E_NOT_FOUND,
                hint="hilum rules compile --json lists the proposals.",
            )
        decisions.append(_accept(item, proposal, store.paths.workspace))
    warned = [each.item for each in decisions if each.enforce and each.item.verified.warning]
    if warned and not options.despite_warnings:
        raise _refuse_warned(warned)
    stored = sign(store, decisions)
    if options.json:
        say_json({"signed": [_item_data(each.item) for each in stored]})
    else:
        for each in decisions:
            print_lines([f"{each.item.number}  {each if each in stored else CLOSED}"])
            if each.enforce and each.item.verified.warning:
                print_lines(wrap(f"Note: {each.item.verified.warning}", INDENT, INDENT))
    return 0


def _refuse_warned(items: Sequence[Item]) -> UsageError:
    """Return the error that shows the warnings of proposals, because they were not confirmed.

    Who signs by number may never have read the warning, and such a check can stop all agents.
    """
    warnings = "\n".join(
        f"{item.number}  {'; '.join(item.verified.proposal.enforce)}: {item.verified.warning}"
        for item in items
    )
    return UsageError(
        f"Nothing was signed, because these checks have a warning.\n{warnings}",
        code=E_BAD_ARGS,
        hint="To sign them all the same, add --despite-warnings.",
    )


def _refuse(item: Item) -> Decision:
    proposal = Proposal(hash_rule(item.rule), advice=REFUSED)
    return Decision(attrs.evolve(item, verified=Verified(proposal)), advice=REFUSED)


def _accept(item: Item, proposal: Proposal, root: Path) -> Decision:
    """Return the decision that a proposal holds.

    Raises:
        UsageError: The proposal cannot be signed.
    """
    verified = verify(proposal, item.rule, root)
    if verified.rejected:
        raise UsageError(
            f"The proposal for rule {item.number} cannot be signed: {verified.rejected}.",
            code=E_BAD_ARGS,
            hint="Write the check yourself below the rule: enforce: deny …",
        )
    return Decision(attrs.evolve(item, verified=verified), proposal.enforce, proposal.advice)


# --- as data --------------------------------------------------------------------------------------


def _item_data(item: Item) -> dict[str, Any]:
    verified = item.verified
    proposal = verified.proposal
    trial = item.trial
    return {
        "number": item.number,
        "path": item.rule.path,
        "line": item.rule.line,
        "sentence": item.rule.sentence,
        "enforce": list(proposal.enforce),
        "advice": proposal.advice,
        "summary": verified.check.summary if verified.check else "",
        "rejected": verified.rejected,
        "warning": verified.warning,
        "must_match": [msgspec.structs.asdict(each) for each in proposal.must_match],
        "must_not_match": [msgspec.structs.asdict(each) for each in proposal.must_not_match],
        "calls": trial.calls,
        "refused": [str(call) for call in trial.refused],
    }
