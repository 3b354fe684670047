"""Which profile a page is read by: every recorded page, and the least that the others can be told by."""

from __future__ import annotations

import pytest

from pytest_kvcache.engines import shipped

from .pages import DATA, recognised, recorded, written

RECORDED = sorted(str(path.relative_to(DATA).with_suffix("")) for path in DATA.glob("*/*.prom"))


def expected(name: str) -> str | None:
    folder, page = name.split("/")
    if folder.startswith("dynamo"):
        return "dynamo-worker" if "worker" in page else "dynamo"
    if "disable_log_stats" in page:
        return None
    return {"vllm-0.32.0": "vllm", "sglang-0.5.23": "sglang", "llamacpp-b11434": "llamacpp"}[folder]


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_page_is_recognised(name: str) -> None:
    assert recognised(recorded(name)) == expected(name)


VLLM_COUNTERS = (
    'vllm:prefix_cache_queries_total{{model_name="m"{0}}} 5',
    'vllm:prefix_cache_hits_total{{model_name="m"{0}}} 0',
    'vllm:cache_config_info{{block_size="16"{0}}} 1',
    'vllm:num_requests_running{{model_name="m"{0}}} 0',
)
ENGINE_0 = tuple(line.format(',engine="0"') for line in VLLM_COUNTERS)
NO_ENGINE = tuple(line.format("") for line in VLLM_COUNTERS)
ROUTER = (
    'vllm:current_qps{server="http://a"} 1',
    'vllm:healthy_pods_total{server="http://a"} 1',
    'vllm:num_requests_running{server="http://a"} 0',
    'vllm:gpu_prefix_cache_hits_total{server="http://a"} 7',
    'vllm:gpu_prefix_cache_queries_total{server="http://a"} 9',
    'vllm:gpu_prefix_cache_hit_rate{server="http://a"} 0.7',
)
LMCACHE = ('lmcache:num_lookup_tokens_total{model_name="m",worker_id="0"} 5',)
WORKER = (
    'dynamo_component_uptime_seconds{dynamo_component="backend"} 5',
    'dynamo_component_inflight_requests{dynamo_component="backend"} 0',
)


@pytest.mark.parametrize(
    ("profile", "lines"),
    [
        ("vllm", ENGINE_0),
        ("vllm", (*ENGINE_0, *LMCACHE)),  # LMCache in the engine's process
        ("vllm", (*ENGINE_0, *WORKER)),  # a Dynamo worker that passes its engine's series on
        (
            "vllm",
            ('vllm:gpu_prefix_cache_queries_total{model_name="m"} 5', 'vllm:cache_config_info{block_size="16"} 1'),
        ),
        ("vllm", ('vllm:gpu_prefix_cache_hit_rate{model_name="m"} -1', 'vllm:num_requests_running{model_name="m"} 0')),
        ("llm-d-sim", NO_ENGINE),
        ("vllm", (*NO_ENGINE, 'vllm:external_prefix_cache_queries_total{model_name="m"} 0')),  # a proxy took labels off
        ("production-stack", ROUTER),
        ("dynamo-worker", (*WORKER, 'vllm:num_requests_running{engine="0",model_name="m"} 0')),
        ("sglang", ('sglang:num_running_reqs{tp_rank="0"} 0', 'sglang:token_usage{tp_rank="0"} 0')),
        ("sglang", ("sglang:cache_hit_rate 0.5",)),
        ("sglang", ('sglang:num_running_reqs{tp_rank="0"} 0', *LMCACHE)),
        ("sglang-router", ("sgl_router_cache_hits_total 5", "sgl_router_tree_size 100")),
        ("sglang-router", ('smg_http_requests_total{path="/v1/chat/completions"} 5',)),
        ("trtllm", ('trtllm_prompt_tokens_total{model_name="undefined"} 5',)),
        ("trtllm", ("trtllm_kv_cache_reused_blocks_total 5", "trtllm_kv_cache_missed_blocks_total 5")),
        ("triton-trtllm", ('nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used"} 5',)),
        ("llamacpp", ("llamacpp:prompt_tokens_total 5", "llamacpp:requests_processing 0")),
        ("lmcache", LMCACHE),
        ("lmcache-mp", ("lmcache_mp_lookup_requested_tokens_total 5",)),
        ("nim", ("gpu_cache_usage_perc 0.1", "num_requests_running 0", "prompt_tokens_total 5")),
        ("mindie", ("npu_prefix_cache_hit_rate 0.5", "npu_cache_usage_perc 0.1", "num_requests_running 0")),
        ("llm-d-epp", ("llm_d_epp_request_input_tokens_sum 5", "llm_d_epp_request_cached_tokens_sum 0")),
        ("litellm", ("litellm_proxy_total_requests_metric_total 5", "litellm_cache_hits_metric_total 3")),
        ("mooncake", ("mem_cache_hit_nums_ 5", "total_get_nums_ 9")),
        ("lmdeploy", ('lmdeploy:prompt_tokens_total{model_name="m"} 5',)),
        ("tgi", ("tgi_queue_size 0",)),
        ("ovms", ('ovms_current_requests{name="m"} 0',)),
        ("vllm-mlx", ("vllm_mlx_cache_hits 5", "vllm_mlx_cache_misses 5")),
        ("sim", ('sim:cache_config_info{block_size="16",engine="0"} 1',)),
        (None, ("process_start_time_seconds 5", "http_requests_total 5", "python_info 1")),
    ],
)
def test_a_page_is_recognised(profile: str | None, lines: tuple[str, ...]) -> None:
    assert recognised(written(*lines)) == profile


@pytest.mark.parametrize(
    ("host", "provider"),
    [
        ("api.openai.com", "openai"),
        ("eu.api.openai.com", "openai"),
        ("mine.openai.azure.com", "azure"),
        ("api.anthropic.com", "anthropic"),
        ("generativelanguage.googleapis.com", "gemini"),
        ("us-central1-aiplatform.googleapis.com", "gemini"),
        ("api.deepseek.com", "deepseek"),
        ("api.moonshot.ai", "moonshot"),
        ("dashscope-intl.aliyuncs.com", "qwen"),
        ("api.fireworks.ai", "fireworks"),
        ("api.groq.com", "groq"),
        ("api.x.ai", "xai"),
        ("api.mistral.ai", "mistral"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "bedrock"),
        ("api.inference.crusoecloud.com", "crusoe"),
        ("openrouter.ai", "openrouter"),
        ("api.together.xyz", "together"),
        ("localhost", None),
        ("api.openai.com.example.org", None),
        ("notapi.openai.com", None),
        ("ec2-3-1-2-3.compute-1.amazonaws.com", None),  # an engine that a user runs there
    ],
)
def test_a_provider_is_known_by_its_host(host: str, provider: str | None) -> None:
    found = shipped().provider(host)
    assert (found.id if found else None) == provider
