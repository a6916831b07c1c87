//! Tests of the proxy, over real connections.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

use super::TcpProxy;

/// A proxy, and a connection through it.
struct Connected {
    proxy: TcpProxy,
    client: TcpStream,
    server: TcpStream,
    listener: TcpListener,
}

impl Connected {
    fn new() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = TcpProxy::start(listener.local_addr().unwrap().port()).unwrap();
        let client = connect(&proxy).unwrap();
        let server = listener.accept().unwrap().0;
        Self { proxy, client, server, listener }
    }
}

fn connect(proxy: &TcpProxy) -> io::Result<TcpStream> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port()))
}

fn receive(stream: &mut TcpStream, expected: &str) {
    let mut bytes = vec![0; expected.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(String::from_utf8(bytes).unwrap(), expected);
}

/// Checks that nothing arrives for a tenth of a second.
fn receive_nothing(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    stream.set_read_timeout(None).unwrap();
}

fn receive_reset(stream: &mut TcpStream) {
    assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn bytes_and_ends_pass_in_both_directions() {
    let Connected { proxy: _proxy, mut client, mut server, .. } = Connected::new();
    client.write_all(b"request").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut request = String::new();
    server.read_to_string(&mut request).unwrap();
    assert_eq!(request, "request");
    server.write_all(b"answer").unwrap();
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
}

#[test]
fn a_server_that_does_not_listen_or_dies_resets_the_client() {
    let Connected { proxy, mut client, server, listener } = Connected::new();
    client.write_all(b"not read").unwrap();
    let mut peeked = [0; 8];
    while server.peek(&mut peeked).unwrap() < peeked.len() {}
    // A connection that is closed with unread bytes ends with a reset.
    drop(server);
    receive_reset(&mut client);
    drop(listener);
    receive_reset(&mut connect(&proxy).unwrap());
}

#[test]
fn a_delay_is_that_of_one_direction() {
    let Connected { proxy, mut client, mut server, .. } = Connected::new();
    let one_way = Duration::from_millis(40);
    proxy.set_delay(one_way);
    let begun = Instant::now();
    client.write_all(b"there").unwrap();
    receive(&mut server, "there");
    assert!(begun.elapsed() >= one_way, "{:?}", begun.elapsed());
    server.write_all(b"back").unwrap();
    receive(&mut client, "back");
    assert!(begun.elapsed() >= 2 * one_way, "{:?}", begun.elapsed());
}

#[test]
fn a_delay_does_not_limit_the_rate() {
    let Connected { proxy, mut client, mut server, .. } = Connected::new();
    let one_way = Duration::from_millis(200);
    proxy.set_delay(one_way);
    // At least 256 chunks: one after the other, they would take 51 seconds.
    let sent: Vec<u8> = (0_u8..=255).cycle().take(16 << 20).collect();
    let expected = sent.clone();
    let begun = Instant::now();
    let sender = thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client
    });
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert!(received == expected, "{} bytes arrived", received.len());
    assert!(begun.elapsed() < 100 * one_way, "{:?}", begun.elapsed());
    drop(sender.join().unwrap());
}

#[test]
fn a_cut_resets_connections_and_refuses_new_ones_until_it_is_mended() {
    let Connected { proxy, mut client, mut server, listener } = Connected::new();
    for _ in 0..2 {
        proxy.cut();
        receive_reset(&mut client);
        receive_reset(&mut server);
        assert_eq!(connect(&proxy).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        proxy.mend();
        client = connect(&proxy).unwrap();
        server = listener.accept().unwrap().0;
        client.write_all(b"again").unwrap();
        receive(&mut server, "again");
    }
}

#[test]
fn a_cut_drops_delayed_and_frozen_bytes() {
    let Connected { proxy, mut client, mut server, .. } = Connected::new();
    proxy.set_delay(Duration::from_hours(1));
    client.write_all(b"delayed").unwrap();
    proxy.freeze();
    server.write_all(b"frozen").unwrap();
    proxy.cut();
    receive_reset(&mut client);
    receive_reset(&mut server);
}

#[test]
fn a_frozen_connection_stays_open_and_passes_nothing_until_it_is_mended() {
    let Connected { proxy, mut client, mut server, listener } = Connected::new();
    proxy.freeze();
    client.write_all(b"one").unwrap();
    server.write_all(b"two").unwrap();
    let mut late = connect(&proxy).unwrap();
    late.write_all(b"three").unwrap();
    let mut late_server = listener.accept().unwrap().0;
    for stream in [&mut client, &mut server, &mut late_server] {
        receive_nothing(stream);
    }
    proxy.mend();
    receive(&mut server, "one");
    receive(&mut client, "two");
    receive(&mut late_server, "three");
}

#[test]
fn a_frozen_connection_hides_that_a_side_is_gone() {
    let Connected { proxy, mut client, server, .. } = Connected::new();
    proxy.freeze();
    drop(server);
    receive_nothing(&mut client);
    proxy.mend();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_proxy_that_is_dropped_closes_its_connections() {
    let Connected { proxy, mut client, mut server, .. } = Connected::new();
    let port = proxy.port();
    drop(proxy);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
    assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_proxy_has_the_real_time_in_a_test_that_pauses_it() {
    let Connected { proxy, mut client, mut server, .. } = Connected::new();
    proxy.set_delay(Duration::from_millis(1));
    client.write_all(b"passes").unwrap();
    receive(&mut server, "passes");
}
