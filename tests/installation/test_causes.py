"""The cause in the output of pip and npm."""

import pytest

from growd_machine.installation.causes import cause_in

RETRY = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(\"{}\")': /simple"
NO_VERSION = "ERROR: Could not find a version that satisfies yarl==1.25.1\nERROR: No matching distribution"
NPM = """\
npm error code ENOTFOUND
npm error errno ENOTFOUND
npm error request to https://index/express failed, reason: getaddrinfo ENOTFOUND index
"""


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (
            RETRY.format("Failed to resolve: [Errno -3] Temporary failure in name resolution")
            + "\n"
            + NO_VERSION,
            "Temporary failure in name resolution",
        ),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
            "No space left on device",
        ),
        (
            RETRY.format("SSLError(certificate verify failed: self-signed certificate") + "\n" + NO_VERSION,
            "certificate verify failed: self-signed certificate",
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated\n",
            "THESE PACKAGES DO NOT MATCH THE HASHES",
        ),
        (NO_VERSION, "Could not find a version that satisfies yarl==1.25.1"),
        (NPM, "getaddrinfo ENOTFOUND index"),
        (
            "npm error code EINTEGRITY\nnpm error sha512-x integrity checksum failed\n",
            "sha512-x integrity checksum failed",
        ),
        ("some words\nthe last ones\n\n", "the last ones"),
        ("", ""),
    ],
)
def test_the_line_with_the_cause_is_found(output, cause):
    assert cause_in(output) == cause
