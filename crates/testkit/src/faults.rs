//! Which calls of a double fail, counted over all the doubles that share the count.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use state::StateError;
use tokio::sync::watch;

use crate::faulty_backend::{self, FaultPlan};

/// Which calls fail; the first call after they are set is number 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// None.
    #[default]
    Never,
    /// This one alone, without any effect.
    Call(u64),
    /// All after this one, as if the process had died then.
    CrashAfter(u64),
    /// This one has its effect and is never answered, and all after it fail.
    CrashBeforeAnswer(u64),
    /// This one and all after it wait, without any effect, until other faults are set: as if somebody had
    /// stopped the process and let it go on.
    Pause(u64),
    /// This one alone panics, without any effect.
    Panic(u64),
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallOutcome {
    Answered,
    Unanswered,
    Refused,
    Paused,
    Panics,
}

/// Counts calls and decides on each.
#[derive(Debug, Default)]
pub(crate) struct FaultInjector {
    plan: Option<Arc<FaultPlan>>,
    faults: watch::Sender<Faults>,
    calls: AtomicU64,
    pending: AtomicU64,
}

/// Counts a call as pending until it is dropped.
struct PendingCall<'f>(&'f AtomicU64);

impl<'f> PendingCall<'f> {
    fn new(pending: &'f AtomicU64) -> Self {
        pending.fetch_add(1, Ordering::SeqCst);
        Self(pending)
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FaultInjector {
    /// Returns the fates of calls that are steps of a plan.
    pub(crate) fn with_plan(plan: Arc<FaultPlan>) -> Self {
        Self { plan: Some(plan), ..Self::default() }
    }

    /// Sets which calls fail, counted from here.
    pub(crate) fn set(&self, faults: Faults) {
        self.calls.store(0, Ordering::SeqCst);
        self.faults.send_replace(faults);
    }

    /// Returns how many calls there were since then.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns how many calls were made and have not returned.
    pub(crate) fn pending(&self) -> u64 {
        self.pending.load(Ordering::SeqCst)
    }

    fn next(&self) -> CallOutcome {
        if let Some(plan) = &self.plan {
            return match plan.next_outcome() {
                faulty_backend::StepOutcome::Done => CallOutcome::Answered,
                faulty_backend::StepOutcome::Refused | faulty_backend::StepOutcome::Short => {
                    CallOutcome::Refused
                }
                faulty_backend::StepOutcome::Unanswered => CallOutcome::Unanswered,
            };
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match *self.faults.borrow() {
            Faults::Call(failing) if call == failing => CallOutcome::Refused,
            Faults::CrashAfter(last) if call > last => CallOutcome::Refused,
            Faults::CrashBeforeAnswer(last) if call == last => CallOutcome::Unanswered,
            Faults::CrashBeforeAnswer(last) if call > last => CallOutcome::Refused,
            Faults::Pause(first) if call >= first => CallOutcome::Paused,
            Faults::Panic(breaking) if call == breaking => CallOutcome::Panics,
            Faults::Never
            | Faults::Call(_)
            | Faults::CrashAfter(_)
            | Faults::CrashBeforeAnswer(_)
            | Faults::Pause(_)
            | Faults::Panic(_) => CallOutcome::Answered,
        }
    }

    /// Makes a call, or lets it fail.
    #[expect(clippy::panic, reason = "a test asked for it")]
    pub(crate) async fn run<T>(
        &self,
        call: impl Future<Output = Result<T, StateError>> + Send,
    ) -> Result<T, StateError> {
        let _pending = PendingCall::new(&self.pending);
        match self.next() {
            CallOutcome::Answered => call.await,
            CallOutcome::Unanswered => {
                call.await?;
                Err(fault())
            }
            CallOutcome::Refused => Err(fault()),
            CallOutcome::Paused => {
                let mut faults = self.faults.subscribe();
                // The sender lives as long as this does.
                drop(faults.wait_for(|faults| !matches!(faults, Faults::Pause(_))).await);
                call.await
            }
            CallOutcome::Panics => panic!("the test wants it"),
        }
    }
}

/// Implements a port by that of the double inside: each method is a call that may fail. Methods in the braces are no
/// such calls. A macro, since a function cannot stand for the methods of a trait.
macro_rules! faulty {
    (
        $port:ident for $double:ident { $($other:tt)* }
        $($name:ident($($argument:ident: $type:ty),*) -> $done:ty;)+
    ) => {
        #[async_trait::async_trait]
        impl $port for $double {
            $(
                async fn $name(&self, $($argument: $type),*) -> Result<$done, StateError> {
                    self.injector.run(self.inner.$name($($argument),*)).await
                }
            )+
            $($other)*
        }
    };
}
pub(crate) use faulty;

fn fault() -> StateError {
    StateError::Failed {
        wanted: "go on",
        path: PathBuf::from("faulty"),
        source: "a fault that the test asked for".into(),
    }
}
