"""The nutrient tank of the simulated chamber: water, heat, salts, acid and base, carbonate and oxygen.

Charge is counted as salts (equivalents of cations) and alkalinity. pH follows from alkalinity, phosphate and
dissolved carbon. All of them, and water, are conserved: they move only by what is dosed, filled, drained,
taken up and exchanged with the air.

Alkalinity is in equivalents of base above H2PO4- and CO2. Constants are those at 25 degC (Stumm and Morgan
1996, Aquatic Chemistry); the ionic strength is left out. Concentrations are in mmol/l or meq/l.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from growd_hwsim.physics import WATER_J_G_K, balance, exactly, saturation_vapour_g_m3

if TYPE_CHECKING:
    from collections.abc import Mapping


MEQ_PER_MS_CM: Final = 10.0
"""EC = cations / 10 (Sonneveld and Voogt 2009, Plant Nutrition of Greenhouse Crops)."""
HENRY_MMOL_L_PPM: Final = 0.034e-3
"""CO2 in water for each ppm in the air (Sander 2015, Atmos. Chem. Phys. 15:4399)."""

_CARBONIC, _BICARBONATE = 10**-6.35, 10**-10.33
_PHOSPHORIC, _PHOSPHATE = 10**-2.15, 10**-7.20
_WATER = 1e-14
_ACCURACY = 1e-6


def potential_hydrogen(alkalinity: float, phosphate: float, carbon: float, near: float = 7.0) -> float:
    """The pH, by Newton's method within brackets, from a first guess `near`."""
    low, high, ph = 0.0, 14.0, near
    while True:
        excess, slope = _charge(ph, phosphate, carbon)
        excess -= alkalinity
        low, high = (low, ph) if excess > 0 else (ph, high)
        following = ph - excess / slope
        if not low < following < high:
            following = (low + high) / 2.0
        if abs(following - ph) < _ACCURACY:
            return following
        ph = following


def alkalinity(ph: float, phosphate: float, carbon: float) -> float:
    """The alkalinity at a pH."""
    return _charge(ph, phosphate, carbon)[0]


def free_carbon_dioxide(ph: float) -> float:
    """The share of the dissolved carbon that is CO2."""
    hydrogen = math.pow(10.0, -ph)
    return 1.0 / (1.0 + _CARBONIC / hydrogen * (1.0 + _BICARBONATE / hydrogen))


def saturated_oxygen_mg_l(temperature_degc: float) -> float:
    """Oxygen in water with air above it (within 1.5 % of Benson and Krause 1984 at 0 to 40 degC)."""
    return 468.0 / (31.6 + temperature_degc)


def _charge(ph: float, phosphate: float, carbon: float) -> tuple[float, float]:
    """The alkalinity at a pH, and how it rises with pH."""
    hydrogen = math.pow(10.0, -ph)
    hydroxide = _WATER / hydrogen
    total, spread = 1000.0 * (hydroxide - hydrogen), 1000.0 * (hydroxide + hydrogen)
    acids = ((carbon, _CARBONIC), (carbon, _BICARBONATE), (phosphate, _PHOSPHORIC), (phosphate, _PHOSPHATE))
    for amount, constant in acids:  # their steps are far apart, so that each is an acid of its own
        share = constant / (constant + hydrogen)
        total += amount * share
        spread += amount * share * (1.0 - share)
    return total - phosphate, math.log(10.0) * spread


_CHEMISTRY_S: Final = 60.0  # between two looks at the CO2 in the water
_ROOM_PPM: Final = 420.0
_LAST_DROPS_L: Final = 0.5
_LEAST_MOL: Final = 1e-12


@dataclass(frozen=True)
class Stock:
    """What a dosing pump gives, per ml."""

    salt_meq: float = 0.0
    phosphate_mmol: float = 0.0
    alkalinity_meq: float = 0.0
    carbon_mmol: float = 0.0


_NUTRIENT: Final = Stock(2.4, 0.22, -0.02)  # 5 ml in 1 l of water: 1.2 mS/cm, as of two-part concentrates
_STOCKS: Final = {
    "nutrient_a": _NUTRIENT,
    "nutrient_b": _NUTRIENT,
    "nutrient_c": _NUTRIENT,
    "ph_up": Stock(0.5, 0.0, 0.5),  # potassium hydroxide, 0.5 mol/l
    "ph_down": Stock(0.0, 0.0, -0.5),  # nitric acid, 0.5 mol/l
}


