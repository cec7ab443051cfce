"""An address of https where plain http is spoken: told at once, before a folder is made."""

from __future__ import annotations

from pathlib import Path

import pytest
from load_runs import prompts

from specq.core.errors import UserError
from specq.engines.served import stub
from specq.load.running import measure_load


def test_a_server_of_plain_http_is_waited_for_by_https(tmp_path: Path) -> None:
    file = prompts(tmp_path)
    with stub.started() as (url, _):
        secure = url.replace("http://", "https://")
        with pytest.raises(UserError, match=r"write http://127\.0\.0\.1:\d+ in place of https"):
            measure_load(secure, file, requests=4, model="m", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
