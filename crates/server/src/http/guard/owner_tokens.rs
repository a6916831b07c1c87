//! The tokens of owners: looked up in the directory, and cached for some seconds. Those of an identity provider are verified
//! with each request.

use std::sync::Arc;

use memory::cache::Cache;
use memory::document::Revision;
use memory::owner::TokenRights;
use parking_lot::Mutex;
use protocol::error::ErrorCode;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::error::ErrorResponse;
use crate::http::owner_directory::{IdentityProvider, OwnerDirectory};
use crate::limits::{
    OWNER_TOKEN_AGE_MAX, OWNER_TOKENS_CACHED_MAX, TOKEN_LOOKUP_WAIT, TOKEN_LOOKUPS_MAX,
};

/// The tokens of owners.
#[derive(Debug)]
pub(in crate::http) struct OwnerTokens {
    directory: Arc<dyn OwnerDirectory>,
    identity_provider: Option<Arc<dyn IdentityProvider>>,
    /// The digests of valid tokens, so that no token stays in memory.
    known: Mutex<Cache<Revision, (TokenRights, Instant), OWNER_TOKENS_CACHED_MAX>>,
    /// Callers without a valid token must not use up the connections of the directory.
    lookups: Semaphore,
}

impl OwnerTokens {
    pub(in crate::http) fn new(
        directory: Arc<dyn OwnerDirectory>,
        identity_provider: Option<Arc<dyn IdentityProvider>>,
    ) -> Self {
        Self {
            directory,
            identity_provider,
            known: Mutex::default(),
            lookups: Semaphore::new(TOKEN_LOOKUPS_MAX),
        }
    }

    /// Returns what a token gives access to; `None` if it is not valid. A revoked token may be valid for as long as tokens
    /// are cached, unless `is_current` demands a lookup.
    pub(super) async fn rights(
        &self,
        token: &str,
        is_current: bool,
    ) -> Result<Option<TokenRights>, ErrorResponse> {
        // Before the lookups, whose permits a provider that is slow must not use up.
        if let Some(provider) = self.identity_provider.as_ref().filter(|_| is_jwt(token)) {
            return Ok(provider.rights(token).await?);
        }
        let digest = Revision::digest(token.as_bytes());
        let known = || if is_current { None } else { self.known(&digest) };
        if let Some(rights) = known() {
            return Ok(Some(rights));
        }
        let permit = timeout(TOKEN_LOOKUP_WAIT, self.lookups.acquire()).await;
        let _permit = permit.map_err(|_| {
            ErrorResponse::from(ErrorCode::Overloaded)
                .with_message("too many tokens are being looked up; try again")
                .retry_after(1)
        })?;
        // Another request with this token may have looked it up meanwhile.
        if let Some(rights) = known() {
            return Ok(Some(rights));
        }
        let now = Instant::now();
        let rights = self.directory.rights(token).await?;
        let mut known = self.known.lock();
        match &rights {
            Some(rights) => known.insert(digest, (rights.clone(), now)),
            None => drop(known.remove(&digest)),
        }
        Ok(rights)
    }

    fn known(&self, digest: &Revision) -> Option<TokenRights> {
        let mut known = self.known.lock();
        let (rights, looked_up) = known.get(digest)?;
        (looked_up.elapsed() < OWNER_TOKEN_AGE_MAX).then(|| rights.clone())
    }
}

/// Checks whether a token has the form of those of an identity provider. The tokens of a directory have no dots.
fn is_jwt(token: &str) -> bool {
    token.bytes().filter(|byte| *byte == b'.').count() == 2
}
