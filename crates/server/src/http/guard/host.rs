//! The check of the `Host` header, against DNS rebinding.
//!
//! A page of any site can make a browser connect to this machine under a name of that site (DNS rebinding), but it
//! cannot make the browser send another `Host`. So only names that belong to this machine are accepted: those of
//! the loopback, and those that the person configured.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

/// The name of the loopback.
const LOOPBACK_HOSTS: &str = "localhost";

/// The configured host names. Loopback names are always allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<String>);

/// A text that is not a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host; a host is a name or an address, without scheme, path and port")]
pub struct BadHost(pub String);

impl AllowedHosts {
    /// Adds a host: a name or an address, without a port.
    pub fn add(&mut self, host: &str) -> Result<(), BadHost> {
        let lower = host.to_ascii_lowercase();
        let bare =
            lower.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(&lower);
        let is_name = !bare.is_empty()
            && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if !is_name && Ipv6Addr::from_str(bare).is_err() {
            return Err(BadHost(host.to_owned()));
        }
        self.0.push(bare.to_owned());
        Ok(())
    }

    /// Checks whether a request has exactly one `Host` header, and whether it and the host of the URI are allowed.
    pub(super) fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(HOST).iter();
        let (Some(host), None) = (values.next(), values.next()) else { return false };
        if uri.host().is_none() && is_loopback_header(host.as_bytes()) {
            return true;
        }
        let host = host.to_str().ok().and_then(host_name);
        host.is_some_and(|host| self.is_allowed(&host))
            && uri.host().is_none_or(|host| self.is_allowed(host))
    }

    fn is_allowed(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        // Only an IPv6 address is written in brackets.
        if let Some(inside) = host.strip_prefix('[') {
            let is_allowed = |text: &str| {
                let address = Ipv6Addr::from_str(text);
                address.is_ok_and(|address| {
                    address.is_loopback() || self.0.iter().any(|ours| ours == text)
                })
            };
            return inside.strip_suffix(']').is_some_and(is_allowed);
        }
        host == LOOPBACK_HOSTS
            || Ipv4Addr::from_str(&host).is_ok_and(|address| address.is_loopback())
            || self.0.contains(&host)
    }
}

/// Checks for the `Host` header that nearly all callers send, without a full parse.
fn is_loopback_header(header: &[u8]) -> bool {
    let port = |rest: &[u8]| match rest {
        [] => true,
        [b':', port @ ..] => {
            let number = str::from_utf8(port).ok().and_then(|text| text.parse::<u16>().ok());
            number.is_some() && port.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    };
    [LOOPBACK_HOSTS.as_bytes(), b"127.0.0.1"]
        .into_iter()
        .any(|ours| header.strip_prefix(ours).is_some_and(port))
}

/// Returns the host of a `Host` header without its port; `None` if it is malformed.
fn host_name(header: &str) -> Option<String> {
    let authority: Authority = header.parse().ok()?;
    // User information before an `@` is not part of a valid `Host` header.
    (!header.contains('@') && has_valid_port(&authority)).then(|| authority.host().to_owned())
}

/// Checks whether an authority is a host, optionally with a numeric port, and nothing else.
pub(super) fn has_valid_port(authority: &Authority) -> bool {
    let (text, host) = (authority.as_str(), authority.host());
    let rest = text.rsplit_once('@').map_or(text, |(_, rest)| rest).strip_prefix(host);
    match rest {
        Some("") => true,
        Some(rest) => authority.port_u16().is_some_and(|_| {
            rest.strip_prefix(':')
                .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
        }),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(hosts: &[&str], uri: &str, allowed: bool) {
        let mut configured = AllowedHosts::default();
        configured.add("box.lan").unwrap();
        configured.add("fd00::7").unwrap();
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        assert_eq!(configured.allow(&uri.parse().unwrap(), &headers), allowed, "{hosts:?} {uri}");
    }

    #[test]
    fn only_loopback_and_configured_names_are_allowed() {
        for host in [
            "localhost",
            "LocalHost:4170",
            "127.0.0.1:4170",
            "127.8.9.1",
            "[::1]:4170",
            "box.lan",
            "BOX.lan:1",
            "[fd00::7]:4170",
        ] {
            check(&[host], "/health", true);
        }
        for host in [
            "",
            "evil.example",
            "evil.example:4170",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "localhost@evil.example",
            "evil.example@localhost",
            "host.docker.internal:80",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "[localhost]",
            "[box.lan]",
            "[127.0.0.1]:80",
            "[::1]localhost:80",
            "[fd00::8]",
            "localhost:port",
            "local host",
        ] {
            check(&[host], "/health", false);
        }
        check(&[], "/health", false);
        check(&["localhost", "localhost"], "/health", false);
        check(&["localhost"], "http://evil.example/health", false);
        check(&["localhost"], "http://localhost:4170/health", true);
    }

    #[test]
    fn a_configured_host_is_a_bare_name_or_address() {
        for host in ["box", "box.lan", "10.0.0.7", "fd00::7", "[fd00::7]"] {
            assert_eq!(AllowedHosts::default().add(host), Ok(()), "{host}");
        }
        for host in ["", "http://box", "box/", "box:80", "*", "*.lan", "a b", "a@b"] {
            assert_eq!(AllowedHosts::default().add(host), Err(BadHost(host.to_owned())), "{host}");
        }
    }

    proptest::proptest! {
        #[test]
        fn every_allowed_header_is_an_allowed_name_with_an_optional_port(pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "localhost", "127.0.0.1", "[::1]", "box.lan", "evil.example", ":", "80", ".", "@", "/", "#",
                "?", "\\", "%2e", "[", "]", " ", "\t", ",", "-", "\u{e9}",
            ]),
            1..6,
        )) {
            let header = pieces.concat();
            let mut configured = AllowedHosts::default();
            configured.add("box.lan").unwrap();
            let mut headers = HeaderMap::new();
            headers.append(HOST, axum::http::HeaderValue::from_bytes(header.as_bytes()).unwrap());
            if configured.allow(&Uri::from_static("/"), &headers) {
                let name = ["localhost", "127.0.0.1", "[::1]", "box.lan"]
                    .into_iter()
                    .find_map(|name| header.strip_prefix(name));
                let rest = name.map(|rest| rest.strip_prefix(':').unwrap_or(rest));
                proptest::prop_assert!(
                    rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit())),
                    "{header:?}"
                );
            }
        }
    }
}
