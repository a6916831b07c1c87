//! The source of time, as a trait, so that tests can set the time.
//!
//! Code that needs the time takes a [`Clock`]. The system clock is in `store`, a manual one in the test kit. All times
//! are UTC.

use std::fmt::Debug;
use std::sync::Arc;

pub use jiff::Timestamp;

/// A source of the current time.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time of day in UTC. It may go backwards: callers must not rely on its order.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        C::now(self)
    }
}
