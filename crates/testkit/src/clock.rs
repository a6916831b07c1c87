//! A clock that a test controls.

use parking_lot::Mutex;
use std::time::Duration;

use memory::clock::{Clock, Timestamp};

/// A clock that stands still until a test sets it. It may go backwards, as real ones do.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
}

impl ManualClock {
    /// Returns a clock at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now: Mutex::new(now) }
    }

    /// Sets the time.
    pub fn set(&self, now: Timestamp) {
        *self.now.lock() = now;
    }

    /// Advances the time.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock();
        *now += by;
    }
}

impl Default for ManualClock {
    /// Returns a clock at January 1, 2026, 00:00 UTC.
    fn default() -> Self {
        Self::at(Timestamp::constant(1_767_225_600, 0))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_shows_the_time_that_the_test_set() {
        let clock = ManualClock::default();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        clock.advance(Duration::from_secs(90));
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
        clock.set(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
    }
}
