//! Notices of changed roots and of events, from the daemon that made the change to the others.
//!
//! A notice only wakes: the server may drop it with a connection, and a daemon that gets none looks from time to time by
//! itself. So notices are sent after the commit that they are about. The server lets transactions with notices commit one after the
//! other, which must not hold up commits that wait for the disk.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::postgres::{PgListener, PgPool};
use tokio::sync::{Notify, watch};
use tokio_util::task::AbortOnDropHandle;

/// The channel of the server.
const CHANNEL: &str = "lukasa_roots";
/// Stands for the place of a root in notices about events.
pub(crate) const EVENTS: &str = "events";
/// Time between two attempts to listen.
const LISTEN_RETRY: Duration = Duration::from_secs(1);

/// A root: its owner and its place.
type RootId = (i64, String);

/// The notices that this process sends and receives.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    outbox: Arc<Outbox>,
    /// Sends once there is a notice.
    sender: Mutex<Option<AbortOnDropHandle<()>>>,
    roots: Arc<Mutex<HashMap<RootId, watch::Sender<u64>>>>,
    /// Listens once there is a receiver.
    listener: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// Notices that are not sent yet, each once.
#[derive(Debug, Default)]
struct Outbox {
    texts: Mutex<BTreeSet<String>>,
    filled: Notify,
}

impl Notices {
    /// Notifies all daemons of a change of a root, soon.
    pub(crate) fn send(&self, pool: &PgPool, owner: i64, place: &str) {
        let mut sender = self.sender.lock();
        if sender.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let sending = send_all(pool.clone(), Arc::clone(&self.outbox));
            *sender = Some(AbortOnDropHandle::new(tokio::spawn(sending)));
        }
        self.outbox.texts.lock().insert(notice(owner, place));
        self.outbox.filled.notify_one();
    }

    /// Returns a receiver that is notified after changes of a root.
    pub(crate) fn subscribe(&self, pool: &PgPool, owner: i64, place: &str) -> watch::Receiver<u64> {
        let mut listener = self.listener.lock();
        if listener.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
            let listening = listen(pool.clone(), Arc::clone(&self.roots));
            *listener = Some(AbortOnDropHandle::new(tokio::spawn(listening)));
        }
        let mut roots = self.roots.lock();
        roots.retain(|_, sender| sender.receiver_count() > 0);
        roots.entry((owner, place.to_owned())).or_default().subscribe()
    }

    /// Stops sending and listening.
    pub(crate) fn close(&self) {
        self.sender.lock().take();
        self.listener.lock().take();
    }
}

/// Sends notices until it is aborted. One that cannot be sent is dropped.
async fn send_all(pool: PgPool, outbox: Arc<Outbox>) {
    loop {
        outbox.filled.notified().await;
        let texts = std::mem::take(&mut *outbox.texts.lock());
        let send = sqlx::query("SELECT pg_notify($1, n.notice) FROM unnest($2::text[]) n (notice)");
        let send = send.bind(CHANNEL).bind(texts.into_iter().collect::<Vec<_>>());
        if let Err(error) = send.execute(&pool).await {
            tracing::debug!(%error, "other daemons are not notified of a change");
        }
    }
}

/// Returns the text of a notice about a root.
fn notice(owner: i64, place: &str) -> String {
    format!("{owner} {place}")
}

fn parse(notice: &str) -> Option<RootId> {
    let (owner, place) = notice.split_once(' ')?;
    Some((owner.parse().ok()?, place.to_owned()))
}

/// Passes notices on until it is aborted. A lost connection is replaced.
async fn listen(pool: PgPool, roots: Arc<Mutex<HashMap<RootId, watch::Sender<u64>>>>) {
    loop {
        if let Err(error) = listen_once(&pool, &roots).await {
            tracing::debug!(%error, "notices of other daemons are not received");
        }
        // What happened meanwhile was missed.
        roots.lock().values().for_each(wake);
        tokio::time::sleep(LISTEN_RETRY).await;
    }
}

async fn listen_once(
    pool: &PgPool,
    roots: &Mutex<HashMap<RootId, watch::Sender<u64>>>,
) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(CHANNEL).await?;
    // Notices from before were missed.
    roots.lock().values().for_each(wake);
    while let Some(received) = listener.try_recv().await? {
        if let Some((owner, place)) = parse(received.payload()) {
            let roots = roots.lock();
            // The end of a write is an event, too.
            for place in [place, EVENTS.to_owned()] {
                if let Some(sender) = roots.get(&(owner, place)) {
                    wake(sender);
                }
            }
        }
    }
    Ok(())
}

fn wake(sender: &watch::Sender<u64>) {
    sender.send_modify(|count| *count += 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_names_a_root() {
        let root = (-7, "workspace:a b".to_owned());
        assert_eq!(parse(&notice(root.0, &root.1)), Some(root));
        assert_eq!(parse("nonsense"), None);
        assert_eq!(parse("x y"), None);
    }
}
