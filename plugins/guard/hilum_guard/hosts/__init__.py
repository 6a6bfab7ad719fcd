"""Read the hosts in addresses, and remember those that the user or a search mentioned."""
