"""The routes: who may ask, what is refused, what comes back."""

from __future__ import annotations

import socket
import struct
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import replace
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlsplit

import polars as pl
import pytest
from browsing import start_server
from synthetic import SyntheticCapture

from tracecorr.analyze.evidence import Evidence
from tracecorr.analyze.report.sections import list_sections
from tracecorr.app import ids
from tracecorr.app.captures import CaptureLike
from tracecorr.app.server import make_app
from tracecorr.app.subject_pages import PAGES
from tracecorr.model import schema
from tracecorr.store import Capture

TOKEN = "for-tests-only"


@pytest.fixture(scope="module")
def stranger(synthetic_capture: SyntheticCapture) -> Any:
    app = make_app({"one": synthetic_capture, "two": synthetic_capture}, token=TOKEN)
    return lambda: app.server.test_client()


@pytest.fixture
def client(stranger: Any) -> Any:
    client = stranger()
    client.get(f"/?token={TOKEN}")
    for name in ("one", "two"):
        while client.get(f"{ids.META}?capture={name}").status_code == 202:
            time.sleep(0.02)
    answer = client.get(f"/?token={TOKEN}&capture=one")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/?capture=one")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    return client


@pytest.mark.parametrize("path", ["/", ids.META, "/assets/start.js", "/_dash-layout"])
def test_without_token_nothing_is_served(stranger: Any, path: str) -> None:
    assert stranger().get(path).status_code == 403
    assert stranger().get(path + "?token=wrong").status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}],
)
def test_foreign_requests_are_refused(client: Any, headers: dict[str, str]) -> None:
    assert client.get(ids.META, headers=headers).status_code in (400, 403)


def test_a_wrong_token_opens_no_way_around_the_check_of_the_origin(client: Any) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert client.get(f"{ids.CAPTURES}?token=x", headers=foreign).status_code == 403
    assert client.get(f"/?token={TOKEN}", headers=foreign).status_code == 302


def test_two_servers_of_one_host_keep_their_sessions(synthetic_capture: SyntheticCapture) -> None:
    """A browser has one jar of cookies for all ports of a host."""
    cookies: dict[str, str] = {}
    servers = {port: make_app({"one": synthetic_capture}, token=f"of {port}").server for port in (8050, 8051)}
    for _ in range(2):
        for port, server in servers.items():
            first = server.test_client().get(f"/?token=of {port}", base_url=f"http://127.0.0.1:{port}")
            name, _, value = first.headers["Set-Cookie"].partition(";")[0].partition("=")
            cookies[name] = value
    for port, server in servers.items():
        client = server.test_client(use_cookies=False)
        jar = "; ".join(f"{name}={value}" for name, value in cookies.items())
        answer = client.get(ids.CAPTURES, base_url=f"http://127.0.0.1:{port}", headers={"Cookie": jar})
        assert answer.status_code == 200


def test_what_a_route_cannot_do_is_refused(client: Any, stranger: Any) -> None:
    deep = client.post(ids.NOTES, data="[" * 700_000, content_type="application/json")
    assert (deep.status_code, deep.text) == (400, "these notes are nested too deeply\n")
    answer = stranger().get(f"/%0d%0aX-Evil:1?token={TOKEN}")
    assert answer.headers["Location"] == "/%0D%0AX-Evil%3A1" and "X-Evil" not in answer.headers
    double = stranger().get(f"/?token={TOKEN}", environ_overrides={"PATH_INFO": "//evil.example/"})
    assert double.headers["Location"] == "/evil.example/"
    for path in ("/_dash-update-component", "/", ids.META):
        assert client.post(path, json={}).status_code == 405


def test_half_open_connections_stop_nobody(synthetic_capture: SyntheticCapture) -> None:
    address = urlsplit(start_server({"one": synthetic_capture}))
    with ExitStack() as held:
        for _ in range(300):
            half = held.enter_context(socket.create_connection((address.hostname, address.port), timeout=60))
            half.sendall(b"GET / HTTP/1.1\r\n")
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with browser.open(address.geturl(), timeout=60) as answer:
            assert answer.status == 200


