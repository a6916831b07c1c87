//! The clock that the file system uses for timestamps.
//!
//! It advances in ticks. Two writes within one tick get the same timestamp, so a file that was read
//! after the first write may change without a new timestamp. Timestamps distinguish versions only
//! after their tick is over.

use crate::os;

/// Longest tick of kernels, with a margin: they have 100 or more ticks a second.
const TICK_NANOS: i128 = 20_000_000;

/// Longest tick of file systems that store whole seconds.
const COARSE_TICK_NANOS: i128 = 2_000_000_000;

/// A time of this clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct FsTime {
    nanos: i128,
}

impl FsTime {
    pub(super) fn now() -> Self {
        let (seconds, nanoseconds) = os::file_time_now();
        Self { nanos: nanos(seconds, nanoseconds) }
    }

    /// Checks whether a write from this time on could get the given timestamp. A timestamp in the future counts as
    /// racy, since a later write may get it at any time.
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
    fn a_timestamp_is_racy_until_its_tick_is_over() {
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
