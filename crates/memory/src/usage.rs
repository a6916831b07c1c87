//! Usage of memories, and their heat: usage weighted by age.
//!
//! A use is an agent's view, create, replacement, insertion or rename, a person's save, or a pin. The store counts the
//! uses; this module computes the heat.

use crate::clock::Timestamp;
use crate::limits::HEAT_HALF_LIFE;

/// The usage of a memory on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of uses of any kind.
    pub uses: u64,
    /// The time of the last use.
    pub last_used_at: Option<Timestamp>,
    /// The time of the last use that wrote the memory.
    pub last_written_at: Option<Timestamp>,
}

impl Usage {
    /// Returns the number of uses without the creation: the first write of a memory says that it is new, not that it is
    /// needed.
    pub fn uses_after_creation(&self) -> u64 {
        self.uses.saturating_sub(u64::from(self.last_written_at.is_some()))
    }

    /// Returns the heat at `now`: the number of uses after the creation, halved for every [`HEAT_HALF_LIFE`] since the
    /// last use. A last use in the future counts as a use at `now`.
    pub fn heat(&self, now: Timestamp) -> f64 {
        let Some(last) = self.last_used_at else { return 0.0 };
        let age = now.duration_since(last).as_secs_f64().max(0.0);
        #[expect(clippy::cast_precision_loss, reason = "a count beyond 2^52 uses is not reached")]
        let uses = self.uses_after_creation() as f64;
        uses * 0.5_f64.powf(age / HEAT_HALF_LIFE.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: i64 = 7 * 24 * 60 * 60;

    fn heat(uses: u64, age_seconds: i64) -> f64 {
        let last = Timestamp::UNIX_EPOCH;
        let now = Timestamp::from_second(age_seconds).unwrap();
        Usage { uses, last_used_at: Some(last), last_written_at: None }.heat(now)
    }

    #[test]
    fn heat_halves_each_week() {
        assert!((heat(8, WEEK) - 4.0).abs() < 1e-9);
        assert!(heat(8, 4 * WEEK) < heat(1, 0));
        assert!(heat(3, WEEK) > heat(2, WEEK));
    }

    #[test]
    fn a_clock_that_went_back_never_exceeds_the_count() {
        assert!((heat(5, -WEEK) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn the_creation_is_no_use() {
        let now = Timestamp::UNIX_EPOCH;
        let usage =
            |uses, last_written_at| Usage { uses, last_used_at: Some(now), last_written_at };
        assert!(usage(1, Some(now)).heat(now).abs() < f64::EPSILON);
        assert_eq!(usage(3, Some(now)).uses_after_creation(), 2);
        // A memory that came from elsewhere was never created here.
        assert_eq!(usage(1, None).uses_after_creation(), 1);
    }

    #[test]
    fn an_unused_memory_has_no_heat() {
        assert!(Usage::default().heat(Timestamp::UNIX_EPOCH).abs() < f64::EPSILON);
    }
}
