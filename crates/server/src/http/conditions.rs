//! The preconditions of a request: a parser of `If-Match` and `If-None-Match` (RFC 9110).
//!
//! Both accept `*` or a list of entity tags. The tag of a memory is its revision in quotes; other tags are valid but
//! match nothing. A weak tag matches for reads and never for writes. A malformed list is an error.
//!
//! The crate `headers` is not used. It accepts any text and drops what is not a tag, so an `If-None-Match` with a
//! typing error would let a write replace any file. It also does not expose the tags, which the store compares under
//! its lock. For the same reason an empty list, which the grammar allows, is an error here.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use engine::Precondition;
use memory::document::Revision;
use protocol::error::ErrorCode;

use crate::error::ErrorResponse;

/// The preconditions of a request; `None` for an absent header.
#[derive(Debug)]
pub(super) struct Conditions {
    if_match: Option<Precondition>,
    if_none_match: Option<Precondition>,
}

/// An entity tag of a list.
#[derive(Debug, PartialEq, Eq)]
struct Tag {
    is_weak: bool,
    /// `None` for a tag that is not a revision.
    revision: Option<Revision>,
}

/// The value of a header.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    Any,
    Listed(Vec<Tag>),
}

impl Conditions {
    /// Parses both headers of a request.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, ErrorResponse> {
        let if_match = tags(headers, &IF_MATCH)?.map(|tags| match tags {
            Tags::Any => Precondition::Present,
            Tags::Listed(tags) => {
                let strong = tags.into_iter().filter(|tag| !tag.is_weak);
                Precondition::OneOf(strong.filter_map(|tag| tag.revision).collect())
            }
        });
        let if_none_match = tags(headers, &IF_NONE_MATCH)?.map(|tags| match tags {
            Tags::Any => Precondition::Absent,
            Tags::Listed(tags) => {
                Precondition::NoneOf(tags.into_iter().filter_map(|tag| tag.revision).collect())
            }
        });
        Ok(Self { if_match, if_none_match })
    }

    /// Returns the precondition of a write, if the request has one.
    pub(super) fn write_precondition(self) -> Option<Precondition> {
        match (self.if_match, self.if_none_match) {
            (Some(one), Some(other)) => Some(Precondition::Both(Box::new([one, other]))),
            (one, other) => one.or(other),
        }
    }

    /// Checks whether the reader already has the current revision. It is an error if `If-Match` excludes that revision.
    pub(super) fn is_not_modified(&self, current: Revision) -> Result<bool, ErrorResponse> {
        let is_met = |expected: &Option<Precondition>| {
            expected.as_ref().is_none_or(|expected| expected.allows(Some(current)))
        };
        if !is_met(&self.if_match) {
            return Err(
                ErrorResponse::from(ErrorCode::Conflict).with_fact("revision", current.to_string())
            );
        }
        Ok(!is_met(&self.if_none_match))
    }
}

/// Parses all lines of a header as one list.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, ErrorResponse> {
    let lines: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    if lines.is_empty() {
        return Ok(None);
    }
    parse_tags(&lines.join(&b',')).map(Some).ok_or_else(|| ErrorCode::InvalidPrecondition.into())
}

/// Parses `*` or a list of tags.
fn parse_tags(list: &[u8]) -> Option<Tags> {
    if list.trim_ascii() == b"*" {
        return Some(Tags::Any);
    }
    let (mut tags, mut rest) = (Vec::new(), list.trim_ascii());
    while let Some(first) = rest.first() {
        if *first != b',' {
            let (tag, after) = parse_tag(rest)?;
            tags.push(tag);
            rest = after.trim_ascii_start();
        }
        // Empty list elements are allowed, but two tags must be separated by a comma.
        rest = match rest {
            [] => rest,
            [b',', after @ ..] => after.trim_ascii_start(),
            _ => return None,
        };
    }
    (!tags.is_empty()).then_some(Tags::Listed(tags))
}

