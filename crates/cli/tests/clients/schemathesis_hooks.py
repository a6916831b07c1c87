"""Adds tar archives to Schemathesis: it sends random bytes as archives, and does not parse received ones."""

import schemathesis


@schemathesis.serializer("application/x-tar")
def to_archive(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.deserializer("application/x-tar")
def from_archive(context, response):
    return response.content.decode("latin-1")
