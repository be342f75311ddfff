"""nginx with our configuration, in front of a server: TLS, request ids, limits, and no way to the metrics."""

import re
import shutil
import socket
import ssl
import subprocess
from urllib.parse import urlsplit

import httpx
import pytest

from tapgnn.online import Client
from tapgnn.online.server.service import ServerSettings
from tapgnn.online.server.tokens import Tokens
from tests.deploy.conftest import DEPLOY
from tests.online.server.running import running

NAME = "tapgnn.example.org"
MAIN = """daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/tapgnn.conf;
}}
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def proxied(model, tmp_path):
    """A client that trusts the certificate of an nginx in front of a server, and a token of the server."""
    missing = [tool for tool in ("nginx", "openssl") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed: apt-get install nginx-light openssl")
    key, certificate = tmp_path / "privkey.pem", tmp_path / "fullchain.pem"
    subject = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME},IP:127.0.0.1")
    made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate)
    subprocess.run(["openssl", "req", "-x509", "-days", "2", *made, *subject], check=True, capture_output=True)
    tokens = Tokens()
    token = tokens.add("write")
    with running(model, tmp_path / "state.db", ServerSettings(tokens=tokens, window=100)) as server:
        plain, secure = free_port(), free_port()
        text = (DEPLOY / "nginx.conf").read_text()
        for old, new in (
            ("listen 80;", f"listen 127.0.0.1:{plain};"),
            ("listen 443 ssl;", f"listen 127.0.0.1:{secure} ssl;"),
            ("127.0.0.1:8000", urlsplit(server.url).netloc),
            ("/etc/ssl/tapgnn", str(tmp_path)),
        ):
            assert old in text, old
            text = text.replace(old, new)
        (tmp_path / "tapgnn.conf").write_text(text)
        (tmp_path / "nginx.conf").write_text(MAIN.format(folder=tmp_path))
        command = ["nginx", "-c", tmp_path / "nginx.conf", "-p", tmp_path]
        checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
        assert checked.returncode == 0, checked.stderr
        assert not re.search(r"\[(warn|error)\]", checked.stderr), checked.stderr
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            trusted = ssl.create_default_context(cafile=certificate)
            with httpx.Client(base_url=f"https://127.0.0.1:{secure}", verify=trusted, timeout=30) as http:
                yield http, f"http://127.0.0.1:{plain}", token, server
        finally:
            process.terminate()
            process.wait()


def answered(http, path):
    """The answer, as soon as nginx listens."""
    while True:
        try:
            return http.get(path)
        except httpx.ConnectError:
            continue


def test_a_server_behind_nginx_is_served_with_tls_alone(proxied, rows):
    http, plain, token, server = proxied
    ready = answered(http, "/readyz")
    assert ready.status_code == 200
    assert ready.headers["strict-transport-security"]
    # The security headers of the server come through.
    assert http.get("/").headers["content-security-policy"].startswith("default-src 'none'")
    moved = httpx.get(f"{plain}/v1/model", headers={"Host": NAME})
    assert (moved.status_code, moved.headers["location"]) == (301, f"https://{NAME}/v1/model")
    with Client(server.url, token) as direct:
        direct.observe(rows[:5])
    head = {"Authorization": f"Bearer {token}"}
    assert http.get("/v1/model").status_code == 401
    assert http.get("/v1/model", headers=head).json()["status"]["accepted"] == 5
    assert http.get("/metrics", headers=head).status_code == 404
    assert http.get("/readyz", headers={"X-Request-ID": "till-3"}).headers["x-request-id"] == "till-3"
    assert re.fullmatch("[0-9a-f]{32}", http.get("/readyz").headers["x-request-id"])
    long = http.post("/v1/events", content=bytes(17 * 1024 * 1024), headers=head)
    assert long.status_code == 413
