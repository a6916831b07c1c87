//! Parts of texts.
//!
//! A range is worked out from the text that it is taken of, so it fits. One that does not was worked out for
//! another text, and to go on with nothing in its place would lose what stands there.

use std::slice::SliceIndex;

/// Returns a part of a text.
///
/// # Panics
///
/// Panics when the range ends outside of the text or inside of a character.
#[track_caller]
pub fn slice(text: &str, range: impl SliceIndex<str, Output = str>) -> &str {
    text.get(range).expect("a range lies within its text and ends between two characters")
}
