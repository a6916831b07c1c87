//! Repair of lone surrogates and invalid UTF-8 in JSON from clients, so that a strict parser accepts it.
//!
//! Some programs cut a text in the middle of a character. They then send half of a surrogate pair as an escape, or as
//! raw bytes. A strict parser refuses the whole message, and the response cannot even name the failed request. This
//! module replaces such halves with U+FFFD, as lossy decoding does. All other bytes are unchanged, and invalid JSON
//! stays invalid.

use std::borrow::Cow;
use std::ops::RangeInclusive;

const HIGH: RangeInclusive<u16> = 0xd800..=0xdbff;
const LOW: RangeInclusive<u16> = 0xdc00..=0xdfff;

/// The length of an escape such as `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// The escape of U+FFFD.
const REPLACEMENT: &[u8; ESCAPE_BYTES] = br"\ufffd";

/// Returns JSON with U+FFFD for each escaped lone surrogate and for invalid UTF-8. Copies only if there is one.
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
    for offset in lone {
        if let Some(escape) = mended.get_mut(offset..offset + ESCAPE_BYTES) {
            escape.copy_from_slice(REPLACEMENT);
        }
    }
    Cow::Owned(mended)
}

/// Returns the offsets of escaped surrogates that are not part of a pair. In JSON a backslash occurs only in strings,
/// so there is no need to find the strings first.
fn lone_surrogates(json: &[u8]) -> Vec<usize> {
    let mut offsets = Vec::new();
    let mut offset = 0;
    while let Some(ahead) =
        json.get(offset..).and_then(|rest| rest.iter().position(|&b| b == b'\\'))
    {
        offset += ahead;
        match escape(json, offset) {
            Some(unit) if HIGH.contains(&unit) => {
                if escape(json, offset + ESCAPE_BYTES).is_some_and(|next| LOW.contains(&next)) {
                    offset += ESCAPE_BYTES;
                } else {
                    offsets.push(offset);
                }
                offset += ESCAPE_BYTES;
            }
            Some(unit) => {
                if LOW.contains(&unit) {
                    offsets.push(offset);
                }
                offset += ESCAPE_BYTES;
            }
            // Another escape, such as `\n` or `\\`.
            None => offset += 2,
        }
    }
    offsets
}

/// Returns the UTF-16 unit that is escaped at an offset, if any.
fn escape(json: &[u8], offset: usize) -> Option<u16> {
    let digits = json.get(offset..offset + ESCAPE_BYTES)?.strip_prefix(br"\u")?;
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
    fn only_lone_surrogates_and_invalid_utf_8_are_replaced() {
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
        fn any_string_of_escapes_parses_after_the_repair(
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
