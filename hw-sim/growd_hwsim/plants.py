"""The stand of plants in the simulated chamber: photosynthesis, transpiration, growth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from growd_hwsim.physics import GAS_CONSTANT, PRESSURE_PA, ZERO_DEGC_K

if TYPE_CHECKING:
    from growd_hwsim.parameters import ChamberParameters

CO2_G_MOL: Final = 44.01
_DRY_G_MOL: Final = 30.0  # of sugar for each mol of carbon


class Stand(NamedTuple):
    """The plants at a moment."""

    leaf_area_index: float
    intercepted: float
    """Share of the light."""
    respiration_umol_m2_s: float
    """CO2 that they release, at 25 degC."""


def stand(p: ChamberParameters, grown: float = 1.0) -> Stand:
    """Plants of `grown` times the leaves and the mass of those in the parameters."""
    area = p.leaf_area_index * grown
    return Stand(area, -math.expm1(-p.extinction * area), p.dark_respiration_umol_m2_s * grown)


def dry_mass_g_m2(uptake_mol: float, p: ChamberParameters) -> float:
    """Dry mass that a net uptake of CO2 (mol) makes, in g for each m2 of growing area, as sugar."""
    return uptake_mol * _DRY_G_MOL / p.growing_area_m2


def gross_photosynthesis(
    parameters: ChamberParameters, carbon_dioxide_ppm: float, temperature_degc: float, ppfd_umol_m2_s: float
) -> float:
    """CO2 uptake of the stand without respiration, in umol per m2 of growing area and s.

    The rectangular hyperbola of Goudriaan in light and CO2, with the values for lettuce of Van Henten 1994
    (Agric. Syst. 45:55). Below the compensation point it is 0.
    """
    intercepted = stand(parameters).intercepted
    return gross(parameters, intercepted, carbon_dioxide_ppm, temperature_degc, ppfd_umol_m2_s)


def compensation_point_ppm(parameters: ChamberParameters, temperature_degc: float) -> float:
    """CO2 at which gross photosynthesis ends."""
    return parameters.compensation_point_ppm * math.pow(2.0, (temperature_degc - 20.0) / 10.0)


def gross(
    p: ChamberParameters, intercepted: float, carbon_dioxide_ppm: float, temperature_degc: float, ppfd: float
) -> float:
    """`gross_photosynthesis` of plants that intercept this share of the light."""
    above = carbon_dioxide_ppm - compensation_point_ppm(p, temperature_degc)
    if above <= 0.0 or ppfd <= 0.0:
        return 0.0
    efficiency = p.light_use_g_j * 1e6 / CO2_G_MOL * above / (above + 3.0 * (carbon_dioxide_ppm - above))
    of_light = efficiency * ppfd / p.par_umol_j
    moles_m3 = PRESSURE_PA / (GAS_CONSTANT * (temperature_degc + ZERO_DEGC_K))
    of_carbon_dioxide = _leaf_conductance(p, temperature_degc) * above * moles_m3
    if of_light <= 0.0 or of_carbon_dioxide <= 0.0:  # underflow
        return 0.0
    return intercepted * of_light * of_carbon_dioxide / (of_light + of_carbon_dioxide)


def transpiration_m3_s(p: ChamberParameters, leaf_area_index: float, ppfd: float) -> float:
    """Conductance from the leaves to the air for vapour, times their area."""
    stomata = p.stomatal_resistance_s_m * (1500.0 + ppfd) / (200.0 + ppfd)
    return leaf_area_index * p.growing_area_m2 / (stomata + p.aerodynamic_resistance_s_m)


def _leaf_conductance(p: ChamberParameters, temperature_degc: float) -> float:
    """From air to chloroplasts for CO2, in m/s (Van Henten 1994); none below 5 degC and above 40 degC."""
    t = temperature_degc
    carboxylation = -1.32e-5 * t * t + 5.94e-4 * t - 2.64e-3
    if carboxylation <= 0.0:
        return 0.0
    return 1.0 / (1.0 / p.boundary_conductance_m_s + 1.0 / p.stomatal_conductance_m_s + 1.0 / carboxylation)
