//! The identity provider of a daemon with a database: tokens that it signs lead to owners.

use std::sync::Arc;

use async_trait::async_trait;
use memory::owner::TokenRights;
use oidc::{ClaimRules, TokenVerifier, VerifyError};
use postgres::OwnerName;
use server::http::{IdentityProvider, ProviderUnavailable};
use store::clock::SystemClock;

use crate::args::{OwnerMapping, ProviderOptions};
use crate::exit::{Failure, chain};

/// The tokens of an identity provider, and the owners to whom they lead.
#[derive(Debug)]
struct ProviderTokens {
    verifier: TokenVerifier,
    mapping: OwnerMapping,
    /// The owner of the operator, to whom no token of a provider leads.
    own_name: OwnerName,
}

/// Starts to read the keys of the provider that the options name; `None` if they name none.
pub(super) fn start(
    options: &ProviderOptions,
    own_name: &OwnerName,
) -> Result<Option<Arc<dyn IdentityProvider>>, Failure> {
    let (Some(issuer), Some(audience)) = (&options.issuer, &options.audience) else {
        return Ok(None);
    };
    let rules = ClaimRules {
        issuer: issuer.clone(),
        audience: audience.clone(),
        owner_claim: options.owner_claim.clone(),
        role_claim: options.role_claim.clone(),
    };
    let verifier = TokenVerifier::start(rules, Arc::new(SystemClock))
        .map_err(|error| Failure::usage(format!("--oidc-issuer: {}", chain(&error))))?;
    let (mapping, own_name) = (options.owner_mapping, own_name.clone());
    Ok(Some(Arc::new(ProviderTokens { verifier, mapping, own_name })))
}

impl ProviderTokens {
    /// Returns the owner to whom a value of the claim leads; the error is the reason why there is none.
    fn owner(&self, value: &str) -> Result<OwnerName, &'static str> {
        match self.mapping {
            OwnerMapping::Digest => Ok(OwnerName::of_subject(&self.verifier.subject_digest(value))),
            OwnerMapping::Name => match value.parse::<OwnerName>() {
                // A user with this name at the provider is not the operator.
                Ok(name) if name == self.own_name => {
                    Err("the token names the owner of the daemon's own token")
                }
                Ok(name) => Ok(name),
                Err(_) => Err("the claim that names the owner is no name of an owner"),
            },
        }
    }
}

#[async_trait]
impl IdentityProvider for ProviderTokens {
    async fn rights(&self, token: &str) -> Result<Option<TokenRights>, ProviderUnavailable> {
        let claims = match self.verifier.verify(token).await {
            Ok(claims) => claims,
            Err(VerifyError::Unavailable { retry_after }) => {
                return Err(ProviderUnavailable { retry_after });
            }
            Err(VerifyError::Invalid(reason)) => {
                tracing::debug!(%reason, "refused a token of the identity provider");
                return Ok(None);
            }
        };
        match self.owner(&claims.owner) {
            Ok(owner) => {
                Ok(Some(TokenRights { owner: owner.as_str().to_owned(), role: claims.role }))
            }
            Err(reason) => {
                tracing::debug!(reason, "refused a token of the identity provider");
                Ok(None)
            }
        }
    }
}
