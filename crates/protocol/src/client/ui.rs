//! The page for people, and what a person sets.

use serde_json::Value;

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::settings::{PutSetting, PutTrust, Settings, TrustStatus};
use crate::ui::Ticket;

impl Client {
    /// Gets a ticket for a browser: `/ui/#ticket=…` logs it in, once, within a minute.
    pub async fn ui_ticket(&self) -> Result<Ticket, ClientError> {
        self.value(ApiCall::post("/ui/tickets")).await
    }

    /// Lists the settings, with where each value is from.
    pub async fn settings(&self) -> Result<Settings, ClientError> {
        self.value(ApiCall::get("/v1/settings")).await
    }

    /// Sets a value in the settings file; null takes it out. A daemon reads its settings when it starts.
    pub async fn put_setting(&self, key: &str, value: Value) -> Result<Settings, ClientError> {
        let call = ApiCall::put(&format!("/v1/settings/{key}"));
        self.value(call.json(&PutSetting { value, expected: None })?).await
    }

    /// Lists the trusted folders, and what the project of the workspace would say to models unasked.
    pub async fn trust(&self) -> Result<TrustStatus, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/trust"))).await
    }

    /// Trusts a folder with all below it, or trusts it no longer.
    pub async fn put_trust(&self, path: &str, trusted: bool) -> Result<TrustStatus, ClientError> {
        let put = PutTrust { path: path.to_owned(), trusted };
        self.value(self.workspace_call(ApiCall::put("/v1/trust").json(&put)?)).await
    }
}
