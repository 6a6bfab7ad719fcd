"""The forms of sentences that become checks, in English and Chinese.

A sentence is cut at its markers (``lexicon.MARKERS``), and the sequence of markers must be one of
``FORMS``. The parts between the markers, written ``*``, must consist of known words and names.
A sentence with anything else remains advice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import attrs

from hilum_checks import lexicon
from hilum_checks import vocabulary as v
from hilum_checks.actions import read_actions
from hilum_checks.after_changes import read_following, split_situation
from hilum_checks.answer_rules import read_wanted_answer
from hilum_checks.code_rules import read_line_length, read_required_text, read_unwanted_code
from hilum_checks.command_rules import read_commands, read_unlaunched, read_wanted_option
from hilum_checks.commit_messages import read_wanted_message
from hilum_checks.context_rules import read_main_context
from hilum_checks.file_rules import read_other_paths, read_project_only
from hilum_checks.forbidden_lists import read_list
from hilum_checks.git_rules import read_branch_names, read_sign_off
from hilum_checks.limit_words import CONDITIONS
from hilum_checks.model import CheckParts, Commands, Constraint, Effect
from hilum_checks.naming import read_naming
from hilum_checks.package_manager_rules import read_launched, read_manager, read_other_managers
from hilum_checks.preceding import read_completion, read_passing, read_preceded
from hilum_checks.pull_request_rules import read_approval, read_base, read_drafts
from hilum_checks.reading_first import read_at_start, read_before_writing
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Chunk, Token, write_tokens

Reader = Callable[[Sequence[Chunk], Scope], CheckParts]


def read_form(tokens: Chunk, scope: Scope) -> CheckParts:
    """Return what words forbid or ask for; empty if their markers are in no form."""
    form, chunks = cut(tokens)
    read = FORMS.get(form)
    return read(chunks, scope) if read else ()


def cut(tokens: Chunk) -> tuple[str, list[Chunk]]:
    """Return the form of a sentence, and the parts between its markers."""
    form: list[str] = []
    chunks: list[Chunk] = []
    for is_marker, group in groupby(tokens, lambda token: token.role in lexicon.MARKERS):
        part = tuple(group)
        if is_marker:
            form += [token.role for token in part if not form or token.role != form[-1]]
            continue
        part = _trim(part)
        # The one who is told is no part of the form: "Agents must not …".
        if not part or (not form and all(token.text in lexicon.AGENTS for token in part)):
            continue
        form.append("*")
        chunks.append(part)
    if form[:1] == ["MUST"]:
        del form[0]
    return " ".join(form), chunks


def _trim(part: Chunk) -> Chunk:
    while part and part[0].role in ("join", "filler"):
        part = part[1:]
    while part and part[-1].role in ("join", "filler"):
        part = part[:-1]
    return part


def is_bounded(tokens: Chunk) -> bool:
    """Return whether words that are not read any further contain a condition or a scope."""
    if CONDITIONS.search(write_tokens(tokens)):
        return True
    for at, token in enumerate(tokens):
        # "In ⟦0⟧" and "in the folder ⟦0⟧" say what is forbidden, and "in reviews" when.
        following = [each for each in tokens[at + 1 :] if each.word not in ("folder", "file")]
        is_named = bool(following) and following[0].role in ("name", "branch")
        if (token.role == "place" or token.text == "for") and not is_named:
            return True
    return False


def _act(effect: Effect, *chunks: int) -> Reader:
    """Return a reader for a form whose given chunks describe the action, in this order."""

    def read(parts: Sequence[Chunk], scope: Scope) -> CheckParts:
        tokens = tuple(token for number in chunks for token in parts[number])
        found = read_actions(tokens, effect, scope) or read_list(tokens, effect, scope)
        return tuple((effect, constraint) for constraint in found)

    return read


def _deny(constraint: Constraint | None) -> CheckParts:
    return (("deny", constraint),) if constraint else ()


def _read_subject(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``⟦0⟧ must not be edited`` and ``use ⟦0⟧, not ⟦1⟧``."""
    found = read_line_length((*chunks[1], *chunks[0]), scope)
    if found:
        return _deny(found)
    has_verb, has_other = (any(token.role == "verb" for token in chunk) for chunk in chunks)
    are_named = all(any(token.role == "name" for token in chunk) for chunk in chunks)
    # "⟦0⟧, not ⟦1⟧" forbids only the second one.
    if has_verb or (are_named and not has_other):
        return _read_instead(chunks, scope)
    return _act("deny", 1, 0)(chunks, scope)


