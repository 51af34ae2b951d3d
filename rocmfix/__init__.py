"""Turns an upstream sglang that misbehaves on AMD GPUs into an image you can trust."""

__version__ = "0.1.0"
