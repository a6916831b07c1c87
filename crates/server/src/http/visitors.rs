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
pub(super) struct Strangers {
    max: usize,
    here: Mutex<Here>,
}

/// Those that are open, in the order of coming.
#[derive(Debug, Default)]
struct Here {
    last: u64,
    cut_off: BTreeMap<u64, CancellationToken>,
}

/// The other end of a connection, and whether it has shown the token. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    peer: Peer,
    /// Cancelled when its connection has ended.
    gone: CancellationToken,
    /// Where it stands among strangers; `None` if it never was one.
    place: Option<Arc<Place>>,
}

#[derive(Debug)]
struct Place {
    number: u64,
    strangers: Arc<Strangers>,
    is_known: AtomicBool,
}

impl Strangers {
    /// Returns room for at most `max` connections.
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, here: Mutex::default() })
    }

    /// Lets a connection in; returns who that is, and what is cancelled when it has to make room.
    pub(super) fn arrive(self: &Arc<Self>, peer: Peer) -> (Visitor, CancellationToken) {
        let mut here = self.here.lock();
        while here.cut_off.len() >= self.max
            && let Some((_, first)) = here.cut_off.pop_first()
        {
            first.cancel();
        }
        here.last += 1;
        let (number, cut_off) = (here.last, CancellationToken::new());
        here.cut_off.insert(number, cut_off.clone());
        let strangers = Arc::clone(self);
        let place = Place { number, strangers, is_known: AtomicBool::new(false) };
        (Visitor { peer, gone: CancellationToken::new(), place: Some(Arc::new(place)) }, cut_off)
    }
}

impl Visitor {
    /// Returns one who makes room for nobody, token or not.
    pub(super) fn no_stranger(peer: Peer) -> Self {
        Self { peer, gone: CancellationToken::new(), place: None }
    }

    /// Returns what is cancelled when its connection has ended.
    pub(super) const fn gone(&self) -> &CancellationToken {
        &self.gone
    }

    /// Returns where it comes from.
    pub(super) const fn peer(&self) -> Peer {
        self.peer
    }

    /// Notes that the token was shown: this connection makes room for nobody any more.
    pub(super) fn is_known(&self) {
        // All others wait while one leaves, so it leaves once.
        if let Some(place) = &self.place
            && !place.is_known.swap(true, Ordering::Relaxed)
        {
            place.leave();
        }
    }
}

impl Place {
    fn leave(&self) {
        self.strangers.here.lock().cut_off.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_that_came_first_makes_room() {
        let strangers = Strangers::new(2);
        let (first, first_cut) = strangers.arrive(Peer::Socket);
        let (_second, second_cut) = strangers.arrive(Peer::Socket);
        assert!(!first_cut.is_cancelled() && !second_cut.is_cancelled());
        let (_third, third_cut) = strangers.arrive(Peer::Socket);
        assert!(first_cut.is_cancelled() && !second_cut.is_cancelled());
        drop(first);
        let (_fourth, _) = strangers.arrive(Peer::Socket);
        assert!(second_cut.is_cancelled() && !third_cut.is_cancelled());
    }

    #[test]
    fn who_showed_the_token_or_went_takes_no_room() {
        let strangers = Strangers::new(1);
        let (known, known_cut) = strangers.arrive(Peer::Socket);
        known.is_known();
        let (gone, gone_cut) = strangers.arrive(Peer::Socket);
        drop(gone);
        let (here, here_cut) = strangers.arrive(Peer::Socket);
        for cut in [known_cut, gone_cut, here_cut] {
            assert!(!cut.is_cancelled());
        }
        drop((known, here));
        assert_eq!(strangers.here.lock().cut_off.len(), 0);
    }
}
