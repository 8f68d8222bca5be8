"""The ordered pipeline around every call, and the seam through which bindings reach it."""
