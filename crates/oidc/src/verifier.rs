//! The verifier of the tokens of one provider.

use std::sync::Arc;

use memory::clock::Clock;
use memory::document::Revision;

use crate::claims::{ClaimRules, VerifiedClaims};
use crate::error::{ConfigError, VerifyError};
use crate::fetch::HttpKeySource;
use crate::issuer::Issuer;
use crate::jwt::UnverifiedToken;
use crate::key_cache::KeyCache;

/// A verifier of the tokens of one provider.
#[derive(Debug)]
pub struct TokenVerifier {
    rules: ClaimRules,
    clock: Arc<dyn Clock>,
    keys: KeyCache,
}

impl TokenVerifier {
    /// Checks the rules, and starts to read the keys of the provider in the background. Must be called within a runtime. The
    /// provider may be away: tokens are then refused for the time being.
    pub fn start(rules: ClaimRules, clock: Arc<dyn Clock>) -> Result<Self, ConfigError> {
        let issuer = Issuer::parse(&rules.issuer)?;
        let names = [&rules.audience, &rules.owner_claim].into_iter().chain(&rules.role_claim);
        for name in names {
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(ConfigError::Name);
            }
        }
        let keys = KeyCache::start(HttpKeySource::new(issuer)?);
        Ok(Self { rules, clock, keys })
    }

    /// Checks a token: its signature first, then its claims.
    pub async fn verify(&self, token: &str) -> Result<VerifiedClaims, VerifyError> {
        let token = UnverifiedToken::parse(token)?;
        self.keys.keys_for(&token).await?.verify(&token)?;
        let claims = token.claims()?;
        Ok(self.rules.check(&claims, self.clock.now().as_second())?)
    }

    /// Returns the digest that stands for a value of the claim that names the owner. Other values, claims and issuers have
    /// other digests.
    pub fn subject_digest(&self, owner: &str) -> Revision {
        let ClaimRules { issuer, owner_claim, .. } = &self.rules;
        // Neither an issuer nor the name of a claim has a zero, so the parts cannot be confused.
        Revision::digest([issuer, owner_claim, owner].join("\0").as_bytes())
    }
}
