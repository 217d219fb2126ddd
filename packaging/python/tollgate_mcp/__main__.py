"""Runs tollgate for `python -m tollgate_mcp`."""

from tollgate_mcp import main

main()
