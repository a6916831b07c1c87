//! The last events of a feed, each with its number.
//!
//! One lock, held for the length of a push or a look. Numbers count from 1. How much was ever published
//! is counted beside the events, so that what lies between two places is a subtraction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use memory::clock::Timestamp;
use tokio::sync::watch;

use super::news::News;

/// Events in order, of which the oldest are forgotten.
#[derive(Debug)]
pub(super) struct Ring {
    kept_max: usize,
    shelf: Mutex<Shelf>,
    /// Wakes whoever waits for more.
    grown: watch::Sender<()>,
}

/// What is in a ring.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    kept: VecDeque<Kept>,
    /// The number of the newest event.
    last: u64,
    /// Bytes of all events that are not kept any more.
    bytes_forgotten: u64,
}

/// An event in a ring.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// What happened.
    pub(super) news: Arc<News>,
    /// When it was published.
    pub(super) at: Timestamp,
    /// Bytes of all events up to this one.
    bytes_until: u64,
}

impl Ring {
    /// Returns an empty ring whose first event has the number after `last`.
    pub(super) fn after(last: u64, kept_max: usize) -> Self {
        let shelf = Mutex::new(Shelf { last, ..Shelf::default() });
        Self { kept_max, shelf, grown: watch::Sender::new(()) }
    }

    /// Adds an event.
    pub(super) fn push(&self, news: Arc<News>, at: Timestamp) {
        self.look(|shelf| {
            let bytes_until = shelf.bytes().saturating_add(news.bytes());
            shelf.kept.push_back(Kept { news, at, bytes_until });
            shelf.last += 1;
            if shelf.kept.len() > self.kept_max
                && let Some(oldest) = shelf.kept.pop_front()
            {
                shelf.bytes_forgotten = oldest.bytes_until;
            }
        });
        self.grown.send_replace(());
    }

    /// Says that something happened that nobody knows any more. It has a number that is never told, so
    /// each reader learns that it missed something.
    pub(super) fn push_lost(&self) {
        self.look(|shelf| {
            shelf.bytes_forgotten = shelf.bytes();
            shelf.kept.clear();
            shelf.last += 1;
        });
        self.grown.send_replace(());
    }

    /// Looks at, or changes, what is in it.
    pub(super) fn look<T>(&self, at: impl FnOnce(&mut Shelf) -> T) -> T {
        at(&mut self.shelf.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns what says that there is more.
    pub(super) fn growth(&self) -> watch::Receiver<()> {
        self.grown.subscribe()
    }
}

impl Shelf {
    /// Returns the number of the newest event, 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number before the oldest event that is kept.
    pub(super) fn before_first(&self) -> u64 {
        self.last - u64::try_from(self.kept.len()).unwrap_or(self.last)
    }

    /// Returns the event with this number, if it is kept.
    pub(super) fn get(&self, number: u64) -> Option<&Kept> {
        let index = number.checked_sub(self.before_first() + 1)?;
        self.kept.get(usize::try_from(index).ok()?)
    }

    /// Returns the bytes of all events that are kept after this number.
    pub(super) fn bytes_after(&self, number: u64) -> u64 {
        let until = self.get(number).map_or(self.bytes_forgotten, |kept| kept.bytes_until);
        if number >= self.last { 0 } else { self.bytes() - until }
    }

    /// Returns the number before the first of the newest events that fit into so many bytes together;
    /// the newest one always does.
    pub(super) fn before_newest(&self, bytes_max: u64) -> u64 {
        let before = self.before_first();
        if self.bytes_after(before) <= bytes_max {
            return before;
        }
        let bytes = self.bytes();
        let too_early = self.kept.partition_point(|kept| bytes - kept.bytes_until > bytes_max);
        let first = before + 1 + u64::try_from(too_early).unwrap_or(u64::MAX);
        first.min(self.last - 1)
    }

    fn bytes(&self) -> u64 {
        self.kept.back().map_or(self.bytes_forgotten, |kept| kept.bytes_until)
    }
}
