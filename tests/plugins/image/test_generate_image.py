"""``generate_image`` over the wire formats of both providers, against a server on loopback."""

import gzip
import re
import threading

import pytest
import trio
from hilum_image import ImageSettings
from hilum_image.generation import configure_providers
from hilum_image.image_file import parse_image
from hilum_image.openai import OpenAI
from hilum_image.prices import compute_price
from hilum_image.provider import ImageRequest

from .conftest import b64, png

OPENAI = "/v1/images/generations"
EDITS = "/v1/images/edits"
SD = "/sdapi/v1/txt2img"


def openai(painter, **more):
    return {"enabled": True, "openai_url": f"{painter.url}/v1", "openai_api_key": "sk-1", **more}


def sd(painter, **more):
    return {"enabled": True, "sd_url": painter.url, **more}


async def test_openai_is_asked_in_its_format_and_the_image_saved(painter, draw, tmp_path):
    """The request holds what the API wants.

    The file is the image, the answer says how large it is and what was understood.
    """
    image = png(1024, 1024)
    painter.answers[OPENAI] = (
        200,
        {"created": 1, "data": [{"b64_json": b64(image), "revised_prompt": "A dot, red."}]},
    )
    result = await draw(openai(painter), filename="art/dot.png")
    assert (tmp_path / "proj/art/dot.png").read_bytes() == image
    assert "Saved art/dot.png: 1024x1024" in result.text
    assert "A dot, red." in result.text
    [asked] = painter.asked
    assert asked.headers["authorization"] == "Bearer sk-1"
    assert asked.json == {
        "model": "dall-e-3", "prompt": "a red dot", "n": 1, "size": "1024x1024", "response_format": "b64_json",
    }  # fmt: skip


async def test_newer_models_of_openai_are_told_the_format_and_pay_by_tokens(
    painter, draw, tmp_path
):
    """They take no response_format, and give WebP when a name ends so."""
    webp = b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x07\xc0\x01\0" + b"\0" * 9
    painter.answers[OPENAI] = (
        200,
        {"data": [{"b64_json": b64(webp)}], "usage": {"output_tokens": 1000}},
    )
    result = await draw(
        openai(painter, model="gpt-image-1", quality="low"), filename="dot.webp", size="1536x1024"
    )
    assert painter.asked[0].json == {
        "model": "gpt-image-1", "prompt": "a red dot", "n": 1, "size": "1536x1024", "quality": "low", "output_format": "webp",
    }  # fmt: skip
    assert result.data["width"] == 8
    assert result.data["height"] == 8
    assert "not known" in result.text  # what another server than OpenAI's takes
    assert compute_price(
        "gpt-image-1", "", "", {"output_tokens": 1000, "input_tokens": 100}
    ) == pytest.approx(0.0405)


@pytest.mark.parametrize(
    ("model", "size", "quality", "dollars"),
    [
        ("dall-e-3", "1024x1024", "", 0.04),
        ("dall-e-3", "1792x1024", "hd", 0.12),
        ("dall-e-2", "256x256", "", 0.016),
        ("x", "1x1", "", None),
    ],
)
def test_what_an_image_costs(model, size, quality, dollars):
    assert compute_price(model, size, quality, None) == dollars


async def test_stable_diffusion_is_asked_in_its_format(painter, draw, tmp_path):
    """Twenty steps, width and height; at no cost."""
    painter.answers[SD] = (200, {"images": [b64(png(64, 128))], "parameters": {}, "info": "{}"})
    result = await draw(sd(painter, sd_auth="me:pass"), size="64x128")
    assert painter.at(SD)[0].json == {
        "prompt": "a red dot",
        "steps": 20,
        "width": 64,
        "height": 128,
    }
    assert painter.at(SD)[0].headers["authorization"] == "Basic bWU6cGFzcw=="
    name = re.search(r"Saved (generated_\d{8}_\d{6}\.png): 64x128", result.text)
    assert name
    assert (tmp_path / "proj" / name[1]).read_bytes() == png(64, 128)
    assert "free of charge" in result.text


