//! The peers of connections, and whether their requests have shown the token yet.
//!
//! Those that have not are strangers. They are few. When one more comes, the one that came first makes room for it: whoever opens
//! connections and has no token takes them from his own kind, and keeps nobody out who has it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Peer {
    /// Another program on this machine, through the socket in the state folder.
    Socket,
    /// An address.
    Address(IpAddr),
}

/// The connections whose requests have not shown the token yet.
#[derive(Debug)]
pub(super) struct UnauthenticatedConnections {
    max: usize,
    open: Mutex<OpenConnections>,
}

/// Those that are open, in the order of coming.
#[derive(Debug, Default)]
struct OpenConnections {
    last: u64,
    cancellations: BTreeMap<u64, CancellationToken>,
}

/// The other end of a connection, and whether it has shown the token. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct ConnectionState {
    peer: Peer,
    /// Cancelled when its connection has ended.
    closed: CancellationToken,
    /// Where it stands among strangers; `None` if it never was one.
    slot: Option<Arc<ConnectionSlot>>,
}

#[derive(Debug)]
struct ConnectionSlot {
    number: u64,
    connections: Arc<UnauthenticatedConnections>,
    is_authenticated: AtomicBool,
}

impl UnauthenticatedConnections {
    /// Returns room for at most `max` connections.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, open: Mutex::default() })
    }

    /// Lets a connection in; returns who that is, and what is cancelled when it has to make room.
    pub(super) fn register(self: &Arc<Self>, peer: Peer) -> (ConnectionState, CancellationToken) {
        let mut here = self.open.lock();
        while here.cancellations.len() >= self.max
            && let Some((_, first)) = here.cancellations.pop_first()
        {
            first.cancel();
        }
        here.last += 1;
        let (number, cut_off) = (here.last, CancellationToken::new());
        here.cancellations.insert(number, cut_off.clone());
        let strangers = Arc::clone(self);
        let place = ConnectionSlot {
            number,
            connections: strangers,
            is_authenticated: AtomicBool::new(false),
        };
        (
            ConnectionState { peer, closed: CancellationToken::new(), slot: Some(Arc::new(place)) },
            cut_off,
        )
    }
}

impl ConnectionState {
    /// Returns one who makes room for nobody, token or not.
    pub(super) fn exempt(peer: Peer) -> Self {
        Self { peer, closed: CancellationToken::new(), slot: None }
    }

    /// Returns what is cancelled when its connection has ended.
    pub(super) const fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Returns where it comes from.
    pub(super) const fn peer(&self) -> Peer {
        self.peer
    }

    /// Notes that the token was shown: this connection makes room for nobody any more.
    pub(super) fn mark_authenticated(&self) {
        // All others wait while one leaves, so it leaves once.
        if let Some(place) = &self.slot
            && !place.is_authenticated.swap(true, Ordering::Relaxed)
        {
            place.remove();
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
    fn the_one_that_came_first_makes_room() {
        let strangers = UnauthenticatedConnections::new(2);
        let (first, first_cut) = strangers.register(Peer::Socket);
        let (_second, second_cut) = strangers.register(Peer::Socket);
        assert!(!first_cut.is_cancelled() && !second_cut.is_cancelled());
        let (_third, third_cut) = strangers.register(Peer::Socket);
        assert!(first_cut.is_cancelled() && !second_cut.is_cancelled());
        drop(first);
        let (_fourth, _) = strangers.register(Peer::Socket);
        assert!(second_cut.is_cancelled() && !third_cut.is_cancelled());
    }

    #[test]
    fn who_showed_the_token_or_went_takes_no_room() {
        let strangers = UnauthenticatedConnections::new(1);
        let (known, known_cut) = strangers.register(Peer::Socket);
        known.mark_authenticated();
        let (gone, gone_cut) = strangers.register(Peer::Socket);
        drop(gone);
        let (here, here_cut) = strangers.register(Peer::Socket);
        for cut in [known_cut, gone_cut, here_cut] {
            assert!(!cut.is_cancelled());
        }
        drop((known, here));
        assert_eq!(strangers.open.lock().cancellations.len(), 0);
    }
}
