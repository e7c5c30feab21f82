"""The certificate of a server that listens.

An authority is made for the run and signs one certificate for the server's address; then its key
is removed. Clients trust only that authority, whose certificate they receive with the password.
All files belong to the server's user and are in the scratch folder, which is removed with the run
however the harness ends.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from engines._programs import run_once
from harness.engine import (
    EngineContext,
)
from harness.errors import RunFailed
from harness.host.listen_address import free_port
from harness.supervise.user_files import (
    acting_as,
    make_directory,
    read_text,
    write_text,
)

#: Longer than any run.
_DAYS = 90
_FILES = (
    *("sections.cnf", "authority.key", "authority.pem"),
    *("server.key", "server.csr", "server.pem"),
)
#: What openssl runs, in this order; words that are names of files stand for their paths.
_COMMANDS = (
    "req -config sections.cnf -new -newkey rsa:2048 -nodes -x509 -extensions authority "
    "-subj /CN=tierbench -days {days} -keyout authority.key -out authority.pem",
    "req -config sections.cnf -new -newkey rsa:2048 -nodes "
    "-subj /CN={address} -keyout server.key -out server.csr",
    "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -set_serial 0x{serial} "
    "-days {days} -extfile sections.cnf -extensions server -out server.pem",
)


@dataclass(frozen=True)
class Listening:
    """Address at which a server listens, and its PEM files; only its user can read the key.

    ``authority_pem``: the authority's certificate, with which clients verify the server.
    """

    host: str
    port: int
    authority_pem: str
    authority: Path
    certificate: Path
    key: Path


def listening(context: EngineContext) -> Listening:
    """Listen on ``context.listen`` with a new certificate; RunFailed if there cannot be one."""
    assert context.listen is not None
    host = context.listen.host
    try:
        port = free_port(context.listen)
    except OSError as error:
        raise RunFailed(f"listen {context.listen}", str(error.strerror).lower()) from error
    folder = context.scratch / "tls"
    make_directory(folder, context.credentials)
    _certify(context, folder, host)
    authority = folder / "authority.pem"
    pem = read_text(authority, context.credentials)
    return Listening(host, port, pem, authority, folder / "server.pem", folder / "server.key")


def _certify(context: EngineContext, folder: Path, address: str) -> None:
    files = {name: folder / name for name in _FILES}
    sections = Path(__file__).with_name("tls.cnf").read_text().format(address=address)
    write_text(files["sections.cnf"], sections, context.credentials)
    for command in _COMMANDS:
        serial = secrets.token_hex(8)
        words = command.format(address=address, days=_DAYS, serial=serial).split()
        run_once(
            context,
            f"make a certificate for {address}",
            ["openssl", *(str(files.get(word, word)) for word in words)],
            context.scratch / "openssl.log",
        )
    with acting_as(context.credentials):
        files["authority.key"].unlink()
        files["server.csr"].unlink()
        files["server.key"].chmod(0o600)
