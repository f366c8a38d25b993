"""Alerts: what operators are told of, when it begins, while it lasts, and when it is over."""
