"""What can go wrong between this service and its store."""


class StoreUnavailableError(Exception):
    """The store did not answer in time, or refuses writes; the step may or may not have happened.

    Every step is safe to repeat, so a caller may try the same step again.
    """


class StoreMisconfiguredError(Exception):
    """The store cannot be used as it is set up; the text says what to change."""


class TaskErasedError(Exception):
    """A task that was being followed is there no longer: somebody erased it."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"the task {task_id} was erased")
        self.task_id = task_id
