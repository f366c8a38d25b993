"""The bus: topics, parameters, services and nodes. No I/O, and no knowledge of HTTP or hardware."""

from growd.bus.nodes import Bus, Node

__all__ = ["Bus", "Node"]
