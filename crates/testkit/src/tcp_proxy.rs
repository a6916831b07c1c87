//! A TCP proxy that delays, freezes and cuts connections.
//!
//! It hides a runtime on its own thread, so that tests of processes and tests within a runtime can both use it, also
//! those that pause the time. It does not imitate lost packets or a limited rate.

use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::reserved_port::ReservedPort;

/// The largest number of bytes that are read and sent at once.
const CHUNK_BYTES_MAX: usize = 64 << 10;
/// The most bytes that one direction of a connection holds back. A sender of more waits, as on a real link.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// A proxy on the loopback in front of a server there. Dropping it closes all connections.
#[derive(Debug)]
pub struct TcpProxy {
    port: u16,
    /// Dropped to end the thread.
    changes: Option<mpsc::UnboundedSender<Change>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// A change, and where its completion is reported.
type Change = (LinkChange, std::sync::mpsc::Sender<()>);

#[derive(Clone, Copy, Debug)]
enum LinkChange {
    OneWayDelay(Duration),
    State(LinkState),
    Target(SocketAddr),
}

/// The simulated link.
#[derive(Clone, Copy, Debug)]
struct Link {
    one_way_delay: Duration,
    state: LinkState,
    /// The server of new connections.
    target: SocketAddr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkState {
    Open,
    Frozen,
    Cut,
}

impl TcpProxy {
    /// Starts a proxy in front of the server on this port of the loopback.
    pub fn start(target_port: u16) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let port = ReservedPort::reserve()?;
        let number = port.number();
        let listener = {
            let _entered = runtime.enter();
            port.listen()?
        };
        let target = (Ipv4Addr::LOCALHOST, target_port).into();
        let (changes, received) = mpsc::unbounded_channel();
        let thread =
            std::thread::spawn(move || runtime.block_on(run(&port, listener, target, received)));
        Ok(Self { port: number, changes: Some(changes), thread: Some(thread) })
    }

    /// Returns its port on the loopback.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Delays all bytes that are received from now on by this duration, in each direction. A round trip takes twice as
    /// long. The rate is not limited, and connecting is not delayed.
    pub fn set_delay(&self, one_way: Duration) {
        self.change(LinkChange::OneWayDelay(one_way));
    }

    /// Resets all connections on both sides, and refuses new ones until [`Self::mend`].
    pub fn cut(&self) {
        self.change(LinkChange::State(LinkState::Cut));
    }

    /// Keeps connections open, and accepts new ones, but passes nothing until [`Self::mend`]. Neither side learns that
    /// the other one closed its connection.
    pub fn freeze(&self) {
        self.change(LinkChange::State(LinkState::Frozen));
    }

    /// Ends [`Self::cut`] and [`Self::freeze`]. What was sent to a frozen connection passes now.
    pub fn mend(&self) {
        self.change(LinkChange::State(LinkState::Open));
    }

    /// Connects later connections to the server on this port of the loopback.
    pub fn redirect(&self, target_port: u16) {
        self.change(LinkChange::Target((Ipv4Addr::LOCALHOST, target_port).into()));
    }

