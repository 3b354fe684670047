"""How many bytes of KV cache does one token of a model take?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..errors import TraceError
from .model_config import Config, read_config

_BYTES = {
    "fp32": Fraction(4),
    "bf16": Fraction(2),
    "fp16": Fraction(2),
    "fp8": Fraction(1),
    "int8": Fraction(1),
    "nvfp4": Fraction(9, 16),  # of 16 values: 8 bytes, and one byte of scale
}

_NAMES = {
    **{name: name for name in _BYTES},
    **dict.fromkeys(("float32", "float"), "fp32"),
    **dict.fromkeys(("bfloat16",), "bf16"),
    **dict.fromkeys(("float16", "half"), "fp16"),
    **dict.fromkeys(("fp8_e4m3", "fp8_e5m2", "float8_e4m3fn", "float8_e5m2"), "fp8"),
}

_LATENT = {"deepseek_v2", "deepseek_v3", "deepseek_vl_v2", "kimi_k2", "kimi_k25", "glm4_moe_lite"}
"""Families of multi-head latent attention of which engines keep the latent, not the heads made of it (vLLM 0.32).
MiniCPM3 has the same fields and is kept as heads, so a family that is not known here is refused."""


@dataclass(frozen=True, slots=True)
class KVSize:
    """What one token takes in the KV cache.

    Attributes:
        bytes_per_token: in all layers together, on however many GPUs they lie. Copies that tensor parallelism makes
            (more GPUs than KV heads; latent attention) are not counted, nor is a draft model.
        how: the arithmetic, in one line.
    """

    bytes_per_token: int
    how: str


def kv_size(model: str | Path | Mapping[str, Any], kv_dtype: str | None = None) -> KVSize:
    """Return the bytes of KV cache of one token: ``2 x layers x KV heads x head size x bytes``.

    With multi-head latent attention: ``layers x (kv_lora_rank + qk_rope_head_dim) x bytes``. What depends on the
    engine or on the length of the context is refused: a wrong number is worse than none.

    Args:
        model: a ``config.json``, the folder that it lies in, or what it says as a mapping. Nothing is fetched.
        kv_dtype: ``bf16``, ``fp16``, ``fp32``, ``fp8``, ``int8`` (both with one scale for a whole tensor) or
            ``nvfp4``; None: the model's own, which quantised weights do not change.

    Raises:
        TraceError: the file cannot be read or lacks a field, or not all layers keep every token alike.
    """
    config = read_config(model)
    values, how = _latent(config) if _is_latent(config) else _heads(config)
    dtype = _named(kv_dtype) if kv_dtype is not None else _own(config)
    total = values * _BYTES[dtype]
    if total.denominator != 1:
        raise config.refusal(f"{values} values do not fill blocks of 16, as {dtype} has them")
    size = f"{_BYTES[dtype]} byte" + ("s" if _BYTES[dtype] > 1 else "")
    return KVSize(int(total), f"{how} x {size} ({dtype})")


def _is_latent(config: Config) -> bool:
    fields, family = config.fields, config.family
    if config.nested and family in _LATENT and "kv_lora_rank" not in fields:
        raise config.refusal("it has no kv_lora_rank, and its class has one by default")
    if fields.get("kv_lora_rank") is None:
        return False
    if family and family not in _LATENT:
        raise config.refusal(
            f"it has kv_lora_rank, and of model_type {family!r} it is not known that the latent is kept"
        )
    return True


def _latent(config: Config) -> tuple[int, str]:
    layers = config.needed("num_hidden_layers")
    rank, rope = config.needed("kv_lora_rank"), config.needed("qk_rope_head_dim")
    return layers * (rank + rope), f"{layers} layers x ({rank} + {rope})"


def _heads(config: Config) -> tuple[int, str]:
    layers = config.number("num_hidden_layers", "n_layer", "n_layers")
    if layers is None:  # what ChatGLM calls num_layers is another thing elsewhere
        layers = config.needed("num_layers" if "kv_channels" in config.fields else "num_hidden_layers")
    heads, size = _kv_heads(config), _head_size(config)
    return 2 * layers * heads * size, f"2 x {layers} layers x {heads} KV head{'s' if heads > 1 else ''} x {size}"


def _kv_heads(config: Config) -> int:
    fields = config.fields
    if fields.get("multi_query_attention"):  # ChatGLM
        return config.needed("multi_query_group_num")
    if fields.get("multi_query") and not fields.get("new_decoder_architecture"):  # Falcon 7B, StarCoder
        return 1
    inner = fields.get("attn_config")
    if isinstance(inner, Mapping):  # MPT, DBRX
        given = Config(inner, inner, f"{config.where}, attn_config").number("kv_n_heads")
    else:
        given = config.number("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "num_attention_groups")
    if given is None and config.nested:
        raise config.refusal("it has no num_key_value_heads, and its class may have them by default")
    return given or _query_heads(config)


def _query_heads(config: Config) -> int:
    return config.needed("num_attention_heads", "n_head", "n_heads")


def _head_size(config: Config) -> int:
    size = config.number("head_dim", "kv_channels", "hidden_size_per_head", "attention_head_dim")
    if size is None and not config.head_of_hidden:
        raise config.refusal("it has no head_dim, and its class may have one by default")
    if size is None:
        hidden, heads = config.needed("hidden_size", "n_embd", "n_embed", "d_model", "dim"), _query_heads(config)
        size, rest = divmod(hidden, heads)
        if rest:
            raise config.refusal(f"it has no head_dim, and a hidden size of {hidden} is not divided by {heads} heads")
    of_values = config.fields.get("v_head_dim")
    if of_values and of_values != size:
        raise config.refusal(f"v_head_dim is {of_values}, and the heads of its keys have {size}")
    return size


def _named(kv_dtype: str) -> str:
    plain = str(kv_dtype).lower().removeprefix("torch.")
    if plain not in _NAMES:
        raise TraceError(
            f"kv_dtype={kv_dtype!r}: expected one of {', '.join(_BYTES)}. Others keep scales beside their values, as "
            "the engine likes: give kv_bytes_per_token= instead"
        )
    return _NAMES[plain]


def _own(config: Config) -> str:
    """Return the model's dtype where engines keep the KV cache in it unasked: of float32 they make another."""
    ask = "Give kv_dtype=, as kv_dtype='bf16' or 'fp8'"
    quantised = _quantised_cache(config.outer) or _quantised_cache(config.fields)
    if quantised:
        raise TraceError(f"{config.where}: {quantised} says that its KV cache is quantised, too. {ask}")
    said = [f[name] for f in (config.fields, config.outer) for name in ("dtype", "torch_dtype") if f.get(name)]
    dtype = _NAMES.get(str(said[0]).removeprefix("torch.")) if said else None
    if dtype not in ("bf16", "fp16"):
        seen = f"its dtype is {str(said[0])!r}, which does not tell" if said else "it has no dtype to tell"
        raise TraceError(f"{config.where}: {seen} that of the KV cache. {ask}")
    return dtype


def _quantised_cache(fields: Mapping[str, Any]) -> str | None:
    outer = fields.get("quantization_config")
    inner = outer.get("quantization") if isinstance(outer, Mapping) else None
    for said in (outer, inner):
        if isinstance(said, Mapping):
            for name in ("kv_cache_scheme", "kv_cache_quant_algo"):  # compressed-tensors; ModelOpt
                if said.get(name):
                    return name
    return None
