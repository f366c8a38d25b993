"""Checks of configurations that no file has."""

from growd.config import ConfigError
from growd.config.device_checks import device_conflicts, device_inconsistencies
from growd_cli.config_checks import DEVICE_CHECKS


def check_config(config):
    """Apply all checks. Raises `ConfigError`."""
    checks = (device_conflicts, device_inconsistencies, *DEVICE_CHECKS)
    findings = [finding for check in checks for finding in check(config)]
    if findings:
        raise ConfigError(*(finding.sentence for finding in findings), findings=findings)
