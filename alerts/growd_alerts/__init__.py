"""Alerts: rules over the status, open alerts, and their delivery to operators."""
