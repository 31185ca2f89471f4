"""HTTPS by setting: real certificates, real clients, files that are replaced and files that are no good."""

from __future__ import annotations

import asyncio.sslproto
import contextlib
import gc
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme

import server.access.tls
import server.http.connection
import server.http.listener
from gateway.gateway import Gateway
from model.errors import InvalidOption
from server.access.tls import TlsFiles
from server.app import create_app
from server.http.wsgi import HttpServer
from server.process.services import Services
from server.settings.settings import read_settings
from tests.fix_server import StartServer
from tests.server.http.conftest import Site, rest
from tests.waiting import eventually

SLUICE = str(Path(sys.executable).parent / "sluice")


class Files:
    """A CA, and the files of a server that it vouches for."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key, self.root = (directory / name for name in ("server.pem", "server.key", "ca.pem"))
        self.issue()

    def issue(self) -> None:
        """Write a certificate of a new CA."""
        ca = trustme.CA()
        made = ca.issue_cert("127.0.0.1", "localhost")
        ca.cert_pem.write_to_path(self.root)
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in made.cert_chain_pems))
        made.private_key_pem.write_to_path(self.key)

    def trusting(self) -> ssl.SSLContext:
        """What a client that knows the present CA uses."""
        return ssl.create_default_context(cafile=self.root)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def url(gateway: Gateway, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(server.access.tls, "_LOOK_SECONDS", 0.0)
    settings = read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_LISTEN": "127.0.0.1:0", "SLUICE_DRAIN_SECONDS": "1"})
    http = HttpServer(create_app(Services(gateway=gateway, settings=settings)), settings, tls=TlsFiles(files.certificate, files.key))
    host, port = http.start_serving()
    yield f"https://{host}:{port}"
    gateway.drain(0)
    http.stop_serving()


def address(url: str) -> tuple[str, int]:
    parsed = httpx.URL(url)
    assert parsed.port is not None
    return parsed.host, parsed.port


def test_statements_and_bodies_pass_over_https(url: str, files: Files) -> None:
    with httpx.Client(base_url=url, verify=files.trusting()) as client:
        assert client.post("/sql", content="CREATE TABLE t (id INT, s STRING)").status_code == 200
        body = "".join(f'{{"id":{number},"s":"{"x" * 100}"}}\n' for number in range(20_000))
        loaded = client.post("/tables/default/t/rows", content=body, headers={"Content-Type": "application/x-ndjson"})
        assert loaded.json()["rows"] == 20_000
        for _ in range(3):  # on one kept connection
            assert len(client.post("/sql", content="SELECT * FROM t").json()["rows"]) == 20_000


def test_who_does_not_know_the_ca_gets_nothing(url: str) -> None:
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{url}/livez")


def test_plain_http_is_told_what_is_wrong(url: str, files: Files) -> None:
    answer = httpx.get(url.replace("https:", "http:") + "/livez")
    assert (answer.status_code, answer.text) == (400, "This port speaks HTTPS only; begin the URL with it.\n")
    assert httpx.get(f"{url}/livez", verify=files.trusting()).status_code == 200


def test_clients_that_say_nothing_keep_nobody_out(url: str, files: Files) -> None:
    with contextlib.ExitStack() as silent:
        for _ in range(20):
            silent.enter_context(socket.create_connection(address(url)))
        assert httpx.get(f"{url}/livez", verify=files.trusting(), timeout=120).status_code == 200


def test_an_idle_connection_keeps_little_memory(url: str, files: Files) -> None:
    """Thousands of them are allowed; asyncio would keep 256 kB for each."""
    with socket.create_connection(address(url)) as plain, files.trusting().wrap_socket(plain, server_hostname="127.0.0.1") as client:
        client.sendall(b"POST /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n" + bytes(200_000))
        kept = [each for each in gc.get_objects() if isinstance(each, asyncio.sslproto.SSLProtocol)]
        assert kept
        assert all(len(each._ssl_buffer) <= 32 << 10 for each in kept)  # type: ignore[attr-defined]


def test_two_requests_in_one_record_are_both_answered(url: str, files: Files) -> None:
    """What OpenSSL has decrypted no selector tells of."""
    request = f"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Padding: {'x' * 7000}\r\n\r\n".encode()
    with socket.create_connection(address(url), timeout=60) as raw, files.trusting().wrap_socket(raw, server_hostname="127.0.0.1") as tls:
        tls.sendall(request * 2)
        got = b""
        while got.count(b'{"status":"ok"}') < 2:
            got += (some := tls.recv(65536))
            assert some


def test_a_replaced_certificate_is_taken_up_and_a_bad_one_is_not(url: str, files: Files, caplog: pytest.LogCaptureFixture) -> None:
    old = files.trusting()
    files.issue()
    assert httpx.get(f"{url}/livez", verify=files.trusting()).status_code == 200
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez", verify=old)
    files.certificate.write_text("no certificate")
    assert httpx.get(f"{url}/livez", verify=files.trusting()).status_code == 200
    assert "The certificate in force stays" in caplog.text


def test_files_that_cannot_be_used_are_named(files: Files, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"SLUICE_TLS_KEY: .*absent cannot be read: No such file"):
        TlsFiles(files.certificate, tmp_path / "absent")
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(InvalidOption, match="does not belong to the certificate"):
        TlsFiles(files.certificate, Files(other).key)
    with pytest.raises(InvalidOption, match="no certificate and key in PEM form"):
        TlsFiles(files.root, files.root)
    with pytest.raises(InvalidOption, match="set together"):
        read_settings({"SLUICE_TLS_KEY": str(files.key)})


def test_a_key_with_a_passphrase_is_refused_and_not_asked_for(files: Files) -> None:
    from cryptography.hazmat.primitives import serialization as form

    key = form.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"secret")))
    with pytest.raises(InvalidOption, match="has a passphrase"):
        TlsFiles(files.certificate, files.key)


@pytest.mark.spark
def test_a_server_its_command_and_its_own_spark_over_https(
    start_server: StartServer, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(files.root))
    running = start_server(SLUICE_TLS_CERTIFICATE=str(files.certificate), SLUICE_TLS_KEY=str(files.key))
    assert running.url.startswith("https://")
    command = [SLUICE, "sql", "--url", running.url]
    done = subprocess.run([*command, "CREATE TABLE t (id INT); CREATE TABLE u (id INT); SHOW TABLES"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("\n")) == (0, 5), done.stderr
    # A job's source asks the server for its table, which no certificate of the server's is made out for.
    running.sql(
        "SET 'execution.runtime-mode' = 'streaming'; SET 'execution.checkpointing.interval' = '200 ms'; INSERT INTO u SELECT id + 1 FROM t"
    )
    running.sql("INSERT INTO t VALUES (41)")
    assert eventually(lambda: running.sql("SELECT * FROM u") == [[42]], 120), running.words()
    monkeypatch.delenv("SSL_CERT_FILE")
    refused = subprocess.run([*command, "SHOW TABLES"], capture_output=True, text=True)
    assert refused.returncode == 1
    assert "set SSL_CERT_FILE to the file with that CA" in refused.stderr


def test_handshakes_that_do_not_go_on_count_for_their_address(files: Files, tmp_path: Path) -> None:
    """Else whoever reaches the port takes all files, and the gate dismisses others for it."""
    tls = TlsFiles(files.certificate, files.key)
    site = Site(tmp_path, tls=tls, SLUICE_HTTP_CONNECTIONS="16", SLUICE_HTTP_CONNECTIONS_OF_ONE="8")
    try:
        with contextlib.ExitStack() as opened:
            begun = [opened.enter_context(site.connect()) for _ in range(40)]
            for client in begun:
                client.sendall(b"\x16\x03\x01")
                client.setblocking(False)
            assert eventually(lambda: sum(map(closed, begun)) == 32), "the oldest give way to newer ones of their address"
            assert site.http.connections() == {"authenticated": 0, "unauthenticated": 8}
            with files.trusting().wrap_socket(site.connect(), server_hostname="127.0.0.1") as secured:
                secured.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert rest(secured).endswith(b"ok")
            assert eventually(lambda: sum(map(closed, begun)) == 33)
            for client in begun:
                client.close()
            assert eventually(lambda: sum(site.http.connections().values()) == 0)
    finally:
        site.stop()


def test_a_stop_does_not_wait_for_handshakes(files: Files, tmp_path: Path) -> None:
    site = Site(tmp_path, tls=TlsFiles(files.certificate, files.key), SLUICE_DRAIN_SECONDS="60")
    with site.connect() as client:
        client.sendall(b"\x16\x03\x01")
        assert eventually(lambda: sum(site.http.connections().values()) == 1)
        begun = time.monotonic()
        site.stop()
        assert time.monotonic() - begun < 30
        with contextlib.suppress(ConnectionResetError):  # closed before the bytes of the handshake had been read
            assert rest(client) == b""


def test_a_stop_lets_an_answer_go_out_to_a_client_that_is_slow(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is encrypted and lies in the socket's own transport was taken for sent, and cut after a second."""
    monkeypatch.setattr(server.http.connection, "_STOP_LINGER_SECONDS", 0.1)
    monkeypatch.setattr(server.http.listener, "_LOOK_SECONDS", 0.05)
    site = Site(tmp_path, tls=TlsFiles(files.certificate, files.key))
    body = bytes(16 << 20)  # much more than kernels keep
    with files.trusting().wrap_socket(site.connect(), server_hostname="127.0.0.1") as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        client.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        first = client.recv(1)  # all of it is written by then
        stopping = threading.Thread(target=site.stop)
        stopping.start()
        stopping.join(1)
        assert stopping.is_alive()
        assert (first + rest(client)).endswith(b"\r\n\r\n" + body)
    stopping.join(60)
    assert not stopping.is_alive()


def test_a_stop_waits_a_moment_for_one_that_was_refused_and_does_not_close(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "server.http.listener")
    site = Site(tmp_path, tls=TlsFiles(files.certificate, files.key), SLUICE_DRAIN_SECONDS="8")
    with files.trusting().wrap_socket(site.connect(), server_hostname="127.0.0.1") as client:
        client.sendall(b"no request\r\n\r\n")
        first = client.recv(1)
        site.stop()
        assert (first + rest(client)).startswith(b"HTTP/1.1 400 ")
    assert "are cut" not in caplog.text


def closed(client: socket.socket) -> bool:
    """Whether the other side has closed a connection that does not block."""
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
