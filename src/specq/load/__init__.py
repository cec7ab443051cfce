"""Load on a running server: many requests at once, what they take, and where the server bends."""
