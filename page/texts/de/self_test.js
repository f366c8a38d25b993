/** The texts of the self-test. */
export const TEXTS = {
  test: "Selbsttest der Ausgänge",
  test_about: "Jeder Ausgang ist kurz eingeschaltet, und sein Sensor muss folgen. Das letzte Ergebnis steht im Protokoll eines Laufs.",
  test_include: "Auch diese testen:",
  test_question: "Jetzt jeden Ausgang einschalten? Tür schließen.",
  test_begin: "Ausgänge testen",
  test_progress: "Fortschritt des Selbsttests",
  test_stop: "Abbrechen",
  test_stopped: "Abgebrochen",
  test_passed: "bestanden",
  test_failed: "durchgefallen",
  test_not_tested: "nicht getestet",
};
