//! The revision of a memory: a hash of its bytes, written as 64 hex digits.
//!
//! A save names the revision that it replaces, so that it cannot overwrite a change that the writer has not seen. The
//! revision depends only on the bytes, not on the path or the time.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// The SHA-256 digest of a memory's bytes, which a save names as its precondition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision([u8; 32]);

/// An error: a text is not a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a revision is 64 hex digits in lower case")]
pub struct ParseRevisionError;

impl Revision {
    /// Returns the revision of these bytes.
    pub fn digest(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest as bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the first 64 bits of the digest.
    pub fn first_bits(&self) -> u64 {
        let first = self.0.first_chunk().copied();
        u64::from_be_bytes(first.expect("a digest has more than eight bytes"))
    }

    /// Creates a revision from a stored digest.
    pub const fn from_bytes(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

impl FromStr for Revision {
    type Err = ParseRevisionError;

    /// Parses only the form that `Display` writes, so that a revision has only one spelling.
    fn from_str(text: &str) -> Result<Self, ParseRevisionError> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(ParseRevisionError) };
        let digits = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
        let digest: Option<Vec<u8>> = pairs.iter().map(digits).collect();
        let digest = digest.and_then(|bytes| bytes.try_into().ok()).ok_or(ParseRevisionError)?;
        Ok(Self(digest))
    }
}

/// Returns the value of a lower-case hex digit.
const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Returns the hex digit of half a byte.
const fn hex(half: u8) -> u8 {
    match half {
        0..10 => b'0' + half,
        _ => b'a' + half - 10,
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 64];
        let (pairs, _) = text.as_chunks_mut::<2>();
        for (pair, byte) in pairs.iter_mut().zip(self.0) {
            *pair = [hex(byte >> 4), hex(byte & 0xf)];
        }
        // Written in one call: writing each byte separately took longer than the digest.
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({self})")
    }
}