def _read_instead(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``use ⟦0⟧ instead of ⟦1⟧``, where the verb may be repeated."""
    wanted, unwanted = chunks
    verbs = {token.word for token in (*wanted, *unwanted) if token.role == "verb"}
    # "This project uses ⟦0⟧, not ⟦1⟧".
    while wanted and wanted[0].word in ("it", "workspace", "managing"):
        wanted = wanted[1:]
    if not verbs <= {"use", "run"} or not wanted or wanted[0].role not in ("verb", "name"):
        return ()
    # "Use ⟦0⟧ in services, not ⟦1⟧" says nothing about other places.
    limits = ("in", "outside", "for")
    if any(token.word in limits and token.role in ("place", "asking") for token in wanted):
        return ()
    # "Use ⟦0⟧ where possible instead of ⟦1⟧".
    if CONDITIONS.search(write_tokens(wanted)):
        return ()
    code = read_unwanted_code(_without_verbs(unwanted), scope)
    if code:
        return _deny(code)
    if is_bounded(unwanted):
        return ()
    # What replaces a program of JavaScript is a program too: "use `bun test` instead of `jest`".
    named = next((token.word.split()[0] for token in wanted if token.role == "name"), "")
    program = named.removeprefix("./")
    others = [token.word for token in unwanted if token.role == "name"]
    # "Use `rg` instead of `grep`": both can only be programs.
    if _IN_PIPES.intersection(others):
        return ()
    # "Use `uv run` instead of `python`": others may run it.
    if others and _RUN_BY_OTHERS.issuperset(others) and program in v.PROGRAMS - set(others):
        return _deny(read_unlaunched(others, scope))
    are_programs = program in v.PROGRAMS and set(others) <= v.PROGRAMS - _COMMON
    is_sure = program in ("bun", "bunx", "deno") or are_programs
    constraint = read_commands(_without_verbs(unwanted), scope, used=not is_sure)
    preferred = read_commands(_without_verbs(wanted), scope, used=False)
    # "Use `tofu`, not `terraform`": the other name of a program may be the wanted one.
    if constraint and preferred:
        kept = [words for words in constraint.patterns if words[0] != program]
        constraint = attrs.evolve(constraint, patterns=tuple(kept)) if kept else None
        preferred = attrs.evolve(preferred, patterns=preferred.patterns[:1])
    if constraint is None or preferred is None or _overlap(preferred, constraint):
        return ()
    return _deny(constraint)


# Programs that pipes need: a better one for searching is a recommendation.
_IN_PIPES = frozenset("grep find cat sed awk head tail".split())
# Programs that others run: a rule against one would forbid what `uv run` starts.
_RUN_BY_OTHERS = frozenset("python python3 pytest node".split())
_COMMON = frozenset("python python3 node bash sh zsh docker-compose pytest rm".split())


def _without_verbs(chunk: Chunk) -> Chunk:
    return tuple(token for token in chunk if token.role != "verb")


def _overlap(preferred: Commands, unwanted: Commands) -> bool:
    """Return whether a rule against a command would also forbid the one that replaces it."""
    for wanted in preferred.patterns:
        for pattern in unwanted.patterns:
            is_inside = len(pattern) == 1 and pattern[0] in wanted
            if is_inside or wanted[: len(pattern)] == pattern:
                return True
    return False


def _read_only(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``only edit ⟦0⟧`` and ``only load ⟦0⟧ in the main session``."""
    tokens = tuple(token for chunk in chunks for token in chunk)
    found = read_main_context(tokens) or read_other_paths(tokens, scope)
    found = found or read_project_only(tokens, only=True)
    return _deny(found or read_other_managers(tokens, scope))


def _read_closed(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``⟦0⟧ is read-only``."""
    verb = Token("verb", "write")
    # "Leave ⟦0⟧ untouched".
    tokens = tuple(
        token for chunk in chunks for token in chunk if token.text not in ("leave", "keep")
    )
    tokens = (verb, *tokens)
    return _act("deny", 0)([tokens], scope)


def _read_wanted(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``answers must end with ⟦0⟧`` and ``use conventional commits``."""
    tokens = tuple(token for chunk in chunks for token in chunk)
    found = (
        read_wanted_answer(tokens)
        or read_wanted_message(tokens, scope)
        or read_branch_names(tokens, scope)
        or read_sign_off(tokens)
        or read_drafts(tokens, scope)
        or _read_always(tokens, scope)
        or read_wanted_option(tokens, scope)
        or read_line_length(tokens, scope)
        or read_project_only(tokens)
        or read_manager(tokens)
        or read_base(tokens)
        or read_required_text(tokens, scope)
        or read_launched(tokens, scope)
    )
    if found:
        return _deny(found)
    others = read_passing(tokens, scope) or read_at_start(tokens, scope)
    return tuple(("deny", each) for each in others) or _deny(read_naming(tokens))


# Situations in which all work happens: a rule that begins with them holds at all times.
_USUAL = frozenset(
    """
    you a an the any all to on with in at your new are and or
    committing commit commits pushing push changes updates updating working work branch branches git
    code writing write editing edit making make creating create pr prs pull request requests opening
    """.split()
)


def _read_usual(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``when pushing, never force-push``."""
    texts = {word for token in chunks[0] for word in token.text.split() if token.role != "join"}
    if not texts <= _USUAL or any(token.role == "name" for token in chunks[0]):
        return ()
    return _act("deny", 0)(chunks[1:], scope)


def _read_named(chunks: Sequence[Chunk], _scope: Scope) -> CheckParts:
    """Read ``titles need ⟦0⟧`` and ``commits need a sign-off``."""
    tokens = tuple(token for chunk in chunks for token in chunk)
    return _deny(read_sign_off(tokens) or read_naming(tokens))


def _read_always(tokens: Chunk, scope: Scope) -> Commands | None:
    """Read ``always use pnpm``."""
    is_use = any(token.word == "use" for token in tokens)
    return read_other_managers(tokens, scope) if is_use and scope.binding else None


def _read_preceded(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``always run ⟦0⟧ before committing`` and ``提交前运行 ⟦0⟧``."""
    needed, before = chunks
    if not any(token.role == "name" for token in needed):
        needed, before = before, needed
    found = read_before_writing(needed, before, scope) or read_preceded(needed, before, scope)
    return tuple(("deny", each) for each in found)


def _move_names(chunks: Sequence[Chunk]) -> Sequence[Chunk]:
    """Return "tests must pass before committing (⟦0⟧)" with the command where it belongs."""
    needed, before = chunks
    names = tuple(token for token in before if token.role == "name")
    if any(token.role == "name" for token in needed) or before[-len(names) :] != names:
        return chunks
    return (*needed, *names), before[: -len(names)]


def _read_situation(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``after changing ⟦0⟧, run ⟦1⟧`` and ``run ⟦1⟧ after changing ⟦0⟧``."""
    if len(chunks) == 1:
        changed, needed = split_situation(chunks[0])
    else:
        needed, changed = chunks
    if not needed:
        return ()
    return tuple(("deny", each) for each in read_following(needed, _trim(tuple(changed)), scope))


def _read_before(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``before committing, run ⟦0⟧``."""
    tokens = chunks[0]
    last = max((at for at, token in enumerate(tokens) if token.role == "name"), default=0)
    starts = [at for at, token in enumerate(tokens[:last]) if _starts_needed(token)]
    if not starts:
        starts = [
            at for at, token in enumerate(tokens) if token.role == "name" or token.word == "pass"
        ]
    if not starts:
        return ()
    before, needed = _trim(tokens[: starts[0]]), tokens[starts[0] :]
    if not before:
        return ()
    found = read_before_writing(needed, before, scope) or read_preceded(needed, before, scope)
    return tuple(("deny", each) for each in found)


def _until_comma(chunk: Chunk) -> Chunk:
    """Return what is before a comma: "before committing, all changes"."""
    commas = [at for at, token in enumerate(chunk) if token.text == ","]
    return chunk[: commas[0]] if commas else chunk


def _starts_needed(token: Token) -> bool:
    """Return whether an order begins with a word: "before editing ⟦0⟧, read ⟦1⟧"."""
    return token.role == "verb" and token.word in ("run", "read")


def _read_without(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``never commit without running ⟦0⟧`` and ``never run ⟦0⟧ without --option``."""
    needed = tuple(token for token in chunks[1] if token.text != "first")
    if all(token.role == "name" and token.word.startswith("-") for token in needed):
        tokens = (*chunks[0], Token("place", "with"), *needed)
        return _deny(read_wanted_option(tokens, attrs.evolve(scope, binding=True)))
    # "No commits to `main` without a pull request".
    if {token.word for token in needed} == {"pull request"}:
        found = _act("deny", 0)(chunks, scope)
        is_branch = all(isinstance(each, Commands) and each.branches for _, each in found)
        return found if is_branch else ()
    return _read_preceded([needed, chunks[0]], scope)


def _read_option_at(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``never use --no-verify when committing``: the option means the same anywhere."""
    names = [token.word for token in chunks[0] if token.role == "name"]
    are_options = bool(names) and set(names) <= v.OPTIONS
    is_git = {token.word for token in chunks[1]} <= {
        "commit",
        "push",
        "force-push",
        "changes",
        "to",
    }
    return _act("deny", 0)(chunks, scope) if are_options and is_git else ()


def _read_unless(chunks: Sequence[Chunk], scope: Scope) -> CheckParts:
    """Read ``never commit unless the user asks for a commit``."""
    same = {token.word for token in chunks[0]} | {"it", "commands", "other"}
    # "Never `git push` without an instruction to push".
    same |= {token.word.removeprefix("git ") for token in chunks[0] if token.role == "name"}
    if chunks[1][0].word == "to":
        chunks = [chunks[0], chunks[1][1:]]
    if any(token.word not in same for token in chunks[1]):
        return ()
    return _act("ask", 0)(chunks, scope)


FORMS: dict[str, Reader] = {
    # Never edit `a`.  禁止修改 `a`
    "NOT *": _act("deny", 0),
    # Editing `a` is forbidden.
    "* NOT": _act("deny", 0),
    # `a` must not be edited.  `a` 不得修改   Use `a`, not `b`.
    "* NOT *": _read_subject,
    "ONLY * NOT *": _read_instead,
    # Use `a`, not `b`, not `c`.
    "* NOT * NOT *": lambda chunks, scope: _read_instead(
        [chunks[0], (*chunks[1], Token("join", ","), *chunks[2])], scope
    ),
    "* INSTEAD *": _read_instead,
    # Only edit `a`.  `a` 仅在主会话中加载
    "ONLY *": _read_only,
    "* ONLY": _read_only,
    "* ONLY *": _read_only,
    "* MUST ONLY *": _read_only,
    # `a` is read-only.  These files are read-only: `a`.
    "* CLOSED": _read_closed,
    "* CLOSED *": _read_closed,
    # Answers must end with `a`.  End your answers with `a`.
    "* MUST *": _read_wanted,
    "*": _read_wanted,
    # Never push without asking.  Never push unless asked.  Never push on your own.
    "NOT * WITHOUT ASK": _act("ask", 0),
    "NOT * UNLESS ASK": _act("ask", 0),
    "NOT * UNLESS ASK *": _read_unless,
    # Never push without an instruction to push.
    "NOT * WITHOUT ASK *": _read_unless,
    "AVOID * WITHOUT ASK": _act("ask", 0),
    "AVOID * UNLESS ASK": _act("ask", 0),
    "* NOT WITHOUT ASK": _act("ask", 0),
    "* NOT UNLESS ASK": _act("ask", 0),
    # Never approve pull requests.
    "NOT ASK *": lambda chunks, _scope: _deny(read_approval(chunks[0])),
    # Never commit without running `a`.
    "NOT * WITHOUT *": _read_without,
    "NOT * WHEN *": _read_option_at,
    "NOT * UNASKED": _act("ask", 0),
    "NOT UNASKED *": _act("ask", 0),
    # Never auto-commit without approval.
    "NOT UNASKED * WITHOUT ASK": _act("ask", 0),
    "NOT UNASKED * UNLESS ASK": _act("ask", 0),
    "* NOT * WITHOUT ASK": _act("ask", 1, 0),
    "* NOT * UNLESS ASK": _act("ask", 1, 0),
    "* NOT UNASKED *": _act("ask", 1, 0),
    # 未经同意，不得推送   不要在没有询问的情况下推送
    "WITHOUT ASK NOT *": _act("ask", 0),
    # 除非用户要求，否则不要提交
    "UNLESS ASK NOT *": _act("ask", 0),
    "NOT WITHOUT ASK *": _act("ask", 0),
    # In Korean and Japanese, the verb is at the end.
    "WITHOUT ASK * NOT": _act("ask", 0),
    "* WITHOUT ASK * NOT": _act("ask", 0, 1),
    # Work is not complete until `a` passes.
    "* NOT * UNLESS *": lambda chunks, scope: tuple(
        ("deny", each) for each in read_completion(chunks, scope)
    ),
    # When pushing, never force-push.
    "WHEN * NOT *": _read_usual,
    # Ask before pushing.  推送前先询问   Pushing requires approval.
    "ASK BEFORE *": _act("ask", 0),
    "NEEDS ASK BEFORE *": _act("ask", 0),
    "* BEFORE ASK": _act("ask", 0),
    "* NEEDS ASK": _act("ask", 0),
    # After changing `a`, run `b`.  Run `b` after changing `a`.
    "WHEN *": _read_situation,
    "* WHEN *": _read_situation,
    # 修改代码后必须运行 `a`
    "* WHEN MUST *": lambda chunks, scope: _read_situation(chunks[::-1], scope),
    "WHEN * MUST *": lambda chunks, scope: _read_situation(chunks[::-1], scope),
    # Always run `a` before committing.
    "* BEFORE *": _read_preceded,
    # PR titles need `a`.  Commits need a sign-off.
    "* NEEDS *": _read_named,
    # The pipeline requires `a` to pass before merging.
    "* NEEDS * BEFORE *": lambda chunks, scope: _read_preceded(
        [chunks[1], chunks[2]], attrs.evolve(scope, binding=True)
    ),
    "BEFORE *": _read_before,
    "BEFORE * MUST *": lambda chunks, scope: _read_preceded(
        [chunks[1], _until_comma(chunks[0])], scope
    ),
    "* MUST * BEFORE *": lambda chunks, scope: _read_preceded(
        _move_names([(*chunks[0], *chunks[1]), chunks[2]]), attrs.evolve(scope, binding=True)
    ),
    "* BEFORE MUST *": lambda chunks, scope: _read_preceded(chunks[::-1], scope),
    # Only push when asked.  Push only when asked.  只有要求时才推送
    "ONLY * WHEN ASK": _act("ask", 0),
    "ONLY * UNLESS ASK": _act("ask", 0),
    "* ONLY WHEN ASK": _act("ask", 0),
    # Push only with approval.  Only push on request.
    "* ONLY ASK": _act("ask", 0),
    "ONLY * ASK": _act("ask", 0),
    # Never push before I approve.
    "NOT * BEFORE ASK": _act("ask", 0),
    "ONLY ASK WHEN *": _act("ask", 0),
}
