"""The bill: what a session cost, divided by model, agent, plugin, tool and turn, and budgets."""
