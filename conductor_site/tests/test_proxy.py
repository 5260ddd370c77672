"""The site behind a real nginx with TLS, below a path: the example in deploy/, as it stands there."""

import contextlib
import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

import pytest

from conductor_site.tests.installation import Installation
from conductor_site.tests.stage import LONG_S, ROOT
from record.tests.factories import PASSWORD
from record.tests.servers.ports import free_ports

pytestmark = pytest.mark.slow

PREFIX = "/conductor"
HOST = "conductor.example.org"


def required(program: str, package: str) -> str:
    """Where the program is; without it the test is skipped, and fails where CI=true."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if found is None:
        told = f"{program} is missing: install Debian's package {package}"
        pytest.fail(told) if os.environ.get("CI") == "true" else pytest.skip(told)
    return found


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Browser:
    """Speaks TLS to nginx, believes in its certificate alone, and keeps cookies as a browser would."""

    port: int
    certificate: Path
    cookies: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", path, None, headers)

    def post(self, path: str, fields: dict[str, str]) -> Answer:
        fields = {"csrfmiddlewaretoken": self.cookies.get("csrftoken", "")} | fields
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.send("POST", path, urlencode(fields).encode(), form)

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Answer:
        connection = self._connect()
        crumbs = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        own = {"Host": f"{HOST}:{self.port}", "Cookie": crumbs, "Origin": f"https://{HOST}:{self.port}"}
        connection.request(method, path, body, own | headers)
        response = connection.getresponse()
        for name, value in response.getheaders():
            if name.lower() == "set-cookie":
                self._keep(value)
        answer = Answer(response.status, {n.lower(): v for n, v in response.getheaders()}, response.read())
        connection.close()
        return answer

    def sign_in(self, username: str) -> None:
        path = f"{PREFIX}/sign-in/"
        self.get(path)
        assert self.post(path, {"username": username, "password": PASSWORD}).status == 302

    def _connect(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(self.certificate))
        raw = context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), LONG_S), server_hostname=HOST)
        connection = http.client.HTTPSConnection(HOST, timeout=LONG_S)
        connection.sock = raw
        return connection

    def _keep(self, header: str) -> None:
        pair, *marks = [part.strip() for part in header.split(";")]
        name, _, value = pair.partition("=")
        path = "/" if name == "messages" else PREFIX  # Django gives the cookie of messages no other path
        assert f"Path={path}" in marks and "Secure" in marks, header
        self.cookies[name] = value


class Links(HTMLParser):
    """Every address that a page names, by the attribute that names it."""

    NAMING = {"href", "src", "action", "hx-get", "hx-post", "poster", "data-src"}

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {(name, value) for name, value in attrs if name in self.NAMING and value}


@pytest.fixture
def browser(proxy: tuple[int, Path]) -> Browser:
    """One without cookies."""
    return Browser(*proxy)


@pytest.fixture(scope="module")
def proxy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port at which nginx answers, and its certificate."""
    nginx, openssl = required("nginx", "nginx-light"), required("openssl", "openssl")
    folder = tmp_path_factory.mktemp("proxy")
    site = Installation(
        folder,
        CONDUCTOR_HOSTS=f"{HOST},localhost",
        CONDUCTOR_HTTPS="1",
        CONDUCTOR_BEHIND_PROXY="1",
        CONDUCTOR_PREFIX=PREFIX,
    )
    request.addfinalizer(site.store.drop)
    site.fill()
    site.manage("collectstatic", "--noinput", "-v", "0", "--skip-checks")
    certificate = make_certificate(openssl, folder)
    port, plain = free_ports(2)
    config = write_config(folder, port, plain)
    with running(web_argv(folder), site, folder / "web.log"), running([nginx, "-c", str(config)], site, folder / "log"):
        wait_for(Browser(port, certificate), folder)
        yield port, certificate


def make_certificate(openssl: str, folder: Path) -> Path:
    wish = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    paths = ["-keyout", str(folder / "privkey.pem"), "-out", str(folder / "fullchain.pem")]
    subprocess.run([openssl, *wish, *names, *paths], check=True, capture_output=True)
    return folder / "fullchain.pem"


def write_config(folder: Path, port: int, plain: int) -> Path:
    """The example on loopback, with ports, socket and certificate of the test, inside the least that nginx needs."""
    example = (ROOT / "deploy/nginx.conf.example").read_text()
    example = re.sub(r"^\s*listen \[::\].*\n", "", example, flags=re.MULTILINE)
    for old, new in {
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ": f"listen 127.0.0.1:{port} ",
        "/run/conductor": str(folder),
        "/etc/ssl/conductor": str(folder),
    }.items():
        assert old in example
        example = example.replace(old, new)
    places = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log {folder}/nginx.log;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{places}{example}}}\n"
    )
    return folder / "nginx.conf"


def web_argv(folder: Path) -> list[str]:
    config = ["--config", "deploy/gunicorn.conf.py", "--bind", f"unix:{folder}/web.sock"]
    return [sys.executable, "-m", "gunicorn", *config, "conductor_site.wsgi"]


