//! The address of a folder on another machine.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

use crate::binding::{digest, folder_slug};

/// The folder of a project on a machine that `ssh` reaches, written as `ssh://[user@]host[:port]/path`.
///
/// The host may be an alias of the person's `ssh` configuration. A path that begins with `/~/` is below the home folder of
/// the user there. Other characters of a path than letters, digits and common punctuation are percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteFolder {
    host: RemoteHost,
    /// The path there, absolute or beginning with `~`.
    path: Vec<u8>,
}

/// A machine, and the user there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteHost {
    /// The user; the `ssh` configuration decides if there is none.
    pub(crate) user: Option<String>,
    pub(crate) name: String,
    pub(crate) port: Option<u16>,
}

/// The reason why a text is no address of a remote folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRemoteFolder {
    /// It does not begin with `ssh://`.
    #[error("the address of a remote folder begins with `ssh://`")]
    Scheme,
    /// The user has other characters than letters, digits, `.`, `_` and `-`, or begins with `-`.
    #[error("the user of the address is not valid")]
    User,
    /// The host has other characters, or begins with `-`.
    #[error("the host of the address is not valid")]
    Host,
    /// The port is no number from 1 to 65535.
    #[error("the port of the address is not valid")]
    Port,
    /// There is no path, or it has characters that must be percent-encoded.
    #[error(
        "the path of the address is not valid; write `%20` for a space, `%3F` for `?` and `%23` for `#`"
    )]
    Path,
}

/// Maximum length of a host name in bytes, as in the DNS.
const HOST_BYTES_MAX: usize = 255;
/// Maximum length of a user name in bytes, more than any system allows.
const USER_BYTES_MAX: usize = 128;

/// Characters of a path that stay as they are.
const PATH_CHARS: AsciiSet = NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_')
    .remove(b'~')
    .remove(b'+')
    .remove(b',')
    .remove(b'@')
    .remove(b'=');

impl RemoteFolder {
    /// Returns the machine.
    pub const fn host(&self) -> &RemoteHost {
        &self.host
    }

    /// Returns the path there, absolute or beginning with `~`.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Checks whether this is a folder, or a folder in it. Only the addresses are compared.
    pub(crate) fn is_below(&self, folder: &Self) -> bool {
        let below = self.path.strip_prefix(folder.path.as_slice());
        let is_in_it = below.is_some_and(|below| below.is_empty() || below.starts_with(b"/"));
        // A path upwards may lead anywhere.
        let has_parent = self.path.split(|byte| *byte == b'/').any(|name| name == b"..");
        self.host == folder.host && is_in_it && !has_parent
    }

    /// Checks whether this is the folder that contains every other one.
    pub(crate) fn is_everything(&self) -> bool {
        self.path == b"/"
    }

    /// Checks whether a text is meant as the address of a remote folder.
    pub fn is_address(text: &str) -> bool {
        text.get(..SCHEME.len()).is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
    }

    /// Returns a readable name with a digest of the address. Two addresses of one folder have two names.
    pub(crate) fn key(&self) -> String {
        let address = self.to_string();
        format!("{}-{}", folder_slug(Path::new(&address), "project"), digest(Path::new(&address)))
    }
}

const SCHEME: &str = "ssh://";

impl FromStr for RemoteFolder {
    type Err = InvalidRemoteFolder;

    fn from_str(text: &str) -> Result<Self, InvalidRemoteFolder> {
        let text = text.trim();
        if !Self::is_address(text) {
            return Err(InvalidRemoteFolder::Scheme);
        }
        let (_, rest) = text.split_at(SCHEME.len());
        let slash = rest.find('/').ok_or(InvalidRemoteFolder::Path)?;
        let (authority, encoded) = rest.split_at(slash);
        Ok(Self { host: authority.parse()?, path: decode_path(encoded)? })
    }
}

/// Decodes a path that begins with a slash.
fn decode_path(encoded: &str) -> Result<Vec<u8>, InvalidRemoteFolder> {
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '?' | '#');
    if !encoded.chars().all(is_plain) {
        return Err(InvalidRemoteFolder::Path);
    }
    let mut path: Vec<u8> = percent_decode_str(encoded).collect();
    if path.contains(&0) {
        return Err(InvalidRemoteFolder::Path);
    }
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    if path == b"/~" || path.starts_with(b"/~/") {
        path.remove(0);
    }
    Ok(path)
}

impl FromStr for RemoteHost {
    type Err = InvalidRemoteFolder;

