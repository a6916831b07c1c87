"""The parts of the client, behind `lukasa`."""
