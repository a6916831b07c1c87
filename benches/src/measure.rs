//! Times of compared sides: passes that take turns, and the quantiles and ratios of their times.
//!
//! Ratios are computed within a turn, so a machine that slows down during a run affects both sides alike.

use std::time::{Duration, Instant};

/// The times of one side, pass by pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Times {
    passes: Vec<Vec<Duration>>,
}

impl Times {
    /// Begins another pass.
    pub(crate) fn begin_pass(&mut self) {
        self.passes.push(Vec::new());
    }

    /// Runs `work` and records its time.
    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = work();
        self.add(started.elapsed());
        result
    }

    /// Records a time that the caller measured.
    pub(crate) fn add(&mut self, took: Duration) {
        match self.passes.last_mut() {
            Some(pass) => pass.push(took),
            None => self.passes.push(vec![took]),
        }
    }

    /// Returns the number of recorded times.
    pub(crate) fn count(&self) -> usize {
        self.passes.iter().map(Vec::len).sum()
    }

    /// Returns the median of the passes' medians, so that one pass on a busy machine does not count.
    pub(crate) fn p50(&self) -> Duration {
        let mut medians: Vec<Duration> =
            self.passes.iter().filter_map(|pass| quantile(pass, 50)).collect();
        medians.sort_unstable();
        medians.get(medians.len() / 2).copied().unwrap_or_default()
    }

    /// Returns the time within which the fastest tenth of the calls ended, which noise of the machine affects least.
    pub(crate) fn p10(&self) -> Duration {
        quantile(&self.passes.concat(), 10).unwrap_or_default()
    }

    /// Returns the time within which 95 of 100 calls ended, over all passes.
    pub(crate) fn p95(&self) -> Duration {
        quantile(&self.passes.concat(), 95).unwrap_or_default()
    }

    /// Returns the time within which 99 of 100 calls ended, over all passes.
    pub(crate) fn p99(&self) -> Duration {
        quantile(&self.passes.concat(), 99).unwrap_or_default()
    }

    /// Returns the ratio of this side's time to that of `other`: the median over the turns.
    pub(crate) fn ratio_to(&self, other: &Self) -> f64 {
        self.against(other, |own, other| own / other)
    }

    /// Returns the seconds that this side took longer than `other`: the median over the turns.
    pub(crate) fn more_than(&self, other: &Self) -> f64 {
        self.against(other, |own, other| own - other)
    }

    /// Compares each pass with the other side's pass of the same turn, and returns the median.
    fn against(&self, other: &Self, compare: impl Fn(f64, f64) -> f64) -> f64 {
        let seconds = |pass: &Vec<Duration>| Some(quantile(pass, 50)?.as_secs_f64());
        let pairs = self.passes.iter().zip(&other.passes);
        let mut compared: Vec<f64> = pairs
            .filter_map(|(own, other)| Some(compare(seconds(own)?, seconds(other)?)))
            .collect();
        compared.sort_unstable_by(f64::total_cmp);
        compared.get(compared.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Returns the value that `percent` of a hundred times do not exceed.
fn quantile(times: &[Duration], percent: usize) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied()
}

/// One side of a comparison.
pub(crate) trait Contender {
    /// Runs one pass and records its times; work outside of [`Times::time`] does not count.
    fn pass(&mut self, times: &mut Times) -> anyhow::Result<()>;
}

impl<F: FnMut(&mut Times) -> anyhow::Result<()>> Contender for F {
    fn pass(&mut self, times: &mut Times) -> anyhow::Result<()> {
        self(times)
    }
}

/// Runs `passes` turns of all sides, after one turn that does not count, and returns the times of each side.
pub(crate) fn run_alternating<const N: usize>(
    passes: usize,
    mut sides: [&mut dyn Contender; N],
) -> anyhow::Result<[Times; N]> {
    let mut all = [const { Times { passes: Vec::new() } }; N];
    for side in &mut sides {
        side.pass(&mut Times::default())?;
    }
    for index in turns(passes, N) {
        all[index].begin_pass();
        sides[index].pass(&mut all[index])?;
    }
    Ok(all)
}

/// Yields the index of the side that runs next, for `passes` turns of all sides. Every other turn runs backwards, so
/// that no side always follows the same neighbor.
pub(crate) fn turns(passes: usize, sides: usize) -> impl Iterator<Item = usize> {
    (0..passes * sides).map(move |step| {
        let (turn, place) = (step / sides, step % sides);
        if turn.is_multiple_of(2) { place } else { sides - 1 - place }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(passes: &[&[u64]]) -> Times {
        let micros = |pass: &&[u64]| pass.iter().copied().map(Duration::from_micros).collect();
        Times { passes: passes.iter().map(micros).collect() }
    }

    #[test]
    fn a_quantile_is_one_of_the_recorded_times() {
        let check = |taken: &[u64], percent, expected: Option<u64>| {
            let taken: Vec<_> = taken.iter().copied().map(Duration::from_micros).collect();
            assert_eq!(quantile(&taken, percent), expected.map(Duration::from_micros));
        };
        check(&[], 50, None);
        check(&[7], 50, Some(7));
        check(&[7], 95, Some(7));
        check(&[4, 1, 3, 2], 50, Some(2));
        check(&(1..=100).collect::<Vec<_>>(), 95, Some(95));
    }

    #[test]
    fn a_single_slow_pass_changes_p95_but_not_p50() {
        let taken = times(&[&[10, 10, 10], &[900, 900, 900], &[11, 11, 11]]);
        assert_eq!(taken.p50(), Duration::from_micros(11));
        assert_eq!(taken.p10(), Duration::from_micros(10));
        assert_eq!(taken.p95(), Duration::from_micros(900));
        assert_eq!(taken.count(), 9);
    }

    #[test]
    fn sides_are_compared_within_a_turn() {
        // The machine slows down fivefold after the first turn; the ratio stays what it is.
        let own = times(&[&[20], &[100], &[100]]);
        let other = times(&[&[10], &[50], &[50]]);
        assert!((own.ratio_to(&other) - 2.0).abs() < f64::EPSILON);
        assert!((own.more_than(&other) - 0.000_05).abs() < f64::EPSILON);
        assert!(own.ratio_to(&Times::default()).is_nan());
    }

    #[test]
    fn sides_alternate_and_the_first_turn_does_not_count() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name: char| {
            let order = &order;
            move |times: &mut Times| {
                order.borrow_mut().push(name);
                times.add(Duration::from_micros(1));
                Ok(())
            }
        };
        let (mut a, mut b) = (side('a'), side('b'));
        let taken = run_alternating(3, [&mut a, &mut b]).unwrap();
        assert_eq!(*order.borrow(), "ababbaab");
        assert_eq!(taken, [times(&[&[1], &[1], &[1]]), times(&[&[1], &[1], &[1]])]);
    }
}
