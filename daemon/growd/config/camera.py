"""Sections of cameras and their photos."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from growd.config.base import DEVICE_FILE, Fraction, Name, Section
from growd.config.control import TimeOfDay, seconds_of_day


class Camera(Section, frozen=True):
    """One camera. docs/camera.md describes what becomes of its photos."""

    name: Name
    """Name in services, addresses and file names."""

    kind: Literal["rpicam", "v4l2", "http", "simulated"]
    """"rpicam": a camera at the ribbon connector of a Raspberry Pi, by rpicam-still or libcamera-still.
    "v4l2": a USB camera, by ffmpeg. "http": a camera in the network that answers a GET request with a JPEG.
    "simulated": draws the plants of the simulated chamber."""

    device: Annotated[str, Meta(pattern=DEVICE_FILE, max_length=256)] = "/dev/video0"
    """USB camera: its device, best by its path in /dev/v4l/by-id."""

    url: Annotated[str, Meta(max_length=1_024)] = ""
    """Network camera: the address of its snapshot, which may contain user and password. growd follows no
    redirect."""

    interval_s: Annotated[float, Meta(ge=30, le=86_400)] = 600.0
    """How often it takes a photo."""

    begin: TimeOfDay = "00:00"
    """From this time of day on it takes photos."""

    end: TimeOfDay = "00:00"
    """From this time of day on it takes none. The same as `begin`: all day."""

    width: Annotated[int, Meta(ge=64, le=8_000)] = 1_920
    """Width of a photo in pixels at most, before it is rotated."""

    rotation: Literal[0, 90, 180, 270] = 0
    """How far a photo is rotated clockwise, in degrees."""

    light: Fraction | None = None
    """Level of the white channel of the lamp during a photo, with the others dark; without a white one of all
    channels. Interlocks stay in force. Default: the light as it is."""

    @property
    def window_s(self) -> tuple[float, float]:
        """The beginning and the end in seconds after midnight."""
        return seconds_of_day(self.begin), seconds_of_day(self.end)

    @property
    def place(self) -> str:
        """Where it is: its device, its host, or its kind."""
        if self.kind == "http":
            return urlsplit(self.url).hostname or ""
        return self.device if self.kind == "v4l2" else self.kind

    def is_due_at(self, time_of_day_s: float) -> bool:
        """Whether it takes photos at this time of day."""
        begin, end = self.window_s
        if begin <= end:
            return begin == end or begin <= time_of_day_s < end
        return time_of_day_s >= begin or time_of_day_s < end


class PhotoOptions(Section, frozen=True):
    """How many photos of cameras are kept. Those of all environments share the budget."""

    budget_mb: Annotated[float, Meta(ge=10, le=1_000_000)] = 2_000.0
    """Room for all photos."""

    keep_days: Annotated[float, Meta(ge=0, le=3_650)] = 7.0
    """Photos up to this age are all kept, as far as the budget allows; of older ones that belong
    to no run one an hour, and after 60 days one a day."""
