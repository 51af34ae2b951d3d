"""Images: made from a plan, looked into, checked against their own manifest, compared and published."""