async def test_an_image_is_changed_by_openai(painter, draw, tmp_path):
    """The image goes as a part of a form."""
    (tmp_path / "proj/old.png").write_bytes(png(4, 4))
    painter.answers[EDITS] = (200, {"data": [{"b64_json": b64(png(16, 16))}]})
    await draw(openai(painter, model="gpt-image-1"), edit="old.png", filename="new.png")
    body = painter.at(EDITS)[0].body
    assert b'name="image"; filename="image.png"' in body
    assert png(4, 4) in body
    assert b'name="prompt"' in body
    assert (tmp_path / "proj/new.png").read_bytes() == png(16, 16)


async def test_what_a_provider_cannot_do_the_next_one_does(painter, draw, tmp_path):
    """dall-e-3 changes no images; Stable Diffusion does, and the model is told."""
    (tmp_path / "proj/old.png").write_bytes(png(4, 4))
    painter.answers["/sdapi/v1/img2img"] = (
        200,
        {"images": ["data:image/png;base64," + b64(png(1024, 1024))]},
    )
    result = await draw(
        {**openai(painter), "sd_url": painter.url}, edit="old.png", filename="new.png"
    )
    assert "Saved new.png" in result.text
    assert "dall-e-3 cannot change images" in result.text
    assert painter.at("/sdapi/v1/img2img")[0].json["init_images"] == [b64(png(4, 4))]
    assert not painter.at(OPENAI)


async def test_an_image_given_as_an_address_is_fetched_from_the_provider_only(
    painter, draw, tmp_path
):
    """A compatible server may give an address of its own.

    One of the user's network is not fetched.
    """
    painter.answers["/out.png"] = (200, png(2, 2))
    painter.answers[OPENAI] = (200, {"data": [{"url": f"{painter.url}/out.png"}]})
    await draw(openai(painter), filename="a.png")
    assert (tmp_path / "proj/a.png").read_bytes() == png(2, 2)
    painter.answers[OPENAI] = (200, {"data": [{"url": "http://169.254.169.254/latest/meta-data"}]})
    result = await draw(openai(painter), filename="b.png")
    assert result.code == "E_ADDRESS"
    assert "metadata" in result.text


REFUSAL = {
    "error": {
        "code": "content_policy_violation",
        "message": "Your request was rejected by our safety system.",
    }
}


async def test_a_refusal_is_shown_and_no_other_provider_asked(painter, draw):
    """The user decides what to do about it."""
    painter.answers[OPENAI] = (400, REFUSAL)
    result = await draw({**openai(painter), "sd_url": painter.url})
    assert result.code == "E_REJECTED"
    assert "rejected by our safety system" in result.text
    assert not painter.at(SD)


@pytest.mark.parametrize(
    ("status", "answer", "code", "words"),
    [
        (
            401,
            {"error": {"message": "Incorrect API key"}},
            "E_NOT_CONFIGURED",
            "image.openai_api_key",
        ),
        (
            429,
            {"error": {"code": "insufficient_quota", "message": "You exceeded"}},
            "E_HTTP",
            "must add credit",
        ),
        (500, {"error": "boom"}, "E_HTTP", "boom"),
        (500, b"<html>", "E_HTTP", "500"),
        (200, b"<html>", "E_CONTENT", "did not return JSON"),
        (200, {"data": []}, "E_CONTENT", "returned no image"),
        (200, {"data": [{"b64_json": b64(b"hello")}]}, "E_CONTENT", "returned no image"),
        (200, {"data": "x"}, "E_CONTENT", "returned no image"),
        (200, [1], "E_CONTENT", "returned no image"),
        (200, {"data": [{"b64_json": b64(png(9, 9)[:-20])}]}, "E_CONTENT", "truncated"),
        (200, {"data": [{"b64_json": b64(png(9, 9))[:-30]}]}, "E_CONTENT", "returned no image"),
        (
            404,
            {"error": {"code": "model_not_found", "message": "No such model"}},
            "E_HTTP",
            "image.model",
        ),
        (
            403,
            {"error": {"message": "Verify your organization"}},
            "E_NOT_CONFIGURED",
            "Verify your organization",
        ),
    ],
)
async def test_failures_of_openai_are_told(painter, draw, tmp_path, status, answer, code, words):
    """Nothing is saved, and the error says what to do."""
    painter.answers[OPENAI] = (status, answer)
    result = await draw(openai(painter), filename="a.png")
    assert result.code == code
    assert words in result.text
    assert not list((tmp_path / "proj").glob("*.png"))


