//! Readers of event streams under load: active ones, and slow ones that stop reading until the end.
//!
//! They count events and check that none is lost, duplicated or out of order, unless the daemon reported the gap.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use protocol::sse::Frame;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::wire::SseStream;

/// The time without a frame after which a reader gives up.
const PATIENCE: Duration = Duration::from_mins(1);

/// The text that identifies the frame of a change made by this load.
const OWN_EVENT: &str = "\"path\":\"/memories/global/load/";

/// The events that each reader must receive.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpectedEvents {
    /// Changes of global memories, which all readers receive, except those made by tasks.
    pub(super) changed: u64,
    /// The number of the last event of each workspace.
    pub(super) ends: Vec<u64>,
}

/// The events that all readers received, as counts.
#[derive(Debug, Default)]
pub(super) struct ReceivedEvents {
    pub(super) events: u64,
    pub(super) wrong: u64,
    pub(super) evicted: u64,
    pub(super) slow_evicted: u64,
    pub(super) slow_wrong: u64,
}

/// Streams that are open.
pub(super) struct StreamReaders {
    reading: JoinSet<anyhow::Result<ReceivedEvents>>,
    slow: Vec<(usize, SseStream)>,
    end: watch::Sender<Option<Arc<ExpectedEvents>>>,
}

impl StreamReaders {
    /// Opens streams over all workspaces, of which some are not read.
    pub(super) async fn open(
        address: SocketAddr,
        ids: &[String],
        count: usize,
        slow: usize,
    ) -> anyhow::Result<Self> {
        let (end, ending) = watch::channel(None);
        let path = |number: usize| format!("/v1/events?workspace={}", ids[number % ids.len()]);
        let mut reading = JoinSet::new();
        for number in 0..count {
            let events = SseStream::open(address, &path(number), false).await?;
            reading.spawn(read(events, number % ids.len(), ending.clone()));
        }
        let mut stopped = Vec::with_capacity(slow);
        for number in 0..slow {
            let workspace = number % ids.len();
            stopped.push((workspace, SseStream::open(address, &path(number), true).await?));
        }
        Ok(Self { reading, slow: stopped, end })
    }

    /// Waits until all readers are at the end, and returns their counts. The slow ones start to read now.
    pub(super) async fn end(
        mut self,
        address: SocketAddr,
        expected: &ExpectedEvents,
    ) -> anyhow::Result<ReceivedEvents> {
        self.end.send_replace(Some(Arc::new(expected.clone())));
        let mut all = ReceivedEvents::default();
        while let Some(received) = self.reading.join_next().await {
            let received = received??;
            all.events += received.events;
            all.wrong += received.wrong;
            all.evicted += received.evicted;
        }
        for (workspace, events) in self.slow {
            let (was_evicted, is_wrong) =
                catch_up(events, address, expected.ends[workspace]).await?;
            all.slow_evicted += u64::from(was_evicted);
            all.slow_wrong += u64::from(is_wrong);
        }
        Ok(all)
    }
}

/// Reads until all expected events were received, or no more frames arrive.
async fn read(
    mut events: SseStream,
    workspace: usize,
    mut ending: watch::Receiver<Option<Arc<ExpectedEvents>>>,
) -> anyhow::Result<ReceivedEvents> {
    let (mut received, mut ours) = (ReceivedEvents::default(), 0);
    loop {
        let expected = ending.borrow().clone();
        if expected.as_ref().is_some_and(|expected| events.last >= expected.ends[workspace]) {
            break;
        }
        let frame = tokio::select! {
            frame = events.next() => frame?,
            _ = ending.changed(), if expected.is_none() => continue,
            () = tokio::time::sleep(PATIENCE), if expected.is_some() => None,
        };
        let Some(frame) = frame else {
            received.evicted += 1;
            break;
        };
        count_event(&mut events, &frame, (&mut received, &mut ours));
    }
    let expected = ending.borrow().clone().unwrap_or_default();
    if received.evicted == 0 {
        received.wrong += ours.max(expected.changed) - ours.min(expected.changed);
    }
    Ok(received)
}

fn count_event(
    events: &mut SseStream,
    frame: &Frame,
    (received, ours): (&mut ReceivedEvents, &mut u64),
) {
    match frame.id {
        Some(id) => {
            received.wrong += u64::from(id != events.last + 1);
            received.events += 1;
            *ours += u64::from(frame.data.contains(OWN_EVENT));
            events.last = id;
        }
        None => received.wrong += u64::from(frame.event == "state_resync_required"),
    }
}

/// Reads the stream of a slow reader to its end, and reconnects once if the reader was evicted. Returns whether it was
/// evicted, and whether events are missing without a report of the gap.
async fn catch_up(
    mut events: SseStream,
    address: SocketAddr,
    end: u64,
) -> anyhow::Result<(bool, bool)> {
    let (mut was_evicted, mut is_wrong, mut may_jump) = (false, false, false);
    while events.last < end {
        match timeout(PATIENCE, events.next()).await {
            Ok(Ok(Some(Frame { id: Some(id), .. }))) => {
                is_wrong |= id != events.last + 1 && !std::mem::take(&mut may_jump);
                events.last = id;
            }
            Ok(Ok(Some(frame))) => may_jump |= frame.event == "state_resync_required",
            Ok(_) if !was_evicted => {
                was_evicted = true;
                events = events.reconnect(address).await?;
            }
            Ok(_) | Err(_) => return Ok((was_evicted, true)),
        }
    }
    Ok((was_evicted, is_wrong))
}
