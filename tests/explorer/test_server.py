"""What strangers, mistakes and bad networks send:

refused in a sentence, with bounded work, and the server stays up.
"""

import json
import urllib.error
import urllib.request

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from tests.explorer.conftest import BASE

SLOW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def get(server, path, **headers):
    request = urllib.request.Request(server.address.rstrip("/") + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


def talk(server, **options):
    return connect(f"ws://127.0.0.1:{server.port}/live", max_size=None, **options)


def ask(socket, message):
    socket.send(message if isinstance(message, str | bytes) else json.dumps(message))
    return json.loads(socket.recv(timeout=60))


def is_alive(server):
    with talk(server) as socket:
        return ask(socket, {"id": 1, "settings": BASE})["answer"]["part"] == "curve"


def test_the_page_is_whole_and_asks_nobody_else(server):
    status, body, _ = get(server, "/")
    assert status == 200
    assert b"connect-src 'self'" in body
    assert b'src="http' not in body


@pytest.mark.parametrize("origin", ["http://example.org", "null", "http://127.0.0.1:1"])
def test_other_origins_are_refused(server, origin):
    with pytest.raises(InvalidStatus, match="403"), talk(server, origin=origin):
        pass


def test_other_hosts_are_refused(server):
    """A domain that was bound to this machine later sends its own name."""
    assert get(server, "/", Host="example.org")[0] == 400
    with (
        pytest.raises(InvalidStatus, match="400"),
        talk(server, additional_headers={"Host": "example.org"}),
    ):
        pass


def test_the_page_is_shown_in_no_frame(server):
    assert get(server, "/")[2]["X-Frame-Options"] == "DENY"


def test_its_own_origin_is_welcome(server):
    with talk(server, origin=server.address.rstrip("/")) as socket:
        assert ask(socket, {"id": 7, "settings": BASE})["id"] == 7


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/%2e%2e%2fetc%2fpasswd",
        "/etc/passwd",
        "/file/curve.nc",
        "/static/x",
        "/live%00",
    ],
)
def test_no_other_files(server, path):
    status, body, _ = get(server, path)
    assert status in (400, 404)
    assert b"root:" not in body


def test_a_file_comes_whole_or_as_a_sentence(server):
    with talk(server) as socket:
        answer = ask(socket, {"id": 1, "settings": {"lr": -1}, "want": "curve.nc"})[
            "answer"
        ]
        assert answer == {
            "part": "error",
            "sentence": "lr is -1; it must be a number from 0.001 to 20.",
        }
        answer = ask(
            socket,
            {"id": 2, "settings": BASE | {"loss": "hinge"}, "want": "explorer.html"},
        )["answer"]
        assert "a page without a server" in answer["sentence"]
        socket.send(json.dumps({"id": 3, "settings": BASE, "want": "curve.nc"}))
        assert socket.recv(timeout=60)[1:4] == b"HDF"


def test_bad_messages_get_a_sentence_and_the_next_one_an_answer(server):
    with talk(server) as socket:
        for message in [
            "",
            "{",
            "[]",
            "7",
            "null",
            '{"id": 1}',
            '{"id": "a", "settings": {}}',
            '{"id": 1e400, "settings": {}}',
            '{"id": 1, "settings": {}, "want": "optimize noise"}',
            '{"id": 1, "settings": {}, "want": ["curve"]}',
        ]:
            answer = ask(socket, message)["answer"]
            assert answer["part"] == "error", message
            assert "a request must be JSON" in answer["sentence"]
        answer = ask(socket, {"id": 3, "settings": {"students": 10**9}})
        assert answer == {
            "id": 3,
            "answer": {
                "part": "error",
                "sentence": "students is 1000000000; it must be a whole number from 1 to 12.",
            },
        }
        assert ask(socket, {"id": 4, "settings": BASE})["answer"]["part"] == "curve"


def test_bytes_and_floods_close_the_page_and_nothing_else(server):
    for message in (b"\x00\xff", "x" * 200_000):
        with talk(server) as socket:
            socket.send(message)
            with pytest.raises(ConnectionClosed):
                socket.recv(timeout=10)
    assert is_alive(server)


values = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=30)
    | st.lists(st.integers(), max_size=3)
)


@SLOW
@given(
    st.dictionaries(
        st.text(max_size=10) | st.just("lr"), values, min_size=1, max_size=4
    )
)
def test_wrong_settings_are_refused(server, wrong):
    wrong = wrong | {"students": 0}  # so that nothing is ever solved
    with talk(server) as socket:
        answer = ask(socket, json.dumps({"id": 1, "settings": wrong}))["answer"]
    assert answer["part"] == "error"
    assert len(answer["sentence"]) < 700


def test_the_server_is_still_there(server):
    assert is_alive(server)


def test_two_pages_do_not_mix(server):
    with talk(server) as one, talk(server) as other:
        for number, (socket, lr) in enumerate(((one, 0.3), (other, 0.9)), 5):
            socket.send(json.dumps({"id": number, "settings": BASE | {"lr": lr}}))
        answers = [json.loads(socket.recv(timeout=60)) for socket in (one, other)]
    assert [answer["id"] for answer in answers] == [5, 6]
    assert [
        "learning rate 0.3" in answers[0]["answer"]["content"]["conditions"],
        "0.9" in answers[1]["answer"]["content"]["conditions"],
    ] == [True, True]


def test_the_newest_request_wins_and_a_long_one_does_not_hold_it_up(server):
    """A solve of many levels would take minutes; what comes after it is answered all the same."""
    huge = {
        "students": 12,
        "teachers": 12,
        "spectrum": "power law",
        "levels": 512,
        "end": 1e6,
        "activation": "gelu",
    }
    with talk(server) as socket:
        for number in (1, 2, 3):
            socket.send(json.dumps({"id": number, "settings": huge}))
        answer = ask(socket, {"id": 4, "settings": BASE})
    assert answer["id"] == 4
    assert answer["answer"]["part"] == "curve"


def test_the_address_is_told_to_readers_and_to_programs(monkeypatch, capsys):
    import uvicorn

    from tutelage.cli import main

    monkeypatch.setattr(
        uvicorn.Server, "run", lambda _, sockets: [here.close() for here in sockets]
    )
    assert main(["explore", "--no-browser"]) == 0
    assert capsys.readouterr().out.startswith("tutelage explorer: http://127.0.0.1:")
    assert main(["explore", "--no-browser", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["address"].startswith(
        "http://127.0.0.1:"
    )
    assert main(["explore", "--port", "99999"]) == 2
    assert (
        "--port 99999 cannot be used (there is no such port); leave it out"
        in capsys.readouterr().err
    )
