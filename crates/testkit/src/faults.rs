//! Injected faults in the calls of test doubles.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use state::StateError;
use tokio::sync::watch;

use crate::faulty_backend::{self, FaultPlan};

/// The calls that fail; the first call after they are set has number 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// No call fails.
    #[default]
    Never,
    /// Only this call fails, without any effect.
    Call(u64),
    /// All calls after this one fail, as if the process had died.
    CrashAfter(u64),
    /// This call has its effect but fails, and all later ones fail.
    CrashBeforeAnswer(u64),
    /// This call and all later ones block, without any effect, until other faults are set. Like a process that is
    /// stopped and continued.
    Pause(u64),
    /// Only this call panics, without any effect.
    Panic(u64),
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallOutcome {
    Answered,
    Unanswered,
    Refused,
    Paused,
    Panics,
}

/// Counts calls and decides the outcome of each.
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
    /// Returns an injector whose calls are steps of a plan.
    pub(crate) fn with_plan(plan: Arc<FaultPlan>) -> Self {
        Self { plan: Some(plan), ..Self::default() }
    }

    /// Sets the failing calls, counted from now.
    pub(crate) fn set(&self, faults: Faults) {
        self.calls.store(0, Ordering::SeqCst);
        self.faults.send_replace(faults);
    }

    /// Returns the number of calls since the faults were set.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Returns the number of calls that have not returned yet.
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

    /// Runs a call, or makes it fail.
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
                // Never fails: `self` owns the sender.
                drop(faults.wait_for(|faults| !matches!(faults, Faults::Pause(_))).await);
                call.await
            }
            CallOutcome::Panics => panic!("injected by the test"),
        }
    }
}

/// Implements a port by delegating each method to the wrapped double as a call that may fail. Methods in the braces are
/// taken as they are. A macro, because a function cannot implement the methods of a trait.
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
        operation: "run a failing call",
        database: "faulty".to_owned(),
        source: "injected by the test".into(),
    }
}
