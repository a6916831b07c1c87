//! What each agent has read over HTTP that nobody here reviewed, from one request to the next.
//!
//! A request of the newest revision of MCP, or of the tool's own route, belongs to no session. The requests of one client, in
//! whatever workspace, are taken for a session that ends when nothing came for [`READER_IDLE_MAX`]; those without a name are
//! one client. A session of MCP is one until it ends.

use std::collections::HashMap;

use engine::OutsideReadFlag;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::{OUTSIDE_READERS_MAX, READER_IDLE_MAX};

/// Whose requests belong together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum OutsideReader {
    /// A client, by its name if it has one.
    Client(Option<String>),
    /// A session of MCP.
    Session(String),
}

/// What they have read.
#[derive(Debug, Default)]
pub(super) struct OutsideReads(Mutex<HashMap<OutsideReader, (OutsideReadFlag, Instant)>>);

impl OutsideReads {
    /// Returns what this one has read.
    pub(super) fn get_or_insert(&self, reader: OutsideReader) -> OutsideReadFlag {
        let mut readers = self.0.lock();
        let now = Instant::now();
        let is_current = |reader: &OutsideReader, heard: Instant| {
            matches!(reader, OutsideReader::Session(_))
                || now.duration_since(heard) <= READER_IDLE_MAX
        };
        if readers.len() >= OUTSIDE_READERS_MAX && !readers.contains_key(&reader) {
            readers.retain(|reader, (read, heard)| is_current(reader, *heard) && read.is_set());
        }
        if readers.len() >= OUTSIDE_READERS_MAX
            && let Some(oldest) = readers.iter().min_by_key(|(_, (_, heard))| *heard)
        {
            let oldest = oldest.0.clone();
            readers.remove(&oldest);
        }
        let is_heard = readers.get(&reader).is_none_or(|(_, heard)| is_current(&reader, *heard));
        let fresh = || (OutsideReadFlag::default(), now);
        let known = readers.entry(reader).or_insert_with(fresh);
        if !is_heard {
            *known = fresh();
        }
        known.1 = now;
        known.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn reader(client: &str) -> OutsideReader {
        OutsideReader::Client(Some(client.to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_one_client_share_what_it_read_until_it_rests() {
        let readers = OutsideReads::default();
        let first = readers.get_or_insert(reader("a"));
        assert!(readers.get_or_insert(reader("a")).is_same(&first));
        assert!(!readers.get_or_insert(reader("b")).is_same(&first));
        tokio::time::advance(READER_IDLE_MAX).await;
        assert!(readers.get_or_insert(reader("a")).is_same(&first));
        tokio::time::advance(READER_IDLE_MAX + Duration::from_secs(1)).await;
        assert!(!readers.get_or_insert(reader("a")).is_same(&first));
        let session = || readers.get_or_insert(OutsideReader::Session("s".to_owned()));
        let first = session();
        tokio::time::advance(READER_IDLE_MAX * 2).await;
        assert!(session().is_same(&first));
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_more_than_may_be() {
        let readers = OutsideReads::default();
        for number in 0..OUTSIDE_READERS_MAX + 10 {
            readers.get_or_insert(reader(&number.to_string()));
        }
        assert!(readers.0.lock().len() <= OUTSIDE_READERS_MAX);
    }
}
