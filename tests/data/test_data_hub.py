"""rltok.data.hub without a network: the probe against local servers, the stream against a stand-in for `datasets`."""

import socket
import subprocess
import sys
import threading
import time
import types
from http.server import BaseHTTPRequestHandler, HTTPServer

import huggingface_hub.constants  # reads HF_ENDPOINT when it is imported, so before a test sets it
import pytest

from rltok.config import DataConfig
from rltok.data import documents, load_corpus
from rltok.data.hub import hub_reachable, parse
from rltok.errors import RltokError

SWITCHES = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


class Hub(HTTPServer):
    """Answers every HEAD, until it is closed."""

    class RequestHandlerClass(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(404)  # an answer, whatever it says
            self.end_headers()

        def log_message(self, *_):
            pass

    def __init__(self):
        super().__init__(("127.0.0.1", 0), self.RequestHandlerClass)
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def no_switch(monkeypatch):
    """Neither switch that says offline, nor a proxy."""
    for name in (*SWITCHES, "HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hub(monkeypatch, no_switch):
    """A server that answers, as the hub's."""
    server = Hub()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield server
    server.close()


@pytest.fixture
def calls(monkeypatch):
    """A stand-in for the package `datasets` with three rows; the list records how it was asked."""
    requests = []

    def load_dataset(name, config, *, split, streaming):
        requests.append((name, config, split, streaming))
        if name == "no/such":
            raise FileNotFoundError("Dataset 'no/such' doesn't exist\non the Hub")
        column = "content" if "codeparrot" in name else "body" if name == "odd/one" else "text"
        return iter([{column: f"né {i}" * 10, "id": f"row-{i}"} for i in range(3)])

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    return requests


def test_the_probe_says_yes_to_a_hub_that_answers_and_no_to_a_port_that_refuses(hub):
    assert hub_reachable() is True
    hub.close()
    assert hub_reachable() is False


@pytest.mark.parametrize("address", ["huggingface", "http://", "ftp://127.0.0.1", "http://127.0.0.1:x", "http://[::1", ""])
def test_an_address_that_is_none_means_no(address, monkeypatch, no_switch):
    monkeypatch.setenv("HF_ENDPOINT", address)
    assert hub_reachable() is False


def test_an_address_with_which_the_package_cannot_be_imported_means_no(monkeypatch, no_switch):
    monkeypatch.setenv("HF_ENDPOINT", "http://[::1")
    code = "from rltok.data.hub import hub_reachable; print(hub_reachable())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_port_that_takes_a_connection_and_says_nothing_means_no_within_the_time_limit(scheme, monkeypatch, no_switch):
    """As behind a firewall: the system accepts for a server that never looks."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        monkeypatch.setenv("HF_ENDPOINT", f"{scheme}://127.0.0.1:{mute.getsockname()[1]}")
        start = time.monotonic()
        assert hub_reachable(timeout=0.2) is False
        assert time.monotonic() - start < 1


def test_a_port_that_answers_in_another_language_means_no(hub, monkeypatch):
    """As a network that asks for a login first: something answers, and is not the hub."""
    monkeypatch.setenv("HF_ENDPOINT", f"https://127.0.0.1:{hub.server_port}")
    assert hub_reachable() is False


def test_a_proxy_is_asked_where_there_is_one(hub, monkeypatch):
    forget = getattr(huggingface_hub, "close_session", lambda: None)  # newer versions keep what they knew of proxies
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{hub.server_port}")
    monkeypatch.setenv("HF_ENDPOINT", "http://no.such.host.invalid")
    forget()
    try:
        assert hub_reachable() is True
    finally:
        forget()


@pytest.mark.parametrize("switch", SWITCHES)
def test_an_offline_switch_means_no_without_asking(hub, monkeypatch, switch):
    monkeypatch.setenv(switch, "1")
    assert hub_reachable() is False
    monkeypatch.setenv(switch, "0")
    assert hub_reachable() is True


def test_a_network_that_swallows_packets_means_no_after_the_time_limit(hub, monkeypatch):
    gave_up = threading.Event()

    def swallow(*_, **__):
        gave_up.wait()
        raise TimeoutError

    monkeypatch.setattr("huggingface_hub.get_session", lambda: types.SimpleNamespace(head=swallow))
    assert hub_reachable(timeout=0.01) is False
    gave_up.set()


def test_without_the_package_that_asks_the_next_step_says_so(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    hub.close()
    assert hub_reachable() is True


@pytest.mark.parametrize("spec", ["fineweb", "codeparrot", "hf:HuggingFaceFW/fineweb:sample-10BT"])
def test_without_network_the_error_names_the_bundled_sample_and_datasets_is_not_touched(hub, calls, spec):
    hub.close()
    with pytest.raises(RltokError, match=r"cannot reach the Hugging Face hub.*--data sample.*force=True in Python\)\.$"):
        next(documents(spec))
    assert calls == []


def test_force_goes_past_the_probe(hub, calls):
    hub.close()
    assert len(list(documents("fineweb", force=True))) == 3


@pytest.mark.parametrize(
    "spec, name, config",
    [
        ("fineweb", "HuggingFaceFW/fineweb", "sample-100BT"),
        ("hf:HuggingFaceFW/fineweb", "HuggingFaceFW/fineweb", None),
        ("codeparrot", "transformersbook/codeparrot-train", None),
        ("hf:transformersbook/codeparrot-train", "transformersbook/codeparrot-train", None),
    ],
)
def test_a_dataset_is_streamed_from_its_train_split_and_text_column(hub, calls, spec, name, config):
    docs = list(documents(spec))
    assert calls == [(name, config, "train", True)]
    assert docs[2] == (("né 2" * 10).encode(), name, "row-2", "") and len(docs) == 3


def test_a_dataset_without_the_text_column_names_those_it_has(hub, calls):
    with pytest.raises(RltokError, match="column 'text'; its columns are body, id"):
        list(documents("hf:odd/one"))


def test_an_unknown_dataset_is_one_line(hub, calls):
    with pytest.raises(RltokError, match="cannot read 'hf:no/such' from the hub: Dataset 'no/such' doesn't exist on the Hub"):
        list(documents("hf:no/such"))


def test_ids_that_are_null_or_have_no_utf8_form_are_places_or_escaped(hub, monkeypatch):
    rows = [{"text": "a", "id": None}, {"text": b"b", "id": float("nan")}, {"text": "c", "id": "\ud800"}, {"text": "d"}]
    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=lambda *_, **__: iter(rows)))
    docs = list(documents("hf:a/b"))
    assert [document.id for document in docs] == ["0", "1", "\\ud800", "3"]
    assert [document.text for document in docs] == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("spec", ["hf:", "hf:fineweb", "hf:/x", "hf:a/b/c"])
def test_a_malformed_name_shows_the_right_form(spec):
    with pytest.raises(RltokError, match="must read hf:OWNER/NAME"):
        parse(spec)


def test_a_missing_package_names_the_extra(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(RltokError, match=r"pip install 'rltok\[data\]'"):
        next(documents("fineweb"))


def test_a_stream_without_end_needs_a_limit_and_is_read_no_further(hub, calls):
    config = DataConfig(sequence_length=16, cut="windows")
    with pytest.raises(RltokError, match="--max-bytes"):
        load_corpus("fineweb", config)
    corpus = load_corpus("fineweb", config, max_bytes=50)
    assert (corpus.train.total_bytes + corpus.validation.total_bytes, corpus.description["name"]) == (48, "fineweb")


def test_importing_the_data_package_loads_neither_datasets_nor_pyarrow():
    code = "import sys, rltok.data; print(sorted({'datasets', 'pyarrow', 'huggingface_hub'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
