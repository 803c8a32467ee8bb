"""The one exception that means "the user can mend this": it names the value, the limit and the remedy."""


class RltokError(ValueError):
    """A user's mistake. The command line prints its message on one line and exits with code 2."""


class TrainingFailed(RltokError):
    """Training itself went wrong (a loss that is not finite, too little memory): a result about these settings."""
