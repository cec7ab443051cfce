"""specq: speculative decoding and quantization experiments that stand up in a review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specq.api import (
        ask_drafts,
        audit_quantized,
        check_evals,
        check_gate,
        distill_model,
        doctor,
        fetch_model,
        find_prefixes,
        import_metrics,
        list_models,
        list_runs,
        load_experiment,
        load_recipe,
        make_workload,
        measure_grid,
        measure_load,
        measure_requests,
        model_facts,
        open_run,
        plan_experiment,
        price_requests,
        quantize_model,
        read_workload,
        rebuild_lab,
        rebuild_report,
        replay_files,
        resume_load,
        resume_requests,
        run_experiment,
        shorten_prompts,
        size_models,
        start_experiment,
        study_drafts,
        study_grid,
        validate_drafts,
    )

__version__ = "0.1.0"
__all__ = [
    "ask_drafts",
    "audit_quantized",
    "check_evals",
    "check_gate",
    "distill_model",
    "doctor",
    "fetch_model",
    "find_prefixes",
    "import_metrics",
    "list_models",
    "list_runs",
    "load_experiment",
    "load_recipe",
    "make_workload",
    "measure_grid",
    "measure_load",
    "measure_requests",
    "model_facts",
    "open_run",
    "plan_experiment",
    "price_requests",
    "quantize_model",
    "read_workload",
    "rebuild_lab",
    "rebuild_report",
    "replay_files",
    "resume_load",
    "resume_requests",
    "run_experiment",
    "shorten_prompts",
    "size_models",
    "start_experiment",
    "study_drafts",
    "study_grid",
    "validate_drafts",
]


def __getattr__(name: str) -> Any:
    # Importing specq must stay free of everything heavy, for the command line answers at once.
    if name in __all__:
        from specq import api

        return getattr(api, name)
    raise AttributeError(f"module 'specq' has no attribute {name!r}")
