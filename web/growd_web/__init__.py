"""What growd shows in a browser: the page, the documentation and the description of the API."""
