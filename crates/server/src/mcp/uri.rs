//! Memory paths as resource URIs: `/memories/global/prefs.md` is `quipu://memories/global/prefs.md`.
//!
//! One memory has one URI. A scheme of its own keeps it apart from the resources of other servers
//! in the same client.

use memory::path::{Layout, MemoryPath, PathError};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but the characters that mean themselves in every part of a URI, and the slash.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// What stands before a path in a URI; the path brings the second half of the `//`.
const SCHEME: &str = "quipu:/";

/// The URI of any memory, as a template.
pub(super) const TEMPLATE: &str = "quipu://memories/{+path}";

/// Returns the URI of a memory.
pub(super) fn of(path: &MemoryPath) -> String {
    format!("{SCHEME}{}", utf8_percent_encode(&path.to_string(), ESCAPED))
}

/// Reads a URI. `None` when it is not one of ours.
pub(super) fn parse(uri: &str, layout: Layout) -> Option<Result<MemoryPath, PathError>> {
    let path = uri.strip_prefix(SCHEME).filter(|path| path.starts_with("/memories"))?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    Some(MemoryPath::parse(&path, layout))
}

#[cfg(test)]
mod tests;
