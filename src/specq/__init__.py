"""specq: speculative decoding and quantization experiments that stand up in a review."""

__version__ = "0.1.0"
