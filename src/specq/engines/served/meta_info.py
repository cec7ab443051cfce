"""What SGLang calls its counts of drafts in `meta_info`: each under the names that versions gave it, newest first.

Source: python/sglang/srt/managers/tokenizer_manager.py of SGLang 0.4 to 0.5.23.
"""

from __future__ import annotations

ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
PROPOSED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")
"""How many steps accepted 0, 1, 2, ... proposals."""
STEPS = "spec_verify_ct"
"""Every pass after the prompt's."""
