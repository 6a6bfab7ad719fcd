"""The options of Git's sub-commands, as far as rules concern their values and operands."""

from __future__ import annotations

from collections.abc import Sequence

from hilum_guard import UNKNOWN, make_option_syntax, parse_options

from hilum_checks.model import Words

ADD = make_option_syntax(
    flags="nvfipeuNA",
    valued="U",
    long_options=(
        "dry-run verbose force interactive patch edit update intent-to-add refresh all no-all"
        " ignore-removal no-ignore-removal ignore-errors ignore-missing renormalize sparse chmod="
        " pathspec-from-file= pathspec-file-nul unified= inter-hunk-context="
    ),
)
COMMIT = make_option_syntax(
    flags="apszneiovq",
    valued="CcFmtU",
    attached="Su",
    long_options=(
        "all patch reuse-message= reedit-message= squash= fixup= reset-author short branch porcelain"
        " long null file= author= date= message= template= signoff no-signoff trailer= verify"
        " no-verify allow-empty allow-empty-message cleanup= edit no-edit amend no-post-rewrite"
        " include only pathspec-from-file= pathspec-file-nul untracked-files verbose quiet dry-run"
        " status no-status gpg-sign no-gpg-sign interactive ahead-behind no-ahead-behind unified="
        " inter-hunk-context="
    ),
)
COMMIT_TREE = make_option_syntax(flags="", valued="pmF", attached="S", long_options="gpg-sign")
MERGE = make_option_syntax(
    flags="neqv",
    valued="sXmF",
    attached="S",
    long_options=(
        "stat no-stat summary no-summary log no-log squash no-squash commit no-commit edit no-edit"
        " cleanup= ff no-ff ff-only rerere-autoupdate no-rerere-autoupdate verify-signatures"
        " no-verify-signatures strategy= strategy-option= message= file= into-name= verbose quiet"
        " abort quit continue allow-unrelated-histories progress no-progress gpg-sign no-gpg-sign"
        " autostash no-autostash overwrite-ignore no-overwrite-ignore signoff no-signoff verify"
        " no-verify compact-summary"
    ),
)
CHECKOUT = make_option_syntax(
    flags="qfl23pmtd",
    valued="bB",
    long_options=(
        "quiet force ours theirs track no-track guess no-guess detach orphan= merge conflict= patch"
        " ignore-other-worktrees recurse-submodules progress no-progress overlay no-overlay"
        " pathspec-from-file= pathspec-file-nul ignore-skip-worktree-bits overwrite-ignore"
    ),
)
SWITCH = make_option_syntax(
    flags="dqfmt",
    valued="cC",
    long_options=(
        "create= force-create= guess no-guess detach track no-track force discard-changes orphan="
        " ignore-other-worktrees conflict= merge quiet progress no-progress recurse-submodules"
    ),
)
WORKTREE = make_option_syntax(
    flags="fdq",
    valued="bB",
    long_options=(
        "force detach checkout no-checkout lock reason= quiet track no-track guess-remote"
        " no-guess-remote orphan relative-paths"
    ),
)
BRANCH = make_option_syntax(
    flags="vqradDmMcCflit",
    valued="u",
    long_options=(
        "track no-track set-upstream-to= unset-upstream color no-color remotes contains="
        " no-contains= abbrev all delete move copy list show-current create-reflog force merged="
        " edit-description no-merged= column sort= points-at= ignore-case recurse-submodules"
        " format= verbose quiet omit-empty"
    ),
)
REBASE = make_option_syntax(
    flags="ifvqmnrkp",
    valued="sXCxO",
    attached="S",
    long_options=(
        "onto= keep-base continue skip abort quit edit-todo show-current-patch apply merge empty="
        " no-keep-empty keep-empty reapply-cherry-picks allow-empty-message skip-empty strategy="
        " strategy-option= rerere-autoupdate gpg-sign no-gpg-sign quiet verbose stat no-stat verify"
        " no-verify fork-point no-fork-point ignore-whitespace whitespace= signoff interactive"
        " rebase-merges exec= root autosquash no-autosquash autostash no-autostash update-refs"
        " no-update-refs reschedule-failed-exec committer-date-is-author-date ignore-date"
        " reset-author-date force-rebase no-ff preserve-merges trailer="
    ),
)
TAG = make_option_syntax(
    flags="asfdlvie",
    valued="umF",
    attached="n",
    long_options=(
        "annotate sign no-sign local-user= force delete verify list sort= ignore-case omit-empty column"
        " no-column contains no-contains merged no-merged points-at message= file= trailer= edit"
        " cleanup= format= color create-reflog"
    ),
)
PUSH = make_option_syntax(
    flags="vqnfud46",
    valued="o",
    long_options=(
        "all branches mirror tags follow-tags atomic dry-run delete prune force force-with-lease"
        " force-if-includes set-upstream thin no-thin quiet verbose progress verify no-verify signed"
        " no-signed ipv4 ipv6 porcelain repo= push-option= receive-pack= exec= recurse-submodules="
    ),
)
_FETCH_LONG = (
    "all append atomic depth= deepen= shallow-since= shallow-exclude= unshallow update-shallow"
    " negotiation-tip= negotiate-only dry-run porcelain write-fetch-head force keep multiple prefetch"
    " prune prune-tags no-tags refmap= tags recurse-submodules jobs= set-upstream submodule-prefix="
    " update-head-ok upload-pack= quiet verbose progress server-option= show-forced-updates ipv4"
    " ipv6 filter= stdin auto-maintenance auto-gc refetch"
)
FETCH = make_option_syntax(flags="afkmpPntuqv46", valued="jo", long_options=_FETCH_LONG)
PULL = make_option_syntax(
    flags="afkpntuqve46",
    valued="josX",
    attached="rS",
    long_options=(
        f"{_FETCH_LONG} strategy= strategy-option= rebase no-rebase commit no-commit edit no-edit"
        " cleanup= ff no-ff ff-only squash no-squash stat no-stat log signoff verify no-verify"
        " autostash no-autostash allow-unrelated-histories gpg-sign"
    ),
)
CLONE = make_option_syntax(
    flags="lsqvn46",
    valued="boucj",
    long_options=(
        "local no-local no-hardlinks shared reference= reference-if-able= dissociate server-option="
        " quiet verbose progress no-checkout reject-shallow no-reject-shallow bare sparse filter="
        " also-filter-submodules mirror origin= branch= revision= upload-pack= template= config="
        " depth= shallow-since= shallow-exclude= single-branch no-single-branch tags no-tags"
        " recurse-submodules shallow-submodules remote-submodules separate-git-dir= ref-format= jobs="
        " bundle-uri="
    ),
)
SUBTREE = make_option_syntax(flags="dq", valued="Pbm", long_options="prefix= branch= message=")
UPDATE_REFERENCE = make_option_syntax(
    flags="dz", valued="m", long_options="no-deref create-reflog stdin batch-updates"
)
SYMBOLIC_REFERENCE = make_option_syntax(
    flags="qd", valued="m", long_options="quiet delete short recurse no-recurse"
)
GREP = make_option_syntax(
    flags="aiIwvhHEGPFnlLzocpWqr",
    valued="efABCm",
    attached="O",
    long_options=(
        "context= max-depth= threads= max-count= after-context= before-context= untracked cached"
        " no-index recursive no-recursive ignore-case word-regexp invert-match extended-regexp"
        " basic-regexp perl-regexp fixed-strings line-number column files-with-matches name-only"
        " files-without-match null only-matching count color no-color break heading show-function"
        " function-context quiet all-match and or not text full-name"
    ),
)
RESET = make_option_syntax(
    flags="qNp",
    valued="U",
    long_options=(
        "quiet no-quiet refresh no-refresh mixed soft hard merge keep recurse-submodules"
        " no-recurse-submodules patch intent-to-add pathspec-from-file= pathspec-file-nul"
    ),
)
CLEAN = make_option_syntax(
    flags="qnfdxXi", valued="e", long_options="quiet dry-run force interactive exclude="
)
PICK = make_option_syntax(
    flags="nexsr",
    valued="mX",
    attached="S",
    long_options=(
        "quit continue abort skip cleanup= no-commit commit edit no-edit signoff mainline= rerere-autoupdate"
        " no-rerere-autoupdate strategy= strategy-option= gpg-sign no-gpg-sign ff allow-empty"
        " allow-empty-message empty= keep-redundant-commits reference"
    ),
)
PLAIN = make_option_syntax(valued="m", flags="qd")
"""The options of sub-commands that have hardly any."""

