//! A port that stays reserved while no server listens on it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// The most connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// A port on the loopback. Servers that reuse addresses may listen on it one after the other, and nothing else gets it
/// in between: a connection is refused then.
#[derive(Debug)]
pub(crate) struct ReservedPort {
    address: SocketAddr,
    /// Bound and never listening, which keeps the port.
    _socket: TcpSocket,
}

impl ReservedPort {
    /// Reserves a free port.
    pub(crate) fn reserve() -> io::Result<Self> {
        let socket = bound((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { address: socket.local_addr()?, _socket: socket })
    }

    /// Returns its number.
    pub(crate) const fn number(&self) -> u16 {
        self.address.port()
    }

    /// Listens on it; within a runtime.
    pub(crate) fn listen(&self) -> io::Result<TcpListener> {
        bound(self.address)?.listen(BACKLOG)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn a_port_is_refused_unless_a_server_listens() {
        let port = ReservedPort::reserve().unwrap();
        let connect = async || match TcpStream::connect(port.address).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.kind()),
        };
        for _ in 0..2 {
            assert_eq!(connect().await, Err(io::ErrorKind::ConnectionRefused));
            let listener = port.listen().unwrap();
            assert_eq!(connect().await, Ok(()));
            drop(listener);
        }
    }
}
