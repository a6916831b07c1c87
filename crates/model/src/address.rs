//! Where a server is.

use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;

/// How far texts may go without being encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaintextReach {
    /// To a server on this machine.
    ThisMachine,
    /// Over a network too, where whoever listens reads along.
    Network,
}

/// A text that is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseAddressError {
    /// It is on another machine, and would be asked in the clear.
    #[error(
        "`{0}` is not this machine, and `http` hides nothing from a network in between: use `https`"
    )]
    NotLocal(String),
    /// It is something else.
    #[error(
        "a server is named like `http://127.0.0.1:11434/v1` or `https://api.example.com/v1`, without user, query or fragment"
    )]
    Malformed,
}

/// Where a server is, checked: `https`, or `http` as far as its [`PlaintextReach`] goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Ends with a slash.
    url: Url,
    reach: PlaintextReach,
}

impl Address {
    /// Reads the address below which everything is that a server offers, with or without a slash at its end.
    pub fn parse(url: &str, reach: PlaintextReach) -> Result<Self, ParseAddressError> {
        // The parser would pass over white space and line breaks.
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

    /// Returns the address of something that the server offers.
    pub(crate) fn join(&self, below: &str) -> String {
        format!("{}{below}", self.url)
    }

    /// Returns host, port and path, without a slash at its end.
    pub(crate) fn location(&self) -> String {
        let host = self.url.host_str().expect("an address has a host");
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{host}{port}{}", self.url.path().trim_end_matches('/'))
    }

    /// Tells whether the name of its host may lead to this machine alone.
    pub(crate) fn must_resolve_locally(&self) -> bool {
        self.url.scheme() == "http" && self.reach == PlaintextReach::ThisMachine
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Tells whether the host is this machine by its name.
    pub(crate) fn is_this_machine(&self) -> bool {
        let host = self.url.host_str().expect("an address has a host");
        is_this_machine(host.trim_start_matches('[').trim_end_matches(']'))
    }
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|address: IpAddr| is_loopback(address))
}

/// Tells whether an address is one of this machine, also one of IPv4 that is written as one of IPv6.
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
    fn an_address_is_on_this_machine_or_encrypted_unless_a_person_says_more() {
        let parse = |url: &str, reach| Address::parse(url, reach).map(|at| at.as_str().to_owned());
        let here = |url: &str| parse(url, PlaintextReach::ThisMachine);
        let at = |url: &str| Ok(url.to_owned());
        assert_eq!(here("http://127.0.0.1:11434/v1/"), at("http://127.0.0.1:11434/v1/"));
        assert_eq!(here("http://localhost"), at("http://localhost/"));
        assert_eq!(here("http://[::1]:8080/a/b"), at("http://[::1]:8080/a/b/"));
        assert_eq!(here("http://127.9.9.9:1"), at("http://127.9.9.9:1/"));
        assert_eq!(here("https://api.example.com/v1"), at("https://api.example.com/v1/"));
        let elsewhere = |host: &str| Err(ParseAddressError::NotLocal(host.to_owned()));
        assert_eq!(here("http://models.internal:80/v1"), elsewhere("models.internal"));
        assert_eq!(here("http://10.0.0.7:80/v1"), elsewhere("10.0.0.7"));
        assert_eq!(here("http://localhost.example.com/v1"), elsewhere("localhost.example.com"));
        let far = parse("http://models.internal/v1", PlaintextReach::Network);
        assert_eq!(far, at("http://models.internal/v1/"));
    }

    #[test]
    fn what_is_no_address_is_refused() {
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
    fn the_place_of_an_address_names_no_scheme() {
        let place =
            |url: &str| Address::parse(url, PlaintextReach::ThisMachine).unwrap().location();
        assert_eq!(place("http://127.0.0.1:11434/v1/"), "127.0.0.1:11434/v1");
        assert_eq!(place("https://api.example.com/v1"), "api.example.com/v1");
    }
}
