//! How often one client may ask: a bucket of tokens that fills at a steady rate.

use std::hash::{Hash as _, Hasher as _};
use std::num::NonZeroU32;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use memory::limits::RATED_CLIENTS_MAX;
use protocol::id::{CLIENT_ID_HEADER, CLIENT_ID_HEADER_ALIAS};

use super::Peer;

/// Whose bucket it is: where the connection comes from, and a digest of what the client calls itself.
type Key = (Option<Peer>, u64);

/// The buckets of all clients.
#[derive(Debug)]
pub(super) struct Rates {
    clock: DefaultClock,
    buckets: RateLimiter<Key, HashMapStateStore<Key>, DefaultClock>,
}

impl Rates {
    /// Returns buckets that hold what may be asked in a second.
    pub(super) fn new(requests_a_second_max: NonZeroU32) -> Self {
        let clock = DefaultClock::default();
        let quota = Quota::per_second(requests_a_second_max);
        let buckets = RateLimiter::hashmap_with_clock(quota, clock.clone());
        Self { clock, buckets }
    }

    /// Takes a token; an error is the number of seconds after which there is one.
    pub(super) fn check(&self, request: &Request) -> Result<(), u64> {
        if self.buckets.len() >= RATED_CLIENTS_MAX {
            // Buckets that are full again are as good as none.
            self.buckets.retain_recent();
        }
        let peer = request.extensions().get::<Peer>().copied();
        // Too many names at once are one client that changes its own.
        let name = if self.buckets.len() < RATED_CLIENTS_MAX { name(request.headers()) } else { 0 };
        self.buckets.check_key(&(peer, name)).map_err(|early| {
            let wait = early.wait_time_from(self.clock.now());
            wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
        })
    }
}

fn name(headers: &HeaderMap) -> u64 {
    let named =
        [CLIENT_ID_HEADER, CLIENT_ID_HEADER_ALIAS].into_iter().find_map(|name| headers.get(name));
    let mut digest = std::hash::DefaultHasher::new();
    named.map(HeaderValue::as_bytes).hash(&mut digest);
    digest.finish()
}
