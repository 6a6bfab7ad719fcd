"""What runs in the browser's own process, inside the sandbox; it imports nothing of hilum, so that it starts fast."""
