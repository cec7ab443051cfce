"""Packed kernels against bfloat16, taking turns in one process; prints tables, ratios and one JSON line.

The work is in `packed.py`, single layers in `rows.py`, llama.cpp in `llamacpp.py`.
"""

from __future__ import annotations

import sys

from specq.core.errors import SpecqError

if __name__ == "__main__":
    # transformers asks whether a package named "kernels" is there, and would find this file.
    sys.modules["kernels"] = None  # type: ignore[assignment]
    from packed import main

    try:
        main()
    except SpecqError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
