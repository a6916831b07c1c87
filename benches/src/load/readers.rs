//! Those who read the streams, and those who do not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use protocol::sse::Frame;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::wire::SseStream;

/// How long nothing may come before the end.
const PATIENCE: Duration = Duration::from_mins(1);

/// What of a change of a memory that this measures stands in its frame.
const OWN_EVENT: &str = "\"path\":\"/memories/global/load/";

/// What each reader is to have seen.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpectedEvents {
    /// Changes of memories that everybody sees, by other than tasks.
    pub(super) changed: u64,
    /// The number of the last event of each workspace.
    pub(super) ends: Vec<u64>,
}

/// What readers saw, all together.
#[derive(Debug, Default)]
pub(super) struct ReceivedEvents {
    pub(super) events: u64,
    pub(super) wrong: u64,
    pub(super) cut_off: u64,
    pub(super) slow_cut_off: u64,
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

    /// Has all read to the end, and returns what they saw. The slow ones begin to.
    pub(super) async fn end(
        mut self,
        address: SocketAddr,
        expected: &ExpectedEvents,
    ) -> anyhow::Result<ReceivedEvents> {
        self.end.send_replace(Some(Arc::new(expected.clone())));
        let mut all = ReceivedEvents::default();
        while let Some(seen) = self.reading.join_next().await {
            let seen = seen??;
            all.events += seen.events;
            all.wrong += seen.wrong;
            all.cut_off += seen.cut_off;
        }
        for (workspace, events) in self.slow {
            let (was_cut_off, is_wrong) =
                catch_up(events, address, expected.ends[workspace]).await?;
            all.slow_cut_off += u64::from(was_cut_off);
            all.slow_wrong += u64::from(is_wrong);
        }
        Ok(all)
    }
}

/// Reads until everything that is expected was read, or nothing more comes.
async fn read(
    mut events: SseStream,
    workspace: usize,
    mut ending: watch::Receiver<Option<Arc<ExpectedEvents>>>,
) -> anyhow::Result<ReceivedEvents> {
    let (mut seen, mut ours) = (ReceivedEvents::default(), 0);
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
            seen.cut_off += 1;
            break;
        };
        count_event(&mut events, &frame, (&mut seen, &mut ours));
    }
    let expected = ending.borrow().clone().unwrap_or_default();
    if seen.cut_off == 0 {
        seen.wrong += ours.max(expected.changed) - ours.min(expected.changed);
    }
    Ok(seen)
}

fn count_event(
    events: &mut SseStream,
    frame: &Frame,
    (seen, ours): (&mut ReceivedEvents, &mut u64),
) {
    match frame.id {
        Some(id) => {
            seen.wrong += u64::from(id != events.last + 1);
            seen.events += 1;
            *ours += u64::from(frame.data.contains(OWN_EVENT));
            events.last = id;
        }
        None => seen.wrong += u64::from(frame.event == "state_resync_required"),
    }
}

/// Reads what a reader that had stopped finds, and comes back if it was cut off. Returns whether it was, and
/// whether anything is missing that it was not told of.
async fn catch_up(
    mut events: SseStream,
    address: SocketAddr,
    end: u64,
) -> anyhow::Result<(bool, bool)> {
    let (mut was_cut_off, mut is_wrong, mut may_jump) = (false, false, false);
    while events.last < end {
        match timeout(PATIENCE, events.next()).await {
            Ok(Ok(Some(Frame { id: Some(id), .. }))) => {
                is_wrong |= id != events.last + 1 && !std::mem::take(&mut may_jump);
                events.last = id;
            }
            Ok(Ok(Some(frame))) => may_jump |= frame.event == "state_resync_required",
            Ok(_) if !was_cut_off => {
                was_cut_off = true;
                events = events.reconnect(address).await?;
            }
            Ok(_) | Err(_) => return Ok((was_cut_off, true)),
        }
    }
    Ok((was_cut_off, is_wrong))
}
