//! Reading the two documents of a provider over HTTP: its description, and its keys.
//!
//! No redirect is followed, and answers have limits of size and time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::redirect::Policy;
use reqwest::{Client, IntoUrl};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde::Deserialize;

use crate::error::{ConfigError, FetchError};
use crate::issuer::Issuer;
use crate::key::KeySet;
use crate::limits::DOCUMENT_BYTES_MAX;

/// The addresses of `localhost`, which a name server could send elsewhere. The port is that of the URL.
const LOOPBACK: [SocketAddr; 2] = [
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
    SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 0),
];

/// A source of the keys of a provider.
#[async_trait]
pub(crate) trait KeySource: Send + Sync {
    /// Reads the keys of the provider. The caller limits the time.
    async fn fetch(&self) -> Result<KeySet, FetchError>;
}

/// The documents of a provider, read over HTTP.
pub(crate) struct HttpKeySource {
    issuer: Issuer,
    client: Client,
}

/// The parts of the discovery document that are used.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl HttpKeySource {
    pub(crate) fn new(issuer: Issuer) -> Result<Self, ConfigError> {
        let client = client(&issuer).map_err(ConfigError::Client)?;
        Ok(Self { issuer, client })
    }

    async fn document(&self, address: impl IntoUrl) -> Result<Vec<u8>, FetchError> {
        let request = self.client.get(address).header("accept", "application/json");
        let mut response = request.send().await.map_err(FetchError::Request)?;
        if response.status().as_u16() != 200 {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(FetchError::Request)? {
            if body.len() + chunk.len() > DOCUMENT_BYTES_MAX {
                return Err(FetchError::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

#[async_trait]
impl KeySource for HttpKeySource {
    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let discovery = self.document(self.issuer.discovery_address()).await?;
        let discovery: Discovery =
            serde_json::from_slice(&discovery).map_err(|_| FetchError::Malformed)?;
        if discovery.issuer != self.issuer.as_str() {
            return Err(FetchError::OtherIssuer);
        }
        let address = self.issuer.key_address(&discovery.jwks_uri).ok_or(FetchError::KeyAddress)?;
        KeySet::parse(&self.document(address).await?)
    }
}

fn client(issuer: &Issuer) -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
    let builder = Client::builder()
        .user_agent(concat!("lukasa/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        // Without compression, the size limits hold for the bytes on the wire.
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .tls_backend_preconfigured(tls_config(issuer)?);
    let builder = if issuer.is_plain() {
        // A configured proxy is for other machines.
        builder.no_proxy().resolve_to_addrs("localhost", &LOOPBACK)
    } else {
        builder.https_only(true)
    };
    Ok(builder.build()?)
}

/// Returns the TLS configuration. A provider on this machine without TLS needs no certificates of authorities.
fn tls_config(issuer: &Issuer) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    if issuer.is_plain() {
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    Ok(builder.with_platform_verifier()?.with_no_client_auth())
}
