"""The words of rules: each has one meaning, every phrase can be found, and verbs are inflected."""

from collections import Counter

import pytest
from hilum_checks import compile_rule, lexicon
from hilum_checks import vocabulary as v
from hilum_checks.tokens import tokenize

# The forms of every verb in the table.
FORMS = """
    access accessing accessed
    add adding added
    adjust adjusting adjusted
    alter altering altered
    amend amending amended
    author authoring authored
    auto-edit auto-editing auto-edited
    be being been
    begin beginning begun
    block blocking blocked
    browse browsing browsed
    bump bumping bumped
    bypass bypassing bypassed
    call calling called
    change changing changed
    check checking checked
    circumvent circumventing circumvented
    clone cloning cloned
    close closing closed
    comment commenting commented
    commit committing committed
    connect connecting connected
    consult consulting consulted
    contact contacting contacted
    contain containing contained
    create creating created
    cut cutting cut
    delete deleting deleted
    deploy deploying deployed
    downgrade downgrading downgraded
    download downloading downloaded
    edit editing edited
    embed embedding embedded
    end ending ended
    erase erasing erased
    exceed exceeding exceeded
    execute executing executed
    expose exposing exposed
    fall falling fallen
    fetch fetching fetched
    finalize finalizing finalized
    follow following followed
    force-push force-pushing force-pushed
    generate generating generated
    hand-edit hand-editing hand-edited
    hard-code hard-coding hard-coded
    hardcode hardcoding hardcoded
    import importing imported
    include including included
    inject injecting injected
    inspect inspecting inspected
    install installing installed
    introduce introducing introduced
    invoke invoking invoked
    keep keeping kept
    kick kicking kicked
    launch launching launched
    leak leaking leaked
    leave leaving left
    limit limiting limited
    load loading loaded
    look looking looked
    make making made
    mention mentioning mentioned
    merge merging merged
    mix mixing mixed
    modify modifying modified
    move moving moved
    mutate mutating mutated
    open opening opened
    overwrite overwriting overwritten
    pass passing passed
    patch patching patched
    perform performing performed
    place placing placed
    post posting posted
    produce producing produced
    propose proposing proposed
    publish publishing published
    purge purging purged
    push pushing pushed
    put putting put
    raise raising raised
    re-add re-adding re-added
    re-create re-creating re-created
    re-read re-reading re-read
    reach reaching reached
    read reading read
    rebase rebasing rebased
    recreate recreating recreated
    reference referencing referenced
    reintroduce reintroducing reintroduced
    remain remaining remained
    remove removing removed
    rename renaming renamed
    reply replying replied
    reread rereading reread
    reset resetting reset
    rewrite rewriting rewritten
    run running run
    save saving saved
    say saying said
    scaffold scaffolding scaffolded
    self-approve self-approving self-approved
    send sending sent
    skip skipping skipped
    spin spinning spun
    stage staging staged
    start starting started
    stash stashing stashed
    stay staying stayed
    store storing stored
    study studying studied
    submit submitting submitted
    switch switching switched
    tag tagging tagged
    talk talking talked
    touch touching touched
    trigger triggering triggered
    tweak tweaking tweaked
    tweet tweeting tweeted
    unlink unlinking unlinked
    update updating updated
    upgrade upgrading upgraded
    use using used
    view viewing viewed
    visit visiting visited
    wipe wiping wiped
    write writing written
"""
NO_VERBS = frozenset(
    """
    at changes commits direct edits force force-pushes git hand hard longer manual max maximum
    modifications more no of passes pushes released releasing uses
    """.split()
)


def test_every_verb_is_inflected_as_in_english() -> None:
    expected = {line.split()[0]: line.split() for line in FORMS.split("\n") if line.strip()}
    phrases = [phrase for synonyms in lexicon.VERBS.values() for phrase in synonyms.split("|")]
    first = {phrase.split()[0] for phrase in phrases if phrase.isascii()}
    assert {verb: lexicon.inflect(verb) for verb in first - NO_VERBS} == expected
    assert lexicon.inflect("write to") == ["write to", "writing to", "written to"]


def test_no_word_has_two_meanings() -> None:
    counts = Counter(phrase for phrase, _ in lexicon.written_entries())
    assert [phrase for phrase, count in counts.items() if count > 1] == []


def test_no_form_of_a_verb_belongs_to_two_verbs() -> None:
    meanings: dict[str, set[str]] = {}
    for word, synonyms in lexicon.VERBS.items():
        for phrase in filter(str.isascii, synonyms.split("|")):
            for form in lexicon.inflect(phrase):
                meanings.setdefault(form, set()).add(word)
    assert {form: words for form, words in meanings.items() if len(words) > 1} == {}


def test_no_program_is_listed_twice() -> None:
    names = Counter(name for group in v.PROGRAM_GROUPS for name in group)
    assert [name for name, count in names.items() if count > 1] == []
    assert v.PROGRAMS >= v.CERTAIN_PROGRAMS
    assert v.PROGRAMS >= v.UNQUOTED_PROGRAMS


def test_every_phrase_is_found_in_a_sentence() -> None:
    """Also those with a word that is left out elsewhere, such as "every" in "every time"."""
    lost = []
    for phrase, entry in lexicon.written_entries():
        tokens = tokenize(phrase, [])
        if [(token.role, token.word) for token in tokens] != [(entry.role, entry.word)]:
            lost.append(phrase)
    assert lost == []
    assert not [phrase for phrase, _ in lexicon.written_entries() if phrase in lexicon.FILLERS]


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("`dist/` must not be modified.", "denies writing dist by hand"),
        ("Avoid at all costs editing `gen/`.", "denies writing gen"),
        ("Do not ever edit `a.py`.", "denies writing a.py"),
        ("Every time you change `a.proto`, run `make proto`.", "denies a final answer before"),
        ("Each time you change `a.proto`, run `make proto`.", "denies a final answer before"),
        ("Releasing without approval is forbidden.", ""),
    ],
)
def test_inflected_verbs_and_phrases_are_read(sentence: str, says: str) -> None:
    check = compile_rule(sentence, hard=False).check
    assert (check.summary if check else "").startswith(says)
    assert bool(check) == bool(says)
