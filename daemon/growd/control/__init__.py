"""From a sensor to a measured value, and from a set point to an actuator."""
