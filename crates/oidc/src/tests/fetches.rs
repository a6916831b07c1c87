//! Tests of when keys are fetched, with a source that counts and a clock that a test advances.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use testkit::{ProviderKeyPair, SigningAlgorithm};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, timeout};

use crate::error::{FetchError, InvalidToken, VerifyError};
use crate::fetch::KeySource;
use crate::jwt::UnverifiedToken;
use crate::key::KeySet;
use crate::key_cache::KeyCache;
use crate::limits::{
    FETCH_INTERVAL, FETCH_INTERVAL_MIN, FETCH_RETRY_INTERVAL, FETCH_WAIT, KEYS_AGE_MAX,
};

/// An answer of a source.
#[derive(Clone)]
enum SourceReply {
    Keys(KeySet),
    Away,
    Silent,
}

/// A source of keys that a test controls.
#[derive(Clone)]
struct CountedSource {
    reply: Arc<Mutex<SourceReply>>,
    fetches: Arc<AtomicUsize>,
}

#[async_trait]
impl KeySource for CountedSource {
    async fn fetch(&self) -> Result<KeySet, FetchError> {
        self.fetches.fetch_add(1, Ordering::SeqCst);
        // A request takes a moment, in which others arrive.
        pass(Duration::from_millis(100)).await;
        let reply = self.reply.lock().clone();
        match reply {
            SourceReply::Keys(keys) => Ok(keys),
            SourceReply::Away => Err(FetchError::Status(500)),
            SourceReply::Silent => std::future::pending().await,
        }
    }
}

impl CountedSource {
    fn new(reply: SourceReply) -> Self {
        Self { reply: Arc::new(Mutex::new(reply)), fetches: Arc::default() }
    }

    fn reply(&self, reply: SourceReply) {
        *self.reply.lock() = reply;
    }

    fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }
}

/// Lets paused time pass, with all that happens meanwhile.
async fn pass(time: Duration) {
    timeout(time, std::future::pending::<()>()).await.unwrap_err();
}

fn pair(id: &str) -> (ProviderKeyPair, String) {
    let pair = ProviderKeyPair::generate(id, SigningAlgorithm::Es256).unwrap();
    let token = pair.token(&json!({})).unwrap();
    (pair, token)
}

fn keys(pairs: &[&ProviderKeyPair]) -> SourceReply {
    let keys: Vec<_> = pairs.iter().map(|pair| pair.public_key()).collect();
    SourceReply::Keys(KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap())
}

async fn verify(cache: &KeyCache, token: &str) -> Result<(), VerifyError> {
    let token = UnverifiedToken::parse(token)?;
    Ok(cache.keys_for(&token).await?.verify(&token)?)
}

const UNKNOWN: Result<(), VerifyError> = Err(VerifyError::Invalid(InvalidToken::UnknownKey));
const UNAVAILABLE: Result<(), VerifyError> =
    Err(VerifyError::Unavailable { retry_after: FETCH_INTERVAL_MIN });

