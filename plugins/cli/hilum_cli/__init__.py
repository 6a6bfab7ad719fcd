"""The command line: hilum run, demo, sessions, config."""
