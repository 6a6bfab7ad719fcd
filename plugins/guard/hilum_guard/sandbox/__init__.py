"""Confine child processes: sandbox backends, policy, masks and the shared loopback network."""
