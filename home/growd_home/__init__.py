"""The bridge to home automation: state, commands and Home Assistant's discovery by MQTT."""
