//! The file of an encoder: a header, the vocabulary, the tensors in the order of their use, and a checksum.
//!
//! All numbers are little-endian. A matrix is its rows in bytes with sign, then one scale of 32 bits for each row.

use std::fmt;
use std::io::Read;

use sha2::{Digest as _, Sha256};

use crate::error::EncoderError;
use crate::limits;
use crate::quantize;

/// First bytes of a file; the last one counts the versions.
pub(crate) const MAGIC: [u8; 8] = *b"LUKENC\0\x01";
/// Size of a number in the file, in bytes.
const NUMBER_BYTES: usize = 4;

/// A SHA-256. That of the published weights names the model of an encoder.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

impl Sha256Digest {
    /// Returns the digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses 64 hexadecimal digits in lower case.
    ///
    /// # Panics
    ///
    /// If the text is anything else.
    pub const fn from_hex(text: &str) -> Self {
        const fn digit(byte: u8) -> u8 {
            assert!(byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase(), "not a digit");
            if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 }
        }
        let (bytes, mut digest, mut at) = (text.as_bytes(), [0; 32], 0);
        assert!(bytes.len() == 2 * digest.len(), "a digest has 64 digits");
        while at < digest.len() {
            digest[at] = (digit(bytes[2 * at]) << 4) | digit(bytes[2 * at + 1]);
            at += 1;
        }
        Self(digest)
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Sizes and constants of a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Header {
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    /// Length of the vectors.
    pub(crate) width: usize,
    /// Length of the vectors inside a layer.
    pub(crate) inner: usize,
    pub(crate) tokens: usize,
    pub(crate) positions: usize,
    pub(crate) epsilon: f32,
    pub(crate) digest: Sha256Digest,
}

impl Header {
    /// Checks that products of the sizes are small and that the heads divide the vectors.
    pub(crate) fn check(self) -> Result<Self, EncoderError> {
        let sizes = [self.heads, self.width, self.inner, self.tokens, self.positions, self.layers];
        let is_sized = sizes.iter().all(|size| (1..=limits::DIMENSION_MAX).contains(size));
        let is_bounded = self.layers <= limits::LAYERS_MAX
            && self.width <= limits::INNER_MAX
            && self.inner <= limits::INNER_MAX
            && self.positions <= limits::TEXT_TOKENS_MAX;
        let is_divided = is_sized && self.width.is_multiple_of(self.heads);
        let is_valid = is_bounded && is_divided && self.epsilon.is_finite() && self.epsilon > 0.0;
        is_valid.then_some(self).ok_or(EncoderError::Damaged("its sizes are invalid"))
    }
}

/// Reads a file from its start to its end.
pub(crate) struct Reader<'a> {
    source: &'a mut dyn Read,
    checksum: crc32fast::Hasher,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(source: &'a mut dyn Read) -> Self {
        Self { source, checksum: crc32fast::Hasher::new() }
    }

    /// Reads the header; the first thing in a file.
    pub(crate) fn header(&mut self) -> Result<Header, EncoderError> {
        if self.array::<{ MAGIC.len() }>().map_err(|_| EncoderError::NotAnEncoder)? != MAGIC {
            return Err(EncoderError::NotAnEncoder);
        }
        let header = Header {
            layers: self.size()?,
            heads: self.size()?,
            width: self.size()?,
            inner: self.size()?,
            tokens: self.size()?,
            positions: self.size()?,
            epsilon: f32::from_le_bytes(self.array()?),
            digest: Sha256Digest(self.array()?),
        };
        header.check()
    }

    /// Reads a text with its size before it.
    pub(crate) fn text(&mut self) -> Result<String, EncoderError> {
        let size = self.size()?;
        if size > limits::VOCABULARY_BYTES_MAX {
            return Err(EncoderError::Damaged("its vocabulary is too large"));
        }
        let bytes = self.bytes(size)?;
        String::from_utf8(bytes).map_err(|_| EncoderError::Damaged("its vocabulary is no text"))
    }