_SYNTAX = {
    "add": ADD,
    "branch": BRANCH,
    "checkout": CHECKOUT,
    "cherry-pick": PICK,
    "clean": CLEAN,
    "clone": CLONE,
    "commit": COMMIT,
    "fetch": FETCH,
    "merge": MERGE,
    "pull": PULL,
    "push": PUSH,
    "rebase": REBASE,
    "reset": RESET,
    "revert": PICK,
    "stage": ADD,
    "switch": SWITCH,
    "symbolic-ref": SYMBOLIC_REFERENCE,
    "tag": TAG,
    "update-ref": UPDATE_REFERENCE,
}


def list_operands(verb: str, words: Sequence[str]) -> list[str]:
    """Return the arguments of a Git command that are neither options nor their values.

    Args:
        verb: Its sub-command.
        words: The words after the sub-command.
    """
    return list(parse_options(words, _SYNTAX.get(verb, PLAIN)).operands)


def complete_names(words: Words) -> Words:
    """Return a Git command with the full names of options that it abbreviates: `git commit --am`.

    Git accepts the beginning of an option if only one option begins with it.

    Args:
        words: The words of the command, without options before the sub-command.
    """
    syntax = _SYNTAX.get("".join(words[1:2]))
    if syntax is None:
        return words
    known = syntax.longs | syntax.long_valued
    end = words.index("--") if "--" in words else len(words)
    completed = list(words)
    for at, word in enumerate(words[:end]):
        name, equals, value = word.partition("=")
        if len(name) < 3 or not name.startswith("--") or name in known:
            continue
        found = [each for each in known if each.startswith(name)]
        if len(found) == 1:
            completed[at] = f"{found[0]}{equals}{value}"
    return tuple(completed)


def leaves_uncommitted(words: Sequence[str]) -> bool:
    """Return whether `git revert` or `git cherry-pick` certainly makes no commit.

    Args:
        words: The words after the sub-command.
    """
    parsed = parse_options(words, PICK)
    if any(UNKNOWN in word for word in words) or parsed.unknown or parsed.has("--commit"):
        return False
    return parsed.has("-n", "--no-commit") and not parsed.has("--continue", "--skip")
