# Generated from src/lukasa/_async by scripts/generate.py.
"""The parts of the client, behind `lukasa`."""
