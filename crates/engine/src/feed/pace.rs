//! How quickly streams are told of what happens.

use memory::limits::{EVENTS_TOLD_AT_ONCE, EVENTS_TOLD_EVERY};
use tokio::time::{Instant, sleep_until};

/// Lets so many changes pass at once and has the next wait until their time has come. What comes less often never
/// waits.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    told: usize,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), told: 0 }
    }

    /// Counts one that was told, and waits if more were told than at once.
    pub(super) async fn keep(&mut self) {
        self.told += 1;
        if self.told >= EVENTS_TOLD_AT_ONCE {
            let next = self.since + EVENTS_TOLD_EVERY;
            if Instant::now() < next {
                sleep_until(next).await;
            }
            *self = Self::new();
        }
    }
}
