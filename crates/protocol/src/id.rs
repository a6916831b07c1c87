//! The client id of a request: its format, and the headers that carry it.
//!
//! `POST /session` registers a client and returns its id; a client sees only its own tasks.

/// The header that carries the client id.
pub const CLIENT_ID_HEADER: &str = "x-qwen-client-id";

/// An alias of [`CLIENT_ID_HEADER`].
pub const CLIENT_ID_HEADER_ALIAS: &str = "x-lukasa-client-id";

/// The longest client id, in characters: room for a host's name, a session and a counter.
pub const CLIENT_ID_CHARS_MAX: usize = 128;

/// Checks whether a text is a valid client id: letters, digits, `.`, `_`, `:` and `-`.
pub fn is_client_id(text: &str) -> bool {
    (1..=CLIENT_ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_id_is_short_and_plain() {
        for text in ["a", "ide:window-1", "A.b_c:d-9", &"x".repeat(CLIENT_ID_CHARS_MAX)] {
            assert!(is_client_id(text), "{text}");
        }
        for text in ["", " ", "a b", "a/b", "ä", "a\n", &"x".repeat(CLIENT_ID_CHARS_MAX + 1)] {
            assert!(!is_client_id(text), "{text:?}");
        }
    }
}
