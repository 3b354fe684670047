"""One base URL, however it was written."""

from __future__ import annotations

import pytest

from pytest_kvcache.endpoint import Endpoint, MetricsSource, parse_base_url, parse_metrics_source
from pytest_kvcache.errors import ConfigurationError


@pytest.mark.parametrize(
    "written",
    [
        "http://h/gw/m",
        "http://h/gw/m/",
        "http://h/gw/m/v1",
        "http://h/gw/m/v1/",
        "http://h/gw/m/v1/chat/completions",
        "http://h/gw/m/v1/completions",
        "  http://h/gw/m/v1/models?x=1#y ",
    ],
)
def test_all_bases_lead_to_the_same_urls(written: str) -> None:
    endpoint = Endpoint(parse_base_url(written, "--kv-endpoint"))
    assert endpoint.route("/v1/chat/completions") == "http://h/gw/m/v1/chat/completions"
    assert endpoint.sources() == (MetricsSource("http://h/gw/m/metrics"),)
    assert endpoint.route("/tokenize") == "http://h/gw/m/tokenize"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://h", "http://h/a/b/chat"),
        ("http://h/a", "http://h/a/b/chat"),
        ("http://h/a/b", "http://h/a/b/chat"),
        ("http://h/a/b/chat", "http://h/a/b/chat"),
        ("http://u:p@h:8/gw/a/b", "http://h:8/gw/a/b/chat"),
        ("http://h/a/models/some-model:ask", "http://h/a/b/chat"),  # the head of another of the paths
        ("http://h/a/gw", "http://h/a/gw/a/b/chat"),
        ("http://h/b", "http://h/b/a/b/chat"),
        ("http://h/a/a", "http://h/a/a/b/chat"),
    ],
)
def test_the_head_of_a_providers_path_is_not_repeated(base: str, url: str) -> None:
    assert Endpoint(base).route("/a/b/chat", ["/a/b/chat", "/a/models/{model}:ask?x=/a/gw"]) == url


def test_the_longest_head_counts_and_no_query() -> None:
    assert Endpoint("http://h/a/a").route("/x", ["/a/a/x", "/a/y"]) == "http://h/x"
    assert Endpoint("http://h/a/chat").route("/x", ["/a/chat?version=1"]) == "http://h/x"


def test_a_path_that_only_resembles_v1_stays() -> None:
    assert parse_base_url("http://h:8000/v10/v1x", "o") == "http://h:8000/v10/v1x"


@pytest.mark.parametrize("port", ["http://[::1]:8000", "https://h:443"])
def test_hosts_with_ports(port: str) -> None:
    assert parse_base_url(port + "/v1", "o") == port


@pytest.mark.parametrize(
    "bad", ["", "   ", "localhost:8000", "h", "ftp://h", "http://", "http://h:port", "http://[::1"]
)
def test_what_is_no_url_is_named_with_its_origin(bad: str) -> None:
    with pytest.raises(ConfigurationError, match="--kv-endpoint") as caught:
        parse_base_url(bad, "--kv-endpoint")
    assert "http://127.0.0.1:8000" in str(caught.value)
    assert bad.strip() in str(caught.value)


@pytest.mark.parametrize("bad", ["ftp://user:s3cret@h", "user:s3cret@h", "http://user:s3cret@h:x"])
def test_a_password_is_not_shown_in_the_error(bad: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_base_url(bad, "--kv-endpoint")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "source", "role"),
    [
        ("http://h:9/metrics?format=text#x", MetricsSource("http://h:9/metrics?format=text"), "engine"),
        ("prefill=http://h/metrics", MetricsSource("http://h/metrics", "prefill"), "prefill"),
        ("decode-2=http://h/metrics?a=b", MetricsSource("http://h/metrics?a=b", "decode-2"), "decode"),
        ("engine0=https://u:p@h/m", MetricsSource("https://u:p@h/m", "engine0"), "engine"),
        ("prometheus+http://h:9090/", MetricsSource("http://h:9090", "", "prometheus"), "engine"),
        (
            'prefill=prometheus+http://h:9090/p?match={job="v",instance=~"a|b"}',
            MetricsSource("http://h:9090/p", "prefill", "prometheus", 'job="v",instance=~"a|b"'),
            "prefill",
        ),
    ],
)
def test_metrics_source(written: str, source: MetricsSource, role: str) -> None:
    parsed = parse_metrics_source(written, "o")
    assert (parsed, parsed.role) == (source, role)


@pytest.mark.parametrize("written", ["prefill=", "prefill=h/metrics", "prometheus+http://h?job=x", "a b=http://h"])
def test_metrics_source_that_is_none(written: str) -> None:
    with pytest.raises(ConfigurationError, match="--kv-metrics"):
        parse_metrics_source(written, "--kv-metrics")


def test_several_sources_have_names() -> None:
    sources = (MetricsSource("http://u:p@a/metrics"), MetricsSource("http://b/metrics", "decode"))
    assert [s.name for s in Endpoint("http://h", metrics=sources).sources()] == ["http://a/metrics", "decode"]
    assert Endpoint("http://h").sources() == (MetricsSource("http://h/metrics"),)


def test_secrets_are_redacted_and_not_in_the_repr() -> None:
    endpoint = Endpoint("http://user:passw0rd@h", api_key="sk-abcdef", headers=(("X-Tenant", "tenant-secret"),))
    assert endpoint.url == "http://h"
    assert endpoint.redact("got sk-abcdef, tenant-secret and passw0rd") == "got ***, *** and ***"
    for secret in ("sk-abcdef", "tenant-secret", "passw0rd"):
        assert secret not in repr(endpoint)
