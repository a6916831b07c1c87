//! The clock that the file system dates writes with.
//!
//! It moves in ticks. Two writes within one tick have the same date, so what was read after the first
//! says nothing of the second: a date is good for telling versions apart only once it is past.

use rustix::time::{ClockId, clock_gettime};

/// The longest tick of kernels, with room: they have 100 of them in a second or more.
const TICK_NANOS: i128 = 20_000_000;

/// The longest tick of file systems that keep whole seconds.
const COARSE_TICK_NANOS: i128 = 2_000_000_000;

/// A moment by that clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct FsTime {
    nanos: i128,
}

impl FsTime {
    pub(super) fn now() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        Self { nanos: nanos(now.tv_sec, now.tv_nsec) }
    }

    /// Returns whether a write from this moment on could get this date too. One that lies ahead can be
    /// met again at any time.
    pub(super) fn is_racy(self, seconds: i64, nanoseconds: i64) -> bool {
        let tick = if nanoseconds == 0 { COARSE_TICK_NANOS } else { TICK_NANOS };
        nanos(seconds, nanoseconds) + tick >= self.nanos
    }
}

fn nanos(seconds: i64, nanoseconds: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_met_again_until_its_tick_is_over() {
        let now = FsTime { nanos: nanos(100, 500) };
        for (seconds, nanoseconds, expected) in [
            (100, 500, true),
            (100, 501, true),
            (101, 0, true),
            (99, 980_000_500, true),
            (99, 980_000_499, false),
            (99, 0, true),
            (98, 0, false),
            (3, 3, false),
        ] {
            assert_eq!(now.is_racy(seconds, nanoseconds), expected, "{seconds}.{nanoseconds}");
        }
    }
}
