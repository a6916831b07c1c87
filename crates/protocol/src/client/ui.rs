//! Calls for the web page, settings and trusted folders.
//!
//! A changed setting takes effect when the daemon is started again.

use serde_json::Value;

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::settings::{PutSetting, PutTrust, Settings, TrustStatus};
use crate::ui::Ticket;

impl Client {
    /// Creates a login ticket for a browser: `/ui/#ticket=…` logs in once, within a minute.
    pub async fn ui_ticket(&self) -> Result<Ticket, ClientError> {
        self.value(ApiCall::post("/ui/tickets")).await
    }

    /// Lists the settings, with the source of each value.
    pub async fn settings(&self) -> Result<Settings, ClientError> {
        self.value(ApiCall::get("/v1/settings")).await
    }

    /// Sets a value in the settings file; null removes it. A daemon reads its settings when it starts.
    pub async fn put_setting(&self, key: &str, value: Value) -> Result<Settings, ClientError> {
        let call = ApiCall::put(&format!("/v1/settings/{key}"));
        self.value(call.json(&PutSetting { value, expected: None })?).await
    }

    /// Lists the trusted folders, and the texts of the project that models are shown only if it is trusted.
    pub async fn trust(&self) -> Result<TrustStatus, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/trust"))).await
    }

    /// Adds a folder to the trusted folders, with all below it, or removes it.
    pub async fn put_trust(&self, path: &str, trusted: bool) -> Result<TrustStatus, ClientError> {
        let put = PutTrust { path: path.to_owned(), trusted };
        self.value(self.workspace_call(ApiCall::put("/v1/trust").json(&put)?)).await
    }
}