def test_answers_forbid_eval_foreign_frames_and_guessed_types(client: Any) -> None:
    answer = client.get("/")
    policy = answer.headers["Content-Security-Policy"]
    assert "unsafe-eval" not in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_spans_are_one_binary_answer_that_nobody_keeps(client: Any) -> None:
    answer = client.get(f"{ids.SPANS}?t0=0&t1=400000000&w=1000&lanes=0-3,5")
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    magic, n = struct.unpack_from("<II", answer.data)
    assert magic == 0x54434F32 and n > 100


@pytest.mark.parametrize(
    "query",
    [
        "", "t0=0", "t0=5&t1=5&w=10", "t0=0&t1=9&w=0", "t0=0&t1=9&w=8001", "t0=x&t1=9&w=10", "t0=0&t1=1e9&w=10",
        "t0=0&t1=9&w=10&lanes=99999", "t0=0&t1=9&w=10&lanes=-1", "t0=0&t1=9&w=10&lanes=3-1", "t0=0&t1=9&w=10&lanes=a",
        "t0=0&t1=9&w=10&lanes=1-99999999", "t0=0&t1=9&w=10&lanes=%D9%A3", "t0=%D9%A3&t1=9&w=10", "t0=0&t1=9&w=1_0",
        "t0=0&t1=9&w=10&f={", "t0=0&t1=9&w=10&f=[]", 't0=0&t1=9&w=10&f={"shortest":-1}', 't0=0&t1=9&w=10&f={"x":1}',
        't0=0&t1=9&w=10&f={"streams":[4294967296]}',
        't0=0&t1=9&w=10&f={"streams":[1.5]}', "t0=0&t1=9&w=10&f=" + "[" * 1900, "t0=0&t1=9&w=10&f=" + "x" * 3000,
        "t0=0&t1=" + "9" * 5000 + "&w=10", "t0=0&t1=9&w=10&lanes=" + "1," * 30000,
    ],
)  # fmt: skip
def test_bad_span_queries_are_refused(client: Any, query: str) -> None:
    assert client.get(f"{ids.SPANS}?{query}").status_code == 400


def test_unknown_things_are_refused_in_one_line(client: Any) -> None:
    for path in (ids.META + "?capture=three", ids.SEARCH + "?q=a&capture=three"):
        answer = client.get(path)
        assert answer.status_code == 404 and answer.text == "no such capture: three\n"
    assert client.get(ids.EVENT + "?event=99999999").status_code == 400
    assert client.get(ids.SEARCH + "?q=" + "a" * 300).status_code == 400
    answer = client.get("/_dash-component-suites/dash/../../../etc/passwd")
    assert answer.status_code == 404
    assert b"Traceback" not in answer.data


