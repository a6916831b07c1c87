//! The HTTP client that both kinds of question share.

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

/// How long a connection may take. A server that answers slowly may still think.
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// The client of one address, made when it is first used: reading this machine's certificates takes some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpClient(Arc<OnceLock<reqwest::Client>>);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[error("no connection can be made from here")]
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
        // What a server sends is read as large as it is sent.
        .gzip(false)
        .connect_timeout(CONNECT_WAIT)
        .tcp_nodelay(true)
        .tls_backend_preconfigured(tls_config(address.is_encrypted())?);
    if address.is_this_machine() {
        // A proxy of the environment is for what is elsewhere.
        builder = builder.no_proxy();
    }
    if address.must_resolve_locally() {
        builder = builder.dns_resolver(Arc::new(LoopbackResolver));
    }
    Ok(builder.build()?)
}

/// Returns how connections are encrypted, with the certificates that this machine trusts if any will be.
fn tls_config(is_used: bool) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    if is_used {
        return Ok(builder.with_platform_verifier()?.with_no_client_auth());
    }
    Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

/// Follows names to this machine alone: a name may lead elsewhere than its letters say.
struct LoopbackResolver;

impl Resolve for LoopbackResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = lookup_host((name.as_str(), 0)).await?;
            let here: Vec<SocketAddr> = found.filter(|at| is_loopback(at.ip())).collect();
            if here.is_empty() {
                let what = "the name leads to another machine";
                return Err(io::Error::new(io::ErrorKind::NotFound, what).into());
            }
            Ok(Box::new(here.into_iter()) as Addrs)
        })
    }
}