#[tokio::test(start_paused = true)]
async fn an_unknown_key_is_fetched_once_in_a_while_for_any_number_of_tokens() {
    let [(old, of_old), (new, of_new)] = ["old", "new"].map(pair);
    let source = CountedSource::new(keys(&[&old]));
    let cache = Arc::new(KeyCache::start(source.clone()));
    assert_eq!(verify(&cache, &of_old).await, Ok(()));
    assert_eq!(source.fetches(), 1, "the first token waits for the first fetch");

    source.reply(keys(&[&new]));
    let begun = Instant::now();
    for number in 0..100 {
        let (_, invented) = pair(&format!("invented-{number}"));
        assert_eq!(verify(&cache, &invented).await, UNKNOWN);
    }
    assert_eq!((source.fetches(), begun.elapsed()), (1, Duration::ZERO));
    assert_eq!(verify(&cache, &of_new).await, UNKNOWN, "too early");

    advance(FETCH_INTERVAL_MIN).await;
    let mut at_once = JoinSet::new();
    for _ in 0..50 {
        let (cache, token) = (Arc::clone(&cache), of_new.clone());
        at_once.spawn(async move { verify(&cache, &token).await });
    }
    assert_eq!(at_once.join_all().await, vec![Ok(()); 50]);
    assert_eq!(source.fetches(), 2);
    assert_eq!(verify(&cache, &of_old).await, UNKNOWN, "it was withdrawn");
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_again_without_a_token() {
    let [(old, of_old), (new, of_new)] = ["old", "new"].map(pair);
    let source = CountedSource::new(keys(&[&old]));
    let cache = KeyCache::start(source.clone());
    assert_eq!(verify(&cache, &of_old).await, Ok(()));
    source.reply(keys(&[&new]));
    pass(FETCH_INTERVAL.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!((source.fetches(), verify(&cache, &of_old).await), (1, Ok(())));
    pass(Duration::from_secs(2)).await;
    assert_eq!(source.fetches(), 2);
    assert_eq!(verify(&cache, &of_new).await, Ok(()));
    assert_eq!(verify(&cache, &of_old).await, UNKNOWN);
    drop(cache);
    pass(FETCH_INTERVAL * 3).await;
    assert_eq!(source.fetches(), 2, "the task has ended with the cache");
}

#[tokio::test(start_paused = true)]
async fn known_keys_outlive_a_provider_that_is_away_for_a_day() {
    let [(old, of_old), (_, of_new)] = ["old", "new"].map(pair);
    let source = CountedSource::new(keys(&[&old]));
    let cache = KeyCache::start(source.clone());
    assert_eq!(verify(&cache, &of_old).await, Ok(()));
    source.reply(SourceReply::Away);
    pass(FETCH_INTERVAL_MIN).await;
    assert_eq!(verify(&cache, &of_new).await, UNAVAILABLE);
    assert_eq!(verify(&cache, &of_new).await, UNAVAILABLE, "without another fetch");
    assert_eq!(source.fetches(), 2);
    assert_eq!(verify(&cache, &of_old).await, Ok(()));
    pass(FETCH_RETRY_INTERVAL * 2 + Duration::from_secs(1)).await;
    assert_eq!(source.fetches(), 4, "it is asked again by itself");

    pass(KEYS_AGE_MAX.saturating_sub(Duration::from_mins(2))).await;
    assert_eq!(verify(&cache, &of_old).await, Ok(()));
    pass(Duration::from_mins(1)).await;
    assert_eq!(verify(&cache, &of_old).await, UNAVAILABLE, "its withdrawal could not be read");
    source.reply(keys(&[&old]));
    pass(FETCH_INTERVAL_MIN).await;
    assert_eq!(verify(&cache, &of_old).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_delays_no_known_key_and_no_client_can_interrupt_a_fetch() {
    let [(old, of_old), (new, of_new)] = ["old", "new"].map(pair);
    let source = CountedSource::new(keys(&[&old]));
    let cache = KeyCache::start(source.clone());
    assert_eq!(verify(&cache, &of_old).await, Ok(()));
    source.reply(SourceReply::Silent);
    advance(FETCH_INTERVAL_MIN).await;
    let begun = Instant::now();
    assert_eq!(verify(&cache, &of_new).await, UNAVAILABLE);
    assert_eq!(begun.elapsed(), FETCH_WAIT);
    let begun = Instant::now();
    assert_eq!(verify(&cache, &of_old).await, Ok(()));
    assert_eq!(begun.elapsed(), Duration::ZERO);

    source.reply(keys(&[&old, &new]));
    advance(FETCH_INTERVAL_MIN).await;
    let before = source.fetches();
    let client = timeout(Duration::from_millis(10), verify(&cache, &of_new));
    assert!(client.await.is_err(), "the client has disconnected");
    assert_eq!(verify(&cache, &of_new).await, Ok(()));
    assert_eq!(source.fetches(), before + 1);
}
