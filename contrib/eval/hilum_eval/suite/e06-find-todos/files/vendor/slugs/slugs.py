"""A copy of another project; do not change it."""

# TODO: support Greek
TABLE = {"ä": "ae", "ö": "oe"}