@pytest.mark.parametrize(
    "path",
    [
        ids.COUNT + "?t0=0&t1=0&lanes=0", ids.COUNT + "?t0=0&t1=9&lanes=99999", ids.STEP + "?event=-1&kind=parent",
        ids.STEP + "?event=0&kind=__class__", ids.BRIEF + "?event=99999999", ids.BRIEF + "?lane=-1&t=0",
        ids.BRIEF + "?lane=0&t=" + "9" * 30, ids.TICKS + "?q=a&t0=0&t1=9&w=0", ids.EXPORT + "?form=exe&t0=0&t1=9",
        ids.EXPORT + "?form=csv&t0=9&t1=0", ids.SEARCH + "?q=a&at=-2", ids.SEARCH + "?q=a&from=-2",
        ids.FILTER + "?f=nothing",
    ],
)  # fmt: skip
def test_parameters_out_of_bounds_are_refused(client: Any, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 400 and b"Traceback" not in answer.data


def test_every_section_of_the_report_has_a_page() -> None:
    """`nodes` is of datasets of many nodes, whose timeline names them."""
    empty = Evidence(lambda name: schema.TABLES[name].empty().lazy(), None, {})
    shown = {key for page in PAGES.values() for key in page.sections}
    assert {section.key for section in list_sections(empty)} == shown


def test_only_pages_of_the_list_are_given_out(client: Any) -> None:
    assert client.get(ids.PAGE_DATA + "?name=../../etc/passwd").status_code == 404
    assert client.get(ids.PAGE_DATA + "?name=compare&with=/etc").status_code == 404
    assert client.get(ids.PAGE_DATA + "?name=queues").get_json()["sections"]


@pytest.mark.parametrize(
    "path", ["/assets/../server.py", "/assets/%2e%2e/server.py", "/assets/..%2f..%2fserver.py", "//etc/passwd"]
)
def test_files_outside_the_assets_are_not_served(client: Any, path: str) -> None:
    answer = client.get(path)
    assert b"import" not in answer.data and b"root:" not in answer.data


def test_notes_from_elsewhere_are_refused(client: Any, stranger: Any) -> None:
    notes = [{"text": "x", "start": 0, "dur": 0}]
    assert stranger().post(ids.NOTES, json=notes).status_code == 403
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert client.post(ids.NOTES, json=notes, headers=headers).status_code == 403
    assert client.post(ids.NOTES, data="text=x").status_code == 400
    for wrong in ({}, [1], [{"text": 1, "start": 0, "dur": 0}], [{"text": "x", "start": 0, "dur": -1}], [{}] * 501):
        assert client.post(ids.NOTES, json=wrong).status_code == 400
    assert client.post(ids.NOTES, json=[{"text": "y" * 3000, "start": 0, "dur": 0}]).status_code == 400


def test_notes_are_kept_only_where_there_is_a_capture(client: Any) -> None:
    answer = client.post(ids.NOTES, json=[{"text": "x", "start": 0, "dur": 0}])
    assert answer.status_code == 409 and b"stay in the address" in answer.data


def _serve(capture: CaptureLike) -> Any:
    client = make_app({"one": capture}, token=TOKEN).server.test_client()
    client.get(f"/?token={TOKEN}")
    while client.get(ids.META).status_code == 202:
        time.sleep(0.02)
    return client


def test_rows_of_a_range_lie_in_it(sample: Capture) -> None:
    """What a ring holds, and when a kernel may have run, are drawn there of packets that were written before."""
    client = _serve(sample)
    packets = sample.table("launches").select("event", "packet_ns").drop_nulls().sort("packet_ns").collect()
    first = sample.table("events").select(pl.col("ts_ns").min()).collect().item()
    t0, last = packets["packet_ns"][packets.height // 2] - first + 1, len(client.get(ids.META).get_json()["lanes"]) - 1
    rows = pl.read_csv(client.get(f"{ids.EXPORT}?form=csv&t0={t0}&t1={t0 + 100_000}&lanes=0-{last}").data)
    assert rows.height and (rows["start_ns"] + rows["dur_ns"].fill_null(0)).min() >= t0
    assert rows["start_ns"].max() <= t0 + 100_000


def test_formulas_are_disarmed_in_csv(synthetic_capture: SyntheticCapture) -> None:
    formulas = ["=1+2", "+1", "-1", "@SUM(A1)", "\t=1"]
    events = synthetic_capture.tables["events"].with_columns(
        name=pl.Series([formulas[n % 5] for n in range(synthetic_capture.tables["events"].height)], dtype=schema.CAT)
    )
    named = replace(synthetic_capture, tables={**synthetic_capture.tables, "events": events})
    client = _serve(named)
    answer = client.get(ids.EXPORT + "?form=csv&t0=0&t1=2000000&lanes=0-9")
    assert answer.data.startswith(b"event,start_ns,ts_ns")
    names = pl.read_csv(answer.data)["name"]
    assert sorted(names.unique()) == sorted(f"'{formula}" for formula in formulas)


def test_event_comes_with_chain_columns_and_raw(client: Any) -> None:
    found = client.get(ids.SEARCH + "?q=dispatch&capture=two").get_json()
    found = client.get(ids.SEARCH + "?q=vectorAdd&capture=two").get_json()
    got = client.get(f"{ids.EVENT}?event={found['event']}&capture=two").get_json()
    assert got["stages"][0]["layer"] == "hip"
    assert got["columns"] and got["raw"]
    assert "where" not in got["stages"][0]
