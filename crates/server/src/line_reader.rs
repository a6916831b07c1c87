//! Lines of bounded length from a stream of bytes.
//!
//! What comes in is not trusted: no more of a line than it may have is ever kept. Knows nothing of what lines mean.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// What reading a line came to.
#[derive(Debug, PartialEq)]
pub(crate) enum LineRead {
    /// A line, without its end.
    Line(Vec<u8>),
    /// More bytes than a line may have.
    TooLong,
    /// There is no more to read.
    End,
}

/// Splits bytes into lines of bounded length.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: R,
    bytes_max: usize,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    /// Returns the lines of some bytes, each of at most so many.
    pub(crate) fn new(input: R, bytes_max: usize) -> Self {
        Self { input, bytes_max, partial: Vec::new() }
    }

    /// Reads on to the end of a line. Safe to drop at any time: what was read so far is kept.
    pub(crate) async fn next(&mut self) -> LineRead {
        loop {
            let bytes = match self.input.fill_buf().await {
                Ok([]) if self.partial.is_empty() => return LineRead::End,
                // The last line may lack its end.
                Ok([]) => return LineRead::Line(std::mem::take(&mut self.partial)),
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::warn!(%error, "cannot read from the other side");
                    return LineRead::End;
                }
            };
            let (part, ends) = match bytes.iter().position(|&byte| byte == b'\n') {
                Some(end) => (&bytes[..end], true),
                None => (bytes, false),
            };
            if self.partial.len() + part.len() > self.bytes_max {
                return LineRead::TooLong;
            }
            self.partial.extend_from_slice(part);
            let taken = part.len() + usize::from(ends);
            self.input.consume(taken);
            if ends {
                let mut line = std::mem::take(&mut self.partial);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return LineRead::Line(line);
            }
        }
    }
}
