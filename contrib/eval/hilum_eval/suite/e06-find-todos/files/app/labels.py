"""Texts of the page."""

LABELS = {
    "todo": "TODO: write this post",
    "draft": "Draft # TODO",
}
HELP = """
# TODO lists

A line such as `# TODO: call Ann` becomes an entry of the list.
"""
# TODOS is the name of the view in the template.
TODOS = "todos.html"
