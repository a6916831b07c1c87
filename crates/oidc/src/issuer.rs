//! The addresses of a provider: `https`, or `http` on this machine for tests and development.

use std::net::IpAddr;

use reqwest::Url;

use crate::error::ConfigError;

/// The path of the discovery document below the issuer.
const DISCOVERY_PATH: &str = "/.well-known/openid-configuration";

/// The issuer of tokens, checked for unencrypted connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    /// The text as it was configured: `iss` and the discovery document must have the same.
    text: String,
    /// Whether the provider is on this machine and speaks plain HTTP.
    is_plain: bool,
}

impl Issuer {
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        // The URL parser would skip white space and line breaks.
        let is_clean = !text.chars().any(|c| c.is_whitespace() || c.is_control());
        let url: Option<Url> = text.parse().ok().filter(|_| is_clean && text.contains("://"));
        let url = url.ok_or(ConfigError::MalformedIssuer)?;
        let has_only_a_path = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if !has_only_a_path || !["http", "https"].contains(&url.scheme()) {
            return Err(ConfigError::MalformedIssuer);
        }
        let is_plain = url.scheme() == "http";
        if is_plain && !is_this_machine(&url) {
            return Err(ConfigError::PlainIssuer);
        }
        Ok(Self { text: text.to_owned(), is_plain })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) const fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns the address of the discovery document.
    pub(crate) fn discovery_address(&self) -> String {
        format!("{}{DISCOVERY_PATH}", self.text.trim_end_matches('/'))
    }

    /// Parses the address of the keys, which may be on another machine. It is encrypted like that of the issuer.
    pub(crate) fn key_address(&self, text: &str) -> Option<Url> {
        let url: Url = text.parse().ok()?;
        let is_allowed = match url.scheme() {
            "https" => true,
            "http" => self.is_plain && is_this_machine(&url),
            _ => false,
        };
        is_allowed.then_some(url)
    }
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}
