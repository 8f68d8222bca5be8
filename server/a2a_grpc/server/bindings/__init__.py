"""Ways in and out: each package speaks one protocol, builds a Call, runs a Handler and maps the outcome."""
