"""One file with everything a chamber needs: made while growd runs, checked, and restored."""