@dataclass(frozen=True)
class TankParameters:
    """A tank of 20 l with a lid, roots in the solution, and tap water to fill it.

    Values without a source are assumptions.
    """

    capacity_l: float = 20.0
    """Volume of the full tank in l. More runs over."""
    start_l: float = 16.0
    """Solution at the start in l."""
    start_degc: float = 21.0
    """Its temperature in degC."""
    start_conductivity_ms_cm: float = 1.6
    """Its EC in mS/cm at 25 degC."""
    start_potential_hydrogen: float = 6.0
    """Its pH."""
    start_phosphate_mmol_l: float = 1.5
    """Its phosphate in mmol/l, the buffer at pH 5 to 7."""

    air_conductance_w_k: float = 3.0
    """From the water to the air of the chamber in W/K: 0.3 m2 of 10 W/m2/K."""
    surface_m3_s: float = 6e-5
    """Conductance for vapour from the water to the air in m3/s: 0.02 m2 of open water, 3 mm/s."""
    heater_w: float = 100.0
    """Power of the water heater in W. It works while it is covered."""
    cooler_w_k: float = 5.0
    """Conductance to the coil of the chiller in W/K: 75 W at 20 degC."""
    cooler_coil_degc: float = 5.0
    """Temperature of that coil in degC."""
    covered_l: float = 2.0
    """Solution in l that covers the heater."""
    pump_w: float = 5.0
    """Power of the circulation pump in W, all of which becomes heat in the water."""

    fill_l_min: float = 2.0
    """Flow of tap water through the fill valve in l/min."""
    drain_l_min: float = 2.0
    """Flow through the drain in l/min."""
    tap_degc: float = 15.0
    """Temperature of tap water in degC."""
    tap: Stock = Stock(0.003, 0.0, 0.0015, 0.0016)
    """Tap water, per ml: 0.3 mS/cm, alkalinity of 1.5 meq/l (75 mg/l as CaCO3), and pH 7.5."""

    dosing_ml_min: float = 30.0
    """Flow of each peristaltic pump in ml/min."""
    dosing_dead_s: float = 0.0
    """Time after each start in s in which it gives nothing: the motor starts, and the hose fills."""
    stocks: Mapping[str, Stock] = field(default_factory=lambda: MappingProxyType(_STOCKS))
    """What each of them doses."""
    mixing_s: float = 60.0
    """Time constant of mixing with the pump on, in s."""
    still_mixing_s: float = 900.0
    """Time constant of mixing without it, in s."""

    reaeration_per_s: float = 2e-5
    """Exchange of oxygen with the air, still, in 1/s."""
    pump_reaeration_per_s: float = 1e-4
    """More of it with the pump on, in 1/s."""
    aeration_per_s: float = 1e-3
    """More of it with an air stone, in 1/s: 3.6 1/h, as of fine bubbles in small tanks."""
    root_oxygen_mg_h: float = 5.0
    """Oxygen that the roots of a stand with a leaf area of 1 take up, in mg/h."""
    salt_meq_mol: float = 75.0
    """Salts that plants take up for each mol of carbon, in meq: 2.5 meq/g dry mass (Marschner 2012)."""
    phosphate_mmol_mol: float = 6.0
    """Phosphate that they take up for each mol of carbon, in mmol: 0.6 % of dry mass."""
    alkalinity_meq_mol: float = 18.0
    """Base that they give off for each mol of carbon, in meq, since they take up more anions than cations."""


class Water(NamedTuple):
    """The nutrient solution in the tank."""

    temperature_degc: float
    potential_hydrogen: float
    conductivity_ms_cm: float
    level_percent: float
    volume_l: float
    dissolved_oxygen_mg_l: float


class ToAir(NamedTuple):
    """What the tank gives to the air during a step."""

    heat_w: float
    carbon_dioxide_mol_s: float
    vapour_g_m3: float
    surface_m3_s: float


class Solutes(NamedTuple):
    """Amounts in the solution."""

    salt_meq: float = 0.0
    phosphate_mmol: float = 0.0
    alkalinity_meq: float = 0.0
    carbon_mmol: float = 0.0

    def plus(self, stock: Stock, ml: float) -> Solutes:
        """With so much of a stock solution."""
        return Solutes(
            self.salt_meq + stock.salt_meq * ml,
            self.phosphate_mmol + stock.phosphate_mmol * ml,
            self.alkalinity_meq + stock.alkalinity_meq * ml,
            self.carbon_mmol + stock.carbon_mmol * ml,
        )

    def parted(self, share: float) -> tuple[Solutes, Solutes]:
        """This share of them, and the rest."""
        part = Solutes(*(amount * share for amount in self))
        return part, Solutes(*(amount - taken for amount, taken in zip(self, part, strict=True)))

    def and_(self, other: Solutes) -> Solutes:
        """Both together."""
        return Solutes(*(one + more for one, more in zip(self, other, strict=True)))


