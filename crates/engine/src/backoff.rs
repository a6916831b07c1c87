//! Exponential backoff for a server that failed: the delay doubles with each failure, up to a
//! maximum.

use memory::limits::{EMBED_RETRY_DELAY, EMBED_RETRY_DELAY_MAX};
use tokio::time::{Duration, Instant};

/// The failures of a server, and the end of its current backoff.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    blocked_until: Option<Instant>,
}

impl Backoff {
    /// Returns the time before which the server must not be called, if it is in backoff.
    pub(crate) fn blocked_until(&self) -> Option<Instant> {
        self.blocked_until.filter(|until| *until > Instant::now())
    }

    /// Records a failure and returns the new delay. Returns `None` during a backoff, when the
    /// failure belongs to an earlier request.
    pub(crate) fn record_failure(&mut self) -> Option<Duration> {
        if self.blocked_until().is_some() {
            return None;
        }
        let times = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let delay = EMBED_RETRY_DELAY.saturating_mul(times).min(EMBED_RETRY_DELAY_MAX);
        self.failures = self.failures.saturating_add(1);
        self.blocked_until = Some(Instant::now() + delay);
        Some(delay)
    }

    /// Records an answer, which ends the backoff.
    pub(crate) fn record_success(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_delay_up_to_a_maximum_and_an_answer_ends_it() {
        let mut backoff = Backoff::default();
        let mut expected = EMBED_RETRY_DELAY;
        for _ in 0..40 {
            assert_eq!(backoff.record_failure(), Some(expected));
            assert_eq!(backoff.record_failure(), None, "a backoff is running already");
            tokio::time::advance(expected).await;
            assert_eq!(backoff.blocked_until(), None);
            expected = (expected * 2).min(EMBED_RETRY_DELAY_MAX);
        }
        backoff.record_success();
        assert_eq!(backoff.record_failure(), Some(EMBED_RETRY_DELAY));
    }
}
