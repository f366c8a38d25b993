"""The same buses as the hardware has, simulated on the wire, with a chamber behind them."""
