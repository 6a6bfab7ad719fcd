"""Operations with which users decide: only on what they have seen, and the first answer wins."""

import hashlib
import json
from pathlib import Path

import pytest
from api_calls import Api, check, open_api, refusal
from hilum.events import ApprovalAnswered
from hilum.settings import config_folder
from hilum.sharing import JoinedSession
from hilum.testing import use
from hilum_serve.tokens import add_token
from served import serving

COMMAND = use("run_terminal_cmd", command="echo hello > made.txt")


async def read_deciders(api):
    """Return who decided about the calls of the session, and their names."""
    entries = (await api.get("/entries"))["entries"]
    cards = [each for each in entries if each["kind"] == "card" and each["decided_by"]]
    return [(card["decided_by"], card["decided_name"]) for card in cards]


async def test_an_approval_shows_what_would_run_and_is_accepted(project):
    answers = [use("write_file", path="made.txt", content="hello\n"), "Done."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        (approval,) = (await api.get("/approvals"))["approvals"]
        assert approval["item"] == item
        assert "+hello" in approval["text"]
        assert json.loads(item["call"]["arguments"]) == {"path": "made.txt", "content": "hello\n"}
        listed = check(await api.client.get("/api/sessions"))["sessions"]
        assert (listed[0]["waiting"], listed[0]["running"]) == (1, True)
        assert listed[0]["asked"] == item["seq"]
        assert approval["file"] == str(Path(config_folder()) / "permissions.toml")
        shown = await api.post(f"/approvals/{item['id']}/shown")
        assert shown["deadline"] > 0
        await api.post(f"/approvals/{item['id']}", {"accepted": True})
        assert (await api.get(f"/runs/{started['run']}", wait=20))["state"] == "completed"
        assert (project / "made.txt").read_text() == "hello\n"
        assert (await api.get())["waiting"] == []
        assert await read_deciders(api) == [("user", "owner")]
        listed = check(await api.client.get("/api/sessions"))["sessions"]
        assert (listed[0]["waiting"], listed[0]["asked"]) == (0, 0)


@pytest.fixture
def asking_rule(project):
    """A rule of the user that asks about each new file."""
    folder = Path(config_folder())
    folder.mkdir(parents=True)
    (folder / "permissions.toml").write_text('ask = ["write_file"]\n')


async def test_an_approval_that_a_rule_forbids_to_store_names_no_file(project, asking_rule):
    answers = [use("write_file", path="made.txt", content="hello\n"), "Done."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        await api.post("/prompts", {"text": "Go."})
        await api.wait_for("approval")
        (approval,) = (await api.get("/approvals"))["approvals"]
        assert approval["file"] == ""
        await api.post("/stop", {})


async def test_a_client_that_has_not_seen_the_question_is_refused(project):
    async with (
        serving(project, answers=[COMMAND, "Done."]) as served,
        open_api(served, project) as api,
    ):
        await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        path = f"/approvals/{item['id']}"
        answer = {"accepted": True}
        response = await api.call("POST", path, answer, seen=item["seq"] - 1)
        assert refusal(response) == (409, "E_STALE")
        batch = {"ids": [item["id"]], "accepted": True}
        response = await api.call("POST", "/approvals", batch, seen=item["seq"] - 1)
        assert refusal(response) == (409, "E_STALE")
        response = await api.call("POST", path, answer, seen=10_000)
        assert refusal(response) == (400, "E_SEEN")
        assert not (project / "made.txt").exists()
        check(await api.call("POST", path, answer, seen=item["seq"]))


async def test_nothing_is_decided_while_the_view_is_behind(project, monkeypatch):
    async with (
        serving(project, answers=[COMMAND, "Done."]) as served,
        open_api(served, project) as api,
    ):
        await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        hosted = served.hub.find_hosted(api.session)

        async def time_out():
            return False

        monkeypatch.setattr(hosted, "catch_up", time_out)
        answer = await api.call("POST", f"/approvals/{item['id']}", {"accepted": True})
        assert refusal(answer) == (503, "E_TIMEOUT")
        monkeypatch.undo()
        assert (await api.wait_for("approval"))["id"] == item["id"]


async def test_of_two_answers_the_first_wins_and_the_other_learns_who_gave_it(project, tmp_path):
    tokens = tmp_path / "tokens.json"
    token = add_token(tokens, "ada", "approve")
    async with (
        serving(project, answers=[COMMAND, "No."], tokens_file=tokens) as served,
        open_api(served, project) as api,
        served.client(token) as client,
    ):
        other = Api(client, api.session)
        started = await api.post("/prompts", {"text": "Go."})
        item = await other.wait_for("approval")
        rejected = {"accepted": False, "reason": "Not now."}
        await other.post(f"/approvals/{item['id']}", rejected)
        late = await api.call("POST", f"/approvals/{item['id']}", {"accepted": True})
        assert refusal(late) == (409, "E_BUSY")
        assert "ada" in late.json()["message"]
        await api.get(f"/runs/{started['run']}", wait=20)
        session = served.hub.find_hosted(api.session).session
        answers = [e for e in session.journal.since(0) if isinstance(e, ApprovalAnswered)]
        assert [(e.accepted, e.reason) for e in answers] == [(False, "Not now.")]
        assert not (project / "made.txt").exists()
        missing = await api.call("POST", "/approvals/missing", {"accepted": True})
        assert refusal(missing) == (404, "E_UNKNOWN")
        missing = await api.call("POST", "/approvals/missing/shown")
        assert refusal(missing) == (404, "E_UNKNOWN")


async def test_edited_arguments_run_and_wrong_ones_leave_the_question_open(project):
    answers = [use("write_file", path="a.txt", content="a"), "Done."]
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        path = f"/approvals/{item['id']}"
        wrong = {"accepted": True, "arguments": '{"path": 3}'}
        assert refusal(await api.call("POST", path, wrong)) == (400, "E_BAD_ARGS")
        edited = '{"path": "b.txt", "content": "b"}'
        lasting = {"accepted": True, "arguments": edited, "remember": "session"}
        assert refusal(await api.call("POST", path, lasting)) == (400, "E_BAD_ARGS")
        await api.post(path, {"accepted": True, "arguments": edited})
        await api.get(f"/runs/{started['run']}", wait=20)
        assert (project / "b.txt").read_text() == "b"
        assert not (project / "a.txt").exists()


async def test_a_lasting_approval_is_listed_and_revoked(project):
    write = use("write_file", path="a.txt", content="a")
    again = use("write_file", path="b.txt", content="b")
    async with (
        serving(project, answers=[write, again, "Done."]) as served,
        open_api(served, project) as api,
    ):
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        answer = {"accepted": True, "remember": "session"}
        await api.post(f"/approvals/{item['id']}", answer)
        grants = (await api.get("/grants"))["grants"]
        assert grants == [item["scope"] or "write_file"]
        state = await api.get()
        if state["waiting"]:
            await api.post(f"/approvals/{state['waiting'][0]['id']}", answer)
        await api.get(f"/runs/{started['run']}", wait=20)
        for scope in (await api.get("/grants"))["grants"]:
            hashed = f"sha256:{hashlib.sha256(scope.encode()).hexdigest()}"
            check(await api.call("DELETE", "/grants", scope=hashed))
        assert (await api.get("/grants"))["grants"] == []
        missing = await api.call("DELETE", "/grants", scope="nothing/at all")
        assert refusal(missing) == (404, "E_UNKNOWN")


async def test_a_dangerous_call_is_only_allowed_on_its_own(project):
    (project / "src").mkdir()
    remove = use("run_terminal_cmd", command="rm -rf src")
    async with (
        serving(project, answers=[remove, "Done."]) as served,
        open_api(served, project) as api,
    ):
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        (approval,) = (await api.get("/approvals"))["approvals"]
        assert approval["dangers"][0]["grave"]
        path = f"/approvals/{item['id']}"
        for remember in ("session", "always"):
            lasting = {"accepted": True, "remember": remember}
            assert refusal(await api.call("POST", path, lasting)) == (400, "E_BAD_ARGS")
        batch = {"ids": [item["id"], "missing"], "accepted": True}
        answers = (await api.post("/approvals", batch))["answers"]
        assert [each["code"] for each in answers] == ["E_BAD_ARGS", "E_UNKNOWN"]
        # A rejection needs no such care.
        result = await api.post("/approvals", {"ids": [item["id"]], "accepted": False})
        assert result["answers"] == [{"id": item["id"], "code": "", "message": ""}]
        await api.get(f"/runs/{started['run']}", wait=20)
        assert (project / "src").exists()


async def test_all_calls_of_one_answer_are_accepted_at_once(project):
    writes = use("write_file", path="a.txt", content="a") + use(
        "write_file", path="b.txt", content="b"
    )
    async with (
        serving(project, answers=[writes, "Done."]) as served,
        open_api(served, project) as api,
    ):
        started = await api.post("/prompts", {"text": "Go."})
        await api.wait_until("", lambda state: len(state["waiting"]) == 2)
        approvals = (await api.get("/approvals"))["approvals"]
        assert len({each["answer"] for each in approvals}) == 1
        ids = [each["item"]["id"] for each in approvals]
        result = await api.post("/approvals", {"ids": ids, "accepted": True})
        assert [each["code"] for each in result["answers"]] == ["", ""]
        await api.get(f"/runs/{started['run']}", wait=20)
        assert (project / "a.txt").exists()
        assert (project / "b.txt").exists()


async def test_a_question_is_answered_once(project):
    ask = use("ask_question", question="Which?", options=["red", "green"])
    async with serving(project, answers=[ask, "Done."]) as served, open_api(served, project) as api:
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("question")
        assert (await api.get("/questions"))["questions"] == [item]
        path = f"/questions/{item['id']}"
        answer = {"answers": ["green"]}
        response = await api.call("POST", path, answer, seen=item["seq"] - 1)
        assert refusal(response) == (409, "E_STALE")
        await api.post(path, answer)
        late = await api.call("POST", path, {"answers": ["red"]})
        assert refusal(late) == (409, "E_BUSY")
        await api.get(f"/runs/{started['run']}", wait=20)
        assert "green" in str(served.model.requests[-1].messages[-1])
        missing = await api.call("POST", "/questions/missing", answer)
        assert refusal(missing) == (404, "E_UNKNOWN")


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_plan_is_decided_once(project, accepted):
    plugins = ("files", "guard", "plan", "prompt", "store")
    answers = ["First this, then that.", "Carried out."]
    async with (
        serving(project, answers=answers, plugins=plugins) as served,
        open_api(served, project, mode="plan") as api,
    ):
        await api.run("Plan it.")
        item = await api.wait_for("plan")
        assert item["text"] == "First this, then that."
        assert (await api.get("/plans"))["plans"][0]["id"] == item["id"]
        path = f"/plans/{item['id']}"
        decision = {"accepted": accepted, "reason": "" if accepted else "Shorter."}
        response = await api.call("POST", path, decision, seen=item["seq"] - 1)
        assert refusal(response) == (409, "E_STALE")
        started = (await api.post(path, decision))["run"]
        run = await api.get(f"/runs/{started['run']}", wait=20)
        assert run["text"] == "Carried out."
        if accepted:
            again = await api.call("POST", path, decision)
            assert refusal(again) == (404, "E_UNKNOWN")


async def test_the_id_of_a_plan_names_one_plan_and_not_the_one_that_replaced_it(project):
    plugins = ("files", "guard", "plan", "prompt", "store")
    answers = ["The first plan.", "The second plan.", "Carried out."]
    async with (
        serving(project, answers=answers, plugins=plugins) as served,
        open_api(served, project, mode="plan") as api,
    ):
        await api.run("Plan it.")
        first = await api.wait_for("plan")
        unknown = await api.call("POST", "/plans/missing", {"accepted": True})
        assert refusal(unknown) == (404, "E_UNKNOWN")
        rejected = await api.post(
            f"/plans/{first['id']}", {"accepted": False, "reason": "Shorter."}
        )
        await api.get(f"/runs/{rejected['run']['run']}", wait=20)
        second = await api.wait_for("plan")
        # The id of a plan is that of the run that proposed it.
        assert second["id"] == rejected["run"]["run"] != first["id"]
        for decision in ({"accepted": True}, {"accepted": False}):
            late = await api.call("POST", f"/plans/{first['id']}", decision)
            assert refusal(late) == (404, "E_UNKNOWN")
        # Nothing was decided by that.
        assert (await api.get("/plans"))["plans"] == [second]
        accepted = await api.post(f"/plans/{second['id']}", {"accepted": True})
        run = await api.get(f"/runs/{accepted['run']['run']}", wait=20)
        assert run["text"] == "Carried out."


async def test_a_late_answer_in_a_joined_session_is_refused(project):
    ask = use("ask_question", question="Which?", options=["red", "green"])
    async with (
        serving(project, answers=[ask, "Done."]) as owner,
        serving(project) as joined,
        open_api(owner, project) as api,
        joined.client() as client,
    ):
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("question")
        path = f"/api/sessions/{api.session}/questions"
        answer = {"answers": ["green"]}
        async with joined.hub.use(api.session, joined.owner) as hosted:
            assert isinstance(hosted.session, JoinedSession)
            await hosted.feed.reached(item["seq"])
            seen = {"hilum-seen": str(item["seq"])}
            missing = await client.post(f"{path}/missing", json=answer, headers=seen)
            assert refusal(missing) == (404, "E_UNKNOWN")
            first = await client.post(f"{path}/{item['id']}", json=answer, headers=seen)
            assert first.status_code == 200, first.text
            late = await client.post(f"{path}/{item['id']}", json=answer, headers=seen)
            assert refusal(late) == (409, "E_BUSY")
        await api.get(f"/runs/{started['run']}", wait=20)


async def test_answers_reach_the_owner_of_a_joined_session(project):
    ask = use("ask_question", question="Which?", options=["red", "green"])
    write = use("write_file", path="a.txt", content="a")
    async with (
        serving(project, answers=[ask, write, "Done."]) as owner,
        serving(project) as joined,
        open_api(owner, project) as api,
        joined.client() as client,
    ):
        started = await api.post("/prompts", {"text": "Go."})
        question = await api.wait_for("question")
        base = f"/api/sessions/{api.session}"
        async with joined.hub.use(api.session, joined.owner) as hosted:
            await hosted.feed.reached(question["seq"])
            seen = {"hilum-seen": str(question["seq"])}
            answered = await client.post(
                f"{base}/questions/{question['id']}", json={"answers": ["red"]}, headers=seen
            )
            assert answered.status_code == 200, answered.text
            approval = await api.wait_for("approval")
            await hosted.feed.reached(approval["seq"])
            seen = {"hilum-seen": str(approval["seq"])}
            wrong = {"accepted": True, "arguments": "not JSON"}
            refused = await client.post(
                f"{base}/approvals/{approval['id']}", json=wrong, headers=seen
            )
            # The owner refused it, which was lost before.
            assert refused.status_code == 400, refused.text
            accepted = await client.post(
                f"{base}/approvals/{approval['id']}", json={"accepted": True}, headers=seen
            )
            assert accepted.status_code == 200, accepted.text
        await api.get(f"/runs/{started['run']}", wait=20)
        assert (project / "a.txt").exists()
        assert await read_deciders(api) == [("user", "owner")]


async def test_revoking_a_stored_approval_also_removes_its_rule(project):
    """Otherwise, the same call would still run without asking."""
    answers = [use("run_terminal_cmd", command="touch a.txt"), "Done."] * 3
    async with serving(project, answers=answers) as served, open_api(served, project) as api:
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        await api.post(f"/approvals/{item['id']}", {"accepted": True, "remember": "always"})
        await api.get(f"/runs/{started['run']}", wait=20)
        found = await api.wait_until("/grants", lambda found: found["stored"])
        assert found == {"grants": [item["scope"]], "stored": [item["scope"]]}
        # Without the rule, the call needs approval again.
        check(await api.call("DELETE", "/grants", scope=item["scope"], stored=True))
        assert await api.get("/grants") == {"grants": [], "stored": []}
        started = await api.post("/prompts", {"text": "Go."})
        item = await api.wait_for("approval")
        await api.post(f"/approvals/{item['id']}", {"accepted": True, "remember": "session"})
        await api.get(f"/runs/{started['run']}", wait=20)
        # What was allowed only for this session is not stored.
        assert await api.get("/grants") == {"grants": [item["scope"]], "stored": []}
        check(await api.call("DELETE", "/grants", scope=item["scope"]))
        assert (await api.get("/grants"))["grants"] == []
