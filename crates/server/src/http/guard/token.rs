//! The bearer token that a request must carry.
//!
//! The comparison takes the same time for all tokens of one length, so that it gives no hint about the token.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

/// The shortest token that a person may choose, in characters.
const CHARS_MIN: usize = 16;

/// The longest token, in characters: it must fit into a header.
const CHARS_MAX: usize = 1_024;

/// The token of the daemon, compared in constant time for a given length.
#[derive(Clone)]
pub struct BearerToken(Box<[u8]>);

/// A text that cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid token; a token is {CHARS_MIN} to {CHARS_MAX} letters, digits and signs, without spaces"
)]
pub struct BadToken;

impl BearerToken {
    /// Checks the length and the characters of a token.
    pub fn new(text: &str) -> Result<Self, BadToken> {
        let fits = (CHARS_MIN..=CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text.as_bytes().into())) } else { Err(BadToken) }
    }

    /// Checks whether a request carries this token, in exactly one header.
    pub(super) fn matches_headers(&self, headers: &HeaderMap) -> bool {
        presented_token(headers).is_some_and(|token| bool::from(self.0.ct_eq(token.as_bytes())))
    }
}

/// Returns the bearer token of a request, if it has exactly one `Authorization` header.
pub(super) fn presented_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(header), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "correct-horse-battery";

    #[test]
    fn only_the_exact_token_is_accepted() {
        fn check(headers: &[&str], is_in: bool) {
            let token = BearerToken::new(TEXT).unwrap();
            let mut map = HeaderMap::new();
            for header in headers {
                map.append(AUTHORIZATION, header.parse().unwrap());
            }
            assert_eq!(token.matches_headers(&map), is_in, "{headers:?}");
        }
        let good = format!("Bearer {TEXT}");
        check(&[&good], true);
        check(&[&format!("bearer  {TEXT} ")], true);
        check(&[], false);
        check(&["Bearer"], false);
        check(&["Bearer "], false);
        check(&[TEXT], false);
        check(&[&format!("Basic {TEXT}")], false);
        check(&[&format!("Bearer {TEXT}x")], false);
        check(&["Bearer correct-horse-batter"], false);
        check(&[&good, &good], false);
    }

    #[test]
    fn a_token_has_enough_printable_characters_and_is_never_shown_by_debug() {
        let shown = format!("{:?}", BearerToken::new(TEXT).unwrap());
        assert_eq!(shown, "Token");
        for text in ["", "short", "has a space in it", "umlauts-äöü-äöü-äöü", &"x".repeat(1_025)]
        {
            assert!(BearerToken::new(text).is_err(), "{text}");
        }
    }
}
