"""Giving back and keeping watch: pull requests, waivers, drift, what CI publishes."""
