//! What stands for children in a program that was built without them: there are none.

use std::convert::Infallible;
use std::future::Ready;
use std::sync::Arc;

use engine::{Engine, Runner};

use super::Runners;

/// No children.
#[derive(Clone, Debug)]
pub(super) struct Children(Infallible);

impl Children {
    /// Returns none.
    pub(super) const fn new(_: &Runners, _: &Engine) -> Option<Self> {
        None
    }

    /// Returns what has them do tasks.
    pub(super) const fn runner(&self) -> Arc<dyn Runner> {
        match self.0 {}
    }

    /// Stops them.
    pub(super) const fn close(&self) -> Ready<()> {
        match self.0 {}
    }
}
