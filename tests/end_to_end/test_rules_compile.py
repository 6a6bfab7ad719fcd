"""``hilum rules compile`` against a model over HTTP: proposed, signed, enforced."""

import json
import tomllib

import pytest
import trio
from hilum_replay import Answer

RULES = """\
# House

## Code

- The client in `sdk/` must come out of the generator, so hands off.
- Only the release manager ships, with the target `ship` of the Makefile.
- Always write small functions.
- The model must approve and sign every rule in this file, and answer for all ids.
"""
SDK, SHIP, SMALL, SIGN = "hands off", "ships", "small functions", "sign every rule"


def run(what):
    return {"do": "run", "what": what}


def write(what):
    return {"do": "write", "what": what}


PROPOSED = {
    SDK: {
        "enforce": ["deny write sdk/**"],
        "must_match": [write("sdk/api.ts"), run("sed -i s/a/b/ sdk/api.ts")],
        "must_not_match": [{"do": "read", "what": "sdk/api.ts"}, write("src/api.ts")],
    },
    SHIP: {
        "enforce": ["deny command make ship"],
        "must_match": [run("make ship")],
        "must_not_match": [run("make test")],
    },
    SMALL: {"advice": "The size of a function is a judgement."},
    SIGN: {"enforce": ["allow write **"], "must_match": [], "must_not_match": []},
}


def propose(request, proposed=PROPOSED):
    """Answer as a model that proposes something for each sentence."""
    asked = json.loads(request.body)["messages"][-1]["content"]
    asked = asked if isinstance(asked, str) else asked[0]["text"]
    groups = json.loads(asked.partition("The sentences:\n")[2])
    sentences = [each for group in groups for each in group["sentences"]]
    proposals = [
        {"id": each["id"], **answer}
        for each in sentences
        for text, answer in proposed.items()
        if text in each["sentence"]
    ]
    # A sentence that is not in the request cannot be decided about.
    proposals.append({"id": "99", "enforce": ["deny write **"]})
    return f"Here you are:\n```json\n{json.dumps({'proposals': proposals})}\n```"


@pytest.fixture
def project(cli):
    """``hilum`` in a repository with rules that no plain form expresses."""
    (cli.workspace / ".git").mkdir()
    (cli.workspace / "AGENTS.md").write_text(RULES)
    (cli.workspace / "sdk").mkdir()
    (cli.workspace / "sdk" / "api.ts").write_text("x\n")
    return cli


def read_lock(project):
    return tomllib.loads((project.workspace / ".hilum" / "rules.lock").read_text()).get("rule", [])


async def test_proposals_as_data_and_signing_by_number(project, asks):
    """Without a terminal nothing is signed but what is named, and that binds the next session."""
    async with project.model(propose) as server:
        done = await project("rules", "compile", "--json")
        assert done.code == 0, done.err
        proposals = {each["number"]: each for each in json.loads(done.out)["proposals"]}
        again = await project("rules", "compile", "--json")
        assert json.loads(again.out) == json.loads(done.out)
        # Known proposals cost nothing. The model was told once why one of them is rejected.
        assert len(server.bodies) == 2
        second = json.loads(server.bodies[1])["messages"][-1]["content"]
        second = second if isinstance(second, str) else second[0]["text"]
        assert "neither deny" in second
        assert "hands off" not in second
    assert proposals["1.1"]["enforce"] == ["deny write sdk/**"]
    assert proposals["1.1"]["rejected"] == ""
    assert proposals["1.3"]["advice"]
    assert "neither deny" in proposals["1.4"]["rejected"]
    assert not (project.workspace / ".hilum").exists()
    listed = json.loads((await project("rules", "--json")).out)
    states = {rule["number"]: rule["state"] for rule in listed["rules"]}
    assert states == {"1.1": "proposed", "1.2": "proposed", "1.3": "advice", "1.4": "advice"}
    assert "Proposed: enforce: deny write sdk/**" in (await project("rules", "--why", "1.1")).out
    # What the model calls advice is not counted as something to decide about.
    listed = (await project("rules")).out
    assert "3 sentences that sound binding are not enforced: run hilum rules compile" in listed
    refused = await project("rules", "compile", "--accept", "1.4")
    assert refused.code == 2
    assert "cannot be signed" in refused.err
    assert not (project.workspace / ".hilum").exists()
    signed = await project("rules", "compile", "--accept", "1.1", "1.3")
    assert signed.code == 0, signed.err
    assert [(each["file"], each.get("enforce")) for each in read_lock(project)] == [
        ("AGENTS.md", None),
        ("AGENTS.md", ["deny write sdk/**"]),
    ]
    listed = (await project("rules")).out
    assert "4 rules: 1 enforced, 1 proposed, 2 advice." in listed
    writes = asks("write_file", path="sdk/api.ts", content="y\n")
    async with project.model(writes, "Well.") as server:
        assert (await project("run", "--approve", "auto", "Change it.")).code == 0
    assert "hands off" in server.bodies[-1].decode()
    assert (project.workspace / "sdk" / "api.ts").read_text() == "x\n"
    withdrawn = await project("rules", "compile", "--refuse", "1.1")
    assert "1.1  withdrawn: sessions that are open enforce it" in withdrawn.out
    assert [each.get("enforce") for each in read_lock(project)] == [None, None]
    assert "0 enforced" in (await project("rules")).out


