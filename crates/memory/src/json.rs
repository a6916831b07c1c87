//! JSON as clients send it, made into JSON that a strict parser accepts.
//!
//! A program may cut a text in the middle of a character and escape what is left as half of a surrogate pair,
//! or write such halves as raw bytes. No text has them, so a strict parser refuses the whole message, and
//! its sender is not even told which request failed. Here U+FFFD takes their place, as in lossy decoding
//! elsewhere. Everything else stays byte for byte, and what is no JSON stays none.

use std::borrow::Cow;
use std::ops::RangeInclusive;

const HIGH: RangeInclusive<u16> = 0xd800..=0xdbff;
const LOW: RangeInclusive<u16> = 0xdc00..=0xdfff;

/// The length of an escape such as `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// The escape of U+FFFD.
const REPLACEMENT: &[u8; ESCAPE_BYTES] = br"\ufffd";

/// Returns JSON with U+FFFD for each escaped half of a surrogate pair and for bytes that are no UTF-8; without a
/// copy where there is neither.
pub fn mend(json: &[u8]) -> Cow<'_, [u8]> {
    let json = match String::from_utf8_lossy(json) {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    };
    let lone = lone_surrogates(&json);
    if lone.is_empty() {
        return json;
    }
    let mut mended = json.into_owned();
    for at in lone {
        if let Some(escape) = mended.get_mut(at..at + ESCAPE_BYTES) {
            escape.copy_from_slice(REPLACEMENT);
        }
    }
    Cow::Owned(mended)
}

/// Returns where escaped surrogates stand that are no part of a pair. A backslash stands in strings alone, so
/// strings need not be told from what is around them.
fn lone_surrogates(json: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(ahead) = json.get(at..).and_then(|rest| rest.iter().position(|&b| b == b'\\')) {
        at += ahead;
        match escape(json, at) {
            Some(unit) if HIGH.contains(&unit) => {
                if escape(json, at + ESCAPE_BYTES).is_some_and(|next| LOW.contains(&next)) {
                    at += ESCAPE_BYTES;
                } else {
                    found.push(at);
                }
                at += ESCAPE_BYTES;
            }
            Some(unit) => {
                if LOW.contains(&unit) {
                    found.push(at);
                }
                at += ESCAPE_BYTES;
            }
            // Another escape, such as `\n` or `\\`.
            None => at += 2,
        }
    }
    found
}

/// Returns the unit that is escaped at a position, if one is.
fn escape(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE_BYTES)?.strip_prefix(br"\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn check(json: &[u8], expected: &str) {
        let mended = mend(json);
        assert_eq!(String::from_utf8_lossy(&mended), expected);
        assert_eq!(matches!(mended, Cow::Borrowed(_)), json == expected.as_bytes(), "{expected}");
    }

    #[test]
    fn half_of_a_pair_is_replaced_and_nothing_else() {
        check(br#"{"a":"x\ud83d"}"#, r#"{"a":"x\ufffd"}"#);
        check(br#"{"a":"\uDE00x"}"#, r#"{"a":"\ufffdx"}"#);
        check(br#"{"\ud83d":1}"#, r#"{"\ufffd":1}"#);
        check(br#""\ud83d\ud83d\ude00\ude00""#, r#""\ufffd\ud83d\ude00\ufffd""#);
        check(br#""\ud83d\n\ude00""#, r#""\ufffd\n\ufffd""#);
        // A pair, an escaped backslash, and letters that are no escape.
        for json in
            [r#""\uD83D\uDE00""#, r#""\\ud83d""#, r#""\u00e9 ud83d""#, r#""\ud8"#, r#""\"#, ""]
        {
            check(json.as_bytes(), json);
        }
        check(br#""\\\ud83d""#, r#""\\\ufffd""#);
        check(b"\"a\xed\xa0\xbdb\"", "\"a\u{fffd}\u{fffd}\u{fffd}b\"");
        check(b"\"\xff\\ud83d\"", "\"\u{fffd}\\ufffd\"");
    }

    proptest! {
        #[test]
        fn any_string_of_escapes_is_read_afterwards(
            pieces in prop::collection::vec(
                prop::sample::select(vec![r"\ud83d", r"\uDE00", r"\\", r"\n", "u", "é", r"\u0041"]), 0..12,
            ),
        ) {
            let json = format!("[\"{}\"]", pieces.concat());
            let mended = mend(json.as_bytes());
            let read: Value = serde_json::from_slice(&mended).unwrap();
            if let Ok(strict) = serde_json::from_str::<Value>(&json) {
                prop_assert_eq!(read, strict);
            }
        }

        #[test]
        fn any_bytes_become_text(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(std::str::from_utf8(&mend(&bytes)).is_ok());
        }
    }
}
