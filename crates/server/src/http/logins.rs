//! The logins of browsers at the page: tickets that `lukasa ui` requests, and tokens that browsers exchange them for.
//!
//! A ticket is valid once and for a minute; a token expires after an idle time. Both tables are bounded and only in
//! memory: a restart of the daemon ends all logins.

use memory::cache::Cache;
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::limits::{UI_LOGINS_MAX, UI_SESSION_IDLE_MAX, UI_TICKET_AGE_MAX};

type ExpiringKeys = Cache<String, Instant, UI_LOGINS_MAX>;

/// The tickets and tokens of browsers.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// The unused tickets, with the time of their issue.
    tickets: Mutex<ExpiringKeys>,
    /// The tokens, with the time of their last use.
    tokens: Mutex<ExpiringKeys>,
}

impl Logins {
    /// Creates a ticket.
    pub(super) fn issue_ticket(&self) -> String {
        let mut tickets = self.tickets.lock();
        tickets.retain(|issued| issued.elapsed() < UI_TICKET_AGE_MAX);
        let ticket = secret();
        tickets.insert(ticket.clone(), Instant::now());
        ticket
    }

    /// Exchanges a ticket for a token. `None` for a ticket that is unknown, used or too old.
    pub(super) fn redeem(&self, ticket: &str) -> Option<String> {
        let issued = self.tickets.lock().remove(ticket);
        issued.filter(|issued| issued.elapsed() < UI_TICKET_AGE_MAX)?;
        let mut tokens = self.tokens.lock();
        tokens.retain(|used| used.elapsed() < UI_SESSION_IDLE_MAX);
        let token = secret();
        tokens.insert(token.clone(), Instant::now());
        Some(token)
    }

    /// Checks whether a token is valid, and extends its life.
    pub(super) fn is_valid(&self, token: &str) -> bool {
        let mut tokens = self.tokens.lock();
        match tokens.get_mut(token) {
            Some(used) if used.elapsed() < UI_SESSION_IDLE_MAX => {
                *used = Instant::now();
                true
            }
            _ => {
                tokens.remove(token);
                false
            }
        }
    }
}

/// Returns a random text of 244 bits, which cannot be guessed.
fn secret() -> String {
    [Uuid::new_v4(), Uuid::new_v4()].map(|half| half.simple().to_string()).concat()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_valid_once_and_for_a_minute() {
        let logins = Logins::default();
        let ticket = logins.issue_ticket();
        let token = logins.redeem(&ticket).unwrap();
        assert!(logins.is_valid(&token) && !logins.is_valid(&ticket) && !logins.is_valid(""));
        assert_eq!(logins.redeem(&ticket), None);
        let late = logins.issue_ticket();
        tokio::time::advance(UI_TICKET_AGE_MAX).await;
        assert_eq!(logins.redeem(&late), None);
        assert!(logins.is_valid(&token));
        // Each use extends the life of a token.
        for _ in 0..3 {
            tokio::time::advance(UI_SESSION_IDLE_MAX.mul_f32(0.9)).await;
            assert!(logins.is_valid(&token));
        }
        tokio::time::advance(UI_SESSION_IDLE_MAX).await;
        assert!(!logins.is_valid(&token));
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_logins_is_bounded() {
        let logins = Logins::default();
        let mut tokens = Vec::new();
        for _ in 0..UI_LOGINS_MAX + 5 {
            tokio::time::advance(Duration::from_millis(1)).await;
            let ticket = logins.issue_ticket();
            tokens.push(logins.redeem(&ticket).unwrap());
        }
        let live = tokens.iter().filter(|token| logins.is_valid(token)).count();
        assert_eq!(live, UI_LOGINS_MAX);
    }
}
