import ssl

import pytest

from growd.config import ConfigError, Replication
from growd_cloud.access import read_trust


def test_servers_are_verified_with_the_ca_file_or_the_certificates_of_the_machine():
    assert read_trust(Replication(url="http://far")) == (True, "")
    _, ca_file = read_trust(Replication(url="https://far"))
    assert ca_file == ssl.get_default_verify_paths().cafile


@pytest.mark.parametrize(("text", "reason"), [(None, "can't be read"), ("x", "holds no certificate")])
def test_unreadable_certificates_are_reported(tmp_path, text, reason):
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=rf"\[replication\] ca_file: {file} {reason}"):
        read_trust(Replication(url="https://far", ca_file=str(file)))
