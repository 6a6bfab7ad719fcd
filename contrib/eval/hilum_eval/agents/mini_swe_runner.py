"""Runs mini-swe-agent on one prompt. The Python in which mini-swe-agent is installed runs this file.

The loop, the prompts, the shell and the handling of errors are those of the package. Only the address
of the model is set here. The conversation of earlier prompts is continued in the way in which the
package's own interactive agent continues after a task.
"""

import argparse
import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

# No request may leave the machine, and nothing is printed at the start.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
os.environ.setdefault("MSWEA_COST_TRACKING", "ignore_errors")


def main() -> int:
    """Run the agent, and return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--client", choices=["requests", "litellm"], required=True)
    parser.add_argument("--config", default="")
    parser.add_argument("--trajectory", type=Path, required=True)
    parser.add_argument("prompt_file", type=Path)
    options = parser.parse_args()
    try:
        # The package is not installed where this file is checked.
        yaml = import_module("yaml")
        builtin_config_dir = import_module("minisweagent.config").builtin_config_dir
        environments = import_module("minisweagent.environments.local")
    except ImportError as error:
        sys.stderr.write(f"mini-swe-agent is not installed in {sys.executable} ({error})\n")
        return 2
    path = Path(options.config) if options.config else builtin_config_dir / "mini.yaml"
    config = yaml.safe_load(path.read_text())
    agent = make_agent(
        make_model(options, config.get("model", {})),
        environments.LocalEnvironment(cwd=os.getcwd(), **config.get("environment", {})),
        config.get("agent", {}),
    )
    agent.config.output_path = options.trajectory
    # The endpoint counts the cost.
    agent.config.cost_limit = 0
    task = options.prompt_file.read_text()
    if options.trajectory.exists():
        agent.resume(json.loads(options.trajectory.read_text())["messages"], task)
    else:
        agent.run(task)
    last = agent.messages[-1]
    status = last.get("extra", {}).get("exit_status", "")
    if status != "Submitted":
        sys.stderr.write(f"{status}: {last.get('content', '')}\n")
        return 1
    return 0


def make_model(options: argparse.Namespace, config: dict[str, Any]) -> Any:
    """Return the package's model with the address of the endpoint."""
    if options.client == "litellm":
        litellm_model = import_module("minisweagent.models.litellm_model")
        given = config.get("model_kwargs", {})
        endpoint = {"api_base": f"{options.base_url}/v1", "api_key": "none"}
        name = f"openai/{options.model}"
        return litellm_model.LitellmModel(
            **{**config, "model_name": name, "model_kwargs": {**given, **endpoint}}
        )
    openrouter_model = import_module("minisweagent.models.openrouter_model")
    # `drop_params` is an option of litellm.
    given = {**config, "model_name": options.model, "model_kwargs": {}}
    model = openrouter_model.OpenRouterModel(**given)
    model._api_url = f"{options.base_url}/v1/chat/completions"
    return model


def make_agent(model: Any, environment: Any, config: dict[str, Any]) -> Any:
    """Return the package's agent, which can also continue a conversation."""
    default = import_module("minisweagent.agents.default")

    class Agent(default.DefaultAgent):  # type: ignore[misc, name-defined]
        """The package's agent, which can also continue a conversation."""

        def resume(self, messages: list[dict[str, Any]], task: str) -> Any:
            """Continue a conversation with a new task."""
            # `run` begins a new conversation, so the first messages are replaced.
            self._earlier = messages
            self._task = task
            return self.run(task)

        def add_messages(self, *messages: dict[str, Any]) -> Any:
            """Add messages; the first ones of a run are replaced by an earlier conversation."""
            earlier = self.__dict__.pop("_earlier", None)
            if earlier is None:
                return super().add_messages(*messages)
            if earlier[-1].get("role") == "exit":
                earlier = earlier[:-1]
            last = earlier[-1]
            # The call that ended the task has no result yet.
            results = self.model.format_observation_messages(last, [], self.get_template_vars())
            new = f"The user added a new task: {self._task}"
            return super().add_messages(
                *earlier, *results, self.model.format_message(role="user", content=new)
            )

    names = default.AgentConfig.model_fields
    return Agent(model, environment, **{k: v for k, v in config.items() if k in names})


if __name__ == "__main__":
    sys.exit(main())
