//! The share of each owner in what all owners of a daemon use: its connections, and the memory for request bodies.
//!
//! A connection counts for the owner whose request it carried last, also while it is idle or sends events. An owner
//! that has its share is refused, so that other owners get through. All owners together leave some connections for
//! checks of health and for callers that are about to send their token. The operator has no such limits, and neither
//! has a daemon without a database.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::connection_state::ConnectionLimits;
use crate::limits::{OWNER_BODIES_BYTES_MAX, OWNERS_WITH_FULL_SHARE};

/// The limits of the owners of a daemon.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShareLimits {
    /// The most connections of one owner.
    pub(super) connections: usize,
    /// The most connections of all owners together.
    pub(super) all_connections: usize,
    /// The most bytes of request bodies of one owner.
    pub(super) body_bytes: usize,
}

/// The shares that owners have taken.
#[derive(Debug)]
pub(super) struct OwnerShares {
    limits: ShareLimits,
    taken: Mutex<TakenShares>,
}

#[derive(Debug, Default)]
struct TakenShares {
    /// The connections of all owners.
    connections: usize,
    /// The owners with a connection.
    owners: HashMap<Arc<str>, OwnerShare>,
}

#[derive(Debug, Default)]
struct OwnerShare {
    connections: usize,
    body_bytes: usize,
}

/// A connection of an owner, counted until it is dropped.
#[derive(Debug)]
pub(super) struct OwnerConnection {
    shares: Arc<OwnerShares>,
    owner: Arc<str>,
}

/// Bytes of a request body of an owner, given back when they are dropped.
#[derive(Debug)]
pub(super) struct OwnerBodyBytes {
    connection: Arc<OwnerConnection>,
    bytes: usize,
}

/// The reason why an owner gets no further connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoConnectionLeft {
    /// The owner has its share.
    OfOwner,
    /// All owners together have as many as they may have.
    OfAll,
}

impl ShareLimits {
    /// Returns the limits for a daemon with this many connections.
    pub(super) fn new(connections_max: usize) -> Self {
        let ConnectionLimits { at_address, unauthenticated, .. } =
            ConnectionLimits::new(connections_max);
        Self {
            connections: (at_address / OWNERS_WITH_FULL_SHARE).max(1),
            all_connections: (at_address - unauthenticated).max(1),
            body_bytes: OWNER_BODIES_BYTES_MAX,
        }
    }
}

impl OwnerShares {
    pub(super) fn new(limits: ShareLimits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default() })
    }

    /// Counts a connection of an owner until the returned value is dropped.
    pub(super) fn connect(
        self: &Arc<Self>,
        owner: &str,
    ) -> Result<Arc<OwnerConnection>, NoConnectionLeft> {
        let mut taken = self.taken.lock();
        let of_owner = taken.owners.get(owner).map_or(0, |share| share.connections);
        if of_owner >= self.limits.connections {
            return Err(NoConnectionLeft::OfOwner);
        }
        if taken.connections >= self.limits.all_connections {
            return Err(NoConnectionLeft::OfAll);
        }
        let owner: Arc<str> = match taken.owners.get_key_value(owner) {
            Some((known, _)) => Arc::clone(known),
            None => owner.into(),
        };
        taken.connections += 1;
        taken.owners.entry(Arc::clone(&owner)).or_default().connections += 1;
        Ok(Arc::new(OwnerConnection { shares: Arc::clone(self), owner }))
    }
}

impl OwnerConnection {
    /// Returns the name of the owner.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the number of connections of the owner.
    pub(super) fn count(&self) -> usize {
        let taken = self.shares.taken.lock();
        taken.owners.get(&self.owner).map_or(0, |share| share.connections)
    }
}

impl Drop for OwnerConnection {
    fn drop(&mut self) {
        let mut taken = self.shares.taken.lock();
        taken.connections -= 1;
        if let Some(share) = taken.owners.get_mut(&self.owner) {
            share.connections -= 1;
            // Bytes of bodies are of requests, each of which has a connection.
            if share.connections == 0 {
                taken.owners.remove(&self.owner);
            }
        }
    }
}

impl OwnerBodyBytes {
    /// Returns no bytes yet, for a request that came over this connection.
    pub(super) const fn new(connection: Arc<OwnerConnection>) -> Self {
        Self { connection, bytes: 0 }
    }

    /// Takes further bytes from the share of the owner; returns false if it has fewer left.
    #[must_use]
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let OwnerConnection { shares, owner } = &*self.connection;
        let mut taken = shares.taken.lock();
        let share = taken.owners.entry(Arc::clone(owner)).or_default();
        if share.body_bytes.saturating_add(bytes) > shares.limits.body_bytes {
            return false;
        }
        share.body_bytes += bytes;
        self.bytes += bytes;
        true
    }
}

impl Drop for OwnerBodyBytes {
    fn drop(&mut self) {
        let OwnerConnection { shares, owner } = &*self.connection;
        if let Some(share) = shares.taken.lock().owners.get_mut(owner) {
            share.body_bytes -= self.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> Arc<OwnerShares> {
        let limits = ShareLimits { connections: 2, all_connections: 3, body_bytes: 10 };
        OwnerShares::new(limits)
    }

    #[test]
    fn an_owner_gets_its_share_of_connections_and_all_owners_leave_some() {
        let shares = shares();
        let first = shares.connect("a").unwrap();
        let second = shares.connect("a").unwrap();
        assert_eq!((second.owner(), second.count()), ("a", 2));
        assert_eq!(shares.connect("a").unwrap_err(), NoConnectionLeft::OfOwner);
        let other = shares.connect("b").unwrap();
        assert_eq!(other.count(), 1);
        assert_eq!(shares.connect("b").unwrap_err(), NoConnectionLeft::OfAll);
        drop(first);
        assert_eq!(second.count(), 1);
        let third = shares.connect("b").unwrap();
        drop((second, third, other));
        let taken = shares.taken.lock();
        assert_eq!((taken.connections, taken.owners.len()), (0, 0));
    }

    #[test]
    fn bytes_of_bodies_count_for_the_owner_of_their_connection() {
        let shares = shares();
        let [first, second] = [(), ()].map(|()| shares.connect("a").unwrap());
        let mut body = OwnerBodyBytes::new(first);
        let mut other_body = OwnerBodyBytes::new(Arc::clone(&second));
        assert!(body.take(6));
        assert!(!other_body.take(5));
        assert!(other_body.take(4));
        assert!(OwnerBodyBytes::new(shares.connect("b").unwrap()).take(10));
        drop(body);
        assert!(!other_body.take(7));
        assert!(other_body.take(6));
        drop(other_body);
        assert!(OwnerBodyBytes::new(second).take(10));
    }

    #[test]
    fn owners_leave_as_many_connections_as_callers_without_a_token_may_have() {
        fn check(connections_max: usize, expected: (usize, usize)) {
            let limits = ShareLimits::new(connections_max);
            assert_eq!((limits.connections, limits.all_connections), expected);
        }
        check(4_096, (1_008, 3_776));
        check(32, (6, 12));
        check(1, (1, 1));
    }
}
