//! Verification of the tokens of an identity provider, by OpenID Connect.
//!
//! [`TokenVerifier`] checks a JWT: its signature with the keys that the provider publishes, its issuer, audience and times.
//! It returns the claims that name the owner and the role. The crate does not know what owners have, creates no tokens,
//! and has no login: clients get their tokens from the provider.
//!
//! The keys are read at the addresses that the discovery document of the issuer names. A task reads them again from time
//! to time, and when a token names an unknown key.

pub use claims::{ClaimRules, VerifiedClaims};
pub use error::{ConfigError, InvalidToken, VerifyError};
pub use verifier::TokenVerifier;

mod claims;
mod error;
mod fetch;
mod issuer;
mod jwt;
mod key;
mod key_cache;
mod limits;
mod verifier;

#[cfg(test)]
mod tests;
