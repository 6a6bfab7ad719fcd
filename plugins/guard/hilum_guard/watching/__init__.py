"""Watch the workspace for new files that programs outside the sandbox would execute."""
