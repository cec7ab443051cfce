"""The error tree.

SpecqError                 exit 1
+-- UserError              exit 2   the caller can mend it: bad config, bad file, bad choice
|   +-- ConfigError                 an experiment file or a --set override
|   +-- ModelError                  a model that cannot be found, read or used
|   +-- TokenizerMismatch           two models that do not speak the same tokens
|   +-- PromptError                 a prompts file, or a prompt that does not fit
|   +-- Unsupported                 an engine cannot do what an arm asks
|   +-- RunFolderError              a results folder that is busy, changed or not a run
+-- RequestFailed          exit 1   a server answered one request wrongly, or not to its end
+-- RunFailed              exit 1   something broke while running
|   +-- NonFiniteLogits    exit 2   a model returned NaN or infinite logits
|   +-- DiskFull           exit 2   no space left where specq writes
|   +-- ServerGone                  a server that is asked answers nobody any more, or only that it is busy
|   +-- Interrupted        exit 130 Ctrl-C or a signal to stop: 128 and the signal's number
+-- GateFailed             exit 3   a floor or an audit that the user asked for was not met

Every message says what was given, what is allowed and what to type.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class SpecqError(Exception):
    """Root of all errors that specq raises on purpose."""

    exit_code = 1


class UserError(SpecqError):
    """The caller can mend this; nothing was written."""

    exit_code = 2


class ConfigError(UserError):
    """An experiment file or an override is wrong."""


class ModelError(UserError):
    """A model cannot be found, read or used."""


class TokenizerMismatch(UserError):
    """Target and draft do not map the same ids to the same tokens."""


class PromptError(UserError):
    """A prompts file is broken, or a prompt does not fit."""


class Unsupported(UserError):
    """An engine cannot do what an arm asks of it."""


class RunFolderError(UserError):
    """A results folder is busy, belongs to another config or is not a run."""


class RequestFailed(SpecqError):
    """A server answered one request wrongly, or not to its end; others may be answered."""


class RunFailed(SpecqError):
    """A run broke after it started; what was recorded is kept.

    `finished` is the folder of a run that came to its end all the same, with its report; None for one that broke.
    """

    finished: Path | None = None


class NonFiniteLogits(RunFailed):
    """A model returned NaN, +inf or only -inf as logits: its weights or its dtype must change.

    `found` says what was returned, and of which model; `advice` what to do, "" where `found` says it.
    """

    exit_code = 2

    def __init__(self, found: str, advice: str = "") -> None:
        super().__init__(f"{found}: {advice}" if advice else found)
        self.found, self.advice = found, advice


class DiskFull(RunFailed):
    """No space is left on a disk that specq writes to; the caller can free some."""

    exit_code = 2


class ServerGone(RunFailed):
    """A server answers nobody any more, or only that it is busy, or does not get ready; the run can be resumed."""


class Interrupted(RunFailed):
    """The run was asked to stop; what was recorded is kept and can be resumed.

    `exit_code` is 128 and the number of the signal that asked: 130 for Ctrl-C, 129 for SIGHUP, 143 for SIGTERM.
    """

    exit_code = 130

    def __init__(self, message: str, signal_number: int = 2) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number


STOPS = (DiskFull, ServerGone, Interrupted)
"""What ends a run on whichever sample it falls: nothing of that sample is recorded, and a resume makes it anew."""


class GateFailed(SpecqError):
    """A floor or an audit that the user asked for was not met."""

    exit_code = 3


def nearest(given: str, allowed: Iterable[str]) -> str:
    """Return ", did you mean 'x'?" for the closest allowed word, or "" when none is close."""
    close = difflib.get_close_matches(given, list(allowed), n=1, cutoff=0.5)
    return f", did you mean '{close[0]}'?" if close else ""
