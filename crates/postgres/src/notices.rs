//! Notices of changed roots and of events, from the daemon that made the change to the others.
//!
//! A notice only wakes: the server may drop it with a connection, and a daemon that gets none looks from time to time by
//! itself.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::postgres::{PgListener, PgPool};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// The channel of the server.
pub(crate) const CHANNEL: &str = "lukasa_roots";
/// Stands for the place of a root in notices about events.
pub(crate) const EVENTS: &str = "events";
/// Time between two attempts to listen.
const LISTEN_RETRY: Duration = Duration::from_secs(1);

/// A root: its owner and its place.
type RootId = (i64, String);

/// The receivers of notices in this process.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    roots: Arc<Mutex<HashMap<RootId, watch::Sender<u64>>>>,
    /// Listens once there is a receiver.
    listener: Mutex<Option<AbortOnDropHandle<()>>>,
}

impl Notices {
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

    /// Stops listening.
    pub(crate) fn close(&self) {
        self.listener.lock().take();
    }
}

/// Returns the text of a notice about a root.
pub(crate) fn notice(owner: i64, place: &str) -> String {
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
