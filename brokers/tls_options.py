"""The TLS options of the broker's command line, which `headgate up` accepts too and passes on.

A module of its own, since the supervisor must not load the broker.
"""

from __future__ import annotations

import argparse
from pathlib import Path

#: The standard port of amqps://.
TLS_PORT = 5671

_NAMES = ("certificate", "key", "host", "port", "client_ca", "client_certificates")


def add_tls_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a second listener, with TLS."""
    group = parser.add_argument_group(
        "TLS",
        "A second listener, for amqps://. Files are PEM; changed files are loaded within a minute, or on SIGHUP.",
    )
    group.add_argument("--tls-certificate", type=Path, metavar="FILE", help="the broker's certificate, with its chain")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's private key, not encrypted")
    group.add_argument("--tls-host", metavar="HOST", help="address to listen on with TLS (default: 127.0.0.1)")
    group.add_argument(
        "--tls-port", type=port_number, metavar="PORT", help="port to listen on with TLS (default: 5671)"
    )
    group.add_argument(
        "--tls-client-ca",
        type=Path,
        metavar="FILE",
        help="authority of client certificates that can sign in (SASL EXTERNAL)",
    )
    group.add_argument(
        "--tls-client-certificates",
        choices=("optional", "required"),
        help="whether clients must have a certificate (default: optional)",
    )


def check_tls_options(options: argparse.Namespace) -> None:
    """Raises ValueError, naming them, if options do not go together."""
    if bool(options.tls_certificate) != bool(options.tls_key):
        given, missing = ("--tls-certificate", "--tls-key")[:: 1 if options.tls_certificate else -1]
        raise ValueError(f"{given} is given without {missing}: TLS needs both")
    if not options.tls_certificate:
        for name in ("host", "port", "client_ca", "client_certificates"):
            if getattr(options, f"tls_{name}") is not None:
                raise ValueError(f"--tls-{name.replace('_', '-')} is given without --tls-certificate and --tls-key")
    if options.tls_client_certificates and not options.tls_client_ca:
        raise ValueError(
            "--tls-client-certificates is given without --tls-client-ca, the authority of the certificates"
        )


def tls_arguments(options: argparse.Namespace) -> list[str]:
    """Return the given options for another command line; files with absolute paths."""
    given = ((name, getattr(options, f"tls_{name}")) for name in _NAMES)
    return [
        part
        for name, value in given
        if value is not None
        for part in (f"--tls-{name.replace('_', '-')}", str(value.resolve() if isinstance(value, Path) else value))
    ]


def port_number(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 (any that is free) to 65535")
    return int(text)