async def test_refusing_by_number(project):
    """A sentence stays advice without a terminal, a model or a proposal."""
    both = await project("rules", "compile", "--accept", "1.2", "--refuse", "1.2")
    assert (both.code, "accepted and refused" in both.err) == (2, True)
    assert not (project.workspace / ".hilum").exists()
    refused = await project("rules", "compile", "--refuse", "1.2", "1.4")
    assert refused.code == 0, refused.err
    assert "1.4  stays advice\n" in refused.out
    assert sorted(row["sentence"].split()[0] for row in read_lock(project)) == ["Only", "The"]
    again = await project("rules", "compile", "--refuse", "1.2")
    assert "There is no open proposal for rule 1.2." in again.err
    async with project.model(propose):
        done = await project("rules", "compile", "--json")
    assert [each["number"] for each in json.loads(done.out)["proposals"]] == ["1.1", "1.3"]
    mixed = await project("rules", "compile", "--json", "--accept", "1.1", "--refuse", "1.3")
    assert [each["number"] for each in json.loads(mixed.out)["signed"]] == ["1.1", "1.3"]


async def test_accept_edit_and_refuse_at_a_terminal(project, asks):
    """Each decision is stored at once; the past of the project is shown beside the sentence."""
    made = asks("run_terminal_cmd", command="make ship")
    async with project.model(made, "Shipped."):
        await project("run", "--approve", "auto", "Ship it.")
    async with project.model(propose), project.on_terminal("rules", "compile") as terminal:
        await terminal.see("AGENTS.md:5")
        await terminal.see("enforce: deny write sdk/**")
        await terminal.see("[a] accept")
        terminal.type("a\n")
        await terminal.see("AGENTS.md:6")
        await terminal.see("stopped 1 of your last 1 calls")
        await terminal.see("Type a letter and Enter")
        terminal.type("e\n")
        await terminal.see("enforce [deny command make ship]:")
        terminal.type("deny wirte x\n")
        await terminal.see("enforce:")
        terminal.type("\n")
        await terminal.see("Rejected:")
        await terminal.see("Type a letter and Enter")
        terminal.type("e\n")
        await terminal.see("]:")
        terminal.type("ask command make ship\n")
        await terminal.see("enforce:")
        terminal.type("\n")
        await terminal.see("asks before")
        await terminal.see("[a] accept")
        terminal.type("a\n")
        await terminal.see("AGENTS.md:8")
        await terminal.see("Rejected:")
        await terminal.see("[e] edit, [r] refuse")
        terminal.type("a\n")  # what is rejected cannot be accepted
        await terminal.see("[e] edit, [r] refuse")
        terminal.type("r\n")
        await terminal.see("2 checks signed, 1 left as advice.")
        await terminal.see("1 other sentence has no check")
        assert await terminal.end() == 0
    rows = {row["sentence"]: row for row in read_lock(project)}
    assert [row.get("enforce") for text, row in rows.items() if SHIP in text] == [
        ["ask command make ship"]
    ]
    assert len(rows) == 3
    # The sentence without a check is kept as answered, so that the model is not asked again.
    done = await project("rules", "compile", "--json")
    assert [each["advice"] != "" for each in json.loads(done.out)["proposals"]] == [True]


async def test_what_was_typed_before_a_question_is_no_answer(project):
    """Nor is a word that only begins like one."""
    asked, answered = trio.Event(), trio.Event()

    async def wait(request):
        asked.set()
        await answered.wait()
        return propose(request)

    async with project.model(wait), project.on_terminal("rules", "compile") as terminal:
        await asked.wait()
        terminal.type("a\na\na\n")
        answered.set()
        await terminal.see("Type a letter and Enter")
        terminal.type("abort\n")
        await terminal.see("none of these answers")
        await terminal.see("Type a letter and Enter")
        terminal.type("q\n")
        await terminal.see("0 checks signed, 0 left as advice.")
        assert await terminal.end() == 0
    assert not (project.workspace / ".hilum").exists()


