"""Read what commands do to files, to repositories and over the network, and which code they run."""
