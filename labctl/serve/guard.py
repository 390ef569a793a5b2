"""What stands before every page: methods, the Host header, the token, and the headers that keep a browser safe."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any

# No script, style or image but our own. The one hash is that of the empty style element: the plotting library makes
# one and fills it through the document's model, which needs no leave beyond it.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
]
SIGN_IN = "/signin"
_OPEN = "/static/"

Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


class Guard:
    """Lets through to `app` what may read: GET or HEAD, for a name that is ours, with the token where there is one.

    `names` are names of hosts that may stand in the Host header beside localhost and plain addresses: any other is a
    page of somebody else's that had its own name lead here (DNS rebinding). `refused` is the page for a request
    without the token, which comes in the header "Authorization: Bearer TOKEN" or in the cookie that `SIGN_IN` sets.
    """

    def __init__(self, app: App, *, names: Iterable[str], token: str, cookie: str, refused: Callable[[], str]) -> None:
        self._app = app
        self._names = {"localhost", *(name.lower() for name in names)}
        self._token = token
        self._cookie = cookie
        self._refused = refused

    def __call__(self, environ: dict[str, Any], start_response: Start) -> Iterable[bytes]:
        """Answer one request."""

        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            given = {name.lower() for name, _ in headers}
            extra = [] if "cache-control" in given else [("Cache-Control", "no-store")]
            return start_response(status, [*headers, *extra, *_HEADERS], *more)

        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _answer(start, "405 Method Not Allowed", "Pages here can only be read.\n", [("Allow", "GET, HEAD")])
        if not self._is_ours(environ.get("HTTP_HOST", "")):
            return _answer(start, "421 Misdirected Request", "This server does not go by that name.\n")
        path = environ.get("PATH_INFO", "")
        if self._token and path == SIGN_IN and self._has_header(environ):
            kept = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            return _answer(start, "200 OK", "signed in\n", [("Set-Cookie", kept)])
        if self._token and not path.startswith(_OPEN) and not (self._has_header(environ) or self._has_cookie(environ)):
            return _answer(start, "401 Unauthorized", self._refused(), [("WWW-Authenticate", "Bearer")], "text/html")
        return self._app(environ, start)

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        name = name.lower().rstrip(".")
        try:
            ipaddress.ip_address(name[1:-1] if name.startswith("[") and name.endswith("]") else name)
        except ValueError:
            return name in self._names
        return True

    def _has_header(self, environ: dict[str, Any]) -> bool:
        kind, _, given = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        return kind.lower() == "bearer" and self._is_token(given.strip())

    def _has_cookie(self, environ: dict[str, Any]) -> bool:
        try:
            cookies = SimpleCookie(environ.get("HTTP_COOKIE", ""))
        except CookieError:
            return False
        return self._cookie in cookies and self._is_token(cookies[self._cookie].value)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token.encode())


def _answer(
    start: Start, status: str, text: str, headers: list[tuple[str, str]] | None = None, kind: str = "text/plain"
) -> list[bytes]:
    data = text.encode()
    about = [("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(data)))]
    start(status, [*about, *(headers or [])])
    return [data]
