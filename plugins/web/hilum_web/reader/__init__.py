"""What makes pages readable, in a process of its own: it imports nothing of hilum, so that it
starts fast and knows nothing.
"""
