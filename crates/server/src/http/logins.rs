//! The browsers that are logged in to the page: tickets that `lukasa ui` hands out, and the tokens that they are traded for.

use memory::cache::Cache;
use parking_lot::Mutex;
use tokio::time::Instant;
use uuid::Uuid;

use crate::limits::{UI_LOGINS_MAX, UI_SESSION_IDLE_MAX, UI_TICKET_AGE_MAX};

type ExpiringKeys = Cache<String, Instant, UI_LOGINS_MAX>;

/// Tickets and tokens of browsers. Not kept beyond this process.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// Tickets that nobody used yet, with when they were given out.
    tickets: Mutex<ExpiringKeys>,
    /// Tokens, with when they were used last.
    tokens: Mutex<ExpiringKeys>,
}

impl Logins {
    /// Gives out a ticket.
    pub(super) fn issue_ticket(&self) -> String {
        let mut tickets = self.tickets.lock();
        tickets.retain(|given| given.elapsed() < UI_TICKET_AGE_MAX);
        let ticket = secret();
        tickets.insert(ticket.clone(), Instant::now());
        ticket
    }

    /// Trades a ticket for a token, once.
    pub(super) fn redeem(&self, ticket: &str) -> Option<String> {
        let given = self.tickets.lock().remove(ticket);
        given.filter(|given| given.elapsed() < UI_TICKET_AGE_MAX)?;
        let mut tokens = self.tokens.lock();
        tokens.retain(|used| used.elapsed() < UI_SESSION_IDLE_MAX);
        let token = secret();
        tokens.insert(token.clone(), Instant::now());
        Some(token)
    }

    /// Tells whether a browser has this token, and notes that it was used.
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

/// Returns 244 random bits: nobody guesses them.
fn secret() -> String {
    [Uuid::new_v4(), Uuid::new_v4()].map(|half| half.simple().to_string()).concat()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_good_once_and_for_a_minute() {
        let logins = Logins::default();
        let ticket = logins.issue_ticket();
        let token = logins.redeem(&ticket).unwrap();
        assert!(logins.is_valid(&token) && !logins.is_valid(&ticket) && !logins.is_valid(""));
        assert_eq!(logins.redeem(&ticket), None);
        let late = logins.issue_ticket();
        tokio::time::advance(UI_TICKET_AGE_MAX).await;
        assert_eq!(logins.redeem(&late), None);
        assert!(logins.is_valid(&token));
        // A token lives as long as it is used.
        for _ in 0..3 {
            tokio::time::advance(UI_SESSION_IDLE_MAX.mul_f32(0.9)).await;
            assert!(logins.is_valid(&token));
        }
        tokio::time::advance(UI_SESSION_IDLE_MAX).await;
        assert!(!logins.is_valid(&token));
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_more_than_may_be() {
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
