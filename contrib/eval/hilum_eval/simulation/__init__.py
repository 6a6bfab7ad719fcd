"""A simulated model and a simulated user, for measuring without a live model."""
