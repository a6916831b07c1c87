//! Cursors of event streams: the headers `Last-Event-ID` and epoch, with which a client resumes a stream.
//!
//! A cursor is a decimal number, valid only within one epoch, which is the lifetime of one daemon process. With an
//! invalid cursor the stream starts at the current event.

/// The header that carries the epoch, in both directions.
pub const EPOCH_HEADER: &str = "x-qwen-event-epoch";

/// The request header with the id of the last event that the client has seen.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";

/// The response header with the id after which the stream begins. A reader that is disconnected before the first event
/// needs it to resume.
pub const CURSOR_HEADER: &str = "x-lukasa-event-cursor";

/// The highest event id: the largest integer that is exact in a double, for clients in JavaScript.
pub const EVENT_ID_MAX: u64 = (1 << 53) - 1;

/// The longest epoch, in characters.
pub const EPOCH_CHARS_MAX: usize = 64;

/// The longest part of an invalid header that is logged, in characters.
const LOGGED_CHARS_MAX: usize = 64;

/// An invalid header. The message is safe to log: one short line without control characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what}: `{shown}`")]
pub struct InvalidHeader {
    /// The kind of value that was expected.
    pub what: &'static str,
    /// The value of the header, shortened by [`for_log`].
    pub shown: String,
}

impl InvalidHeader {
    fn new(what: &'static str, text: &str) -> Self {
        Self { what, shown: for_log(text) }
    }
}

/// Parses a `Last-Event-ID`; `None` if it is empty.
pub fn last_event_id(text: &str) -> Result<Option<u64>, InvalidHeader> {
    if text.is_empty() {
        return Ok(None);
    }
    let id = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    match id {
        Some(id) if id <= EVENT_ID_MAX => Ok(Some(id)),
        _ => Err(InvalidHeader::new("event id", text)),
    }
}

/// Parses an epoch; `None` if it is empty.
pub fn epoch(text: &str) -> Result<Option<&str>, InvalidHeader> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b';';
    if text.is_empty() {
        Ok(None)
    } else if text.len() <= EPOCH_CHARS_MAX && text.bytes().all(is_plain) {
        Ok(Some(text))
    } else {
        Err(InvalidHeader::new("epoch", text))
    }
}

/// Shortens an untrusted text and replaces its control characters, for a log line.
pub fn for_log(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut shown: String = text.chars().take(LOGGED_CHARS_MAX).map(plain).collect();
    if text.chars().nth(LOGGED_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_is_a_bare_decimal() {
        assert_eq!(last_event_id(""), Ok(None));
        for (text, id) in [("0", 0), ("42", 42), ("007", 7), ("9007199254740991", EVENT_ID_MAX)] {
            assert_eq!(last_event_id(text), Ok(Some(id)), "{text}");
        }
        for text in [
            "9007199254740992",
            "99999999999999999999999",
            "-1",
            "+1",
            "1.0",
            "1e3",
            "0x10",
            " 1",
            "1 ",
            "١",
            "one",
        ] {
            assert!(last_event_id(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_epoch_is_a_short_word() {
        let longest = "e".repeat(EPOCH_CHARS_MAX);
        assert_eq!(epoch(""), Ok(None));
        assert_eq!(epoch("b3f0-1"), Ok(Some("b3f0-1")));
        assert_eq!(epoch(&longest), Ok(Some(longest.as_str())));
        for text in [&format!("{longest}e"), "a b", "a;b", "a\nb", "é", "\u{7f}"] {
            assert!(epoch(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_logged_text_is_one_bounded_line() {
        assert_eq!(for_log("a\r\nb\u{1b}[2J\0c"), "a  b [2J c");
        let long = "x".repeat(LOGGED_CHARS_MAX + 1);
        assert_eq!(for_log(&long), format!("{}…", "x".repeat(LOGGED_CHARS_MAX)));
        assert_eq!(last_event_id("1\n").unwrap_err().to_string(), "invalid event id: `1 `");
    }
}
