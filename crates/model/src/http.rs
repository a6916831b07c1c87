//! The HTTP client of chat and embedding requests.
//!
//! It follows no redirect, and connects to this machine without a proxy.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::lookup_host;

use crate::address::{Address, is_loopback};

/// Timeout for connecting. Not for the response: a model may take long to answer.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// The client of one address, built on first use: loading the system's certificates takes some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpClient(Arc<OnceLock<reqwest::Client>>);

/// An error of building the client.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be built")]
pub(crate) struct BuildClientError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl HttpClient {
    pub(crate) fn get(&self, address: &Address) -> Result<reqwest::Client, BuildClientError> {
        if let Some(client) = self.0.get() {
            return Ok(client.clone());
        }
        let client = build(address).map_err(BuildClientError)?;
        Ok(self.0.get_or_init(|| client).clone())
    }
}

fn build(address: &Address) -> Result<reqwest::Client, Box<dyn std::error::Error + Send + Sync>> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("lukasa/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .referer(false)
        // Without compression, the size limits hold for the bytes on the wire.
        .gzip(false)
        .connect_timeout(CONNECT_WAIT)
        .tcp_nodelay(true)
        .tls_backend_preconfigured(tls_config(address.is_encrypted())?);
    if address.is_this_machine() {
        // A configured proxy is for other machines.
        builder = builder.no_proxy();
    }
    if address.must_resolve_locally() {
        builder = builder.dns_resolver(Arc::new(LoopbackResolver));
    }
    Ok(builder.build()?)
}

/// Returns the TLS configuration, with the system's certificates if TLS is used.
fn tls_config(is_used: bool) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    if is_used {
        return Ok(builder.with_platform_verifier()?.with_no_client_auth());
    }
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// Resolves names to loopback addresses only: a name such as `localhost` may point to another machine.
struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let resolved = lookup_host((name.as_str(), 0)).await?;
            let local: Vec<SocketAddr> =
                resolved.filter(|address| is_loopback(address.ip())).collect();
            if local.is_empty() {
                let message = "the name resolves to another machine";
                return Err(io::Error::new(io::ErrorKind::NotFound, message).into());
            }
            Ok(Box::new(local.into_iter()) as Addrs)
        })
    }
}
