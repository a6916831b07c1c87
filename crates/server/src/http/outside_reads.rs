//! The table of readers over HTTP and whether each has read text that no person reviewed.
//!
//! Requests of the newest MCP revision and of the tool's own route belong to no session. All requests of one client,
//! in any workspace, therefore count as one reader until the client is idle for [`READER_IDLE_MAX`]. Requests without
//! a client name share one reader. An MCP session is a reader of its own until it ends.
//! The table is bounded: the reader that was idle longest is evicted.
//!
//! Daemons that share a database keep the flags there, because each request may reach another one.

use std::collections::HashMap;
use std::sync::Arc;

use engine::{OutsideReadFlag, OutsideReaders};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::{OUTSIDE_READERS_MAX, READER_IDLE_MAX};

/// The identity that groups requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum OutsideReader {
    /// A client, by the name that it sends; `None` for all without a name.
    Client(Option<String>),
    /// An MCP session, by its id.
    Session(String),
}

impl OutsideReader {
    /// Returns the name of the reader in the database. Names of clients are not empty.
    fn name(&self) -> String {
        match self {
            Self::Client(client) => format!("client {}", client.as_deref().unwrap_or_default()),
            Self::Session(id) => format!("session {id}"),
        }
    }
}

/// The flag of each reader, with the time of its last request.
#[derive(Debug)]
pub(super) struct OutsideReads {
    flags: Mutex<HashMap<OutsideReader, (OutsideReadFlag, Instant)>>,
    /// The readers of all daemons, if several serve them.
    shared: Option<Arc<dyn OutsideReaders>>,
}

impl OutsideReads {
    pub(super) fn new(shared: Option<Arc<dyn OutsideReaders>>) -> Self {
        Self { flags: Mutex::default(), shared }
    }

    fn unset_flag(&self, reader: &OutsideReader) -> OutsideReadFlag {
        match &self.shared {
            Some(readers) => {
                OutsideReadFlag::shared(Arc::clone(readers), &reader.name(), READER_IDLE_MAX)
            }
            None => OutsideReadFlag::default(),
        }
    }

    /// Returns the flag of a reader; a new one if the reader is unknown or was idle too long.
    pub(super) fn get_or_insert(&self, reader: OutsideReader) -> OutsideReadFlag {
        let mut readers = self.flags.lock();
        let now = Instant::now();
        let is_current = |reader: &OutsideReader, last_request: Instant| {
            matches!(reader, OutsideReader::Session(_))
                || now.duration_since(last_request) <= READER_IDLE_MAX
        };
        if readers.len() >= OUTSIDE_READERS_MAX && !readers.contains_key(&reader) {
            // First drop what carries no information: idle readers, and flags that are not set.
            readers.retain(|reader, (flag, last)| is_current(reader, *last) && flag.is_known_set());
        }
        if readers.len() >= OUTSIDE_READERS_MAX
            && let Some(oldest) = readers.iter().min_by_key(|(_, (_, last_request))| *last_request)
        {
            let oldest = oldest.0.clone();
            readers.remove(&oldest);
        }
        let is_valid = readers.get(&reader).is_none_or(|(_, last)| is_current(&reader, *last));
        if !is_valid {
            readers.remove(&reader);
        }
        let entry = readers.entry(reader);
        let entry = entry.or_insert_with_key(|reader| (self.unset_flag(reader), now));
        entry.1 = now;
        entry.0.clone()
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
    async fn requests_of_one_client_share_a_flag_until_the_client_is_idle() {
        let readers = OutsideReads::new(None);
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
    async fn the_number_of_readers_is_bounded() {
        let readers = OutsideReads::new(None);
        for number in 0..OUTSIDE_READERS_MAX + 10 {
            readers.get_or_insert(reader(&number.to_string()));
        }
        assert!(readers.flags.lock().len() <= OUTSIDE_READERS_MAX);
    }
}
