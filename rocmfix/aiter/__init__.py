"""AITER tuned tables: what the reader of a given AITER really does with them, and how to mend them."""
