"""The texts of reports in each language: [English, German]."""

from __future__ import annotations

from typing import Final

WORDS: Final[dict[str, tuple[str, str]]] = {
    "report": ("Report of the run {recipe}", "Bericht über den Lauf {recipe}"),
    "comparison": ("Comparison of {number} runs", "Vergleich von {number} Läufen"),
    "run": ("Run", "Lauf"),
    "made": ("Made by growd {version} on {time}", "Erstellt von growd {version} am {time}"),
    "recipe": ("Recipe", "Rezept"),
    "revision": ("revision {number}", "Revision {number}"),
    "chamber": ("Chamber", "Kammer"),
    "started": ("Start", "Beginn"),
    "ended": ("End", "Ende"),
    "by": ("{what}, by {who}", "{what}, von {who}"),
    "running": ("still running", "läuft noch"),
    "finished": ("finished", "beendet"),
    "stopped": ("stopped", "angehalten"),
    "not valid any more": ("not valid any more", "nicht mehr gültig"),
    "lasted": ("Duration", "Dauer"),
    "changes": ("Changes of the recipe", "Rezeptwechsel"),
    "at_position": ("{time}, at {position} of the recipe", "{time}, bei {position} des Rezepts"),
    "experiment": ("Experiment", "Versuch"),
    "study_title": ("study", "Studie"),
    "study_material": ("plant material", "Pflanzenmaterial"),
    "study_organism": ("species", "Art"),
    "study_cultivar": ("cultivar", "Sorte"),
    "study_factor": ("factor", "Faktor"),
    "study_treatment": ("treatment", "Behandlung"),
    "study_unit": ("observation unit", "Beobachtungseinheit"),
    "study_replicate": ("replicate", "Wiederholung"),
    "growd": ("growd", "growd"),
    "sensors": ("Sensors", "Sensoren"),
    "outputs": ("Outputs", "Ausgänge"),
    "calibrations": ("Calibrations", "Kalibrierungen"),
    "self_test": ("Self-test of the outputs", "Selbsttest der Ausgänge"),
    "self_test_is": (
        "{time}: {passed} passed, {failed} failed, {rest} not tested",
        "{time}: {passed} bestanden, {failed} durchgefallen, {rest} nicht getestet",
    ),
    "self_test_stopped": ("{time}, stopped: {why}", "{time}, abgebrochen: {why}"),
    "not_recorded": ("not recorded", "nicht aufgezeichnet"),
    "none": ("none", "keine"),
    "summary": ("Summary", "Zusammenfassung"),
    "climate": ("Climate", "Klima"),
    "variable": ("Variable", "Größe"),
    "unit": ("Unit", "Einheit"),
    "min": ("Min.", "Min."),
    "mean": ("Mean", "Mittel"),
    "max": ("Max.", "Max."),
    "day_mean": ("Mean, light", "Mittel, hell"),
    "night_mean": ("Mean, dark", "Mittel, dunkel"),
    "data": ("Data", "Daten"),
    "deviation": ("Deviation", "Abweichung"),
    "within": ("In tolerance", "In Toleranz"),
    "tolerance": ("Tolerance", "Toleranz"),
    "longest": ("Longest excursion", "Längste Abweichung"),
    "or": ("{one} or {other}", "{one} oder {other}"),
    "from": ("{lasted}, from {time}", "{lasted}, ab {time}"),
    "day": ("Day", "Tag"),
    "each_day": ("{name} on each day", "{name} an jedem Tag"),
    "set_point": ("set point", "Sollwert"),
    "measured": (
        "measured: mean, and band from minimum to maximum",
        "gemessen: Mittel, und Band von Minimum bis Maximum",
    ),
    "dark": ("planned darkness", "geplante Dunkelheit"),
    "gap": ("growd did not run", "growd lief nicht"),
    "fault": ("fault", "Störung"),
    "interlock": ("interlock", "Verriegelung"),
    "hold": ("outputs held", "Ausgänge gehalten"),
    "note": ("note", "Notiz"),
    "event_recipe": ("recipe", "Rezept"),
    "restart": ("start of growd", "Start von growd"),
    "stop": ("stop of growd", "Ende von growd"),
    "plot": (
        "{name} in {unit} from {start} to {end}: from {low} to {high}, mean {mean}.",
        "{name} in {unit} vom {start} bis {end}: von {low} bis {high}, Mittel {mean}.",
    ),
    "bars": ("{name} on each of {days} days.", "{name} an jedem von {days} Tagen."),
    "light": ("Light", "Licht"),
    "light_integral": ("Light integral", "Lichtsumme"),
    "light_total": ("Light integral: {total} mol/m² in {days}.", "Lichtsumme: {total} mol/m² in {days}."),
    "light_planned": (
        "Light was planned for {light}, darkness for {dark}.",
        "Licht war geplant für {light}, Dunkelheit für {dark}.",
    ),
    "from_ppfd": ("From the measured PPFD.", "Aus der gemessenen PPFD."),
    "from_lux": (
        (
            "Estimated from the illuminance: {factor} lux for each µmol/m²/s, as of white LEDs. "
            "Uncertainty about {share}; with red or blue LEDs the true integral is higher."
        ),
        (
            "Aus der Beleuchtungsstärke geschätzt: {factor} Lux je µmol/m²/s, wie bei weißen LEDs. "
            "Unsicherheit etwa {share}; mit roten oder blauen LEDs ist die wahre Lichtsumme größer."
        ),
    ),
    "only_data": ("Only time with data counts.", "Nur Zeit mit Daten zählt."),
    "use": ("Outputs and CO₂", "Ausgänge und CO₂"),
    "output": ("Output", "Ausgang"),
    "on_time": ("On", "An"),
    "on_share": ("Share of known time", "Anteil der bekannten Zeit"),
    "starts": ("Times switched on", "Einschaltungen"),
    "level": ("Mean level", "Mittlere Stellung"),
    "energy": ("Energy in kWh", "Energie in kWh"),
    "volume": ("Volume in l", "Menge in l"),
    "known": ("Known time", "Bekannte Zeit"),
    "not_known": ("not known", "nicht bekannt"),
    "co2_day": ("CO₂ valve open", "CO₂-Ventil offen"),
    "co2_used": (
        "CO₂: {litres} l, {grams} g (at 20 °C and 1013 hPa).",
        "CO₂: {litres} l, {grams} g (bei 20 °C und 1013 hPa).",
    ),
    "co2_no_flow": (
        "The volume is not known: flow_ml_min, the flow of the open valve, is not configured.",
        "Die Menge ist nicht bekannt: flow_ml_min, der Durchfluss des offenen Ventils, fehlt.",
    ),
    "litres": ("CO₂ in l", "CO₂ in l"),
    "events": ("Faults, interlocks and gaps", "Störungen, Verriegelungen und Lücken"),
    "kind": ("Kind", "Art"),
    "source": ("Source", "Quelle"),
    "count": ("Number", "Anzahl"),
    "total": ("Total time", "Gesamtdauer"),
    "times": ("Times", "Zeiten"),
    "more": ("and {number} more", "und {number} weitere"),
    "clean_gap": ("growd was stopped", "growd war beendet"),
    "power_gap": ("growd ended without a clean end", "growd endete unerwartet"),
    "open_end": (
        "{time}, not over at the end ({lasted})",
        "{time}, am Ende nicht vorbei ({lasted})",
    ),
    "no_events": (
        "There were no faults, interlocks or gaps.",
        "Es gab keine Störungen, Verriegelungen oder Lücken.",
    ),
    "device": ("Device", "Gerät"),
    "before": ("Before", "Vorher"),
    "after": ("After", "Nachher"),
    "reference": ("Reference", "Referenz"),
    "journal": ("Journal", "Journal"),
    "time": ("Time", "Zeit"),
    "entry": ("Entry", "Eintrag"),
    "author": ("By", "Von"),
    "no_entries": ("There are no entries.", "Es gibt keine Einträge."),
    "photos": ("Photos", "Fotos"),
    "photo": ("Photo of {time}", "Foto vom {time}"),
    "photo_not_here": (
        "{name}, {size} MB: too large for the report. It is in the journal on the page of growd.",
        "{name}, {size} MB: zu groß für den Bericht. Es ist im Journal auf der Seite von growd.",
    ),
    "by_hand": ("Measurements by hand", "Messungen von Hand"),
    "yields": ("Yields", "Erträge"),
    "sum": ("Sum", "Summe"),
    "value": ("Value", "Wert"),
    "how": ("How these figures are made", "Wie diese Zahlen entstehen"),
    "how_weights": (
        (
            "Means are weighted with time: a stored value holds until the next one, for some minutes at "
            "most, and not through faults of its sensor or while growd did not run. Missing and released "
            "values never count as zero."
        ),
        (
            "Mittel sind mit der Zeit gewichtet: ein gespeicherter Wert gilt bis zum nächsten, höchstens "
            "einige Minuten, und nicht während einer Störung seines Sensors oder während growd nicht "
            "lief. Fehlende und freigegebene Werte zählen nie als null."
        ),
    ),
    "how_deviation": (
        (
            "The deviation is the mean distance from the set point in force, by recipe or by hand, while "
            "both were known; that of a sum, such as the light of a day, is taken at the end of each day. An "
            "excursion is a time without a pause outside of the tolerance."
        ),
        (
            "Die Abweichung ist der mittlere Abstand vom geltenden Sollwert, aus Rezept oder von Hand, "
            "solange beide bekannt waren; der einer Summe, wie der des Lichts, gilt am Ende jedes Tages. Die "
            "längste Abweichung ist die längste Zeit ohne Pause außerhalb der Toleranz."
        ),
    ),
    "how_outputs": (
        (
            "Times, starts, energy and volume of outputs are counted from what was written to them. Those of "
            "single days, and all of an output whose counters began anew in the run, are from its commands; "
            "a CO₂ valve that an interlock held counts as closed there."
        ),
        (
            "Zeiten, Einschaltungen, Energie und Mengen der Ausgänge sind von dem gezählt, was ihnen "
            "geschrieben wurde. Die einzelner Tage, und alle eines Ausgangs, dessen Zähler im Lauf neu "
            "begannen, sind aus den Befehlen; ein CO₂-Ventil, das eine Verriegelung hielt, zählt dort als "
            "geschlossen."
        ),
    ),
    "how_rolled_up": (
        (
            "Before {time} the single points were retired. Figures of that time are from five-minute "
            "values: minimum and maximum are exact, means and deviations are close, and commands that "
            "changed within five minutes are not known."
        ),
        (
            "Vor {time} sind die einzelnen Punkte aufgelöst. Zahlen aus dieser Zeit sind aus Fünf-"
            "Minuten-Werten: Minimum und Maximum sind genau, Mittel und Abweichungen nahezu, und Befehle,"
            " die sich innerhalb von fünf Minuten änderten, sind nicht bekannt."
        ),
    ),
    "times_shown": ("Times", "Zeiten"),
    "points": ("{number} % points", "{number} %-Punkte"),
    "faults": ("Faults", "Störungen"),
    "interlocks": ("Interlocks", "Verriegelungen"),
    "water": ("Water added", "Nachgefülltes Wasser"),
    "difference": ("Difference from the first run", "Unterschied zum ersten Lauf"),
    "difference_short": ("difference", "Unterschied"),
    "since_start": ("Time since the start of each run", "Zeit seit dem Beginn jedes Laufs"),
    "overlay": (
        "{name} in {unit} of {number} runs, by the time since their starts.",
        "{name} in {unit} von {number} Läufen, nach der Zeit seit ihrem Beginn.",
    ),
    "figures": ("Figures", "Zahlen"),
}
