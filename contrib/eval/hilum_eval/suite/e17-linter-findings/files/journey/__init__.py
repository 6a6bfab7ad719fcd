"""Plans journeys."""
