"""What a managed server that listens is known by: a certificate of its run, and nobody else's.

An authority is made for the run, signs one certificate of the server's address, and its key
is removed. Clients believe that authority alone (its certificate goes to them with the
password). All files are the server's user's, in the scratch folder, which goes with the run
however the harness ends.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from engines._server import make_folder, run_once
from harness.engine import EngineContext
from harness.errors import RunFailed
from harness.host.listen_address import Address, free_port
from harness.supervise.user_files import acting_as, read_text, write_text

#: Longer than any run.
_DAYS = "90"
_NEW_KEY = ("-newkey", "rsa:2048", "-nodes")
_SECTIONS = """\
[req]
distinguished_name = name
prompt = no
[name]
CN = tierbench
[authority]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature, keyEncipherment
extendedKeyUsage = serverAuth
subjectAltName = IP:{address}
authorityKeyIdentifier = keyid
"""


@dataclass(frozen=True)
class Listening:
    """Where a server listens, and its files: PEM, the key readable by its user only."""

    host: str
    port: int
    authority_pem: str
    authority: Path
    certificate: Path
    key: Path

    def __str__(self) -> str:
        return str(Address(self.host, self.port))

    def authority_text(self) -> str:
        """The authority's certificate, by which clients know the server."""
        return self.authority_pem


def listening(context: EngineContext) -> Listening:
    """On ``context.listen`` with a new certificate; RunFailed where there cannot be one."""
    assert context.listen is not None
    host = context.listen.host
    try:
        port = free_port(context.listen)
    except OSError as error:
        raise RunFailed(f"listen {context.listen}", str(error.strerror).lower()) from error
    folder = context.scratch / "tls"
    make_folder(context, folder)
    _certify(context, folder, host)
    authority = folder / "authority.pem"
    pem = read_text(authority, context.credentials)
    return Listening(host, port, pem, authority, folder / "server.pem", folder / "server.key")


def _certify(context: EngineContext, folder: Path, address: str) -> None:
    sections = folder / "sections.cnf"
    write_text(sections, _SECTIONS.format(address=address), context.credentials)
    signing = folder / "authority.key"

    def openssl(*arguments: str | Path) -> None:
        run_once(
            context,
            f"make a certificate of {address}",
            ["openssl", *map(str, arguments)],
            context.scratch / "openssl.log",
        )

    request = ("req", "-config", sections, "-new", *_NEW_KEY)
    openssl(
        *request,
        "-x509",
        "-extensions",
        "authority",
        "-subj",
        "/CN=tierbench run",
        "-days",
        _DAYS,
        "-keyout",
        signing,
        "-out",
        folder / "authority.pem",
    )
    openssl(
        *request,
        "-subj",
        f"/CN={address}",
        "-keyout",
        folder / "server.key",
        "-out",
        folder / "server.csr",
    )
    openssl(
        "x509",
        "-req",
        "-in",
        folder / "server.csr",
        "-CA",
        folder / "authority.pem",
        "-CAkey",
        signing,
        "-set_serial",
        f"0x{secrets.token_hex(8)}",
        "-days",
        _DAYS,
        "-extfile",
        sections,
        "-extensions",
        "server",
        "-out",
        folder / "server.pem",
    )
    with acting_as(context.credentials):
        signing.unlink()
        (folder / "server.csr").unlink()
        (folder / "server.key").chmod(0o600)