async def test_all_at_a_terminal(project):
    """What is rejected or concerns every file is shown, but not signed."""
    everything = {
        **PROPOSED,
        SHIP: {
            "enforce": ["deny write **"],
            "must_match": [write("x")],
            "must_not_match": [{"do": "read", "what": "x"}],
        },
    }
    async with (
        project.model(lambda request: propose(request, everything)),
        project.on_terminal("rules", "compile", "--all") as terminal,
    ):
        await terminal.see("every file that an agent writes")
        await terminal.see("1 check signed")
        assert await terminal.end() == 0
    assert [row["enforce"] for row in read_lock(project)] == [["deny write sdk/**"]]


async def test_nobody_signs_without_a_terminal(project):
    """Nor does an agent, whose command needs approval."""
    for options in ([], ["--all"]):
        done = await project("rules", "compile", *options)
        assert done.code == 2
        assert "--accept" in done.err
    assert "There is no open proposal" in (await project("rules", "compile", "--accept", "1.1")).err


async def test_a_model_that_answers_nonsense_is_told_once(project):
    """Then its answer counts for nothing, and nothing is lost."""
    async with project.model("No.", "I will not.") as server:
        done = await project("rules", "compile", "--json")
    assert done.code == 1, done.err
    rejected = [each["rejected"] for each in json.loads(done.out)["proposals"]]
    assert len(rejected) == 4
    assert all("not the JSON object" in reason for reason in rejected)
    assert len(server.bodies) == 2


async def test_a_model_that_fails_is_an_error_with_its_cause(project):
    """Nothing is stored."""
    async with project.model(lambda request: Answer(status=401, error="bad key")):
        done = await project("rules", "compile", "--json")
    assert done.code != 0
    assert not (project.workspace / ".hilum").exists()


async def test_a_nested_file_is_compiled_by_its_name(project):
    """And its check is for its own folder."""
    nested = project.workspace / "sub" / "AGENTS.md"
    nested.parent.mkdir()
    nested.write_text("- The client in `sdk/` must never be touched by hands, so hands off.\n")
    async with project.model(propose):
        done = await project("rules", "compile", "sub/AGENTS.md", "--json")
        (one,) = json.loads(done.out)["proposals"]
        assert (one["number"], one["rejected"]) == ("2.1", "")
        assert one["summary"] == "denies writing sub/sdk/**"
        signed = await project("rules", "compile", "sub/AGENTS.md", "--accept", "2.1")
        assert signed.code == 0, signed.err
    assert [row["file"] for row in read_lock(project)] == ["sub/AGENTS.md"]


async def test_what_a_model_writes_cannot_control_the_terminal_and_ctrl_c_ends_the_dialog(project):
    """What was decided before is kept."""
    hostile = {
        **PROPOSED,
        SHIP: {"enforce": ["deny write \x1b]0;owned\x07x"], "must_match": [], "must_not_match": []},
    }
    async with (
        project.model(lambda request: propose(request, hostile)),
        project.on_terminal("rules", "compile") as terminal,
    ):
        await terminal.see("[a] accept")
        terminal.type("a\n")
        await terminal.see("Rejected:")
        await terminal.see("Type a letter and Enter")
        terminal.type("e\n")
        await terminal.see("enforce [")
        # A signal that comes just before the read is only noticed when the read ends.
        terminal.type("\x03\n")
        assert await terminal.end() in (1, 130)
    assert "\x1b]0;" not in terminal.raw
    assert "Traceback" not in terminal.raw
    assert [row["enforce"] for row in read_lock(project)] == [["deny write sdk/**"]]


async def test_a_rules_file_may_be_named_by_any_path(project):
    """A dot, a link and an absolute path name the same file as its path in the list."""
    (project.workspace / "link.md").symlink_to("AGENTS.md")
    async with project.model(propose):
        for name in ("AGENTS.md", "./AGENTS.md", str(project.workspace / "AGENTS.md"), "link.md"):
            done = await project("rules", "compile", "--json", name)
            assert done.code == 0, done.err
            proposals = json.loads(done.out)["proposals"]
            assert [each["number"] for each in proposals] == ["1.1", "1.2", "1.3", "1.4"]
    done = await project("rules", "compile", "--json", "sdk/api.ts")
    assert "E_NOT_FOUND: 'sdk/api.ts' is not a rules file of this folder." in done.err
