//! Server-sent events: a writer and an incremental parser of frames.
//!
//! A frame consists of `id:`, `event:` and `data:` lines and an empty line. The reader takes bytes in pieces of any
//! size and returns complete frames. It skips comments and unknown fields, as the format demands.

use std::fmt::Write as _;

/// The beginning of a stream: the delay before a reconnect, in milliseconds.
pub const RETRY: &str = "retry: 3000\n\n";

/// A comment that shows that the connection is alive.
pub const HEARTBEAT: &str = ": heartbeat\n\n";

/// The longest frame that a reader accepts, in bytes.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Formats a frame. `data` must be one line: JSON without indentation.
pub fn write(id: Option<u64>, event: &str, data: &str) -> String {
    debug_assert!(!data.contains(['\n', '\r']), "the data of a frame must be one line");
    let mut frame = String::with_capacity(data.len() + event.len() + 48);
    // Writing to a string cannot fail.
    if let Some(id) = id {
        let _written = writeln!(frame, "id: {id}");
    }
    let _written = write!(frame, "event: {event}\ndata: {data}\n\n");
    frame
}

/// A parsed frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The id, if it is a number.
    pub id: Option<u64>,
    /// The event type; empty if there is none.
    pub event: String,
    /// The data lines, joined by `\n`.
    pub data: String,
}

/// An error: a frame is longer than [`FRAME_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame is longer than {FRAME_BYTES_MAX} bytes")]
pub struct FrameTooLong;

/// An incremental parser of frames.
#[derive(Debug, Default)]
pub struct FrameReader {
    line: Vec<u8>,
    /// Whether the last byte was a `\r`: a `\n` after it does not end another line.
    after_return: bool,
    frame: Frame,
    /// Whether `frame` has a `data` line: the format demands that a frame without one is dropped.
    has_data: bool,
}

impl FrameReader {
    /// Parses more bytes; returns the frames that they complete. After an error the stream cannot be used any more.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, FrameTooLong> {
        let mut frames = Vec::new();
        for &byte in bytes {
            let ends_line = match byte {
                b'\n' => !self.after_return,
                b'\r' => true,
                _ => {
                    self.line.push(byte);
                    false
                }
            };
            self.after_return = byte == b'\r';
            if ends_line {
                let line = std::mem::take(&mut self.line);
                frames.extend(self.end_line(&String::from_utf8_lossy(&line)));
            }
            if self.line.len() + self.frame.data.len() > FRAME_BYTES_MAX {
                return Err(FrameTooLong);
            }
        }
        Ok(frames)
    }

    fn end_line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = value.parse().ok(),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(id: Option<u64>, event: &str, data: &str) -> Frame {
        Frame { id, event: event.to_owned(), data: data.to_owned() }
    }

    fn read(text: &str) -> Vec<Frame> {
        FrameReader::default().push(text.as_bytes()).unwrap()
    }

    #[test]
    fn written_frames_are_read_back() {
        assert_eq!(
            write(Some(3), "memory_changed", "{}"),
            "id: 3\nevent: memory_changed\ndata: {}\n\n"
        );
        assert_eq!(write(None, "client_evicted", "{}"), "event: client_evicted\ndata: {}\n\n");
        let text =
            [RETRY, HEARTBEAT, &write(Some(3), "a", "{}"), &write(None, "b", "[1]")].concat();
        assert_eq!(read(&text), [frame(Some(3), "a", "{}"), frame(None, "b", "[1]")]);
    }

    #[test]
    fn any_line_ending_is_accepted_and_unknown_fields_are_skipped() {
        let expected = [frame(Some(1), "a", "x\ny")];
        for end in ["\n", "\r", "\r\n"] {
            let lines = ["id: 1", "event:a", "colour: red", ": note", "data: x", "data:y", "", ""];
            assert_eq!(read(&lines.join(end)), expected, "{end:?}");
        }
        assert_eq!(read("data\n\n"), [frame(None, "", "")]);
        assert_eq!(read("id: one\ndata:  x\n\n"), [frame(None, "", " x")]);
        assert_eq!(read("event: a\n\ndata: x"), []);
    }

    #[test]
    fn an_endless_frame_is_an_error() {
        let mut reader = FrameReader::default();
        let bytes = vec![b'x'; FRAME_BYTES_MAX + 1];
        assert_eq!(reader.push(&bytes), Err(FrameTooLong));
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_how_bytes_are_split(
            text in "([a-z:]{0,6}|data: |\r|\n|\r\n){0,40}",
            piece in 1_usize..9,
        ) {
            let whole = read(&text);
            let mut reader = FrameReader::default();
            let mut pieces = Vec::new();
            for bytes in text.as_bytes().chunks(piece) {
                pieces.extend(reader.push(bytes).unwrap());
            }
            prop_assert_eq!(pieces, whole);
        }
    }
}
