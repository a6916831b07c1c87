//! The keys of a provider, kept up to date by a task of their own.
//!
//! Requests never fetch: they read the last result, and at most ask the task for another fetch. So a client that
//! disconnects cannot interrupt a fetch, and any number of tokens with invented key ids cause few fetches.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::error::{FetchError, InvalidToken, VerifyError};
use crate::fetch::KeySource;
use crate::jwt::UnverifiedToken;
use crate::key::KeySet;
use crate::limits::{
    FETCH_INTERVAL, FETCH_INTERVAL_MIN, FETCH_RETRY_INTERVAL, FETCH_WAIT, KEYS_AGE_MAX,
};

/// The keys of a provider.
#[derive(Debug)]
pub(crate) struct KeyCache {
    fetches: watch::Receiver<Fetches>,
    wanted: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

/// The results of the fetches so far.
#[derive(Clone, Debug, Default)]
struct Fetches {
    /// The keys of the last fetch that succeeded, and its time.
    keys: Option<(Arc<KeySet>, Instant)>,
    last: Option<EndedFetch>,
    /// Number of fetches that have ended.
    ended: u64,
    is_running: bool,
}

#[derive(Clone, Copy, Debug)]
struct EndedFetch {
    at: Instant,
    succeeded: bool,
}

impl KeyCache {
    /// Starts the task, which fetches at once.
    pub(crate) fn start(source: impl KeySource + 'static) -> Self {
        let (sender, fetches) = watch::channel(Fetches::default());
        let wanted = Arc::new(Notify::new());
        let task = tokio::spawn(keep_up_to_date(source, sender, Arc::clone(&wanted)));
        Self { fetches, wanted, _task: AbortOnDropHandle::new(task) }
    }

    /// Returns the keys with that of a token among them. If it is not known, waits for a fetch, unless one has just ended.
    pub(crate) async fn keys_for(
        &self,
        token: &UnverifiedToken<'_>,
    ) -> Result<Arc<KeySet>, VerifyError> {
        let mut fetches = self.fetches.clone();
        let before = fetches.borrow().clone();
        if let Some(keys) = before.keys_for(token) {
            return Ok(keys);
        }
        if !before.may_fetch() {
            return Err(before.unknown_key());
        }
        self.wanted.notify_one();
        // The task limits the time of a fetch, and with it that of this wait.
        match fetches.wait_for(|now| now.ended > before.ended).await {
            Ok(now) => now.keys_for(token).ok_or_else(|| now.unknown_key()),
            Err(_) => Err(VerifyError::Unavailable { retry_after: FETCH_INTERVAL_MIN }),
        }
    }
}

impl Fetches {
    fn keys_for(&self, token: &UnverifiedToken<'_>) -> Option<Arc<KeySet>> {
        let (keys, fetched) = self.keys.as_ref()?;
        (fetched.elapsed() < KEYS_AGE_MAX && keys.has_key_of(token)).then(|| Arc::clone(keys))
    }

    /// Checks whether a fetch runs, or the last one was long enough ago.
    fn may_fetch(&self) -> bool {
        self.is_running || self.last.is_none_or(|last| last.at.elapsed() >= FETCH_INTERVAL_MIN)
    }

    /// Returns the answer to a token whose key is not known after the last fetch.
    fn unknown_key(&self) -> VerifyError {
        match self.last {
            Some(last) if last.succeeded => InvalidToken::UnknownKey.into(),
            _ => VerifyError::Unavailable { retry_after: FETCH_INTERVAL_MIN },
        }
    }
}

async fn keep_up_to_date(
    source: impl KeySource,
    sender: watch::Sender<Fetches>,
    wanted: Arc<Notify>,
) {
    loop {
        sender.send_modify(|fetches| fetches.is_running = true);
        let fetched = timeout(FETCH_WAIT, source.fetch()).await;
        let fetched = fetched.unwrap_or(Err(FetchError::Timeout));
        let at = Instant::now();
        log(&fetched, sender.borrow().last);
        let succeeded = fetched.is_ok();
        sender.send_modify(|fetches| {
            if let Ok(keys) = fetched {
                fetches.keys = Some((Arc::new(keys), at));
            }
            fetches.last = Some(EndedFetch { at, succeeded });
            fetches.ended += 1;
            fetches.is_running = false;
        });
        let pause = if succeeded { FETCH_INTERVAL } else { FETCH_RETRY_INTERVAL };
        wait_for_next(at, pause, &wanted).await;
    }
}

/// Waits until the pause has passed, or a token wants a fetch and the last one was long enough ago.
async fn wait_for_next(last: Instant, pause: Duration, wanted: &Notify) {
    let is_wanted = async {
        loop {
            wanted.notified().await;
            // A token that was waiting for the last fetch may have left a notice.
            if last.elapsed() >= FETCH_INTERVAL_MIN {
                return;
            }
        }
    };
    tokio::select! {
        () = sleep_until(last + pause) => {}
        () = is_wanted => {}
    }
}

/// Logs a fetch. A provider that stays away is a warning only once.
fn log(fetched: &Result<KeySet, FetchError>, last: Option<EndedFetch>) {
    let was_away = last.is_some_and(|last| !last.succeeded);
    match fetched {
        Ok(keys) if was_away || last.is_none() => {
            tracing::info!(keys = keys.len(), "read the keys of the identity provider");
        }
        Ok(keys) => tracing::debug!(keys = keys.len(), "read the keys of the identity provider"),
        Err(error) => {
            let source = std::error::Error::source(error).map(ToString::to_string);
            let source = source.unwrap_or_default();
            if was_away {
                tracing::debug!(%error, source, "cannot read the keys of the identity provider");
            } else {
                tracing::warn!(
                    %error,
                    source,
                    "cannot read the keys of the identity provider; retrying, and known keys stay in use"
                );
            }
        }
    }
}
