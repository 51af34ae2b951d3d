"""Proves a server: starts it, asks it the questions that tell a working MTP from one that only looks so."""
