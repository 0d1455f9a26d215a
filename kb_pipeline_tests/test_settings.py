"""Settings that make no sense are refused where they are read."""

import pytest
from pydantic import ValidationError

from kb_pipeline.errors import UsageError
from kb_pipeline.services.address import AllowList, parse_routes
from kb_pipeline.settings import Settings


@pytest.mark.parametrize("name", ["http_timeout_s", "http_host_interval_s", "parse_timeout_s"])
@pytest.mark.parametrize("value", ["inf", "nan", "1e300", "-1"])
def test_a_wait_ends(name, value):
    with pytest.raises(ValidationError, match=name):
        Settings(**{name: value})


@pytest.mark.parametrize("name", ["http_max_bytes", "max_file_bytes", "max_expanded_bytes", "parse_memory_mb"])
@pytest.mark.parametrize("value", ["0", "1" + "0" * 30])
def test_a_size_is_one_that_a_machine_has(name, value):
    with pytest.raises(ValidationError, match=name):
        Settings(**{name: value})


@pytest.mark.parametrize(
    "entry", ["x/99", "10.0.0.0/33", "http://wiki", "*.corp", "wiki:0", "wiki:99999", "a b", "wiki:", "-x", "a..b", "@"]
)
def test_what_is_no_host_or_range_is_not_allowed_in(entry):
    with pytest.raises(ValidationError, match="http_allow"):
        Settings(http_allow=f"wiki.corp,{entry}")


def test_hosts_ports_and_ranges_are_allowed_in():
    text = "wiki.corp, 10.2.0.0/16,localhost:8000,::1,[::1]:80,fd00::/8,bücher.example,127.0.0.1:80,my_host.,"
    assert len(AllowList.parse(Settings(http_allow=text).http_allow).networks) == 3


def test_an_overlap_is_smaller_than_what_it_overlaps():
    assert Settings(chunk_size=100).split_sizes == (100, 50)
    assert Settings(chunk_unit="tokens", chunk_overlap=700).split_sizes[0] == 800
    for given in ({"chunk_overlap": 1000}, {"chunk_size": 100, "chunk_overlap": 200}):
        with pytest.raises(ValidationError, match="CHUNK_OVERLAP"):
            Settings(**given)


@pytest.mark.parametrize("port", ["0", "70000", "²", "x", ""])
def test_a_route_leads_to_a_port(port):
    with pytest.raises(UsageError, match="HTTP_ROUTE"):
        parse_routes(f"a.example=127.0.0.1:{port}")
