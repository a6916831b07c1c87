//! Counts how often one side of a connection waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::{Instant, sleep_until};

/// Counts the round trips of a connection: the times at which this side waits for replies. Calls that are made without
/// waiting for each other are one round trip.
#[derive(Debug, Default)]
pub struct RoundTrips {
    count: AtomicUsize,
    /// Whether something was sent since the last delivery.
    has_sent: AtomicBool,
}

/// Time without a new message after which this side waits for replies.
const QUIET: Duration = Duration::from_millis(100);

impl RoundTrips {
    /// Returns streams of which each delivery to this side waits until it sends no more.
    pub fn count_on(
        self: &Arc<Self>,
        mut from_far: DuplexStream,
        mut to_far: DuplexStream,
    ) -> (DuplexStream, DuplexStream) {
        let (input, mut near_output) = tokio::io::duplex(1 << 16);
        let (mut near_input, output) = tokio::io::duplex(1 << 16);
        let (sent, last_sent) = tokio::sync::watch::channel(());
        let trips = Arc::clone(self);
        tokio::spawn(async move {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = near_input.read(&mut buffer).await {
                trips.has_sent.store(true, Ordering::SeqCst);
                sent.send_replace(());
                if to_far.write_all(&buffer[..length]).await.is_err() {
                    break;
                }
            }
        });
        let trips = Arc::clone(self);
        tokio::spawn(async move {
            let (mut last_sent, mut buffer) = (last_sent, vec![0; 1 << 16]);
            let mut is_open = true;
            while is_open {
                let mut held = Vec::new();
                loop {
                    tokio::select! {
                        read = from_far.read(&mut buffer) => {
                            let Ok(length @ 1..) = read else {
                                is_open = false;
                                break;
                            };
                            held.extend_from_slice(&buffer[..length]);
                        }
                        // Each message restarts the time.
                        Ok(()) = last_sent.changed() => {}
                        () = sleep_until(Instant::now() + QUIET), if !held.is_empty() => break,
                    }
                }
                if trips.has_sent.swap(false, Ordering::SeqCst) {
                    trips.count.fetch_add(1, Ordering::SeqCst);
                }
                if near_output.write_all(&held).await.is_err() {
                    break;
                }
            }
        });
        (input, output)
    }

    /// Returns the number of round trips of some work.
    pub async fn of<T>(&self, work: impl Future<Output = T>) -> (usize, T) {
        // Messages that no caller waited for.
        sleep_until(Instant::now() + 3 * QUIET).await;
        self.has_sent.store(false, Ordering::SeqCst);
        self.count.store(0, Ordering::SeqCst);
        let done = work.await;
        (self.count.load(Ordering::SeqCst), done)
    }
}
