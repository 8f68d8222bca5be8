"""The ways an agent's function may end other than by returning."""

_LONGEST = 30 * 86_400


class Reject(Exception):  # noqa: N818 - it reads as the author's word: raise Reject("…")
    """The agent refuses the task: REJECTED. The text is public."""


class Fail(Exception):  # noqa: N818
    """The agent could not do the task: FAILED. The text is public, the cause (`raise … from`) goes to the log only."""


class Retry(Exception):  # noqa: N818
    """The turn should be run again, after `after` seconds: the caller sees the text, the cause goes to the log only.

    That counts as an attempt. Where none is left the task ends as FAILED with the text.
    """

    def __init__(self, text: str, *, after: float = 0.0) -> None:
        super().__init__(text)
        if not 0 <= after <= _LONGEST:
            raise ValueError(f"after is {after} seconds, but must be from 0 to {_LONGEST}")
        self.after = after


class TurnOverError(RuntimeError):
    """The turn has ended (parked, ended, canceled or taken over): nothing can be written any more."""
