//! Where an endpoint is.

use std::io;
use std::net::{IpAddr, SocketAddr};

use hyper::http::Uri;
use hyper::http::uri::Scheme;
use tokio::net::{TcpStream, lookup_host};

/// How far texts may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// To a server on this machine.
    ThisMachine,
    /// Over a network too, where whoever listens reads along.
    Network,
}

/// A text that is no address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// It needs TLS.
    #[error(
        "`https` is not spoken here: let a proxy on this machine speak it, and name its `http://` address"
    )]
    Tls,
    /// It is on another machine, and only this one was meant.
    #[error("`{0}` is not this machine, and `http` hides nothing from a network in between")]
    Elsewhere(String),
    /// It is something else.
    #[error(
        "an endpoint is named like `http://127.0.0.1:11434/v1`, without user, query or fragment"
    )]
    Shape,
}

/// Where an endpoint is, as it was checked.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    host: String,
    port: u16,
    /// What a request names as its host.
    pub(crate) authority: String,
    /// The path of all that the endpoint offers, without a slash at its end.
    pub(crate) path: String,
    reach: Reach,
}

impl Address {
    pub(crate) fn parse(url: &str, reach: Reach) -> Result<Self, BadUrl> {
        let uri: Uri = url.parse().map_err(|_| BadUrl::Shape)?;
        if uri.scheme() == Some(&Scheme::HTTPS) {
            return Err(BadUrl::Tls);
        }
        let authority = uri.authority().ok_or(BadUrl::Shape)?;
        let is_plain = uri.scheme() == Some(&Scheme::HTTP)
            && uri.query().is_none()
            && !url.contains('#')
            && !authority.as_str().contains('@');
        let port = match authority.port() {
            Some(port) => Some(port.as_u16()),
            None if authority.as_str() == authority.host() => Some(80),
            None => None,
        };
        let port = port.filter(|port| is_plain && *port > 0).ok_or(BadUrl::Shape)?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if reach == Reach::ThisMachine && !is_this_machine(&host) {
            return Err(BadUrl::Elsewhere(host));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { host, port, authority: authority.to_string(), path, reach })
    }

    pub(crate) async fn connect(&self) -> io::Result<TcpStream> {
        let found = lookup_host((self.host.as_str(), self.port)).await?;
        // A name may lead elsewhere than its letters say.
        let may_be =
            |address: &SocketAddr| self.reach == Reach::Network || address.ip().is_loopback();
        let addresses: Vec<SocketAddr> = found.filter(may_be).collect();
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address to use"));
        }
        let stream = TcpStream::connect(addresses.as_slice()).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_plain_http_on_this_machine_unless_a_person_says_more() {
        let parse = |url: &str, reach| {
            let address = Address::parse(url, reach)?;
            Ok((address.host, address.port, address.path))
        };
        let here = |url: &str| parse(url, Reach::ThisMachine);
        let at = |host: &str, port, path: &str| Ok((host.to_owned(), port, path.to_owned()));
        assert_eq!(here("http://127.0.0.1:11434/v1/"), at("127.0.0.1", 11434, "/v1"));
        assert_eq!(here("http://localhost"), at("localhost", 80, ""));
        assert_eq!(here("http://[::1]:8080/a/b"), at("::1", 8080, "/a/b"));
        assert_eq!(here("http://127.9.9.9:1"), at("127.9.9.9", 1, ""));
        let elsewhere = |host: &str| Err(BadUrl::Elsewhere(host.to_owned()));
        assert_eq!(here("http://models.internal:80/v1"), elsewhere("models.internal"));
        assert_eq!(here("http://10.0.0.7:80/v1"), elsewhere("10.0.0.7"));
        assert_eq!(here("http://localhost.example.com/v1"), elsewhere("localhost.example.com"));
        let far = parse("http://models.internal/v1", Reach::Network);
        assert_eq!(far, at("models.internal", 80, "/v1"));
    }

    #[test]
    fn https_is_told_from_what_is_no_address() {
        for reach in [Reach::ThisMachine, Reach::Network] {
            let check = |url: &str, expected: BadUrl| {
                assert_eq!(Address::parse(url, reach).err(), Some(expected), "{url}");
            };
            check("https://127.0.0.1:11434/v1", BadUrl::Tls);
            check("HTTPS://api.example.com/v1", BadUrl::Tls);
            for url in [
                "",
                "127.0.0.1:11434",
                "/v1",
                "ftp://127.0.0.1/v1",
                "http://",
                "http://127.0.0.1:/v1",
                "http://127.0.0.1:0/v1",
                "http://127.0.0.1:99999/v1",
                "http://me:secret@127.0.0.1/v1",
                "http://127.0.0.1/v1?key=a",
                "http://127.0.0.1/v1#a",
                "http://127.0.0.1/a b",
            ] {
                check(url, BadUrl::Shape);
            }
        }
    }
}
