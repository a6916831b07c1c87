//! The ports to the owners of a database: their rights, their engines, their tokens, and an identity provider.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::{Engine, RunningServices, StateError, Workspace};
use memory::owner::{NewToken, OwnerSize, StoredToken, TokenOptions, TokenRights};
use protocol::error::ErrorCode;

use crate::error::ErrorResponse;

/// The owners of tokens in a database, and their engines.
#[async_trait]
pub trait OwnerDirectory: fmt::Debug + Send + Sync {
    /// Returns what a token gives access to; `None` if it is unknown or no longer valid.
    async fn rights(&self, token: &str) -> Result<Option<TokenRights>, StateError>;

    /// Opens the engine of an owner, and starts its services for these workspaces.
    async fn open(
        &self,
        owner: &str,
        workspaces: &[Workspace],
    ) -> Result<OpenedOwner, OpenOwnerError>;

    /// Creates a token of an owner. Returns `None` if the owner has as many tokens as an owner may have.
    async fn create_token(
        &self,
        owner: &str,
        options: TokenOptions<'_>,
    ) -> Result<Option<NewToken>, StateError>;

    /// Returns the tokens of an owner, the oldest first.
    async fn tokens(&self, owner: &str) -> Result<Vec<StoredToken>, StateError>;

    /// Revokes a token of an owner. Returns whether there was such a token.
    async fn revoke_token(&self, owner: &str, id: &str) -> Result<bool, StateError>;

    /// Returns the sizes of these owners, by name.
    async fn sizes(&self, owners: &[String]) -> Result<Vec<OwnerSize>, StateError>;

    /// Returns the owner and the workspace of each queue with waiting or running tasks.
    async fn unfinished_lanes(&self) -> Result<Vec<(String, String)>, StateError>;
}

/// An identity provider, whose tokens lead to owners beside those of the directory.
#[async_trait]
pub trait IdentityProvider: fmt::Debug + Send + Sync {
    /// Returns what a token of the provider gives access to; `None` if it is not valid.
    async fn rights(&self, token: &str) -> Result<Option<TokenRights>, ProviderUnavailable>;
}

/// An error of a provider that is away, so that a token can neither be accepted nor be refused for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the identity provider cannot be reached")]
pub struct ProviderUnavailable {
    /// The time after which the same token may be tried again.
    pub retry_after: Duration,
}

impl From<ProviderUnavailable> for ErrorResponse {
    fn from(error: ProviderUnavailable) -> Self {
        let code = ErrorCode::IdentityProviderUnavailable;
        Self::from(code).retry_after(error.retry_after.as_secs().max(1))
    }
}

/// The engine of an owner, with its services.
#[derive(Debug)]
pub struct OpenedOwner {
    /// The engine.
    pub engine: Engine,
    /// Its services.
    pub services: RunningServices,
    /// The resources of the engine, which are closed after the services have ended.
    pub resources: Box<dyn OwnerResources>,
}

/// The resources of the engine of an owner.
#[async_trait]
pub trait OwnerResources: fmt::Debug + Send + Sync {
    /// Closes the engine and all that it uses.
    async fn close(&self);
}

/// An error of opening the engine of an owner.
#[derive(Debug, thiserror::Error)]
pub enum OpenOwnerError {
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The settings are invalid.
    #[error("{0}")]
    Settings(String),
}

impl From<OpenOwnerError> for ErrorResponse {
    fn from(error: OpenOwnerError) -> Self {
        match error {
            OpenOwnerError::State(error) => error.into(),
            OpenOwnerError::Settings(why) => {
                tracing::error!(why, "the engine of an owner cannot be opened");
                ErrorCode::Internal.into()
            }
        }
    }
}

/// The tokens of one owner.
#[derive(Debug)]
pub(super) struct OwnTokens {
    pub(super) directory: Arc<dyn OwnerDirectory>,
    pub(super) owner: String,
}
