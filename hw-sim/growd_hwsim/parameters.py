"""What a simulated chamber is made of: sizes, lamps, devices and plants."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from growd_hwsim.soil import SoilParameters
from growd_hwsim.tank import TankParameters

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class LampChannel:
    """One lamp channel at full power.

    Measured fixtures have 1.5 to 2.1 umol/J for white, 2.25 for blue and red (Park and Runkle 2018, PLoS ONE
    13:e0202386), the best LEDs twice that (Kusuma, Pattison and Bugbee 2020, Hortic. Res. 7:56).
    """

    power_w: float
    """Electrical power in W, all of which becomes heat in the chamber."""
    efficacy_umol_j: float
    """Photons of 400-700 nm in umol per J of electricity."""
    lux_per_umol: float
    """Illuminance in lx per umol/m2/s of this spectrum."""


_SEEDLING: Final = 0.1
_LAMPS = {
    # lux per umol: white LEDs 67 (Sharakshane 2018, bioRxiv 215095); for one wavelength 683 lm/W times
    # the CIE 1924 luminosity function (0.0610 at 660 nm, 0.0380 at 450 nm) times 0.1196 J m / wavelength.
    "white": LampChannel(30.0, 2.1, 66.7),
    "red": LampChannel(14.0, 2.25, 7.55),
    "blue": LampChannel(7.5, 2.25, 6.90),
}


@dataclass(frozen=True)
class ChamberParameters:
    """A bench-top chamber of 100 l, 0.42 m x 0.40 m x 0.60 m, with a closed stand of young lettuce.

    Values without a source are assumptions.
    """

    volume_m3: float = 0.1
    """Volume of air in m3."""
    leak_per_h: float = 1.5
    """Air changes in 1/h with the door closed and the fan off."""
    fan_flow_l_min: float = 60.0
    """Air that the exhaust fan exchanges with the room, in l/min."""
    door_exchange_per_s: float = 0.05
    """Air changes in 1/s with the door open: a twentieth of the air is left after a minute."""
    door_hours: tuple[float, ...] = ()
    """Hours of the day, 0 to 24, at which the door opens."""
    door_open_s: float = 60.0
    """How long the door stays open then, in s."""
    valve_flow_l_min: float = 0.05
    """Flow of pure CO2 through the open valve, in l/min at the pressure and temperature of the air."""
    ambient_carbon_dioxide_ppm: float = 420.0
    """CO2 in the room in ppm: the global mean of 2023 is 419.3 (NOAA Global Monitoring Laboratory)."""
    ambient_temperature_degc: float = 22.0
    """Temperature of the room in degC."""
    ambient_humidity_percent: float = 45.0
    """Relative humidity of the room in percent."""

    growing_area_m2: float = 0.168
    """Area under the lamps in m2, all of it with plants."""
    leaf_area_index: float = 1.0
    """One-sided area of leaves over the growing area."""
    extinction: float = 0.9
    """Extinction of light in the stand, for flat leaves (Van Henten 1994, Agric. Syst. 45:55, c_k)."""
    light_use_g_j: float = 17e-6
    """CO2 in g for each J of light at very high CO2 (Van Henten 1994, c_epsilon)."""
    compensation_point_ppm: float = 40.0
    """CO2 in ppm where photosynthesis ends, at 20 degC; doubles each 10 degC (Van Henten 1994, c_Gamma)."""
    boundary_conductance_m_s: float = 0.004
    """Of the leaves' boundary layer for CO2, in m/s (Van Henten 1994, c_bnd)."""
    stomatal_conductance_m_s: float = 0.007
    """Of the stomata for CO2, in m/s (Van Henten 1994, c_stm)."""
    dark_respiration_umol_m2_s: float = 0.32
    """CO2 in umol for each m2 of growing area and s, at 25 degC; doubles each 10 degC. Maintenance after Van
    Henten 1994 (c_resp 3.47e-7 and 1.16e-7 1/s, for the 14 g/m2 dry mass of this leaf area) is 0.16; growth
    is taken to cost as much again."""
    stomatal_resistance_s_m: float = 60.0
    """Of leaves for vapour in full light, in s/m: r (1500 + PPFD) / (200 + PPFD) at other light (Graamans et
    al. 2017, Agric. Syst. 153:138)."""
    aerodynamic_resistance_s_m: float = 100.0
    """Between leaves and air for vapour, in s/m (Graamans et al. 2017)."""

    lamps: Mapping[str, LampChannel] = field(default_factory=lambda: MappingProxyType(_LAMPS))
    """The lamp's channels by name."""
    utilisation: float = 0.8
    """Share of the lamps' photons that reaches the growing area, with reflecting walls."""
    par_umol_j: float = 4.57
    """Photons in umol for each J of light of 400-700 nm; of sunlight (Thimijan and Heins 1983, HortScience
    18:818), and within 5 % of white LEDs."""
    daylight_lux: float = 300.0
    """Daylight at noon through the window of the chamber, in lx."""
    daylight_lux_per_umol: float = 54.0
    """Illuminance in lx for each umol/m2/s of daylight (Thimijan and Heins 1983)."""
    sunrise_h: float = 6.0
    """Hour of the day at which daylight begins."""
    sunset_h: float = 18.0
    """Hour of the day at which daylight ends."""

    air_heat_capacity_j_k: float = 600.0
    """Heat capacity of the air (120 J/K), the leaves and what stands in the air, in J/K."""
    wall_heat_capacity_j_k: float = 7_900.0
    """Heat capacity of the walls in J/K: 1.5 m2 of 3 mm acrylic, 1190 kg/m3 and 1470 J/kg/K."""
    inner_conductance_w_k: float = 16.0
    """From air to walls in W/K: 1.5 m2 of 10.7 W/m2/K, half by convection, half by radiation (ISO 6946)."""
    outer_conductance_w_k: float = 16.0
    """From walls to room in W/K, as inside."""
    wall_vapour_m3_s: float = 0.006
    """Conductance from air to walls for vapour in m3/s, as for heat by convection (Lewis relation)."""
    film_capacity_g: float = 90.0
    """Water that the walls hold before it runs down into the drain, in g."""

    heater_w: float = 200.0
    """Power of the heater in W."""
    cooler_w_k: float = 6.0
    """Conductance from the air to the coil of the cooler in W/K: 120 W from air of 25 degC."""
    cooler_coil_degc: float = 5.0
    """Temperature of the coil in degC. Vapour condenses on it and is drained."""
    humidifier_g_h: float = 40.0
    """Droplets that the ultrasonic humidifier makes, in g/h, as one small disc does."""
    dehumidifier_m3_s: float = 0.0006
    """Air that the dehumidifier dries to the dew point of its coil, in m3/s: 750 g/d from air of 30 degC and
    80 %, as Peltier dehumidifiers are sold."""
    dehumidifier_coil_degc: float = 10.0
    """Temperature of its coil in degC."""
    dehumidifier_w: float = 70.0
    """Power of the dehumidifier in W, all of which becomes heat in the chamber."""
    circulation_gain: float = 0.5
    """Increase of the heat transfer to the walls by the circulation fan, as a fraction."""
    circulation_w: float = 2.0
    """Power of the circulation fan in W."""

    tank: TankParameters = field(default_factory=TankParameters)
    """The nutrient tank, in the chamber."""
    soil: SoilParameters = field(default_factory=SoilParameters)
    """The substrate of the plants in pots."""
    part_in_soil: float = 0.25
    """Part of the plants that take their water from pots; the roots of the others are in the tank."""
    grows: bool = False
    """Whether leaves and mass of the plants grow with their net uptake of CO2."""
    dry_mass_g_m2: float = 14.0
    """Dry mass of the plants at the start, in g/m2 of growing area (Van Henten 1994, at a leaf area of 1)."""

    @classmethod
    def seedlings(cls) -> Self:
        """The same with a tenth of the plants, which grow."""
        usual = cls()
        return cls(
            leaf_area_index=usual.leaf_area_index * _SEEDLING,
            dark_respiration_umol_m2_s=usual.dark_respiration_umol_m2_s * _SEEDLING,
            dry_mass_g_m2=usual.dry_mass_g_m2 * _SEEDLING,
            grows=True,
        )
