//! The sentence encoder that recall is measured with.

use std::path::Path;

use encoder::limits::TEXT_TOKENS_MAX;
use encoder::{Encoder, Priority};

/// A function from a text to its vector; `None` if the encoder does not know its words.
pub(crate) type Embed = Box<dyn Fn(&str) -> Option<Vec<f32>>>;

/// Opens the file of an encoder, as `lukasa encoder install` writes it.
pub(crate) fn open(file: &Path) -> anyhow::Result<Embed> {
    let encoder = Encoder::open(file, || {})?;
    Ok(Box::new(move |text| encoder.embed(text, TEXT_TOKENS_MAX, Priority::Foreground)))
}