    /// Parses `[user@]host[:port]`. An IPv6 address stands in brackets.
    fn from_str(text: &str) -> Result<Self, InvalidRemoteFolder> {
        let (user, rest) = match text.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, text),
        };
        let is_word = |text: &str, most: usize, more: &str| {
            (1..=most).contains(&text.len())
                && !text.starts_with('-')
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if user.is_some_and(|user| !is_word(user, USER_BYTES_MAX, "._-")) {
            return Err(InvalidRemoteFolder::User);
        }
        let (name, port) = if let Some(bracketed) = rest.strip_prefix('[') {
            let (name, port) = bracketed.split_once(']').ok_or(InvalidRemoteFolder::Host)?;
            let is_valid = is_word(name, HOST_BYTES_MAX, ":.%_-") && name.contains(':');
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or(InvalidRemoteFolder::Port)?),
            };
            (Some(name).filter(|_| is_valid), port)
        } else {
            let (name, port) = match rest.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (rest, None),
            };
            (Some(name).filter(|name| is_word(name, HOST_BYTES_MAX, "._-")), port)
        };
        let name = name.ok_or(InvalidRemoteFolder::Host)?.to_owned();
        let is_number = |port: &&str| port.bytes().all(|byte| byte.is_ascii_digit());
        let port = match port {
            None => None,
            Some(port) => {
                let number = Some(port).filter(is_number).and_then(|port| port.parse().ok());
                Some(number.filter(|number| *number > 0).ok_or(InvalidRemoteFolder::Port)?)
            }
        };
        Ok(Self { user: user.map(str::to_owned), name, port })
    }
}

impl fmt::Display for RemoteHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.name.contains(':') {
            write!(f, "[{}]", self.name)?;
        } else {
            f.write_str(&self.name)?;
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RemoteFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.path.starts_with(b"/") { "" } else { "/" };
        write!(f, "{SCHEME}{}{slash}{}", self.host, percent_encode(&self.path, &PATH_CHARS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_it_is_read() {
        for (text, canonical) in [
            ("ssh://build/srv/shop", "ssh://build/srv/shop"),
            ("SSH://ada@build.example:2222/srv/shop/", "ssh://ada@build.example:2222/srv/shop"),
            ("ssh://build/~/shop", "ssh://build/~/shop"),
            ("ssh://build/~", "ssh://build/~"),
            ("ssh://build/", "ssh://build/"),
            ("ssh://[::1]:22/srv", "ssh://[::1]:22/srv"),
            ("ssh://[fe80::1%eth0]/srv", "ssh://[fe80::1%eth0]/srv"),
            ("ssh://build/a%20b/%C3%A9'%22%0a", "ssh://build/a%20b/%C3%A9%27%22%0A"),
            ("ssh://build/é", "ssh://build/%C3%A9"),
            ("ssh://build/~ada/shop", "ssh://build/~ada/shop"),
        ] {
            let folder: RemoteFolder = text.parse().unwrap();
            assert_eq!(folder.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(folder), "{text}");
        }
        let folder: RemoteFolder = "ssh://build/~/shop".parse().unwrap();
        assert_eq!(folder.path(), b"~/shop");
    }

    #[test]
    fn what_could_be_an_option_or_a_command_is_refused() {
        use InvalidRemoteFolder as E;
        for (text, expected) in [
            ("/srv/shop", E::Scheme),
            ("file:///srv/shop", E::Scheme),
            ("ssh://-oProxyCommand=x/srv", E::Host),
            ("ssh://-x@build/srv", E::User),
            ("ssh://a b@build/srv", E::User),
            ("ssh://@build/srv", E::User),
            ("ssh:///srv", E::Host),
            ("ssh://bu$ild/srv", E::Host),
            ("ssh://build;x/srv", E::Host),
            ("ssh://[build]/srv", E::Host),
            ("ssh://[::1/srv", E::Host),
            ("ssh://build:/srv", E::Port),
            ("ssh://build:0/srv", E::Port),
            ("ssh://build:70000/srv", E::Port),
            ("ssh://build:+22/srv", E::Port),
            ("ssh://[::1]22/srv", E::Port),
            ("ssh://build", E::Path),
            ("ssh://build/a b", E::Path),
            ("ssh://build/a?b", E::Path),
            ("ssh://build/a%00", E::Path),
        ] {
            assert_eq!(text.parse::<RemoteFolder>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_folder_is_below_its_parents_on_the_same_machine() {
        let folder = |text: &str| text.parse::<RemoteFolder>().unwrap();
        let below = |one: &str, other: &str| folder(one).is_below(&folder(other));
        assert!(below("ssh://build/srv/shop", "ssh://build/srv/shop"));
        assert!(below("ssh://build/srv/shop", "ssh://build/srv"));
        assert!(!below("ssh://build/srv", "ssh://build/srv/shop"));
        assert!(!below("ssh://build/srv/shop2", "ssh://build/srv/shop"));
        assert!(!below("ssh://other/srv/shop", "ssh://build/srv"));
        assert!(!below("ssh://ada@build/srv/shop", "ssh://build/srv"));
        assert!(!below("ssh://build/srv/../etc", "ssh://build/srv"));
        assert!(!below("ssh://build/~/shop", "ssh://build/srv"));
        assert!(below("ssh://build/~/shop", "ssh://build/~"));
        assert!(folder("ssh://build/").is_everything() && !folder("ssh://build/~").is_everything());
    }

    proptest::proptest! {
        #[test]
        fn any_path_survives(path in proptest::collection::vec(1_u8.., 0..40)) {
            let encoded = percent_encode(&path, &PATH_CHARS).to_string();
            let folder: RemoteFolder = format!("ssh://build/{encoded}").parse().unwrap();
            proptest::prop_assert_eq!(folder.to_string().parse(), Ok(folder));
        }
    }
}
