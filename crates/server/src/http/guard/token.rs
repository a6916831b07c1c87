//! The bearer token: what every caller has to bring.

use std::fmt;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use subtle::ConstantTimeEq as _;

/// The shortest token that a person may choose, in characters.
const CHARS_MIN: usize = 16;

/// The longest, in characters: what fits a header beside others.
const CHARS_MAX: usize = 1_024;

/// What every caller has to bring, compared in a time that depends on nothing but how long it is.
#[derive(Clone)]
pub struct BearerToken(Box<[u8]>);

/// A text that cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is {CHARS_MIN} to {CHARS_MAX} letters, digits and signs, without spaces")]
pub struct BadToken;

impl BearerToken {
    /// Takes a token.
    pub fn new(text: &str) -> Result<Self, BadToken> {
        let fits = (CHARS_MIN..=CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(text.as_bytes().into())) } else { Err(BadToken) }
    }

    /// Tells whether a request brings it, once.
    pub(super) fn matches_headers(&self, headers: &HeaderMap) -> bool {
        presented_token(headers).is_some_and(|token| bool::from(self.0.ct_eq(token.as_bytes())))
    }
}

/// Returns the token that a request brings, if it brings one.
pub(super) fn presented_token(headers: &HeaderMap) -> Option<&str> {
    let mut brought = headers.get_all(AUTHORIZATION).iter();
    let (Some(header), None) = (brought.next(), brought.next()) else { return None };
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
    fn only_the_very_same_token_counts() {
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
    fn a_token_is_long_and_plain_and_shows_itself_to_nobody() {
        let shown = format!("{:?}", BearerToken::new(TEXT).unwrap());
        assert_eq!(shown, "Token");
        for text in ["", "short", "has a space in it", "umlauts-äöü-äöü-äöü", &"x".repeat(1_025)]
        {
            assert!(BearerToken::new(text).is_err(), "{text}");
        }
    }
}
