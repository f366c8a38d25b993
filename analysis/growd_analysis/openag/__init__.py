"""Documents of openag_brain, brought into the form in which growd stores them."""
