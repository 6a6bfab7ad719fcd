"""The simulated model: a seeded model with known slips, for measuring an agent without a live one.

It walks the known steps of a case. What it does next depends only on the request: on the tools that
are offered, the results, the errors, the system prompt and the notes. So any agent with an
OpenAI-compatible endpoint can be measured with the same slips.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from hashlib import sha256

from hilum.messages import AssistantMessage, Text, ToolCall, Usage
from hilum_replay import Answer, WireRequest

from hilum_eval.case import Case, Say
from hilum_eval.simulation.conversation import Conversation, describe_progress
from hilum_eval.simulation.draws import Draws
from hilum_eval.simulation.facts import replace_lost_facts
from hilum_eval.simulation.plan import Place
from hilum_eval.simulation.profile import Profile, load_profile
from hilum_eval.simulation.step_history import NextCall
from hilum_eval.simulation.summaries import wants_summary, write_summary
from hilum_eval.simulation.toolbox import Toolbox, encode_arguments
from hilum_eval.simulation.walker import Walker

BYTES_PER_TOKEN = 4
MAX_CALLS = 400
"""Calls for one prompt after which the model ends its work, whatever happens."""
_KEPT_REQUESTS = 8
# How some agents want to hear that the work is done: by a command.
_SUBMIT = re.compile(r"`(echo \w*(?:SUBMIT|COMPLETE|FINISH|DONE)\w*)`")


def make_answerer(case: Case, profile: str, seed: int) -> Callable[[WireRequest], Answer]:
    """Return the function that answers the requests of one attempt.

    Args:
        case: The case.
        profile: ``perfect``, ``strong``, ``mid``, ``weak``, or the path of a TOML file.
        seed: Number of the repetition: the same seed makes the same slips.

    Raises:
        UsageError: There is no such profile, or the file has mistakes.
    """
    return SimulatedModel(case, load_profile(profile), seed)


class SimulatedModel:
    """A model that walks the known steps of a case.

    What it answers depends only on the request. Only the count of cached tokens depends on earlier
    requests, as it does with a real provider.

    Args:
        case: The case.
        profile: How the model behaves.
        seed: Number of the repetition.
    """

    def __init__(self, case: Case, profile: Profile, seed: int) -> None:
        self._case = case
        self._profile = profile
        self._draws = Draws(case.id, seed)
        self._recent: deque[bytes] = deque(maxlen=_KEPT_REQUESTS)

    def __call__(self, request: WireRequest) -> Answer:
        """Return the answer to a request."""
        message = self._answer(request)
        usage = self._count_tokens(request, message)
        seconds = self._profile.first_token + usage.output / self._profile.tokens_per_second
        return Answer(message, usage, self._profile.first_token, seconds)

    def _answer(self, request: WireRequest) -> AssistantMessage:
        seen = Conversation(request, self._case)
        toolbox = Toolbox(request.tool_specs)
        if not request.tool_specs or not toolbox.works:
            return self._answer_aside(seen)
        if seen.turn < 0:
            if wants_summary(seen.last_user_text):
                return self._answer_aside(seen)
            return _say("There is nothing to do.")
        walker = Walker(self._case, self._profile, self._draws, seen, toolbox)
        done, calls = walker.find_next()
        if len(seen.calls) > MAX_CALLS:
            calls = []
        if calls:
            return self._make_calls(request, walker, done, calls)
        return self._finish(seen, toolbox, walker, is_whole=done == len(walker.groups))

    def _answer_aside(self, seen: Conversation) -> AssistantMessage:
        """Answer a request outside the conversation, such as one for a summary or a title."""
        if wants_summary(seen.system) or wants_summary(seen.last_user_text):
            instructions = f"{seen.system}\n{seen.last_user_text}"
            text = write_summary(
                self._case, instructions, seen.text, self._draws, self._profile.slips.forget
            )
            return _say(text)
        return _say(self._case.title)

    def _make_calls(
        self,
        request: WireRequest,
        walker: Walker,
        done: int,
        calls: Iterable[tuple[Place, NextCall]],
    ) -> AssistantMessage:
        progress = describe_progress(walker.turn, done, len(walker.groups))
        parts: list[Text | ToolCall] = [Text(progress, "model")]
        digest = sha256(request.body).hexdigest()[:6]
        for place, call in calls:
            tag = walker.make_tag(place, call.purpose)
            parts.append(ToolCall(tag.make_id(digest), call.tool, call.arguments))
        return AssistantMessage(tuple(parts), stop="calls")

    def _finish(
        self, seen: Conversation, toolbox: Toolbox, walker: Walker, *, is_whole: bool
    ) -> AssistantMessage:
        """Return the final answer, in the way in which the agent wants it."""
        text = self._write_final_answer(seen, walker, is_whole=is_whole)
        tag = walker.make_tag(Place(walker.turn, len(walker.groups), seen.messages), "s")
        identity = tag.make_id("end")
        finish = toolbox.finish(text)
        submit = _SUBMIT.search(seen.told)
        if finish is None and submit and toolbox.has("run"):
            finish = toolbox.run(submit[1])
        if finish is None:
            return _say(text)
        arguments = encode_arguments(finish.arguments)
        parts = (Text(text, "model"), ToolCall(identity, finish.tool, arguments))
        return AssistantMessage(parts, stop="calls")

    def _write_final_answer(self, seen: Conversation, walker: Walker, *, is_whole: bool) -> str:
        steps = self._case.turns[walker.turn].steps
        says = [step for step in steps if isinstance(step, Say)]
        if not is_whole or not says:
            return "Done."
        text = says[-1].text.replace("{last_result}", walker.get_last_result())
        text = replace_lost_facts(text, self._case, walker.turn, seen.text)
        left_out = walker.count_given_up()
        if left_out:
            steps_text = "1 step" if left_out == 1 else f"{left_out} steps"
            text += f"\n\nI could not do everything: {steps_text} did not work."
        return text

    def _count_tokens(self, request: WireRequest, message: AssistantMessage) -> Usage:
        body = request.body
        written = message.text + "".join(call.name + call.arguments for call in message.calls)
        cached = max((_count_equal(body, each) for each in self._recent), default=0)
        self._recent.append(body)
        total = len(body) // BYTES_PER_TOKEN
        # Providers cache whole blocks only.
        cached_tokens = cached // BYTES_PER_TOKEN // 128 * 128
        output = len(written) // BYTES_PER_TOKEN + 1
        return Usage(input=total, cached=min(cached_tokens, total), output=output)


def _count_equal(first: bytes, second: bytes) -> int:
    """Return the number of equal bytes at the beginning."""
    low = 0
    high = min(len(first), len(second))
    # Comparing slices is much faster than comparing bytes one by one.
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _say(text: str) -> AssistantMessage:
    return AssistantMessage((Text(text, "model"),), stop="end")
