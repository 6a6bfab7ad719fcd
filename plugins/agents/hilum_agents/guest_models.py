"""The name under which programs that work as agents are models.

The module is small, because every start of hilum imports it.
"""

MODEL_PROVIDER = "guest"
"""The provider whose models are programs; the plugin ``hilum-acp`` provides it."""
