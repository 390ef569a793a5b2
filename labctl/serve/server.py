"""The server: where it listens, who may read, and that it ends when it is told to."""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable
from typing import Any

from labctl.errors import ConfigError, EnvironmentFault
from labctl.serve.app import Site
from labctl.serve.guard import Guard
from labctl.serve.pages import render
from labctl.serve.shelf import Shelf

_TOKEN_MIN = 16
_N_THREADS = 4
# Stands in a link for an address of this machine: a server on all of them has none of its own.
ANY_ADDRESS = "ADDRESS"


def is_loopback(host: str) -> bool:
    """Tell whether a host's name or address is that of this machine to itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def link(host: str, port: int, token: str) -> str:
    """Give the address for a browser, `ANY_ADDRESS` in it where the server listens on all of this machine's."""
    try:
        is_any = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        is_any = False
    shown = ANY_ADDRESS if is_any else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"#token={token}" if token else "")


def choose_token(host: str, token: str | None) -> str:
    """Give the token: the one given, a new one for a host that others reach, "" for none.

    Raises ConfigError for one that is short, or that does not fit into a header.
    """
    if token is None:
        return "" if is_loopback(host) else secrets.token_urlsafe(24)
    if len(token) < _TOKEN_MIN or not all(c.isascii() and (c.isalnum() or c in "-_.~") for c in token):
        raise ConfigError(f"a token has {_TOKEN_MIN} characters or more, of letters, digits and -_.~; leave --token "
                          "out and one is made")
    return token


def serve(shelf: Shelf, host: str, port: int, token: str, ready: Callable[[str], None]) -> None:
    """Serve until KeyboardInterrupt, and return then. `ready` is told the address, with the token behind a #; it holds
    `ANY_ADDRESS` where the server listens on all.

    Raises EnvironmentFault where the port is taken, or the host is none of this machine.
    """
    from waitress import create_server

    # Servers of one host share its cookies, whatever their ports.
    cookie = f"labctl-{hashlib.sha256(token.encode()).hexdigest()[:8]}"
    guard = Guard(Site(shelf).app, names=[host], token=token, cookie=cookie,
                  refused=lambda: render("signin", title="Sign in", scripts=["signin.js"]))
    listener = _listener(host, port)
    ready(link(host, listener.getsockname()[1], token))
    # A page asks for several things at once; that one of them waits for a moment is nothing to tell a person.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    server: Any = create_server(guard, sockets=[listener], threads=_N_THREADS, ident=None)
    try:
        server.run()
    finally:
        server.close()


def _listener(host: str, port: int) -> socket.socket:
    """Listen on the one address of a host, that of the older kind where there are both."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        raise EnvironmentFault(
            f"cannot listen on {host}, port {port} ({error}): --port 0 takes one that is free"
        ) from error
