//! The system clock, for hosts. Tests use a clock of their own.

use std::time::SystemTime;

use memory::clock::{Clock, Timestamp};

/// The [`Clock`] of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that the rest is given")]
    fn now(&self) -> Timestamp {
        Timestamp::try_from(SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}
