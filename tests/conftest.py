"""Settings of every test run. Nothing of rltok is imported here: that would come before its shape checks are hooked in."""

import jaxtyping
import pytest
from hypothesis import settings

# The same examples every time, and no limit on how long one takes: a busy machine must not turn a test red.
settings.register_profile("rltok", deadline=None, derandomize=True)
settings.load_profile("rltok")


@pytest.fixture
def shapes_unchecked():
    """For tests of hundreds of forward passes: the shape checks would take most of the time, and other tests have them on."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Folder of a finished run of `runs.small_config()` on `runs.TEXT`; for looking at only."""
    from runs import small_config, write_text

    import rltok

    folder = tmp_path_factory.mktemp("finished")
    rltok.train(small_config(), write_text(folder), folder / "run", note="for tests")
    return folder / "run"
