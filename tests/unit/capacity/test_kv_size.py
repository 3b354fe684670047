"""Bytes of KV cache per token, worked out by hand from public configurations; refusals where no number is right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_kvcache.capacity.kv_size import KVSize, kv_size
from pytest_kvcache.errors import TraceError

MODELS = Path(__file__).parents[2] / "data" / "model_configs"
PLAIN = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 256, "torch_dtype": "bfloat16"}
PART = {
    "model_type": "qwen2",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "hidden_size": 256,
}


def refusal(model: Mapping[str, Any] | Path | str, kv_dtype: str | None = None) -> str:
    with pytest.raises(TraceError) as caught:
        kv_size(model, kv_dtype)
    return str(caught.value)


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((MODELS / f"{name}.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(
    ("name", "bytes_per_token", "how"),
    [
        ("llama-3.1-8b", 131_072, "2 x 32 layers x 8 KV heads x 128 x 2 bytes (bf16)"),
        ("llama-3.1-70b", 327_680, "2 x 80 layers x 8 KV heads x 128 x 2 bytes (bf16)"),
        ("qwen2.5-7b", 57_344, "2 x 28 layers x 4 KV heads x 128 x 2 bytes (bf16)"),
        ("qwen3-32b", 262_144, "2 x 64 layers x 8 KV heads x 128 x 2 bytes (bf16)"),
        ("deepseek-v3", 70_272, "61 layers x (512 + 64) x 2 bytes (bf16)"),
        ("devstral-small-2-24b", 163_840, "2 x 40 layers x 8 KV heads x 128 x 2 bytes (bf16)"),
        ("phi-3.5-vision", 393_216, "2 x 32 layers x 32 KV heads x 96 x 2 bytes (bf16)"),
        ("falcon-7b", 8_192, "2 x 32 layers x 1 KV head x 64 x 2 bytes (bf16)"),
    ],
)
def test_public_models_in_their_own_dtype(name: str, bytes_per_token: int, how: str) -> None:
    assert kv_size(MODELS / f"{name}.json") == KVSize(bytes_per_token, how)


@pytest.mark.parametrize(
    ("kv_dtype", "bytes_per_token", "end"),
    [
        ("bf16", 131_072, "x 2 bytes (bf16)"),
        ("fp16", 131_072, "x 2 bytes (fp16)"),
        ("float16", 131_072, "x 2 bytes (fp16)"),
        ("torch.bfloat16", 131_072, "x 2 bytes (bf16)"),
        ("fp32", 262_144, "x 4 bytes (fp32)"),
        ("fp8", 65_536, "x 1 byte (fp8)"),
        ("FP8_E4M3", 65_536, "x 1 byte (fp8)"),
        ("int8", 65_536, "x 1 byte (int8)"),
        ("nvfp4", 36_864, "x 9/16 byte (nvfp4)"),  # 65,536 values: half a byte each, and 4,096 scales of one
    ],
)
def test_a_cache_of_another_type(kv_dtype: str, bytes_per_token: int, end: str) -> None:
    size = kv_size(MODELS / "llama-3.1-8b.json", kv_dtype)
    assert size.bytes_per_token == bytes_per_token
    assert size.how.endswith(f"x 128 {end}")


def test_a_type_whose_scales_are_not_known_is_refused() -> None:
    assert "kv_dtype='int4': expected one of fp32, bf16, fp16, fp8, int8, nvfp4" in refusal(PLAIN, "int4")
    assert "kv_bytes_per_token=" in refusal(PLAIN, "fp4")
    odd = PLAIN | {"head_dim": 3, "num_hidden_layers": 1, "num_key_value_heads": 1}
    assert "6 values do not fill blocks of 16" in refusal(odd, "nvfp4")


def test_fp8_weights_do_not_change_the_type_of_the_cache_but_an_fp8_cache_does() -> None:
    deepseek = read("deepseek-v3")
    assert kv_size(deepseek, "fp8").bytes_per_token == 35_136
    for inner in (
        {"kv_cache_scheme": {"num_bits": 8, "type": "float"}},
        {"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}},
    ):
        quantised = PLAIN | {"quantization_config": inner}
        assert "says that its KV cache is quantised, too. Give kv_dtype=" in refusal(quantised)
        assert kv_size(quantised, "fp8").bytes_per_token == 2 * 4 * 256
    assert kv_size(PLAIN | {"quantization_config": {"kv_cache_scheme": None}}).bytes_per_token == 4_096
    part = PART | {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}}
    assert "its KV cache is quantised, too" in refusal({"torch_dtype": "bfloat16", "text_config": part})


def test_a_file_its_folder_and_its_content_are_the_same(tmp_path: Path) -> None:
    text = (MODELS / "qwen2.5-7b.json").read_text(encoding="utf-8")
    (tmp_path / "config.json").write_text("\ufeff" + text, encoding="utf-8")
    for model in (tmp_path, str(tmp_path), tmp_path / "config.json", json.loads(text)):
        assert kv_size(model).bytes_per_token == 57_344


def test_what_is_no_model() -> None:
    assert "no model is fetched by its name" in refusal("meta-llama/Llama-3.1-8B")


@pytest.mark.parametrize(
    ("content", "said"), [("{", "is no JSON"), ("[1]", "holds a list"), ("3", "holds 3"), ("", "is no JSON")]
)
def test_what_is_no_configuration(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    message = refusal(tmp_path)
    assert said in message
    assert str(tmp_path / "config.json") in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert f"{tmp_path / 'config.json'} cannot be read" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("changes", "values"),
    [
        ({}, 2 * 4 * 8 * 32),  # as many KV heads as heads, each its share of the hidden size
        ({"num_key_value_heads": None}, 2 * 4 * 8 * 32),
        ({"num_key_value_heads": 2}, 2 * 4 * 2 * 32),
        ({"head_dim": 128, "num_key_value_heads": 2}, 2 * 4 * 2 * 128),
        ({"head_dim": None, "v_head_dim": 0}, 2 * 4 * 8 * 32),
        ({"v_head_dim": 32}, 2 * 4 * 8 * 32),
        ({"num_attention_groups": 1}, 2 * 4 * 1 * 32),
        ({"multi_query": True, "num_kv_heads": 8}, 2 * 4 * 1 * 32),
        ({"multi_query": False, "num_kv_heads": 4}, 2 * 4 * 4 * 32),
        ({"multi_query": True, "new_decoder_architecture": True, "num_kv_heads": 2}, 2 * 4 * 2 * 32),
        ({"kv_lora_rank": None}, 2 * 4 * 8 * 32),
        ({"compression_config": {"quant_method": "compressed-tensors"}}, 2 * 4 * 8 * 32),
        ({"layer_types": ["full_attention"] * 4, "sliding_window": 16}, 2 * 4 * 8 * 32),
        ({"layer_types": ["attention"] * 4}, 2 * 4 * 8 * 32),
        ({"layer_types": None, "use_cla": False, "index_topk": None, "is_encoder_decoder": False}, 2 * 4 * 8 * 32),
        ({"sliding_window": 1024, "use_sliding_window": False}, 2 * 4 * 8 * 32),
        ({"sliding_window": 1024, "max_position_embeddings": 1024}, 2 * 4 * 8 * 32),
        ({"sliding_window": None, "max_window_layers": 2}, 2 * 4 * 8 * 32),
        ({"vision_config": {"sliding_window": 8, "num_hidden_layers": 24}}, 2 * 4 * 8 * 32),
        ({"text_config": {"num_hidden_layers": 4}}, 2 * 4 * 8 * 32),
    ],
)
def test_defaults_and_what_changes_nothing(changes: dict[str, Any], values: int) -> None:
    assert kv_size(PLAIN | changes).bytes_per_token == 2 * values


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        (read("gpt2"), 2 * 12 * 12 * 64),
        ({"n_layer": 4, "n_head": 8, "n_embd": 256, "multi_query": True}, 2 * 4 * 1 * 32),  # StarCoder
        ({"n_layers": 4, "n_heads": 8, "d_model": 256, "attn_config": {"kv_n_heads": 2}}, 2 * 4 * 2 * 32),  # DBRX
        ({"n_layers": 4, "n_heads": 8, "d_model": 256, "attn_config": {"attn_impl": "torch"}}, 2 * 4 * 8 * 32),  # MPT
        ({"n_layers": 4, "n_heads": 8, "n_kv_heads": 2, "dim": 256}, 2 * 4 * 2 * 32),  # params.json of Mistral
        (
            {
                "num_layers": 28,
                "num_attention_heads": 32,
                "kv_channels": 128,
                "multi_query_attention": True,
                "multi_query_group_num": 2,
            },
            2 * 28 * 2 * 128,
        ),  # ChatGLM3
    ],
)
def test_other_families_have_other_names(fields: dict[str, Any], values: int) -> None:
    assert kv_size(fields, "bf16").bytes_per_token == 2 * values


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_hidden_layers": None}, "it has no num_hidden_layers"),
        ({"num_hidden_layers": None, "num_layers": 4}, "it has no num_hidden_layers"),  # elsewhere half of the layers
        ({"num_attention_heads": None}, "it has no num_attention_heads or n_head or n_heads"),
        ({"hidden_size": None}, "it has no hidden_size or n_embd"),
        ({"hidden_size": 250}, "a hidden size of 250 is not divided by 8 heads"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"num_hidden_layers": 4.0}, "num_hidden_layers is no whole number"),
        ({"num_hidden_layers": "4"}, "num_hidden_layers is text"),
        ({"num_key_value_heads": [8, 4, 4, 8]}, "num_key_value_heads is a list, expected one whole number"),
        ({"v_head_dim": 16}, "v_head_dim is 16, and the heads of its keys have 32"),
        ({"multi_query_attention": True}, "it has no multi_query_group_num"),
        ({"text_config": {"num_hidden_layers": 2}}, "num_hidden_layers is 4, and 2 in text_config"),
    ],
)
def test_what_is_missing_or_wrong_is_named(change: dict[str, Any], said: str) -> None:
    message = refusal(PLAIN | change)
    assert said in message
    assert "kv_bytes_per_token=" in message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"layer_types": ["full_attention", "linear_attention"]},
            "layer_types has 1 full_attention, 1 linear_attention",
        ),
        ({"layer_types": "sliding_attention"}, "layer_types has 1 text"),
        ({"layers_block_type": ["mamba", "attention"]}, "only layers of full attention keep every token"),
        ({"sliding_window": 4096, "max_position_embeddings": 32768}, "sliding_window is 4096"),
        ({"sliding_window": 4096}, "sliding_window is 4096"),
        ({"sliding_window": 4096, "use_sliding_window": True}, "sliding_window is 4096"),
        ({"attention_chunk_size": 8192}, "attention_chunk_size is set"),
        ({"full_attention_interval": 4}, "full_attention_interval is set"),
        ({"linear_attn_config": {"kda_layers": [1]}}, "linear attention"),
        ({"attn_layer_period": 8}, "layers without attention"),
        ({"hybrid_override_pattern": "M-M*"}, "hybrid_override_pattern is set"),
        ({"mamba_d_state": 128}, "state-space layers"),
        ({"full_attn_idxs": [2, 5]}, "full_attn_idxs is set"),
        ({"cross_attention_layers": [3, 8]}, "cross_attention_layers is set"),
        ({"num_kv_shared_layers": 20}, "layers that share their KV"),
        ({"use_cla": True}, "layers that share their KV"),
        ({"block_configs": [{}]}, "layers that differ"),
        ({"attn_type_list": [0, 1]}, "layers that differ"),
        ({"global_head_dim": 512}, "heads of two sizes"),
        ({"compress_ratios": [4, 128]}, "a compressed KV cache"),
        ({"index_topk": 2048}, "an indexer with a cache of its own"),
        ({"total_ut_steps": 4}, "layers that are run more than once"),
        ({"is_encoder_decoder": True}, "an encoder"),
    ],
)
def test_layers_that_do_not_keep_every_token_alike_have_no_one_number(change: dict[str, Any], said: str) -> None:
    message = refusal(PLAIN | change)
    assert said in message
    assert message.endswith("the memory of an engine's KV cache divided by the tokens that it says fit in it")


def test_public_hybrids_are_refused() -> None:
    assert "48 linear_attention, 16 full_attention" in refusal(
        {**read("qwen3.5-27b")["text_config"], "full_attention_interval": None} | {"linear_key_head_dim": None}
    )
    assert "text_config: model_type 'qwen3_5_text' is not one" in refusal(read("qwen3.5-27b"))
    assert "48 sliding_attention, 16 full_attention" in refusal(read("exaone-4.0-32b"))


def test_latent_attention() -> None:
    latent = {"num_hidden_layers": 27, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "torch_dtype": "bfloat16"}
    assert kv_size(latent).bytes_per_token == 27 * 576 * 2
    assert kv_size(latent | {"model_type": "deepseek_v2"}).bytes_per_token == 31_104
    assert "kv_lora_rank, and of model_type 'minicpm3'" in refusal(latent | {"model_type": "minicpm3"})
    assert "it has no qk_rope_head_dim" in refusal(latent | {"qk_rope_head_dim": None})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "gemma3_text"}, "model_type 'gemma3_text' is not one whose layers are known to be alike"),
        ({"model_type": None}, "model_type '' is not one"),
        ({"num_key_value_heads": None}, "it has no num_key_value_heads, and its class may have them by default"),
        ({"model_type": "qwen3"}, "it has no head_dim, and its class may have one by default"),
        ({"model_type": "deepseek_v3"}, "it has no kv_lora_rank, and its class has one by default"),
        ({"model_type": "mistral", "head_dim": 32}, "it has no sliding_window, and its class has one by default"),
        ({"sliding_window": 16}, "sliding_window is 16"),
    ],
)
def test_of_a_part_of_a_file_what_is_not_written_is_not_taken_for_unset(change: dict[str, Any], said: str) -> None:
    message = refusal({"torch_dtype": "bfloat16", "text_config": PART | change})
    assert said in message
    assert "text_config: " in message


@pytest.mark.parametrize("name", ["text_config", "language_config", "llm_config"])
def test_the_language_model_is_a_part_of_a_multimodal_file(name: str) -> None:
    outer = {"model_type": "seen", "vision_config": {"num_hidden_layers": 24}}
    assert kv_size(outer | {"dtype": "bfloat16", name: PART}).bytes_per_token == 2 * (2 * 4 * 2 * 32)
    assert kv_size(outer | {name: PART | {"torch_dtype": "float16"}}).how.endswith("(fp16)")
    assert kv_size(
        outer | {"dtype": "bfloat16", name: PART | {"model_type": "mistral", "head_dim": 64, "sliding_window": None}}
    )
    assert "sliding_window is 8" in refusal(
        outer | {"sliding_window": None, name: PART | {"sliding_window": 8}}, "bf16"
    )
    assert "is_encoder_decoder is set" in refusal(outer | {"is_encoder_decoder": True, name: PART}, "bf16")


@pytest.mark.parametrize(
    ("dtype", "said"),
    [
        (None, "it has no dtype to tell that of the KV cache. Give kv_dtype="),
        ("float32", "its dtype is 'float32', which does not tell that of the KV cache"),
        ("auto", "its dtype is 'auto'"),
        ("float8_e4m3fn", "its dtype is 'float8_e4m3fn'"),
    ],
)
def test_a_dtype_that_does_not_tell_is_asked_for(dtype: str | None, said: str) -> None:
    model = PLAIN | {"torch_dtype": dtype}
    assert said in refusal(model)
    assert kv_size(model, "bf16").bytes_per_token == 4_096


def test_the_newer_name_of_the_dtype() -> None:
    model = PLAIN | {"torch_dtype": None}
    assert kv_size(model | {"dtype": "bfloat16"}).how.endswith("(bf16)")
    assert kv_size(model | {"dtype": "torch.float16"}).how.endswith("(fp16)")
