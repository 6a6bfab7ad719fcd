"""What agents have seen and changed: read before edit, and every change shown and undone."""
