//! A reader of lines of bounded length from an untrusted byte stream.
//!
//! It never buffers more than one line of the maximal length. MCP over pipes and child processes use it; it does not
//! interpret the lines.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The result of reading a line.
#[derive(Debug, PartialEq)]
pub(crate) enum LineRead {
    /// A line, without its end.
    Line(Vec<u8>),
    /// More bytes than a line may have.
    TooLong,
    /// The end of the stream, or a read error.
    End,
}

/// A splitter of bytes into lines of bounded length.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    input: R,
    bytes_max: usize,
    /// The beginning of a line whose end has not arrived yet.
    partial: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    /// Creates a reader of lines of at most `bytes_max` bytes.
    pub(crate) fn new(input: R, bytes_max: usize) -> Self {
        Self { input, bytes_max, partial: Vec::new() }
    }

    /// Reads the next line. Cancel-safe: a partial line is kept for the next call.
    pub(crate) async fn next(&mut self) -> LineRead {
        loop {
            let bytes = match self.input.fill_buf().await {
                Ok([]) if self.partial.is_empty() => return LineRead::End,
                // The last line may have no line break.
                Ok([]) => return LineRead::Line(std::mem::take(&mut self.partial)),
                Ok(bytes) => bytes,
                Err(error) => {
                    tracing::warn!(%error, "read failed; treating it as the end of the stream");
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
            let consumed = part.len() + usize::from(ends);
            self.input.consume(consumed);
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
