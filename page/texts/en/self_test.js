/** The texts of the self-test. */
export const TEXTS = {
  test: "Self-test of the outputs",
  test_about: "Each output is on for moments, and its sensor must follow. The last result is kept in the record of a run.",
  test_include: "Test these too:",
  test_question: "Switch on each output now? Close the door.",
  test_begin: "Test outputs",
  test_progress: "Progress of the self-test",
  test_stop: "Stop",
  test_stopped: "Stopped",
  test_passed: "passed",
  test_failed: "failed",
  test_not_tested: "not tested",
};
