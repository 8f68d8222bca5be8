"""Composition by purpose, for `main`: settings become what is hosted, what listens, what delivers."""
