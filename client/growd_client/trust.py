"""Which certificates a client trusts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd_client.errors import UsageError

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

_PEM_END: Final = "-----END CERTIFICATE-----"


def trusting(ca: Path | None, *, insecure: bool = False, what: str = "ca") -> ssl.SSLContext:
    """A TLS context that trusts the machine's authorities, the certificates in `ca`, or any certificate.

    Raises `UsageError`, which calls the file `what`, for a file without a certificate.
    """
    import ssl  # noqa: PLC0415  seldom used

    try:
        context = ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise UsageError(f"{what} {ca} can't be read: {_why(error)}") from None
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def trusting_only(file: Path) -> ssl.SSLContext:
    """A TLS context that trusts only the first certificate in the file, under any host name.

    Raises `UsageError` for a file without a certificate.
    """
    import ssl  # noqa: PLC0415  seldom used

    try:
        # the following ones are its authorities, which may have signed others too
        first = file.read_text(encoding="ascii").partition(_PEM_END)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata="".join(first[:2]))
    except (OSError, ValueError) as error:
        sentence = f"[tls] certificate {file} can't be read: {_why(error)}; name one with --ca"
        raise UsageError(sentence) from None
    return context


def _why(error: Exception) -> str:
    """Why no certificate could be read from a file."""
    if isinstance(error, OSError) and type(error).__module__ == "builtins" and error.strerror:
        return error.strerror
    return "it contains no certificate"
