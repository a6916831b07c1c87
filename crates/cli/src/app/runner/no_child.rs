//! The placeholder for child processes in a program that was built without them.

use std::convert::Infallible;
use std::future::Ready;
use std::sync::Arc;

use engine::{Engine, Runner};

use super::RunnerConfig;

/// A pool that cannot exist.
#[derive(Clone, Debug)]
pub(super) struct Children(Infallible);

impl Children {
    /// Returns `None`, since this program has no children.
    pub(super) const fn new(_: &RunnerConfig, _: &Engine) -> Option<Self> {
        None
    }

    /// Never called.
    pub(super) const fn runner(&self) -> Arc<dyn Runner> {
        match self.0 {}
    }

    /// Never called.
    pub(super) const fn close(&self) -> Ready<()> {
        match self.0 {}
    }
}
