"""What a request is made of: sizes, halves and prices, most of it before any weight is loaded."""
