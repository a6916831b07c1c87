//! Lines of bounded length from a stream of bytes.
//!
//! What comes in is not trusted: no more of a line than it may have is ever kept. Knows nothing of what lines mean.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// What reading a line came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Read {
    /// A line, without its end.
    Line(Vec<u8>),
    /// More bytes than a line may have.
    TooLong,
    /// There is no more to read.
    End,
}

/// Splits bytes into lines of bounded length.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    bytes_max: usize,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Returns the lines of some bytes, each of at most so many.
    pub(crate) fn new(input: R, bytes_max: usize) -> Self {
        Self { input, bytes_max, begun: Vec::new() }
    }

    /// Reads on to the end of a line. Safe to drop at any time: what was read so far is kept.
    pub(crate) async fn next(&mut self) -> Read {
        loop {
            let bytes = match self.input.fill_buf().await {
                Ok([]) if self.begun.is_empty() => return Read::End,
                // The last line may lack its end.
                Ok([]) => return Read::Line(std::mem::take(&mut self.begun)),
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::warn!(%error, "cannot read from the other side");
                    return Read::End;
                }
            };
            let (part, ends) = match bytes.iter().position(|&byte| byte == b'\n') {
                Some(end) => (&bytes[..end], true),
                None => (bytes, false),
            };
            if self.begun.len() + part.len() > self.bytes_max {
                return Read::TooLong;
            }
            self.begun.extend_from_slice(part);
            let taken = part.len() + usize::from(ends);
            self.input.consume(taken);
            if ends {
                let mut line = std::mem::take(&mut self.begun);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Read::Line(line);
            }
        }
    }
}
