"""Read the hosts in URLs, and remember those that the user or a search result mentioned."""
