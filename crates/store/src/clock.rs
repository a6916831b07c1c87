//! The system's clock.

use std::time::SystemTime;

use memory::clock::{Clock, Timestamp};

/// Tells the machine's time of day.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that the rest is given")]
    fn now(&self) -> Timestamp {
        Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}
