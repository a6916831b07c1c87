//! The base URL of a server, checked for unencrypted connections.

use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;

/// The hosts that texts may be sent to without encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaintextReach {
    /// Only this machine.
    ThisMachine,
    /// Any host, although others on the network can read the texts.
    Network,
}

/// An invalid server address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseAddressError {
    /// The server is on another machine and the connection would be unencrypted.
    #[error("`{0}` is another machine, and `http` does not encrypt the connection: use `https`")]
    NotLocal(String),
    /// Not a URL of a supported form.
    #[error(
        "a server address looks like `http://127.0.0.1:11434/v1` or `https://api.example.com/v1`, without user, query or fragment"
    )]
    Malformed,
}

/// The checked base URL of a server: `https`, or `http` as far as [`PlaintextReach`] permits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Ends with a slash.
    url: Url,
    reach: PlaintextReach,
}

impl Address {
    /// Parses the base URL of a server, with or without a slash at its end.
    pub fn parse(url: &str, reach: PlaintextReach) -> Result<Self, ParseAddressError> {
        // The URL parser would skip white space and line breaks.
        if url.chars().any(|c| c.is_whitespace() || c.is_control()) || !url.contains("://") {
            return Err(ParseAddressError::Malformed);
        }
        let mut url: Url = url.parse().map_err(|_| ParseAddressError::Malformed)?;
        let host = url.host_str().ok_or(ParseAddressError::Malformed)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            && url.port() != Some(0);
        match url.scheme() {
            _ if !is_plain => return Err(ParseAddressError::Malformed),
            "https" => {}
            "http" if reach == PlaintextReach::Network || is_this_machine(&host) => {}
            "http" => return Err(ParseAddressError::NotLocal(host)),
            _ => return Err(ParseAddressError::Malformed),
        }
        let path = format!("{}/", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Ok(Self { url, reach })
    }

    /// Returns the URL, with a slash at its end.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the URL of a path below the address.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Returns host, port and path, without a slash at its end.
    pub(crate) fn location(&self) -> String {
        let host = self.url.host_str().expect("an address has a host");
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{host}{port}{}", self.url.path().trim_end_matches('/'))
    }

    /// Returns whether the host name may resolve only to this machine.
    pub(crate) fn must_resolve_locally(&self) -> bool {
        self.url.scheme() == "http" && self.reach == PlaintextReach::ThisMachine
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns whether the host is this machine, by name or by address.
    pub(crate) fn is_this_machine(&self) -> bool {
        let host = self.url.host_str().expect("an address has a host");
        is_this_machine(host.trim_start_matches('[').trim_end_matches(']'))
    }
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|address: IpAddr| is_loopback(address))
}

/// Returns whether an address is a loopback address, an IPv4 address mapped to IPv6 included.
pub(crate) fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => {
            address == Ipv6Addr::LOCALHOST
                || address.to_ipv4_mapped().is_some_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unencrypted_address_must_be_local_unless_the_network_is_permitted() {
        let parse = |url: &str, reach| {
            Address::parse(url, reach).map(|address| address.as_str().to_owned())
        };
        let parse_local = |url: &str| parse(url, PlaintextReach::ThisMachine);
        let ok = |url: &str| Ok(url.to_owned());
        assert_eq!(parse_local("http://127.0.0.1:11434/v1/"), ok("http://127.0.0.1:11434/v1/"));
        assert_eq!(parse_local("http://localhost"), ok("http://localhost/"));
        assert_eq!(parse_local("http://[::1]:8080/a/b"), ok("http://[::1]:8080/a/b/"));
        assert_eq!(parse_local("http://127.9.9.9:1"), ok("http://127.9.9.9:1/"));
        assert_eq!(parse_local("https://api.example.com/v1"), ok("https://api.example.com/v1/"));
        let not_local = |host: &str| Err(ParseAddressError::NotLocal(host.to_owned()));
        assert_eq!(parse_local("http://models.internal:80/v1"), not_local("models.internal"));
        assert_eq!(parse_local("http://10.0.0.7:80/v1"), not_local("10.0.0.7"));
        assert_eq!(
            parse_local("http://localhost.example.com/v1"),
            not_local("localhost.example.com")
        );
        let remote = parse("http://models.internal/v1", PlaintextReach::Network);
        assert_eq!(remote, ok("http://models.internal/v1/"));
    }

    #[test]
    fn a_malformed_address_is_refused() {
        for url in [
            "",
            "127.0.0.1:11434",
            "localhost:1",
            "/v1",
            "ftp://127.0.0.1/v1",
            "http://",
            "http://127.0.0.1:0/v1",
            "http://127.0.0.1:99999/v1",
            "http://me:secret@127.0.0.1/v1",
            "https://me@127.0.0.1/v1",
            "http://127.0.0.1/v1?key=a",
            "http://127.0.0.1/v1#a",
            "http://127.0.0.1/a b",
            "http://127.0.0.1/a\nb",
        ] {
            for reach in [PlaintextReach::ThisMachine, PlaintextReach::Network] {
                assert_eq!(Address::parse(url, reach), Err(ParseAddressError::Malformed), "{url}");
            }
        }
    }

    #[test]
    fn a_location_contains_no_scheme() {
        let location =
            |url: &str| Address::parse(url, PlaintextReach::ThisMachine).unwrap().location();
        assert_eq!(location("http://127.0.0.1:11434/v1/"), "127.0.0.1:11434/v1");
        assert_eq!(location("https://api.example.com/v1"), "api.example.com/v1");
    }
}
