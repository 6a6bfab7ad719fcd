"""Which requests to models count, and which may have been charged without an answer."""

from __future__ import annotations

# The purpose of the event that charges a sub-agent's usage to the agent that started it. The usage
# was counted when the sub-agent's model answered.
SUB_AGENT = "agent "
# Failures after which the provider may have charged for the request, although it sent no counts.
MAYBE_CHARGED = frozenset(("server", "broken", "timeout", "too_slow", "runaway"))
