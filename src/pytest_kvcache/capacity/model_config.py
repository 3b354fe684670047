"""What does a model's ``config.json`` say of its attention, and do all of its layers keep every token alike?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import TraceError

INSTEAD = (
    "Give kv_bytes_per_token= instead: the memory of an engine's KV cache divided by the tokens that it says fit in it"
)

_TEXT_PARTS = ("text_config", "language_config", "llm_config")

_HEAD_OF_HIDDEN = {"llama", "qwen2", "qwen2_moe", "qwen2_vl_text", "qwen2_5_vl_text", "internlm2", "phi3", "mixtral"}

_ALIKE = _HEAD_OF_HIDDEN | {
    *("mistral", "ministral3", "qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text", "gemma", "glm4", "glm4_moe"),
    *("glm4v_text", "glm4v_moe_text", "deepseek_v2", "deepseek_v3", "kimi_k2"),
}
"""Families that are read where they are a part of a file. Of a part only what differs from the defaults of its class is
written (transformers 5.24), so what is not there may still be set: only of these is it known that no layer has a window
then, and only of the first that a head has its share of the hidden size."""

_FULL = {"full_attention", "attention", "full"}

_UNEVEN = {
    "per_layer": "layers that differ",
    "heads_per": "layers that differ",
    "block_configs": "layers that differ",
    "hybrid": "layers that differ",
    "attn_type": "layers that differ",
    "attention_type": "layers that differ",
    "attention_layers": "layers that differ",
    "attn_layer": "layers without attention",
    "full_attn": "layers without attention",
    "full_attention": "layers without attention",
    "linear_attn": "linear attention",
    "linear_num": "linear attention",
    "linear_key": "linear attention",
    "linear_head": "linear attention",
    "recurrent": "recurrent layers",
    "mamba": "state-space layers",
    "ssm_": "state-space layers",
    "state_size": "state-space layers",
    "conv_L_cache": "convolutions with a state",
    "short_conv": "convolutions with a state",
    "attention_window": "a window",
    "local_attention": "a window",
    "global_attn": "a window",
    "keep_window": "a window",
    "swa_": "a window",
    "num_sliding": "a window",
    "attention_chunk": "layers that see one chunk of the context",
    "global_head_dim": "heads of two sizes",
    "kv_shared": "layers that share their KV",
    "kv_source": "layers that share their KV",
    "use_cla": "layers that share their KV",
    "loop_": "layers that are run more than once",
    "ut_steps": "layers that are run more than once",
    "compress_r": "a compressed KV cache",
    "index_topk": "an indexer with a cache of its own",
    "index_head": "an indexer with a cache of its own",
    "indexer": "an indexer with a cache of its own",
    "is_encoder_decoder": "an encoder",
}
"""Parts of the names of fields that are set where not every layer keeps the KV of every token alike."""


@dataclass(frozen=True, slots=True)
class Config:
    """The part of a file that describes the language model.

    Attributes:
        fields: of that part.
        outer: of the whole file; the same object where that is the part.
        where: for messages.
    """

    fields: Mapping[str, Any]
    outer: Mapping[str, Any]
    where: str

    @property
    def family(self) -> str:
        """Its ``model_type``, or nothing."""
        return str(self.fields.get("model_type") or "")

    @property
    def nested(self) -> bool:
        """Whether a field that is not there may still be set, as the default of its class."""
        return self.fields is not self.outer

    @property
    def head_of_hidden(self) -> bool:
        """Whether a head size that is not told is the hidden size divided by the heads."""
        return not self.nested or self.family in _HEAD_OF_HIDDEN

    def number(self, *names: str) -> int | None:
        """Return the first of these fields that is there and not null.

        Raises:
            TraceError: it is no positive whole number, as one value for each layer.
        """
        for name in names:
            value = self.fields.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise self.refusal(f"{name} is {_kind(value)}, expected one whole number above 0")
            return value
        return None

    def needed(self, *names: str) -> int:
        """As :meth:`number`, of what must be there."""
        value = self.number(*names)
        if value is None:
            raise self.refusal(f"it has no {' or '.join(names)}")
        return value

    def refusal(self, why: str) -> TraceError:
        """Return the error that says why no number can be had, and what to do."""
        return TraceError(f"{self.where}: {why}; the bytes of its KV cache cannot be told from it. {INSTEAD}")


def read_config(model: str | Path | Mapping[str, Any]) -> Config:
    """Return the language model's part of a file, of the ``config.json`` in a folder, or of a mapping.

    Raises:
        TraceError: there is no such file, it is not a JSON object, or not all layers keep every token alike.
    """
    outer, where = (model, "the model's config") if isinstance(model, Mapping) else _file(Path(model))
    config = _language_model(outer, where)
    _refuse_uneven(config)
    return config


def _file(path: Path) -> tuple[Mapping[str, Any], str]:
    file = path / "config.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise TraceError(
            f"{file}: there is no such file. Give the path of a model's config.json or of its folder (no model is "
            "fetched by its name), or kv_bytes_per_token="
        ) from None
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{file} is no JSON: {error}. Expected the config.json of a model") from None
    if not isinstance(found, dict):
        raise TraceError(f"{file} holds {_kind(found)}, expected an object: the config.json of a model")
    return found, str(file)


def _language_model(outer: Mapping[str, Any], where: str) -> Config:
    whole = Config(outer, outer, where)
    layers = outer.get("num_hidden_layers", outer.get("n_layer"))
    for name in _TEXT_PARTS:
        part = outer.get(name)
        if not isinstance(part, Mapping):
            continue
        if layers is None:
            return Config(part, outer, f"{where}, {name}")
        if part.get("num_hidden_layers", layers) != layers:
            raise whole.refusal(f"num_hidden_layers is {layers}, and {part['num_hidden_layers']} in {name}")
    return whole


def _refuse_uneven(config: Config) -> None:
    if config.nested and config.family not in _ALIKE:
        raise config.refusal(f"model_type {config.family!r} is not one whose layers are known to be alike by default")
    for name, value in {**config.outer, **config.fields}.items():
        if name in ("layer_types", "layers_block_type", "block_types"):
            _refuse_types(config, name, value)
        elif name == "sliding_window":
            _refuse_window(config, value)
        elif value and (meaning := next((said for part, said in _UNEVEN.items() if part in name), None)):
            raise config.refusal(f"{name} is set, which speaks of {meaning}")
    if config.nested and config.family == "mistral" and "sliding_window" not in config.fields:
        raise config.refusal("it has no sliding_window, and its class has one by default")


def _refuse_types(config: Config, name: str, value: object) -> None:
    if not value:
        return
    kinds = Counter(map(str, value)) if isinstance(value, list) else Counter([_kind(value)])
    if not kinds.keys() <= _FULL:
        seen = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
        raise config.refusal(f"{name} has {seen}: only layers of full attention keep every token")


def _refuse_window(config: Config, value: object) -> None:
    """A window that is switched off, or as long as the longest context, cuts nothing."""
    fields = config.fields
    if not value or fields.get("use_sliding_window") is False or fields.get("layer_types"):
        return
    longest = fields.get("max_position_embeddings")
    if isinstance(value, int) and isinstance(longest, int) and value >= longest:
        return
    raise config.refusal(f"sliding_window is {value!r}: layers with a window do not keep every token")


def _kind(value: object) -> str:
    if value is None or isinstance(value, int):
        return repr(value)
    told = {"list": "a list", "dict": "an object", "str": "text", "float": "no whole number"}
    return told.get(type(value).__name__, type(value).__name__)
