//! How often one client may ask, and how often all that come from one address: buckets of tokens that fill
//! at a steady rate.

use std::hash::{Hash, Hasher as _};
use std::num::NonZeroU32;

use axum::http::HeaderValue;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::http::connection_state::Peer;
use crate::limits::{RATED_CLIENTS_MAX, RATED_CLIENTS_PER_ADDRESS_MAX};

/// Where a connection comes from, and a digest of what the client calls itself.
type ClientKey = (Option<Peer>, u64);

type Buckets<K> = RateLimiter<K, HashMapStateStore<K>, DefaultClock>;

/// The buckets of all clients and addresses.
#[derive(Debug)]
pub(super) struct ClientRateLimiter {
    clock: DefaultClock,
    clients: Buckets<ClientKey>,
    peers: Buckets<Option<Peer>>,
}

impl ClientRateLimiter {
    /// Returns buckets that hold what may be asked in a second.
    pub(super) fn new(requests_a_second_max: NonZeroU32) -> Self {
        let clock = DefaultClock::default();
        let many = NonZeroU32::MIN.saturating_add(RATED_CLIENTS_PER_ADDRESS_MAX - 1);
        let of_peer = Quota::per_second(requests_a_second_max.saturating_mul(many));
        Self {
            clients: buckets(Quota::per_second(requests_a_second_max), &clock),
            peers: buckets(of_peer, &clock),
            clock,
        }
    }

    /// Takes a token; an error is the number of seconds after which there is one.
    pub(super) fn check(&self, peer: Option<Peer>, name: Option<&HeaderValue>) -> Result<(), u64> {
        // Too many names at once are one client that changes its own.
        let name = if has_room(&self.clients) { digest(name) } else { 0 };
        // Its own first: who is turned away there takes nothing from the others of its address.
        self.take(&self.clients, &(peer, name))?;
        // Too many addresses at once share the bucket of those that are not known.
        let peer = if has_room(&self.peers) { peer } else { None };
        self.take(&self.peers, &peer)
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

/// Tells whether there may be one bucket more.
fn has_room<K: Hash + Eq + Clone>(buckets: &Buckets<K>) -> bool {
    if buckets.len() >= RATED_CLIENTS_MAX {
        // Those that are full again are as good as none.
        buckets.retain_recent();
    }
    buckets.len() < RATED_CLIENTS_MAX
}

fn digest(name: Option<&HeaderValue>) -> u64 {
    let mut digest = std::hash::DefaultHasher::new();
    name.map(HeaderValue::as_bytes).hash(&mut digest);
    digest.finish()
}