    /// Reads the rows of a matrix and their scales.
    pub(crate) fn matrix(&mut self, rows: usize, columns: usize) -> Result<Matrix, EncoderError> {
        let numbers = self.bytes(rows * columns)?;
        let numbers = numbers.into_iter().map(u8::cast_signed).collect();
        Ok((numbers, self.floats(rows)?))
    }

    /// Reads numbers of 32 bits.
    pub(crate) fn floats(&mut self, count: usize) -> Result<Box<[f32]>, EncoderError> {
        let bytes = self.bytes(count * NUMBER_BYTES)?;
        let (numbers, _) = bytes.as_chunks::<NUMBER_BYTES>();
        let numbers: Box<[f32]> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let is_valid = numbers.iter().all(|x| x.is_finite());
        is_valid.then_some(numbers).ok_or(EncoderError::Damaged("its weights are no numbers"))
    }

    /// Compares the checksum at the end.
    pub(crate) fn finish(mut self) -> Result<(), EncoderError> {
        let found = self.checksum.clone().finalize();
        let expected = u32::from_le_bytes(self.array()?);
        let mut rest = [0];
        let is_end = matches!(self.source.read(&mut rest), Ok(0));
        (found == expected && is_end)
            .then_some(())
            .ok_or(EncoderError::Damaged("its checksum differs"))
    }

    fn size(&mut self) -> Result<usize, EncoderError> {
        usize::try_from(u32::from_le_bytes(self.array()?))
            .map_err(|_| EncoderError::Damaged("its sizes are invalid"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EncoderError> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).map_err(|_| EncoderError::Damaged("it was cut off"))?;
        self.checksum.update(&bytes);
        Ok(bytes)
    }

    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, EncoderError> {
        if count > limits::FILE_BYTES_MAX {
            return Err(EncoderError::Damaged("its sizes are invalid"));
        }
        let mut bytes = vec![0; count];
        self.source.read_exact(&mut bytes).map_err(|_| EncoderError::Damaged("it was cut off"))?;
        self.checksum.update(&bytes);
        Ok(bytes)
    }
}

/// Rows of a matrix and their scales.
pub(crate) type Matrix = (Box<[i8]>, Box<[f32]>);

/// Writes a file in the order in which [`Reader`] reads it.
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn new(header: &Header) -> Self {
        let mut writer = Self { bytes: MAGIC.to_vec() };
        for size in [
            header.layers,
            header.heads,
            header.width,
            header.inner,
            header.tokens,
            header.positions,
        ] {
            writer.size(size);
        }
        writer.floats(&[header.epsilon]);
        writer.bytes.extend(header.digest.0);
        writer
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.size(text.len());
        self.bytes.extend(text.as_bytes());
    }

    /// Writes rows of weights that are multiplied.
    pub(crate) fn weights(&mut self, rows: &[f32], columns: usize) {
        self.matrix(rows, columns, quantize::quantize_weights);
    }

    /// Writes rows that are looked up.
    pub(crate) fn table(&mut self, rows: &[f32], columns: usize) {
        self.matrix(rows, columns, quantize::quantize_row);
    }

    pub(crate) fn floats(&mut self, numbers: &[f32]) {
        self.bytes.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
    }

    /// Returns the whole file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let checksum = crc32fast::hash(&self.bytes);
        self.bytes.extend(checksum.to_le_bytes());
        self.bytes
    }

    fn matrix(&mut self, rows: &[f32], columns: usize, round: fn(&[f32]) -> (Vec<i8>, f32)) {
        let mut scales = Vec::new();
        for row in rows.chunks_exact(columns) {
            let (numbers, scale) = round(row);
            self.bytes.extend(numbers.iter().map(|x| x.cast_unsigned()));
            scales.push(scale);
        }
        self.floats(&scales);
    }

    fn size(&mut self, size: usize) {
        let size = u32::try_from(size).expect("sizes are bounded by the limits");
        self.bytes.extend(size.to_le_bytes());
    }
}
