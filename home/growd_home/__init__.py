"""Ways in for other systems: home automation by MQTT with commands and discovery, rosbridge, Prometheus."""