/// Parses the tag at the start of a text; returns it with the rest of the text.
fn parse_tag(text: &[u8]) -> Option<(Tag, &[u8])> {
    let (is_weak, quoted) = match text.strip_prefix(b"W/") {
        Some(quoted) => (true, quoted),
        None => (false, text),
    };
    let opaque = quoted.strip_prefix(b"\"")?;
    let end = opaque.iter().position(|byte| *byte == b'"')?;
    let (opaque, quote) = opaque.split_at(end);
    let is_tag_byte = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
    if !opaque.iter().all(is_tag_byte) {
        return None;
    }
    let revision = std::str::from_utf8(opaque).ok().and_then(|digits| digits.parse().ok());
    Some((Tag { is_weak, revision }, quote.strip_prefix(b"\"")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorResponse;

    fn revision(text: &str) -> Revision {
        Revision::digest(text.as_bytes())
    }

    /// Parses headers in which `one` and `two` stand for tags.
    fn conditions(headers: &[(HeaderName, &str)]) -> Result<Conditions, ErrorResponse> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = value
                .replace("one", &format!("\"{}\"", revision("one")))
                .replace("two", &format!("\"{}\"", revision("two")));
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        Conditions::from_headers(&map)
    }

    /// Checks whether a write with these headers is allowed on no file, on `one`, and on `three`.
    #[track_caller]
    fn check(headers: &[(HeaderName, &str)], allowed: [bool; 3]) {
        let expected = conditions(headers).unwrap().write_precondition().unwrap();
        let current = [None, Some(revision("one")), Some(revision("three"))];
        assert_eq!(current.map(|current| expected.allows(current)), allowed, "{headers:?}");
    }

    #[test]
    fn if_match_allows_a_write_on_a_listed_revision() {
        let check = |value, allowed| check(&[(IF_MATCH, value)], allowed);
        check("one", [false, true, false]);
        check("  one\t", [false, true, false]);
        check("two, one", [false, true, false]);
        check("two,one", [false, true, false]);
        check(",, two ,\t, one ,", [false, true, false]);
        check("\"any,of\u{e9}\\\",one", [false, true, false]);
        check("two", [false; 3]);
        check("*", [false, true, true]);
        check(" * ", [false, true, true]);
    }

    #[test]
    fn weak_and_foreign_tags_match_no_write() {
        let check = |value, allowed| check(&[(IF_MATCH, value)], allowed);
        check("W/one", [false; 3]);
        check("W/two, one", [false, true, false]);
        check("\"\"", [false; 3]);
        check("\"*\"", [false; 3]);
        check("\"5f2a\", W/\"x\"", [false; 3]);
        check(&format!("\"{}\"", "A".repeat(64)), [false; 3]);
    }

    #[test]
    fn if_none_match_forbids_a_write_on_a_listed_revision() {
        let check = |value, allowed| check(&[(IF_NONE_MATCH, value)], allowed);
        check("*", [true, false, false]);
        check("one", [true, false, true]);
        check("two, W/one", [true, false, true]);
        check("\"x\"", [true; 3]);
    }

    #[test]
    fn repeated_headers_are_one_list_and_both_headers_must_match() {
        check(&[(IF_MATCH, "two"), (IF_MATCH, "one")], [false, true, false]);
        check(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "one")], [false, false, true]);
        check(&[(IF_MATCH, "one"), (IF_NONE_MATCH, "two")], [false, true, false]);
        check(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")], [false; 3]);
    }

    #[test]
    fn a_malformed_list_is_refused() {
        for malformed in [
            "", " ", ",", "x", "one two", "one;two", "*, one", "one, *", "**", "\"x", "x\"",
            "\"a b\"", "w/one", "W/", "W/ one", "W/*", "one\"", "'x'", "\"a\"b\"", "\u{e9}",
        ] {
            for name in [IF_MATCH, IF_NONE_MATCH] {
                assert!(conditions(&[(name, malformed)]).is_err(), "{malformed:?}");
            }
        }
        assert!(conditions(&[(IF_MATCH, "*"), (IF_MATCH, "*")]).is_err());
        assert!(conditions(&[(IF_MATCH, "one"), (IF_NONE_MATCH, "x")]).is_err());
        assert!(conditions(&[]).unwrap().write_precondition().is_none());
    }

    #[test]
    fn a_reader_with_the_current_revision_gets_not_modified() {
        let one = revision("one");
        let not_modified = |headers: &[(HeaderName, &str)]| {
            conditions(headers).unwrap().is_not_modified(one).map_err(|_| "refused")
        };
        assert_eq!(not_modified(&[]), Ok(false));
        for (value, expected) in
            [("one", true), ("W/one", true), ("two, W/one", true), ("*", true), ("two", false)]
        {
            assert_eq!(not_modified(&[(IF_NONE_MATCH, value)]), Ok(expected), "{value}");
        }
        assert_eq!(not_modified(&[(IF_MATCH, "one")]), Ok(false));
        assert_eq!(not_modified(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "one")]), Ok(true));
        assert_eq!(not_modified(&[(IF_MATCH, "W/one")]), Err("refused"));
        assert_eq!(not_modified(&[(IF_MATCH, "two"), (IF_NONE_MATCH, "one")]), Err("refused"));
    }
}
