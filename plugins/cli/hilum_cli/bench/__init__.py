"""``hilum bench``: how fast hilum is on this machine and in this project, beside a bare script.

Both talk to the same scripted model on this machine. ``tests/benchmarks/real_project.py`` uses the
same code.
"""
