"""An OpenID Connect provider on this machine: real HTTP, real RSA signatures, PKCE checked; it lies where told to."""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT_ID, CLIENT_SECRET = "conductor", "the client's secret"


def new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@dataclass
class Provider:
    """What the provider says. `lies` change claims of the token, `told` those of the userinfo."""

    key: rsa.RSAPrivateKey = field(default_factory=new_key)
    issuer: str = ""
    person: dict[str, Any] = field(default_factory=dict)
    lies: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)
    signs_with: rsa.RSAPrivateKey | None = None
    fails: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def authorize(self, address: str) -> str:
        """What the browser does at the provider: sign in there, and be sent back to the address with a code."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert asked["response_type"] == "code" and asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return f"{urlsplit(asked['redirect_uri']).path}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or form.get("client_secret") != CLIENT_SECRET or challenge != asked["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        claims = {
            "iss": self.issuer,
            "aud": CLIENT_ID,
            "iat": int(time.time()),
            "exp": int(time.time()) + 300,
            "nonce": asked["nonce"],
        }
        claims |= self.person | self.lies
        token = jwt.encode(
            {name: value for name, value in claims.items() if value is not None},
            self.signs_with or self.key,
            algorithm="RS256",
            headers={"kid": "first"},
        )
        return 200, {"access_token": "open sesame", "token_type": "Bearer", "id_token": token}

    def answer(self, path: str, form: dict[str, str], bearer: str) -> tuple[int, dict[str, Any]]:
        self.asked.append(path)
        if self.fails:
            return 503, {}
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "auth", "token_endpoint": "token", "userinfo_endpoint": "me"}
            endpoints = {name: f"{self.issuer}/{end}" for name, end in names.items()}
            return 200, {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"} | endpoints
        if path == "/keys":
            public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key()))
            return 200, {"keys": [public | {"kid": "first", "alg": "RS256", "use": "sig"}]}
        if path == "/token":
            return self.token(form)
        if path == "/me" and bearer == "Bearer open sesame":
            return 200, {"sub": self.person["sub"]} | self.told
        return 401, {}


@contextmanager
def running() -> Iterator[Provider]:
    """A provider that answers on a port of this machine."""
    provider = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer({name: values[0] for name, values in parse_qs(body).items()})

        def _answer(self, form: dict[str, str]) -> None:
            status, said = provider.answer(self.path, form, self.headers.get("Authorization", ""))
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=[0.02], daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
