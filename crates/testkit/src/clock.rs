//! A clock that stands still until it is told otherwise.

use parking_lot::Mutex;
use std::time::Duration;

use memory::clock::{Clock, Timestamp};

/// A clock that a test sets. It may go backwards, as real ones do.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
}

impl ManualClock {
    /// Returns a clock that stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now: Mutex::new(now) }
    }

    /// Sets the time.
    pub fn set(&self, now: Timestamp) {
        *self.now.lock() = now;
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock();
        *now += by;
    }
}

impl Default for ManualClock {
    /// Returns a clock at the first of January 2026.
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
    fn the_time_is_what_the_test_says() {
        let clock = ManualClock::default();
        assert_eq!(clock.now().to_string(), "2026-01-01T00:00:00Z");
        clock.advance(Duration::from_secs(90));
        assert_eq!(clock.now().to_string(), "2026-01-01T00:01:30Z");
        clock.set(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
    }
}
