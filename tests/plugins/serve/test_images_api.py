"""Images of prompts and results: found by their content, and never run as anything else."""

import base64

import pytest
from api_calls import check, open_api, refusal
from hilum import Output, identify_image, tool
from hilum.messages import Image
from hilum.testing import plugin, use
from served import serving

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
GIF = b"GIF89a" + bytes([3, 0, 2, 0]) + b"\0" * 20 + b";"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HTML = b"<!doctype html><script>alert(1)</script>"


def camera(*images):
    """Return a plugin whose tool returns images."""

    @tool
    def take_picture() -> Output:
        """Take a picture."""
        return Output("Taken.", images=images)

    return plugin("camera", take_picture)


def find_images(entries, kind):
    return [image for entry in entries if entry["kind"] == kind for image in entry["images"]]


async def test_images_of_prompts_and_results_are_returned(project):
    answers = [use("take_picture"), "Seen."]
    tools = camera(Image("image/gif", GIF))
    async with (
        serving(project, answers=answers, plugins=("store", tools)) as served,
        open_api(served, project, approve="auto") as api,
    ):
        given = {"media_type": "image/png", "data": base64.b64encode(PNG).decode()}
        await api.run("Look.", images=[given])
        entries = (await api.get("/entries"))["entries"]
        (sent,) = find_images(entries, "prompt")
        (made,) = find_images(entries, "card")
        assert (sent["media_type"], sent["width"], sent["height"]) == ("image/png", 1, 1)
        assert (made["media_type"], made["width"], made["height"]) == ("image/gif", 3, 2)
        assert (sent["size"], made["size"]) == (len(PNG), len(GIF))
        # An entry has no data, which may be large.
        assert base64.b64encode(GIF).decode() not in str(entries)
        for facts, content in ((sent, PNG), (made, GIF)):
            response = await api.call("GET", f"/images/{facts['id']}")
            assert response.status_code == 200
            assert response.content == content
            headers = response.headers
            assert headers["content-type"] == facts["media_type"]
            assert headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'; sandbox" in headers.get_list("content-security-policy")
            assert "immutable" in headers["cache-control"]
            assert "content-disposition" not in headers


@pytest.mark.parametrize("claimed", ["image/svg+xml", "image/png", "text/html"])
@pytest.mark.parametrize("content", [SVG, HTML])
async def test_what_could_run_is_only_downloaded(project, claimed, content):
    tools = camera(Image(claimed, content))
    async with (
        serving(project, answers=[use("take_picture"), "x"], plugins=("store", tools)) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Look.")
        (facts,) = find_images((await api.get("/entries"))["entries"], "card")
        assert (facts["width"], facts["height"]) == (0, 0)
        response = await api.call("GET", f"/images/{facts['id']}")
        assert response.content == content
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.headers["content-disposition"].startswith("attachment")


async def test_only_images_of_the_session_are_found(project):
    (project / "a.png").write_bytes(PNG)
    tools = camera(Image("image/gif", GIF))
    answers = [use("take_picture"), "x"]
    async with (
        serving(project, answers=answers, plugins=("store", tools)) as served,
        open_api(served, project, approve="auto") as api,
    ):
        await api.run("Look.")
        other = check(await api.client.post("/api/sessions", json={"workspace": str(project)}))
        identity = identify_image(GIF)
        assert (await api.call("GET", f"/images/{identity}")).status_code == 200
        for name in (identify_image(PNG), identity[:8], "..%2f", "x" * 300):
            response = await api.call("GET", f"/images/{name}")
            assert refusal(response) == (404, "E_UNKNOWN"), name
        foreign = await api.client.get(f"/api/sessions/{other['id']}/images/{identity}")
        assert refusal(foreign) == (404, "E_UNKNOWN")
