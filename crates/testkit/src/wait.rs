//! Waiting in tests. Nothing else in them may sleep.

#![expect(
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "the one place where a test sleeps, and fails when its time is over"
)]

use std::fmt::Debug;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A test that has waited this long fails. Far more than what is waited for takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// Bounds of the time between two polls. It grows with the time that has passed, since each poll takes from the machine.
const INTERVAL_MIN: Duration = Duration::from_millis(1);
const INTERVAL_MAX: Duration = Duration::from_millis(50);

/// Polls until there is a value, and fails with the last error after two minutes. Blocks the thread.
#[track_caller]
pub fn eventually<T, E: Debug>(mut poll: impl FnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match poll() {
            Ok(value) => return value,
            Err(found) if begun.elapsed() > LIMIT => panic!("after {LIMIT:?} still: {found:?}"),
            Err(_) => sleep((begun.elapsed() / 20).clamp(INTERVAL_MIN, INTERVAL_MAX)),
        }
    }
}

/// Lets time pass before a fault, such as a kill. Blocks the thread.
///
/// The moment of the fault is the input of such a test. No claim may depend on how long this takes.
pub fn delay_fault(delay: Duration) {
    sleep(delay);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_returned_as_soon_as_there_is_one() {
        let mut left = 3_u32;
        let polled = eventually(|| {
            left -= 1;
            if left == 0 { Ok("done") } else { Err(left) }
        });
        assert_eq!((polled, left), ("done", 0));
    }
}
