"""Marks the wheel as one for a platform: it has a program and no Python code."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface):
    """Sets the tag of the wheel."""

    def initialize(self, version, build_data):
        """Called by the build with the data of the wheel."""
        build_data["pure_python"] = False
        build_data["tag"] = os.environ["LUKASA_WHEEL_TAG"]
