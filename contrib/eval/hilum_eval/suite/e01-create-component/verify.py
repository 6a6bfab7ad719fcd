"""Renders the new component and compares elements, classes, text and events."""

from pathlib import Path

from hilum_eval.checking import Checks, compare_with_fixture
from hilum_eval.checking.javascript import evaluate_javascript

FIXTURE = Path(__file__).parent / "files"
PATH = "src/components/Button.jsx"
EXPRESSIONS = {
    "plain": "render(React.createElement(m.default, {label: 'Save', onClick: () => 1}))",
    "secondary": "render(React.createElement(m.default, {label: 'Go', variant: 'secondary'}))",
    "disabled": "render(React.createElement(m.default, {label: 'No', disabled: true}))",
    "clicks": """(() => {
        let clicks = 0;
        const [button] = render(React.createElement(m.default, {label: 'a', onClick: () => clicks++}));
        button.props.onClick({preventDefault() {}, stopPropagation() {}});
        return clicks;
    })()""",
    "exported": "index.Button === m.default && Object.keys(index).sort().join()",
}


def is_button(tree: object, text: str, variant: str, disabled: bool) -> bool:
    if not isinstance(tree, list) or len(tree) != 1 or tree[0]["tag"] != "button":
        return False
    props = tree[0]["props"]
    classes = set(str(props.get("className")).split())
    return (
        tree[0]["text"] == text
        and props.get("type") == "button"
        and classes == {"button", f"button--{variant}"}
        and bool(props.get("disabled")) is disabled
    )


checks = Checks()
values = dict.fromkeys(EXPRESSIONS)
exists = Path(PATH).is_file()
if exists:
    results = evaluate_javascript(
        Path(), list(EXPRESSIONS.values()), m=PATH, index="src/components/index.js"
    )
    values = dict(zip(EXPRESSIONS, results, strict=True))
checks.goal("file", exists, f"{PATH} does not exist")
checks.goal("plain", is_button(values["plain"], "Save", "primary", False), str(values["plain"]))
checks.goal(
    "secondary", is_button(values["secondary"], "Go", "secondary", False), str(values["secondary"])
)
checks.goal(
    "disabled", is_button(values["disabled"], "No", "primary", True), str(values["disabled"])
)
checks.goal("clicks", values["clicks"] == 1, str(values["clicks"]))
checks.goal("exported", values["exported"] == "Badge,Button,Card", str(values["exported"]))
others = set(compare_with_fixture(FIXTURE)) - {PATH, "src/components/index.js"}
others = {path for path in others if not path.endswith((".test.jsx", ".test.js", ".md"))}
checks.guard("others", not others, f"other files changed: {sorted(others)}")
checks.report()
