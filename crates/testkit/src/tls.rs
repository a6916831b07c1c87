//! A TLS proxy in front of a server without encryption.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::generate_simple_self_signed;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::http;

/// A proxy that accepts TLS connections and forwards their requests. Its thread ends with the process.
#[derive(Debug)]
pub struct TlsProxy {
    address: SocketAddr,
    certificate: String,
}

impl TlsProxy {
    /// Starts a proxy in front of a server.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let certified =
            generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key.into())
            .map_err(io::Error::other)?;
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                // A client that does not trust the certificate disconnects; some tests check that.
                std::thread::spawn(move || drop(forward(stream, config, server)));
            }
        });
        Ok(Self { address, certificate: certified.cert.pem() })
    }

    /// Returns the URL of the proxy.
    pub fn url(&self) -> String {
        format!("https://localhost:{}/v1", self.address.port())
    }

    /// Returns its self-signed certificate, as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }
}

fn forward(stream: TcpStream, config: Arc<ServerConfig>, server: SocketAddr) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut encrypted = StreamOwned::new(connection, stream);
    let (head, body) = http::read_request(&mut BufReader::new(&mut encrypted))?;
    let mut plain = TcpStream::connect(server)?;
    write!(plain, "{head}\r\n")?;
    if !body.is_null() {
        write!(plain, "{body}")?;
    }
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer)?;
    encrypted.write_all(&answer)?;
    encrypted.conn.send_close_notify();
    encrypted.flush()
}
