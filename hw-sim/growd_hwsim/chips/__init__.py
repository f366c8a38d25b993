"""Chips on the simulated buses: slaves of their protocol, with memory."""
