"""What runs in the browser's own process, inside the sandbox.

It imports nothing of hilum, so that it starts fast.
"""
