"""Teaches Schemathesis tar archives: what it sends as one is any bytes, and what it gets is not looked into."""

import schemathesis


@schemathesis.serializer("application/x-tar")
def to_archive(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.deserializer("application/x-tar")
def from_archive(context, response):
    return response.content.decode("latin-1")
