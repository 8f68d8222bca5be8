"""What can go wrong while the embedded store starts."""


class EmbeddedStoreError(Exception):
    """The embedded store cannot be used. The text is a whole sentence for the operator and says what to change."""
