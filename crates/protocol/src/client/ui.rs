//! The page for people, and what a person sets.

use serde_json::Value;

use super::call::Call;
use super::{Client, ClientError};
use crate::settings::{PutSetting, PutTrust, Settings, Trust};
use crate::ui::Ticket;

impl Client {
    /// Gets a ticket for a browser: `/ui/#ticket=…` logs it in, once, within a minute.
    pub async fn ui_ticket(&self) -> Result<Ticket, ClientError> {
        self.value(Call::post("/ui/tickets")).await
    }

    /// Lists the settings, with where each value is from.
    pub async fn settings(&self) -> Result<Settings, ClientError> {
        self.value(Call::get("/v1/settings")).await
    }

    /// Sets a value in the settings file; null takes it out. A daemon reads its settings when it starts.
    pub async fn put_setting(&self, key: &str, value: Value) -> Result<Settings, ClientError> {
        let call = Call::put(&format!("/v1/settings/{key}"));
        self.value(call.json(&PutSetting { value, expected: None })?).await
    }

    /// Lists the trusted folders, and what the project of the workspace would say to models unasked.
    pub async fn trust(&self) -> Result<Trust, ClientError> {
        self.value(self.call_here(Call::get("/v1/trust"))).await
    }

    /// Trusts a folder with all below it, or trusts it no longer.
    pub async fn put_trust(&self, path: &str, trusted: bool) -> Result<Trust, ClientError> {
        let put = PutTrust { path: path.to_owned(), trusted };
        self.value(self.call_here(Call::put("/v1/trust").json(&put)?)).await
    }
}
