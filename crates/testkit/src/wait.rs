//! Waiting in tests. All waits of tests go through this module, so that none sleeps for a guessed time.

#![expect(
    clippy::disallowed_methods,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "the only module where a test sleeps, and fails after its time limit"
)]

use std::fmt::Debug;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit of a wait, after which the test fails. Far longer than any wait takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// Bounds of the time between two polls. It grows with the elapsed time, because each poll costs CPU time.
const INTERVAL_MIN: Duration = Duration::from_millis(1);
const INTERVAL_MAX: Duration = Duration::from_millis(50);

/// Polls until there is a value; panics with the last error after two minutes. Blocks the thread.
#[track_caller]
pub fn eventually<T, E: Debug>(mut poll: impl FnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match poll() {
            Ok(value) => return value,
            Err(error) if begun.elapsed() > LIMIT => {
                panic!("no value after {LIMIT:?}; last error: {error:?}")
            }
            Err(_) => sleep((begun.elapsed() / 20).clamp(INTERVAL_MIN, INTERVAL_MAX)),
        }
    }
}

/// Sleeps before a fault, such as a kill. Blocks the thread.
///
/// The moment of the fault is the input of such a test. No assertion may depend on the duration.
pub fn delay_fault(delay: Duration) {
    sleep(delay);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_returned_as_soon_as_there_is_one() {
        let mut remaining = 3_u32;
        let polled = eventually(|| {
            remaining -= 1;
            if remaining == 0 { Ok("done") } else { Err(remaining) }
        });
        assert_eq!((polled, remaining), ("done", 0));
    }
}
