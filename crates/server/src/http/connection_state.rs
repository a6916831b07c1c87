//! The state of a connection: its peer, and whether it has authenticated.
//!
//! The number of unauthenticated connections is limited. When the table is full, the oldest one is closed for a new
//! one. A client without the token can therefore only evict other such clients, and never one that has the token.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// A program on this machine, through the socket in the state folder.
    Socket,
    /// A client at this address.
    Address(IpAddr),
}

/// The bounded table of connections that have not authenticated yet.
#[derive(Debug)]
pub(super) struct UnauthenticatedConnections {
    max: usize,
    open: Mutex<OpenConnections>,
}

/// The open ones, by their number, which grows with each connection.
#[derive(Debug, Default)]
struct OpenConnections {
    last: u64,
    cancellations: BTreeMap<u64, CancellationToken>,
}

/// The peer of a connection and its place in the table. Clones share the state.
#[derive(Clone, Debug)]
pub(super) struct ConnectionState {
    peer: Peer,
    /// Cancelled when its connection has ended.
    closed: CancellationToken,
    /// The entry in the table; `None` for an exempt connection.
    slot: Option<Arc<ConnectionSlot>>,
}

#[derive(Debug)]
struct ConnectionSlot {
    number: u64,
    connections: Arc<UnauthenticatedConnections>,
    is_authenticated: AtomicBool,
}

impl UnauthenticatedConnections {
    /// Creates a table of at most `max` connections.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default() })
    }

    /// Adds a connection, evicting the oldest if the table is full. The returned token is cancelled when this one is
    /// evicted.
    pub(super) fn register(self: &Arc<Self>, peer: Peer) -> (ConnectionState, CancellationToken) {
        let mut open = self.open.lock();
        while open.cancellations.len() >= self.max
            && let Some((_, oldest)) = open.cancellations.pop_first()
        {
            oldest.cancel();
        }
        open.last += 1;
        let (number, evicted) = (open.last, CancellationToken::new());
        open.cancellations.insert(number, evicted.clone());
        let slot = ConnectionSlot {
            number,
            connections: Arc::clone(self),
            is_authenticated: AtomicBool::new(false),
        };
        (
            ConnectionState { peer, closed: CancellationToken::new(), slot: Some(Arc::new(slot)) },
            evicted,
        )
    }
}

impl ConnectionState {
    /// Returns the state of a connection that is never evicted.
    pub(super) fn exempt(peer: Peer) -> Self {
        Self { peer, closed: CancellationToken::new(), slot: None }
    }

    /// Returns the token that is cancelled when the connection has ended.
    pub(super) const fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    pub(super) const fn peer(&self) -> Peer {
        self.peer
    }

    /// Removes the connection from the table, so that it is never evicted.
    pub(super) fn mark_authenticated(&self) {
        // Each request calls this; the flag avoids taking the lock of the table more than once.
        if let Some(slot) = &self.slot
            && !slot.is_authenticated.swap(true, Ordering::Relaxed)
        {
            slot.remove();
        }
    }
}

impl ConnectionSlot {
    fn remove(&self) {
        self.connections.open.lock().cancellations.remove(&self.number);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_is_evicted() {
        let table = UnauthenticatedConnections::new(2);
        let (first, first_evicted) = table.register(Peer::Socket);
        let (_second, second_evicted) = table.register(Peer::Socket);
        assert!(!first_evicted.is_cancelled() && !second_evicted.is_cancelled());
        let (_third, third_evicted) = table.register(Peer::Socket);
        assert!(first_evicted.is_cancelled() && !second_evicted.is_cancelled());
        drop(first);
        let (_fourth, _) = table.register(Peer::Socket);
        assert!(second_evicted.is_cancelled() && !third_evicted.is_cancelled());
    }

    #[test]
    fn authenticated_and_closed_connections_do_not_count() {
        let table = UnauthenticatedConnections::new(1);
        let (authenticated, authenticated_evicted) = table.register(Peer::Socket);
        authenticated.mark_authenticated();
        let (closed, closed_evicted) = table.register(Peer::Socket);
        drop(closed);
        let (open, open_evicted) = table.register(Peer::Socket);
        for evicted in [authenticated_evicted, closed_evicted, open_evicted] {
            assert!(!evicted.is_cancelled());
        }
        drop((authenticated, open));
        assert_eq!(table.open.lock().cancellations.len(), 0);
    }
}
