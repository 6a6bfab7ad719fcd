"""The process that computes embeddings with an ONNX model.

Each line of the input is a JSON list of texts; for each, the process writes one line of JSON with a
list of vectors. The model is one of the kind of BERT, whose outputs are averaged over the tokens.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

MAX_TOKENS = 128
NICENESS = 10


def main(model: str, tokenizer: str) -> None:
    """Read texts until the input ends, and write their embeddings.

    Args:
        model: Path of the ONNX file.
        tokenizer: Path of the ``tokenizer.json``.
    """
    with suppress(OSError):
        os.nice(NICENESS)
    embed = _load(model, tokenizer)
    for line in sys.stdin.buffer:
        vectors = embed(json.loads(line))
        rounded = [[round(value, 5) for value in vector] for vector in vectors]
        sys.stdout.buffer.write(json.dumps(rounded).encode() + b"\n")
        sys.stdout.buffer.flush()


def _load(model: str, tokenizer: str) -> Any:
    np: Any = import_module("numpy")
    onnxruntime: Any = import_module("onnxruntime")
    encoder: Any = import_module("tokenizers").Tokenizer.from_file(tokenizer)
    encoder.enable_truncation(max_length=MAX_TOKENS)
    encoder.enable_padding()
    options = onnxruntime.SessionOptions()
    # The machine is the user's; a second thread would take the other core from them.
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    wanted = {each.name for each in session.get_inputs()}

    def embed(texts: list[str]) -> Any:
        encoded = encoder.encode_batch(texts)
        mask = np.array([each.attention_mask for each in encoded], dtype=np.int64)
        given = {
            "input_ids": np.array([each.ids for each in encoded], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        output = session.run(None, {name: given[name] for name in wanted})[0]
        if output.ndim == 2:  # the model itself averages
            return output.tolist()
        weights = mask[:, :, None].astype(output.dtype)
        return ((output * weights).sum(axis=1) / weights.sum(axis=1)).tolist()

    return embed
