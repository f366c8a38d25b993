"""The kinds of alert channels; each is imported only if it is configured."""
