//! What a request says of what has to be there: `If-Match` and `If-None-Match`, as RFC 9110 has them.
//!
//! Both take `*` or a list of entity tags. A tag of ours is a revision in quotes. One of somebody else is a tag
//! like any other, which just matches nothing; a weak one matches where it is enough that a reader has it, and
//! never where a write depends on it. What is no such list at all is refused.
//!
//! The crate `headers` reads both, but takes any text for a list and leaves out what is no tag: an `If-None-Match` with a
//! typing error would let a write replace whatever is there. It cannot say which tags a list holds either, and the
//! store compares them while it holds the root.
//!
//! A list without any tag, which the grammar allows, is refused too: nobody means it, and `If-None-Match` with
//! it would let a write replace whatever is there.

use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use engine::Precondition;
use memory::document::Revision;
use protocol::error::ErrorCode;

use crate::error::ErrorResponse;

/// What a request asks to be so; nothing for a header that is not there.
#[derive(Debug)]
pub(super) struct Conditions {
    if_match: Option<Precondition>,
    if_none_match: Option<Precondition>,
}

/// What is between two commas.
#[derive(Debug, PartialEq, Eq)]
struct Tag {
    is_weak: bool,
    /// `None` for a tag that we never gave out.
    revision: Option<Revision>,
}

/// What a header holds.
#[derive(Debug, PartialEq, Eq)]
enum Tags {
    Any,
    Listed(Vec<Tag>),
}

impl Conditions {
    /// Reads the conditions of a request.
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

    /// Returns what a write finds, if the request says so.
    pub(super) fn write_precondition(self) -> Option<Precondition> {
        match (self.if_match, self.if_none_match) {
            (Some(one), Some(other)) => Some(Precondition::Both(Box::new([one, other]))),
            (one, other) => one.or(other),
        }
    }

    /// Tells whether a reader has what is there already; refuses if it wants only something else.
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

/// Reads a header, all lines of it as one list.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Tags>, ErrorResponse> {
    let lines: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    if lines.is_empty() {
        return Ok(None);
    }
    parse_tags(&lines.join(&b',')).map(Some).ok_or_else(|| ErrorCode::InvalidPrecondition.into())
}

/// Reads `*` or a list of tags.
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
        // Nothing may be between two commas, but something other than a comma not between two tags.
        rest = match rest {
            [] => rest,
            [b',', after @ ..] => after.trim_ascii_start(),
            _ => return None,
        };
    }
    (!tags.is_empty()).then_some(Tags::Listed(tags))
}

/// Reads the tag that a text begins with; returns what comes after it, too.
fn parse_tag(text: &[u8]) -> Option<(Tag, &[u8])> {
    let (is_weak, quoted) = match text.strip_prefix(b"W/") {
        Some(quoted) => (true, quoted),
        None => (false, text),
    };
    let opaque = quoted.strip_prefix(b"\"")?;
    let end = opaque.iter().position(|byte| *byte == b'"')?;
    let (opaque, quote) = opaque.split_at(end);
    let may_be_in_it = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
    if !opaque.iter().all(may_be_in_it) {
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

    /// Writes `one` and `two` as the tags that they stand for.
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

    /// Checks whether a write that says this happens where nothing is, `one` is, and `three` is.
    #[track_caller]
    fn check(headers: &[(HeaderName, &str)], happens: [bool; 3]) {
        let expected = conditions(headers).unwrap().write_precondition().unwrap();
        let there = [None, Some(revision("one")), Some(revision("three"))];
        assert_eq!(there.map(|current| expected.allows(current)), happens, "{headers:?}");
    }

    #[test]
    fn a_write_happens_where_what_is_there_is_one_of_those_that_it_names() {
        let check = |value, happens| check(&[(IF_MATCH, value)], happens);
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
    fn a_weak_tag_and_one_of_somebody_else_match_no_write() {
        let check = |value, happens| check(&[(IF_MATCH, value)], happens);
        check("W/one", [false; 3]);
        check("W/two, one", [false, true, false]);
        check("\"\"", [false; 3]);
        check("\"*\"", [false; 3]);
        check("\"5f2a\", W/\"x\"", [false; 3]);
        check(&format!("\"{}\"", "A".repeat(64)), [false; 3]);
    }

    #[test]
    fn a_write_happens_where_nothing_is_that_it_excludes() {
        let check = |value, happens| check(&[(IF_NONE_MATCH, value)], happens);
        check("*", [true, false, false]);
        check("one", [true, false, true]);
        check("two, W/one", [true, false, true]);
        check("\"x\"", [true; 3]);
    }

    #[test]
    fn lines_of_one_header_are_one_list_and_both_headers_must_be_met() {
        check(&[(IF_MATCH, "two"), (IF_MATCH, "one")], [false, true, false]);
        check(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "one")], [false, false, true]);
        check(&[(IF_MATCH, "one"), (IF_NONE_MATCH, "two")], [false, true, false]);
        check(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "*")], [false; 3]);
    }

    #[test]
    fn what_is_no_list_of_tags_is_refused() {
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
    fn a_reader_is_told_when_it_has_what_is_there() {
        let one = revision("one");
        let known = |headers: &[(HeaderName, &str)]| {
            conditions(headers).unwrap().is_not_modified(one).map_err(|_| "refused")
        };
        assert_eq!(known(&[]), Ok(false));
        for (value, is_known) in
            [("one", true), ("W/one", true), ("two, W/one", true), ("*", true), ("two", false)]
        {
            assert_eq!(known(&[(IF_NONE_MATCH, value)]), Ok(is_known), "{value}");
        }
        assert_eq!(known(&[(IF_MATCH, "one")]), Ok(false));
        assert_eq!(known(&[(IF_MATCH, "*"), (IF_NONE_MATCH, "one")]), Ok(true));
        assert_eq!(known(&[(IF_MATCH, "W/one")]), Err("refused"));
        assert_eq!(known(&[(IF_MATCH, "two"), (IF_NONE_MATCH, "one")]), Err("refused"));
    }
}
