"""Chunk stores: a folder tree, and memory."""