@contextlib.contextmanager
def running(argv: list[str], site: Installation, log: Path) -> Iterator[None]:
    with log.open("ab") as out:
        process = subprocess.Popen(argv, cwd=ROOT, env=site.environment, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(LONG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(browser: Browser, folder: Path) -> None:
    deadline = time.monotonic() + LONG_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if browser.get(f"{PREFIX}/sign-in/").status == 200:
                return
        time.sleep(0.2)
    raise AssertionError("".join(path.read_text() for path in folder.glob("*log")))


def test_every_address_that_a_page_names_is_below_the_path_and_is_there(browser: Browser) -> None:
    browser.sign_in("administrator")
    to_see, seen = [f"{PREFIX}/"], set()
    while to_see:
        path = to_see.pop()
        answer = browser.get(path)
        assert answer.status in (200, 204, 286), (path, answer.status)
        if not answer.headers.get("content-type", "").startswith("text/html"):
            continue
        for attribute, named in Links(answer.text).found:
            where = urlsplit(urljoin(path, named))
            assert where.netloc == "" and where.path.startswith(f"{PREFIX}/"), (path, attribute, named)
            address = where.path + (f"?{where.query}" if where.query else "")
            if attribute in ("href", "src", "hx-get") and address not in seen and len(seen) < 150:
                seen.add(address)
                to_see.append(address)
    names = " ".join(seen)
    for part in ("/runs/", "/gates/", "/evidence/", "/decisions/", "/targets/", "/static/conductor.", "/log/"):
        assert part in names, part


def test_static_files_keep_for_ever_and_are_named_by_their_content(browser: Browser) -> None:
    page = browser.get(f"{PREFIX}/sign-in/").text
    sheets = [named for _, named in Links(page).found if named.endswith(".css")]
    assert sheets and all(re.search(r"/conductor/static/conductor\.[0-9a-f]{12}\.css", sheet) for sheet in sheets)
    answer = browser.get(sheets[0])
    assert answer.status == 200 and "immutable" in answer.headers["cache-control"]


def test_who_is_not_signed_in_is_sent_to_the_door_below_the_path(browser: Browser) -> None:
    answer = browser.get(f"{PREFIX}/runs/?state=running")
    assert answer.status == 302
    assert answer.headers["location"] == f"{PREFIX}/sign-in/?next={PREFIX}/runs/%3Fstate%3Drunning"
    assert browser.get(PREFIX).headers["location"].endswith(f"{PREFIX}/")
    assert browser.get("/elsewhere/").status == 404


def test_polling_goes_on_below_the_path(browser: Browser) -> None:
    browser.sign_in("viewer")
    page = browser.get(f"{PREFIX}/").text
    polled = [named for attribute, named in Links(page).found if attribute == "hx-get" and "seen=" in named]
    assert polled and all(named.startswith(f"{PREFIX}/") for named in polled)
    again = browser.get(polled[0], **{"HX-Request": "true"})
    assert again.status == 204 or "waiting " in again.text  # it tells how long a gate has waited, in seconds
    changed = browser.get(re.sub("seen=[^&]*", "seen=other", polled[0]), **{"HX-Request": "true"})
    assert changed.status == 200 and "<html" not in changed.text


def test_a_form_is_taken_and_leads_on_below_the_path(browser: Browser) -> None:
    browser.sign_in("operator")
    page = browser.get(f"{PREFIX}/runs/").text
    run = re.search(rf'href="({PREFIX}/runs/\d+/)"[^>]*>\s*first\s*<', page)
    assert run, page
    answer = browser.post(f"{run[1]}pause/", {"reason": "the microscope is being serviced"})
    assert answer.status == 302, answer.text
    assert answer.headers["location"].startswith(f"{PREFIX}/runs/")


def test_the_admin_is_below_the_path(browser: Browser) -> None:
    browser.sign_in("root")
    answer = browser.get(f"{PREFIX}/admin/")
    assert answer.status == 200
    named = Links(answer.text).found
    assert all(f"{value}/".startswith((f"{PREFIX}/", "#", "?")) for _, value in named), named
    sheets = [value for _, value in named if value.endswith(".css")]
    assert sheets and all(browser.get(sheet).status == 200 for sheet in sheets)
    assert browser.get(f"{PREFIX}/admin/runs/run/").status == 200


def test_the_api_and_its_links_are_below_the_path(browser: Browser) -> None:
    wish = json.dumps({"username": "viewer", "password": PASSWORD}).encode()
    given = browser.send("POST", f"{PREFIX}/api/v1/token/", wish, {"Content-Type": "application/json"})
    assert given.status == 201
    header = {"Authorization": f"Token {json.loads(given.body)['token']}"}
    first = json.loads(browser.get(f"{PREFIX}/api/v1/runs/?page_size=1", **header).body)
    assert first["next"].startswith(f"https://{HOST}:{browser.port}{PREFIX}/api/v1/runs/?cursor=")
    onward = urlsplit(first["next"])
    assert browser.get(f"{onward.path}?{onward.query}", **header).status == 200
    schema = browser.get(f"{PREFIX}/api/schema/", **header)
    assert schema.status == 200 and f"servers:\n- url: {PREFIX}\n" in schema.text
    evidence = json.loads(browser.get(f"{PREFIX}/api/v1/evidence/", **header).body)["results"][0]
    picture = browser.get(f"{PREFIX}/api/v1/evidence/{evidence['uuid']}/file/", **header)
    assert picture.status == 200 and picture.body.startswith(b"\x89PNG")


def test_health_is_answered_on_the_socket_itself(browser: Browser) -> None:
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(browser.certificate.parent / "web.sock"))
    connection.request("GET", "/healthz")
    response = connection.getresponse()
    assert response.status == 503
    assert json.loads(response.read())["database"] is True
    connection.close()


def test_http_is_sent_to_https(browser: Browser) -> None:
    config = (browser.certificate.parent / "nginx.conf").read_text()
    plain = re.search(r"listen 127\.0\.0\.1:(\d+);", config)
    assert plain
    connection = http.client.HTTPConnection("127.0.0.1", int(plain[1]), timeout=LONG_S)
    connection.request("GET", f"{PREFIX}/", headers={"Host": HOST})
    response = connection.getresponse()
    assert (response.status, response.getheader("Location")) == (301, f"https://{HOST}{PREFIX}/")
    connection.close()
