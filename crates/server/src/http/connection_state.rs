//! The state of a connection: its peer, whether it has authenticated, and the owner that it counts for.
//!
//! The number of unauthenticated connections is limited. When the table is full, the oldest one is closed for a new
//! one. A client without the token can therefore only evict other such clients, and never one that has the token.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::owner_shares::{NoConnectionLeft, OwnerConnection, OwnerShares};
use crate::limits::{HTTP_SOCKET_CONNECTIONS_RESERVED, HTTP_UNAUTHENTICATED_MAX};

/// The limits of connections. With a small limit for all, the others shrink in proportion.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    pub(super) all: usize,
    /// Those at the address; the others are reserved for the socket.
    pub(super) at_address: usize,
    /// Those at the address that have not authenticated.
    pub(super) unauthenticated: usize,
}

impl ConnectionLimits {
    pub(super) fn new(all: usize) -> Self {
        let at_address = all - HTTP_SOCKET_CONNECTIONS_RESERVED.min(all / 4);
        let unauthenticated = HTTP_UNAUTHENTICATED_MAX.min(at_address / 2).max(1);
        Self { all, at_address, unauthenticated }
    }
}

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
    /// The owner that it counts for; `None` if it carried no request of an owner.
    owner: Arc<Mutex<Option<Arc<OwnerConnection>>>>,
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
        let state = ConnectionState { slot: Some(Arc::new(slot)), ..ConnectionState::exempt(peer) };
        (state, evicted)
    }
}

impl ConnectionState {
    /// Returns the state of a connection that is never evicted.
    pub(super) fn exempt(peer: Peer) -> Self {
        Self { peer, closed: CancellationToken::new(), slot: None, owner: Arc::default() }
    }

    /// Returns the token that is cancelled when the connection has ended.
    pub(super) const fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    pub(super) const fn peer(&self) -> Peer {
        self.peer
    }

    /// Counts the connection for the owner of a request, instead of the one that it counted for.
    pub(super) fn count_for(
        &self,
        owner: &str,
        shares: &Arc<OwnerShares>,
    ) -> Result<Arc<OwnerConnection>, NoConnectionLeft> {
        let mut counted = self.owner.lock();
        if let Some(known) = counted.as_ref().filter(|known| known.owner() == owner) {
            return Ok(Arc::clone(known));
        }
        let connection = shares.connect(owner)?;
        *counted = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Counts the connection for no owner.
    pub(super) fn count_for_none(&self) {
        *self.owner.lock() = None;
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
    use crate::http::owner_shares::ShareLimits;

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

    #[test]
    fn a_connection_counts_for_the_owner_that_used_it_last() {
        let limits = ShareLimits { connections: 1, all_connections: 3, body_bytes: 0 };
        let shares = OwnerShares::new(limits);
        let [one, other] = [(), ()].map(|()| ConnectionState::exempt(Peer::Socket));
        for _ in 0..2 {
            assert_eq!(one.count_for("a", &shares).unwrap().count(), 1);
        }
        assert_eq!(other.count_for("a", &shares).unwrap_err(), NoConnectionLeft::OfOwner);
        one.count_for("b", &shares).unwrap();
        other.count_for("a", &shares).unwrap();
        assert_eq!(one.count_for("a", &shares).unwrap_err(), NoConnectionLeft::OfOwner);
        // A request that outlives its connection counts until it is done.
        let request = other.count_for("a", &shares).unwrap();
        drop(other);
        one.count_for("a", &shares).unwrap_err();
        drop(request);
        one.count_for("a", &shares).unwrap();
        one.count_for_none();
        shares.connect("a").unwrap();
    }
}
