//! Progress indicators for operations that take longer than a second.
//!
//! They are drawn on stderr, only if it is a terminal, and are cleared at the end.

use std::future::Future;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The time that an operation may take before its progress is shown.
const PROGRESS_SILENCE_MAX: Duration = Duration::from_secs(1);

/// The time between two frames of a spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

/// Awaits a future; shows a spinner with the text `doing` after a second, if `shown` is true.
pub(crate) async fn with_spinner<T>(
    doing: &str,
    shown: bool,
    future: impl Future<Output = T>,
) -> T {
    let mut future = std::pin::pin!(future);
    if !shown {
        return future.await;
    }
    if let Ok(done) = tokio::time::timeout(PROGRESS_SILENCE_MAX, future.as_mut()).await {
        return done;
    }
    let spinner = ProgressBar::new_spinner().with_message(doing.to_owned());
    spinner.enable_steady_tick(SPINNER_INTERVAL);
    let done = future.await;
    spinner.finish_and_clear();
    done
}

/// A progress bar over counted steps that appears after a second.
#[derive(Debug)]
pub(crate) struct StepProgress {
    bar: ProgressBar,
    visible: bool,
}

impl StepProgress {
    /// Creates a bar for `total` steps; with `shown` false it is never drawn.
    pub(crate) fn new(doing: &str, total: usize, shown: bool) -> Self {
        let total = u64::try_from(total).expect("a length fits 64 bits");
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_message(doing.to_owned());
        Self { bar, visible: !shown }
    }

    /// Counts one step.
    pub(crate) fn step(&mut self) {
        self.advance(1);
    }

    /// Counts several steps.
    pub(crate) fn advance(&mut self, steps: usize) {
        self.bar.inc(u64::try_from(steps).expect("a length fits 64 bits"));
        if !self.visible && self.bar.elapsed() >= PROGRESS_SILENCE_MAX {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.visible = true;
        }
    }
}

impl Drop for StepProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
