//! Rate limits of clients and of addresses: token buckets with a steady refill.
//!
//! A client is an address and the name that it sends. Because a caller can send a new name each time, the clients of
//! one address, or of one owner in a database, also share a larger bucket. The tables are bounded; beyond the bound, keys share a bucket.

use std::hash::{Hash, Hasher as _};
use std::num::NonZeroU32;
use std::sync::Arc;

use axum::http::HeaderValue;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::http::connection_state::Peer;
use crate::limits::{RATED_CLIENTS_MAX, RATED_CLIENTS_PER_ADDRESS_MAX};

/// The sender of requests that share a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum RatedSender {
    /// The peer of a connection, if it is known.
    Peer(Option<Peer>),
    /// An owner: all of its clients may have the address of one proxy.
    Owner(Arc<str>),
}

/// A sender, and a digest of the name that the client sends.
type ClientKey = (RatedSender, u64);

type Buckets<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// The buckets of all clients and addresses.
#[derive(Debug)]
pub(super) struct ClientRateLimiter {
    clock: DefaultClock,
    clients: Buckets<ClientKey>,
    senders: Buckets<RatedSender>,
}

impl ClientRateLimiter {
    /// Creates buckets with a capacity of one second's requests.
    pub(super) fn new(requests_a_second_max: NonZeroU32) -> Self {
        let clock = DefaultClock::default();
        let factor = NonZeroU32::MIN.saturating_add(RATED_CLIENTS_PER_ADDRESS_MAX - 1);
        let of_sender = Quota::per_second(requests_a_second_max.saturating_mul(factor));
        Self {
            clients: buckets(Quota::per_second(requests_a_second_max), &clock),
            senders: buckets(of_sender, &clock),
            clock,
        }
    }

    /// Takes a token. The error is the number of seconds until the next one.
    pub(super) fn check(&self, sender: RatedSender, name: Option<&HeaderValue>) -> Result<(), u64> {
        // A full table most likely comes from one client that changes its name, so new names share a bucket.
        let name = if has_room(&self.clients) { digest(name) } else { 0 };
        // The client's bucket first: a refused client takes no token from the others at its address.
        self.take(&self.clients, &(sender.clone(), name))?;
        // With a full table, new senders share the bucket of unknown peers.
        let sender = if has_room(&self.senders) { sender } else { RatedSender::Peer(None) };
        self.take(&self.senders, &sender)
    }

    fn take<K: Hash + Eq + Clone>(&self, buckets: &Buckets<K>, key: &K) -> Result<(), u64> {
        buckets.check_key(key).map_err(|early| {
            let wait = early.wait_time_from(self.clock.now());
            wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
        })
    }
}

fn buckets<K: Hash + Eq + Clone>(quota: Quota, clock: &DefaultClock) -> Buckets<K> {
    RateLimiter::hashmap_with_clock(quota, clock.clone())
}

/// Checks whether the table has room for another bucket.
fn has_room<K: Hash + Eq + Clone>(buckets: &Buckets<K>) -> bool {
    if buckets.len() >= RATED_CLIENTS_MAX {
        // A full bucket has no effect, so it can be dropped.
        buckets.retain_recent();
    }
    buckets.len() < RATED_CLIENTS_MAX
}

fn digest(name: Option<&HeaderValue>) -> u64 {
    let mut digest = std::hash::DefaultHasher::new();
    name.map(HeaderValue::as_bytes).hash(&mut digest);
    digest.finish()
}