@pytest.mark.parametrize(
    ("status", "answer", "headers", "words"),
    [
        (200, b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", {}, "did not return JSON. Is this the URL of its API?"),
        (200, gzip.compress(bytes(3_000_000)), {"content-encoding": "gzip"}, "larger than 2 MB"),
        (200, b"\x1b\xff\xff\x00", {"content-encoding": "br"}, "with br, which was not requested"),
        (402, {"error": "Pay.\n\nIgnore \u202eall \x1b[2J"}, {}, "responded with 402: Pay. Ignore all [2J. The user must add"),
        (429, {}, {"retry-after": "120"}, "Try again in 120 s."),
        (503, b"", {"retry-after": "9" * 40}, "responded with 503: no reason was given. Try again later."),
    ],
    ids=["nested", "bomb", "br", "pay", "often", "busy"],
)  # fmt: skip
@pytest.mark.parametrize("who", ["openai", "sd"])
async def test_nasty_answers_end_in_a_sentence_and_a_next_step(
    painter, draw, monkeypatch, who, status, answer, headers, words
):
    monkeypatch.setattr("hilum_image.provider_client.MAX_ANSWER", 2_000_000)
    path, settings = (
        (OPENAI, openai(painter))
        if who == "openai"
        else (SD, {"enabled": True, "sd_url": painter.url})
    )
    painter.answers[path], painter.headers[path] = (status, answer), headers
    result = await draw(settings, filename="a.png")
    assert result.code in ("E_HTTP", "E_CONTENT", "E_TOO_LARGE")
    assert words in result.text
    assert painter.url.removeprefix("http://") in result.text
    assert "\n" not in result.text


async def test_a_server_that_has_moved_is_not_followed(painter, draw):
    """The key goes to nobody else; the new address is told."""
    painter.moved[OPENAI] = "https://elsewhere.example/v1/images?x=1"
    result = await draw(openai(painter))
    assert result.code == "E_HTTP"
    assert "responded with 307: it has moved to https://elsewhere.example." in result.text
    assert len(painter.asked) == 1


async def test_when_all_fail_each_reason_is_given(painter, draw):
    """The second is asked after the first failed."""
    painter.answers[OPENAI] = (500, {"error": {"message": "first down"}})
    painter.answers[SD] = (500, {"detail": "second down"})
    result = await draw({**openai(painter), "sd_url": painter.url})
    assert "first down" in result.text
    assert "second down" in result.text


async def test_a_server_that_is_not_there(painter, draw):
    """The address is named."""
    result = await draw({"enabled": True, "sd_url": "http://127.0.0.1:1"})
    assert result.code == "E_UNREACHABLE"
    assert "127.0.0.1:1" in result.text


@pytest.mark.parametrize("settings", [{}, {"enabled": True}])
async def test_where_nothing_is_set_up_it_says_how(draw, settings):
    result = await draw(settings)
    assert result.code == "E_NOT_CONFIGURED"
    assert "`enabled = true` under [image]" in result.text
    assert "`hilum config path`" in result.text


async def test_a_name_that_is_taken_costs_no_image(painter, draw, tmp_path):
    """It is refused before anybody is asked; overwriting has to be said."""
    (tmp_path / "proj/a.png").write_bytes(b"mine")
    painter.answers[SD] = (200, {"images": [b64(png())]})
    result = await draw(sd(painter), filename="a.png")
    assert result.code == "E_BAD_ARGS"
    assert not painter.at(SD)
    assert (tmp_path / "proj/a.png").read_bytes() == b"mine"
    await draw(sd(painter), filename="a.png", overwrite=True)
    assert (tmp_path / "proj/a.png").read_bytes() == png()


@pytest.mark.parametrize(
    "arguments",
    [
        {"filename": "a.txt"},
        {"filename": "a"},
        {"filename": "a.gif"},
        {"filename": "../a.png"},
        {"filename": "file/a.png"},
        {"filename": "folder.png", "overwrite": True},
        {"filename": "out.png", "overwrite": True},
        {"filename": "outside/a.png"},
        {"size": "big"},
        {"edit": "none.png"},
        {"edit": "file"},
        {"mask": "clear.png"},
        {"edit": "base.png", "mask": "base.png"},
        {"edit": "base.png", "mask": "clear.png"},
        {"description": ""},
    ],
)
async def test_arguments_that_do_not_fit(painter, draw, tmp_path, arguments):
    """Nobody is asked, nothing is written: what cannot be saved is not paid for."""
    place = tmp_path / "proj"
    (place / "file").write_text("x")
    (place / "folder.png").mkdir()
    (place / "out.png").symlink_to(tmp_path / "x.png")
    (place / "outside").symlink_to(tmp_path)
    (place / "base.png").write_bytes(png(8, 8))
    (place / "clear.png").write_bytes(png(4, 4, alpha=True))
    before = sorted(place.iterdir())
    result = await draw(sd(painter), **arguments)
    assert result.code
    assert not painter.asked
    assert sorted(place.iterdir()) == before
    assert not list(tmp_path.glob("*.png"))


async def test_only_a_part_of_an_image_is_changed(painter, draw, tmp_path):
    """To both the mask is what is transparent: one takes it so, the other is told."""
    base, mask = png(8, 8), png(8, 8, alpha=True)
    (tmp_path / "proj/old.png").write_bytes(base)
    (tmp_path / "proj/mask.png").write_bytes(mask)
    painter.answers["/v1/images/edits"] = (200, {"data": [{"b64_json": b64(base)}]})
    painter.answers["/sdapi/v1/img2img"] = (200, {"images": [b64(base)]})
    change = {"edit": "old.png", "mask": "mask.png"}
    await draw(openai(painter, model="gpt-image-1"), filename="a.png", **change)
    assert (
        b'name="mask"; filename="mask.png"\r\nContent-Type: image/png\r\n\r\n' + mask
        in painter.asked[0].body
    )
    await draw(sd(painter), filename="b.png", **change)
    asked = painter.at("/sdapi/v1/img2img")[0].json
    assert asked["mask"] == b64(mask)
    assert asked["inpainting_mask_invert"] == 1


@pytest.mark.parametrize(
    ("model", "size", "fits"),
    [
        ("gpt-image-1", "2048x2048", False),
        ("gpt-image-2", "2048x2048", True),
        ("gpt-image-2.5-flare", "3840x2160", True),
        ("gpt-image-2.5-flare", "3840x3840", False),
        ("gpt-image-2", "3072x1024", True),
        ("gpt-image-2", "3088x1024", False),
        ("gpt-image-2", "1000x1000", False),
        ("gpt-image-2", "0x0", False),
        ("gpt-image-2", "auto", True),
        ("another-model", "7x7", True),
    ],
)
def test_sizes_are_checked_before_anybody_is_asked(model, size, fits):
    """The newest models take any that fits; what is not known is left to the provider."""
    assert (
        bool(
            OpenAI("https://api.openai.com/v1", "sk", model).explain_unsupported(
                ImageRequest("x", size)
            )
        )
        != fits
    )


def test_a_retired_model_of_openai_is_replaced_by_the_one_it_names(monkeypatch):
    """Only at OpenAI itself: servers like it have their own models of such names.

    The user is told.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-env")
    (made,) = configure_providers(ImageSettings(enabled=True))
    assert (made.model, made.replaces, made.key) == ("gpt-image-1-mini", "dall-e-3", "sk-env")
    (other,) = configure_providers(
        ImageSettings(enabled=True, openai_url="https://api.openai.com.evil.example/v1")
    )
    assert (other.model, other.replaces, other.key) == ("dall-e-3", "", "")


@pytest.mark.parametrize("ending", [".jpg", ".webp"])
async def test_a_format_that_a_model_does_not_make_costs_nothing(painter, draw, ending):
    """dall-e makes PNG only."""
    result = await draw(openai(painter), filename=f"a{ending}")
    assert "must end with .png" in result.text
    assert not painter.asked


async def test_a_name_taken_meanwhile_loses_no_image(painter, draw, tmp_path):
    """What was paid for is saved under another name."""
    painter.answers[SD] = (200, {"images": [b64(png())]})
    gate = painter.waits.setdefault(SD, threading.Event())
    came = painter.arrival(SD)
    results = []

    async def run():
        results.append(await draw(sd(painter), filename="a.png"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.to_thread.run_sync(came.wait)
        (tmp_path / "proj/a.png").write_bytes(b"mine")
        gate.set()
    assert (tmp_path / "proj/a.png").read_bytes() == b"mine"
    assert "under another name" in results[0].text
    assert [p.read_bytes() for p in (tmp_path / "proj").glob("generated_*.png")] == [png()]


async def test_images_without_a_name_have_names_of_their_own(painter, draw, tmp_path):
    """Also within one second."""
    painter.answers[SD] = (200, {"images": [b64(png())]})
    for _ in range(4):
        result = await draw(sd(painter))
        assert result.code == "", result.text
        assert "under another name" not in result.text
    assert len(list((tmp_path / "proj").glob("generated_*.png"))) == 4


async def test_a_provider_that_takes_too_long_is_interrupted(painter, draw):
    """The server is told to stop its work."""
    painter.waits[SD] = threading.Event()
    painter.answers["/sdapi/v1/interrupt"] = (200, {})
    result = await draw(sd(painter, timeout=1.0))
    assert result.code == "E_TIMEOUT"
    assert painter.at("/sdapi/v1/interrupt")


def test_an_image_is_told_by_its_first_bytes():
    """Cut-off and hostile headers give no size, or no image, and never an error."""
    assert parse_image(png(3, 5)).size == "3x5"
    assert parse_image(b"GIF89a\x02\0\x03\0").size == "2x3"
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x10\x00\x20\x03"
    assert parse_image(jpeg).size == "32x16"
    for whole in (png(), jpeg, b"GIF89a\x02\0\x03\0", b"RIFF\0\0\0\0WEBPVP8X" + b"\0" * 20):
        for end in range(len(whole)):
            parse_image(whole[:end])
    assert parse_image(b"<svg>") is None


@pytest.mark.parametrize(
    "data",
    [
        png(9, 9),
        b"\xff\xd8\xff\xe0\x00\x04ab\xff\xd9",
        b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0\x2f\x07\xc0\x01\0" + b"\0" * 9,
        b"GIF89a\x02\0\x03\0\0\0\0;",
    ],
)
def test_an_image_that_is_cut_off_is_seen(data):
    """In each format, by its end."""
    assert parse_image(data).is_complete
    assert not parse_image(data[:-2] if not data.startswith(b"\x89") else data[:-12]).is_complete


def test_an_image_has_a_minute():
    """Unless the user sets another limit."""
    assert ImageSettings().timeout == 60
