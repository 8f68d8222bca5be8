"""Who calls: the scheme of authentication and its entry in the card, in one place each."""
