"""The one exception that means "the user can mend this": it names the value, the limit and the remedy."""


class RltokError(ValueError):
    """A user's mistake. The command line prints its message on one line and exits with code 2."""


class TrainingFailed(RltokError):
    """Training itself went wrong (a loss that is not finite, too little memory): a result about these settings."""


def overflow(step: int, scale: float) -> TrainingFailed:
    """The error that stops a run in fp16 at update `step`, when a smaller scale of the loss does not help any more."""
    return TrainingFailed(
        f"update {step}: gradients overflow fp16 even at a loss scale of {scale:g}. The last checkpoint, if there is one, is from"
        " before that. Lower train.learning_rate, or set train.precision to fp32, then train in a new folder."
    )


def not_finite(step: int, what: str, done: int) -> TrainingFailed:
    """The error that stops a run at update `step`, when the weights have seen `done` updates."""
    if done == 0:  # so no learning rate is to blame
        remedy = "Nothing was learned yet: bring settings of model and objective back to those of a preset"
    else:
        remedy = "The last checkpoint, if there is one, is from before that. Lower train.learning_rate"
    return TrainingFailed(f"update {step}: {what}, not finite. {remedy}, then train in a new folder.")
