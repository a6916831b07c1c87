//! Calls for the tokens of an owner. They need a token with the role `admin`, and a daemon with a database.

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::tokens::{CreateToken, CreatedToken, TokenList};

impl Client {
    /// Lists the tokens of the owner, without their texts.
    pub async fn tokens(&self) -> Result<TokenList, ClientError> {
        self.value(ApiCall::get("/v1/tokens")).await
    }

    /// Creates a token of the owner. Its text cannot be read again.
    pub async fn create_token(&self, token: &CreateToken) -> Result<CreatedToken, ClientError> {
        self.value(ApiCall::post("/v1/tokens").json(token)?).await
    }

    /// Revokes a token of the owner. Daemons refuse it within ten seconds.
    pub async fn revoke_token(&self, id: &str) -> Result<(), ClientError> {
        self.body(ApiCall::delete(&format!("/v1/tokens/{id}"))).await.map(drop)
    }
}
