"""The agents that can be measured: hilum itself, and other agents through adapters."""
