"""The networks of both sources, one small file a family."""
