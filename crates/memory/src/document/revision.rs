//! The revision of a memory: a hash of its bytes, written as 64 hex digits.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// SHA-256 of a memory's bytes; what a save must name to win.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision([u8; 32]);

/// Text that is not a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a revision is 64 hex digits in lower case")]
pub struct ParseRevisionError;

impl Revision {
    /// Returns the revision of these bytes.
    pub fn digest(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the digest itself.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Takes a stored digest back.
    pub const fn from_bytes(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

impl FromStr for Revision {
    type Err = ParseRevisionError;

    /// Reads what `Display` writes and nothing else, so that one revision has one spelling.
    fn from_str(text: &str) -> Result<Self, ParseRevisionError> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(ParseRevisionError) };
        let digits = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
        let digest: Option<Vec<u8>> = pairs.iter().map(digits).collect();
        let digest = digest.and_then(|bytes| bytes.try_into().ok()).ok_or(ParseRevisionError)?;
        Ok(Self(digest))
    }
}

/// The value of one hex digit in lower case.
const fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// The hex digit of half a byte.
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
        // Written at once: every byte by itself took longer than the digest.
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Revision({self})")
    }
}
