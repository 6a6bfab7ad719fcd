"""The operations of the server, one module for each subject."""
