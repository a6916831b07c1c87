//! The page for people.

use super::call::Call;
use super::{Client, ClientError};
use crate::ui::Ticket;

impl Client {
    /// Gets a ticket for a browser: `/ui/#ticket=…` logs it in, once, within a minute.
    pub async fn ui_ticket(&self) -> Result<Ticket, ClientError> {
        self.value(Call::post("/ui/tickets")).await
    }
}