    /// Makes a change, and returns when it is in effect.
    fn change(&self, change: LinkChange) {
        let (done, is_done) = std::sync::mpsc::channel();
        let sent =
            self.changes.as_ref().is_some_and(|changes| changes.send((change, done)).is_ok());
        assert!(sent && is_done.recv().is_ok(), "the thread of the proxy ended");
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.changes = None;
        self.thread.take().map(JoinHandle::join);
    }
}

/// Accepts connections and makes changes, until no more changes can come.
async fn run(
    port: &ReservedPort,
    listener: TcpListener,
    target: SocketAddr,
    mut changes: mpsc::UnboundedReceiver<Change>,
) -> io::Result<()> {
    let state = LinkState::Open;
    let link = watch::Sender::new(Link { one_way_delay: Duration::ZERO, state, target });
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            change = changes.recv() => {
                let Some((change, done)) = change else { return Ok(()) };
                link.send_modify(|link| link.apply(change));
                let is_cut = link.borrow().state == LinkState::Cut;
                if is_cut {
                    listener = None;
                    while connections.join_next().await.is_some() {}
                } else if listener.is_none() {
                    listener = Some(port.listen()?);
                }
                done.send(()).ok();
            }
            accepted = accept(listener.as_ref()) => {
                let target = link.borrow().target;
                connections.spawn(connection(accepted?, target, link.subscribe()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

impl Link {
    fn apply(&mut self, change: LinkChange) {
        match change {
            LinkChange::OneWayDelay(delay) => self.one_way_delay = delay,
            LinkChange::State(state) => self.state = state,
            LinkChange::Target(target) => self.target = target,
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => pending().await,
    }
}

/// Forwards a connection until both sides closed it, one of them failed, or the link is cut.
async fn connection(mut client: TcpStream, target: SocketAddr, link: watch::Receiver<Link>) {
    // A cut waits for this, because a connection that is given up meanwhile does not end with a reset. It takes no
    // time on the loopback.
    let Ok(mut server) = TcpStream::connect(target).await else {
        reset(&client);
        return;
    };
    let forwarded = tokio::select! {
        forwarded = forward(&mut client, &mut server, &link) => forwarded,
        () = wait_until_cut(link.clone()) => Err(io::ErrorKind::ConnectionReset.into()),
    };
    if forwarded.is_err() {
        reset(&client);
        reset(&server);
    }
}

async fn wait_until_cut(mut link: watch::Receiver<Link>) {
    // The channel is closed only when the proxy ends.
    drop(link.wait_for(|link| link.state == LinkState::Cut).await);
}

/// Makes the connection end with a reset when it is dropped.
fn reset(stream: &TcpStream) {
    // It fails if the connection has ended already.
    drop(stream.set_zero_linger());
}

async fn forward(
    client: &mut TcpStream,
    server: &mut TcpStream,
    link: &watch::Receiver<Link>,
) -> io::Result<()> {
    // Small writes are not collected: only the link delays them.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    tokio::try_join!(
        forward_one_way(from_client, to_server, link),
        forward_one_way(from_server, to_client, link),
    )?;
    Ok(())
}

async fn forward_one_way(
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
    link: &watch::Receiver<Link>,
) -> io::Result<()> {
    let (queue, queued) = mpsc::unbounded_channel();
    let received = async {
        receive(from, link, queue).await;
        Ok(())
    };
    tokio::try_join!(received, send(queued, link.clone(), to))?;
    Ok(())
}

/// An event of one side, on its way to the other.
struct Queued {
    /// The time at which it arrives at the other side.
    due: Instant,
    event: io::Result<Vec<u8>>,
    /// Its share of the bytes that may be queued.
    _room: OwnedSemaphorePermit,
}

/// Queues what one side sends. The last event is an error, or has no bytes if the side ended its stream.
async fn receive(
    mut from: ReadHalf<'_>,
    link: &watch::Receiver<Link>,
    queue: mpsc::UnboundedSender<Queued>,
) {
    let room = Arc::new(Semaphore::new(QUEUED_BYTES_MAX));
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    loop {
        let event = from.read(&mut buffer).await.map(|count| buffer[..count].to_vec());
        let due = Instant::now() + link.borrow().one_way_delay;
        let count = event.as_ref().map_or(0, Vec::len);
        let share = u32::try_from(count).expect("a chunk is smaller than 4 GB");
        let room = Arc::clone(&room).acquire_many_owned(share).await;
        let room = room.expect("the semaphore is never closed");
        if queue.send(Queued { due, event, _room: room }).is_err() || count == 0 {
            return;
        }
    }
}

/// Sends what is queued, each part when it is due and the link lets it pass.
async fn send(
    mut queued: mpsc::UnboundedReceiver<Queued>,
    mut link: watch::Receiver<Link>,
    mut to: WriteHalf<'_>,
) -> io::Result<()> {
    while let Some(Queued { due, event, .. }) = queued.recv().await {
        sleep_until(due).await;
        wait_until_open(&mut link).await?;
        let bytes = event?;
        if bytes.is_empty() {
            return to.shutdown().await;
        }
        let mut unsent = bytes.as_slice();
        while !unsent.is_empty() {
            to.writable().await?;
            // No other task runs between this check and the write, so nothing passes once a change was made.
            wait_until_open(&mut link).await?;
            match to.try_write(unsent) {
                Ok(count) => unsent = unsent.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

async fn wait_until_open(link: &mut watch::Receiver<Link>) -> io::Result<()> {
    let open = link.wait_for(|link| link.state == LinkState::Open).await;
    open.map(drop).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
