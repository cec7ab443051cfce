"""Quantizing: recipes, the tools that carry them out, what was really quantized, and packed weights on real kernels."""
