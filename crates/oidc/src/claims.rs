//! The check of the claims of a token, and what they say about its owner and role.
//!
//! Pure: the caller has checked the signature, and passes the time.

use memory::owner::Role;
use serde_json::{Map, Value};

use crate::error::InvalidToken;
use crate::limits::CLOCK_LEEWAY;

/// The claims that a token must have, and those that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRules {
    /// The issuer, as `iss` has it.
    pub issuer: String,
    /// The audience, which `aud` must contain.
    pub audience: String,
    /// The claim that names the owner.
    pub owner_claim: String,
    /// The claim that has the role; `None` gives each token the role `write`.
    pub role_claim: Option<String>,
}

/// The claims of a valid token that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedClaims {
    /// The value of the claim that names the owner. It may be any text that is not empty.
    pub owner: String,
    /// The role.
    pub role: Role,
}

/// The claim with an email address, which counts only if the provider has verified it.
const EMAIL: &str = "email";

impl ClaimRules {
    /// Checks the claims of a token, at a time in seconds since 1970.
    pub(crate) fn check(
        &self,
        claims: &Map<String, Value>,
        now: i64,
    ) -> Result<VerifiedClaims, InvalidToken> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(InvalidToken::Issuer);
        }
        if !texts(claims.get("aud")).any(|audience| audience == self.audience) {
            return Err(InvalidToken::Audience);
        }
        check_times(claims, now)?;
        // A stolen token of this kind would be useless at a receiver that checks the proof.
        if claims.contains_key("cnf") {
            return Err(InvalidToken::Bound);
        }
        // A notice of a logout or of another event, which some providers send without a type of its own.
        if claims.contains_key("events") {
            return Err(InvalidToken::Kind);
        }
        let owner = claims.get(&self.owner_claim).and_then(Value::as_str);
        let owner = owner.filter(|owner| !owner.is_empty()).ok_or(InvalidToken::Owner)?;
        if self.owner_claim == EMAIL && claims.get("email_verified") != Some(&Value::Bool(true)) {
            return Err(InvalidToken::EmailNotVerified);
        }
        let role = match &self.role_claim {
            None => Role::Write,
            Some(name) => role(claims.get(name)).ok_or(InvalidToken::Role)?,
        };
        Ok(VerifiedClaims { owner: owner.to_owned(), role })
    }
}

fn check_times(claims: &Map<String, Value>, now: i64) -> Result<(), InvalidToken> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "seconds since 1970 have far fewer than 52 bits"
    )]
    let (now, leeway) = (now as f64, CLOCK_LEEWAY.as_secs_f64());
    // Times may have fractions.
    let ends = claims.get("exp").and_then(Value::as_f64).ok_or(InvalidToken::Claim("exp"))?;
    if now >= ends + leeway {
        return Err(InvalidToken::Expired);
    }
    if let Some(begins) = claims.get("nbf") {
        let begins = begins.as_f64().ok_or(InvalidToken::Claim("nbf"))?;
        if now < begins - leeway {
            return Err(InvalidToken::NotYetValid);
        }
    }
    Ok(())
}

/// Returns the highest role in a claim: a list of texts, or a text with one or more words, as `scope` has them.
fn role(claim: Option<&Value>) -> Option<Role> {
    let words = texts(claim).flat_map(|text| match claim {
        Some(Value::String(_)) => text.split(' ').collect(),
        _ => vec![text],
    });
    words.filter_map(|word| word.parse().ok()).max()
}

/// Returns the texts of a claim that is a text or a list.
fn texts(claim: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = match claim {
        Some(Value::Array(list)) => list.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    list.iter().filter_map(Value::as_str)
}