class Tank:
    """The solution. What a probe sees is `mixed`; a dose is `unmixed` at first."""

    def __init__(self, p: TankParameters) -> None:
        volume, ph = p.start_l, p.start_potential_hydrogen
        phosphate = p.start_phosphate_mmol_l
        carbon = _ROOM_PPM * HENRY_MMOL_L_PPM / free_carbon_dioxide(ph)
        self.water_g = 1000.0 * volume
        self.temperature_degc = p.start_degc
        self.mixed = Solutes(
            MEQ_PER_MS_CM * p.start_conductivity_ms_cm * volume,
            phosphate * volume,
            alkalinity(ph, phosphate, carbon) * volume,
            carbon * volume,
        )
        self.unmixed = Solutes()
        self.oxygen_mg_l = saturated_oxygen_mg_l(p.start_degc)
        self.gone_g = 0.0
        """Water that ran over, or out through the drain, and what was in it."""
        self.gone = Solutes()
        self.hose = ""
        """The dosing pump whose hose is in a measuring cylinder, "" for none, and what that got in ml."""
        self.collected_ml = 0.0
        self._late_s: dict[str, float] = {}  # of dosing pumps, until they give something
        self._ph = ph
        self._outgassing_mmol_s = 0.0
        self._since_chemistry_s = math.inf

    def water(self, p: TankParameters) -> Water:
        """What probes measure."""
        litres = self.water_g / 1000.0
        return Water(
            self.temperature_degc,
            self._potential_hydrogen(),
            self.mixed.salt_meq / self._litres() / MEQ_PER_MS_CM,
            100.0 * litres / p.capacity_l,
            litres,
            self.oxygen_mg_l,
        )

    def meet(
        self, p: TankParameters, levels: Mapping[str, float], air_degc: float, ppm: float, seconds: float
    ) -> ToAir:
        """Exchange heat and CO2 with air in this state for a step."""
        self._since_chemistry_s += seconds
        if self._since_chemistry_s >= _CHEMISTRY_S:
            self._since_chemistry_s = 0.0
            self._outgassing_mmol_s = self._outgassing(p, levels, ppm, max(seconds, _CHEMISTRY_S))
        outgassed = min(self._outgassing_mmol_s * seconds, 0.5 * self.mixed.carbon_mmol)
        self.mixed = self.mixed._replace(carbon_mmol=self.mixed.carbon_mmol - outgassed)
        vapour = saturation_vapour_g_m3(self.temperature_degc)
        heat_w = self._exchange_heat(p, levels, air_degc, seconds)
        surface = min(p.surface_m3_s, self.supplied_m3_s(vapour, seconds))
        return ToAir(heat_w, outgassed / 1000.0 / seconds, vapour, surface)

    def supplied_m3_s(self, vapour_g_m3: float, seconds: float) -> float:
        """The largest conductance for vapour that a third of the water supplies for a step."""
        return self.water_g / 3.0 / (vapour_g_m3 * seconds)

    def advance(
        self,
        p: TankParameters,
        levels: Mapping[str, float],
        seconds: float,
        *,
        lost_g: float,
        uptake_mol: float,
        leaves: float,
    ) -> None:
        """A step in which air and plants took water, and plants with `leaves` (LAI) grew by `uptake_mol`."""
        self.water_g -= lost_g
        self._feed(p, uptake_mol)
        self._breathe(p, levels, leaves, seconds)
        for name, stock in p.stocks.items():
            ml = self._dosed_ml(p, name, levels[name], seconds)
            if name == self.hose:
                self.collected_ml += ml
            elif ml:
                self.water_g += ml
                self.unmixed = self.unmixed.plus(stock, ml)
        if levels["fill"]:
            self._fill(p, levels["fill"] * p.fill_l_min / 0.06 * seconds)
        if levels["drain"]:
            self._lose(levels["drain"] * p.drain_l_min / 0.06 * seconds)
        self._lose(self.water_g - 1000.0 * p.capacity_l)
        if any(self.unmixed):
            rate = levels["water_pump"] / p.mixing_s + (1.0 - levels["water_pump"]) / p.still_mixing_s
            joined, self.unmixed = self.unmixed.parted(-math.expm1(-rate * seconds))
            self.mixed = self.mixed.and_(joined)

    def _dosed_ml(self, p: TankParameters, name: str, level: float, seconds: float) -> float:
        """What a dosing pump gives in a step."""
        if not level:
            self._late_s[name] = p.dosing_dead_s
            return 0.0
        late_s = min(self._late_s.get(name, p.dosing_dead_s), seconds)
        self._late_s[name] = self._late_s.get(name, p.dosing_dead_s) - late_s
        return level * p.dosing_ml_min / 60.0 * (seconds - late_s)

    def _litres(self) -> float:
        """The volume that concentrations refer to; salts of the last drops are not infinitely strong."""
        return max(self.water_g / 1000.0, _LAST_DROPS_L)

    def _potential_hydrogen(self) -> float:
        litres, mixed = self._litres(), self.mixed
        self._ph = potential_hydrogen(
            mixed.alkalinity_meq / litres, mixed.phosphate_mmol / litres, mixed.carbon_mmol / litres, self._ph
        )
        return self._ph

    def _reaeration(self, p: TankParameters, levels: Mapping[str, float]) -> float:
        return (
            p.reaeration_per_s
            + levels["water_pump"] * p.pump_reaeration_per_s
            + levels["aeration"] * p.aeration_per_s
        )

    def _outgassing(
        self, p: TankParameters, levels: Mapping[str, float], ppm: float, seconds: float
    ) -> float:
        """CO2 that leaves the water in mmol/s, below 0 for what enters it."""
        free = self.mixed.carbon_mmol * free_carbon_dioxide(self._potential_hydrogen())
        excess = free - ppm * HENRY_MMOL_L_PPM * self._litres()
        return excess * -math.expm1(-self._reaeration(p, levels) * seconds) / seconds

    def _exchange_heat(
        self, p: TankParameters, levels: Mapping[str, float], air_degc: float, seconds: float
    ) -> float:
        """Move the temperature; returns the heat that goes to the air in W."""
        given_w = levels["water_pump"] * p.pump_w
        if levels["water_heater"] and self.water_g > 1000.0 * p.covered_l:
            given_w += levels["water_heater"] * p.heater_w
        coil_w_k = levels["water_cooler"] * p.cooler_w_k
        capacity, conductance = self._litres() * 1000.0 * WATER_J_G_K, p.air_conductance_w_k + coil_w_k
        into_w = given_w + p.air_conductance_w_k * air_degc + coil_w_k * p.cooler_coil_degc
        self.temperature_degc, mean = exactly(
            self.temperature_degc, into_w / capacity, conductance / capacity, seconds
        )
        return p.air_conductance_w_k * (mean - air_degc)

    def _feed(self, p: TankParameters, uptake_mol: float) -> None:
        """Salts for a net uptake of CO2, as far as there is enough of each; less from the last litre."""
        if uptake_mol < _LEAST_MOL:
            return
        has = self.mixed
        of_salt = 0.5 * has.salt_meq / (p.salt_meq_mol * uptake_mol)
        of_phosphate = 0.5 * has.phosphate_mmol / (p.phosphate_mmol_mol * uptake_mol)
        mol = uptake_mol * min(1.0, of_salt, of_phosphate, self.water_g / 1000.0)
        self.mixed = Solutes(
            has.salt_meq - p.salt_meq_mol * mol,
            has.phosphate_mmol - p.phosphate_mmol_mol * mol,
            has.alkalinity_meq + p.alkalinity_meq_mol * mol,
            has.carbon_mmol,
        )

    def _breathe(self, p: TankParameters, levels: Mapping[str, float], leaves: float, seconds: float) -> None:
        """Oxygen from the air and to the roots, which take less where there is little."""
        reaeration = self._reaeration(p, levels)
        roots = p.root_oxygen_mg_h / 3600.0 * leaves / self._litres() / (self.oxygen_mg_l + 0.5)
        inflow = reaeration * saturated_oxygen_mg_l(self.temperature_degc)
        self.oxygen_mg_l = balance(self.oxygen_mg_l, inflow, reaeration + roots, seconds)

    def _fill(self, p: TankParameters, ml: float) -> None:
        before, after = self.water_g, self.water_g + ml
        self.temperature_degc = (before * self.temperature_degc + ml * p.tap_degc) / after
        fresh = saturated_oxygen_mg_l(p.tap_degc)
        self.oxygen_mg_l = (before * self.oxygen_mg_l + ml * fresh) / after
        self.water_g = after
        self.mixed = self.mixed.plus(p.tap, ml)

    def _lose(self, grams: float) -> None:
        """Water that runs out, with what is dissolved in it."""
        if grams <= 0.0:
            return
        grams = min(grams, self.water_g)
        share = grams / self.water_g if self.water_g else 0.0
        gone, self.mixed = self.mixed.parted(share)
        gone_unmixed, self.unmixed = self.unmixed.parted(share)
        self.gone = self.gone.and_(gone).and_(gone_unmixed)
        self.gone_g += grams
        self.water_g -= grams
