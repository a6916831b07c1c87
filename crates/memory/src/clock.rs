//! The time, as a value that is handed over.
//!
//! Code that needs to know what time it is takes a [`Clock`]; the system's own is in `store`, a
//! manual one in the test kit. Everything is UTC.

use std::fmt::Debug;
use std::sync::Arc;

pub use jiff::Timestamp;

/// Tells the time.
pub trait Clock: Debug + Send + Sync {
    /// Returns the time of day in UTC. May go backwards: nobody may rely on its order.
    fn now(&self) -> Timestamp;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        C::now(self)
    }
}
