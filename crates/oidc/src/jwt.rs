//! Signed tokens in their compact form: the header is read, and the claims stay closed until the signature is checked.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::error::InvalidToken;
use crate::key::Algorithm;
use crate::limits::JWT_BYTES_MAX;

/// Types of tokens that are accepted, in lower case and without `application/`. A provider signs other things with the same
/// keys, such as notices of logouts.
const KINDS: [&str; 2] = ["jwt", "at+jwt"];

/// A token whose signature is not checked yet.
#[derive(Debug)]
pub(crate) struct UnverifiedToken<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
    /// The bytes that are signed.
    pub(crate) message: &'a [u8],
    pub(crate) signature: Vec<u8>,
    claims: &'a str,
}

impl<'a> UnverifiedToken<'a> {
    pub(crate) fn parse(token: &'a str) -> Result<Self, InvalidToken> {
        if token.len() > JWT_BYTES_MAX {
            return Err(InvalidToken::TooLarge);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(InvalidToken::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(InvalidToken::Malformed)?;
        let header = object(header)?;
        // A list of parameters that the receiver must understand; this one understands none.
        if header.contains_key("crit") {
            return Err(InvalidToken::Critical);
        }
        if let Some(kind) = header.get("typ") {
            let kind = kind.as_str().ok_or(InvalidToken::Malformed)?.to_ascii_lowercase();
            let kind = kind.strip_prefix("application/").unwrap_or(&kind);
            if !KINDS.contains(&kind) {
                return Err(InvalidToken::Kind);
            }
        }
        let algorithm = header.get("alg").and_then(Value::as_str).ok_or(InvalidToken::Malformed)?;
        let algorithm = Algorithm::parse(algorithm).ok_or(InvalidToken::Algorithm)?;
        let key_id = match header.get("kid") {
            None => None,
            Some(id) => Some(id.as_str().ok_or(InvalidToken::Malformed)?.to_owned()),
        };
        let signature = decode(signature)?;
        Ok(Self { algorithm, key_id, message: message.as_bytes(), signature, claims })
    }

    /// Returns the claims. Only for a token whose signature was checked.
    pub(crate) fn claims(&self) -> Result<Map<String, Value>, InvalidToken> {
        object(self.claims)
    }
}

fn object(part: &str) -> Result<Map<String, Value>, InvalidToken> {
    serde_json::from_slice(&decode(part)?).map_err(|_| InvalidToken::Malformed)
}

fn decode(part: &str) -> Result<Vec<u8>, InvalidToken> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidToken::Malformed)
}
