//! A sign of life for whatever takes longer than a second.
//!
//! Shown on stderr, only where that is a terminal, and gone without a trace afterwards.

use std::future::Future;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How long a person waits without being told anything.
const PROGRESS_SILENCE_MAX: Duration = Duration::from_secs(1);

/// How often a spinner turns.
const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

/// Waits for something and shows `doing` meanwhile, if it takes long and `shown` is true.
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

/// Counts steps, in a bar that appears after a second.
#[derive(Debug)]
pub(crate) struct StepProgress {
    bar: ProgressBar,
    visible: bool,
}

impl StepProgress {
    /// Begins to count up to `total`; with `shown` false nothing is ever drawn.
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
        self.bar.inc(1);
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
