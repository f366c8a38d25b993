/** The texts of the self-test, which come with its view: [English, German]. */
import { STRINGS } from "./strings.js";

Object.assign(STRINGS, {
  test: ["Self-test of the outputs", "Selbsttest der Ausgänge"],
  test_about: [
    "Each output is on for moments, and its sensor must follow. The last result is kept in the record of a run.",
    "Jeder Ausgang ist kurz eingeschaltet, und sein Sensor muss folgen. Das letzte Ergebnis steht im Protokoll eines Laufs.",
  ],
  test_include: ["Test these too:", "Auch diese testen:"],
  test_question: ["Switch on each output now? Close the door.", "Jetzt jeden Ausgang einschalten? Tür schließen."],
  test_begin: ["Test outputs", "Ausgänge testen"],
  test_progress: ["Progress of the self-test", "Fortschritt des Selbsttests"],
  test_stop: ["Stop", "Abbrechen"],
  test_stopped: ["Stopped", "Abgebrochen"],
  test_passed: ["passed", "bestanden"],
  test_failed: ["failed", "durchgefallen"],
  test_not_tested: ["not tested", "nicht getestet"],
});
