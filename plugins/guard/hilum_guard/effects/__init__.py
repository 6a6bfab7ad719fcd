"""Read what commands do: to files, to repositories, over the network, and which code they run."""
