//! API keys: from a variable of the environment, or printed by a command.
//!
//! A key never appears in `Debug` output, errors or logs.

use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Maximum run time of a key command; a person may have to unlock a key store meanwhile.
const COMMAND_WAIT: Duration = Duration::from_mins(1);
/// Maximum length of a key in bytes.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// The source of an API key. `Debug` shows no key.
#[derive(Clone, Debug)]
pub enum ApiKey {
    /// The server needs no key.
    None,
    /// A known key.
    Value(Secret),
    /// The named environment variable holds no key; nothing is ever sent.
    Missing(String),
    /// A command that prints the key. Runs once; the key is cached until a server rejects it.
    Command(Arc<KeyCommand>),
}

/// A key as it is sent.
#[derive(Clone)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A command that prints a key.
#[derive(Debug)]
pub struct KeyCommand {
    words: Vec<String>,
    cached: Mutex<Option<Secret>>,
}

/// The reason that there is no key. Contains no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The environment variable holds no key.
    #[error("the environment variable `{0}` holds no key")]
    Variable(String),
    /// The named command did not print a key.
    #[error("`{0}` printed no key: {1}")]
    Command(String, String),
}

fn parse_secret(text: &str) -> Option<Secret> {
    let key = text.trim();
    let is_key =
        !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.chars().all(|c| c.is_ascii_graphic());
    is_key.then(|| Secret(key.to_owned()))
}

impl ApiKey {
    /// Returns the key in an environment variable: one word of printable ASCII.
    pub fn from_variable(name: &str, value: Option<&str>) -> Self {
        value.and_then(parse_secret).map_or_else(|| Self::Missing(name.to_owned()), Self::Value)
    }

    /// Returns a key that a command prints. The words are the program and its arguments; no shell is involved.
    pub fn from_command(words: Vec<String>) -> Self {
        Self::Command(Arc::new(KeyCommand { words, cached: Mutex::default() }))
    }

    /// Returns the key, `None` if none is needed. Runs the command if the key is not cached.
    pub(crate) async fn get(&self) -> Result<Option<String>, KeyError> {
        match self {
            Self::None => Ok(None),
            Self::Value(Secret(key)) => Ok(Some(key.clone())),
            Self::Missing(name) => Err(KeyError::Variable(name.clone())),
            Self::Command(command) => command.get().await.map(Some),
        }
    }

    /// Drops the cached key of a command after a server rejected it: the command may print another one now.
    pub(crate) async fn invalidate(&self) {
        if let Self::Command(command) = self {
            *command.cached.lock().await = None;
        }
    }
}

impl KeyCommand {
    async fn get(&self) -> Result<String, KeyError> {
        let mut cached = self.cached.lock().await;
        if let Some(Secret(cached_key)) = &*cached {
            return Ok(cached_key.clone());
        }
        let name = self.words.first().cloned().expect("a command has a program");
        let key = self.run(&name).await.map_err(|reason| KeyError::Command(name, reason))?;
        *cached = Some(key.clone());
        Ok(key.0)
    }

    async fn run(&self, name: &str) -> Result<Secret, String> {
        let mut command = Command::new(name);
        command
            .args(self.words.iter().skip(1))
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let output = timeout(COMMAND_WAIT, command.output());
        let output = output.await.map_err(|_| format!("it took longer than {COMMAND_WAIT:?}"))?;
        let output = output.map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(output.status.to_string());
        }
        let printed = std::str::from_utf8(&output.stdout).ok().and_then(parse_secret);
        printed.ok_or_else(|| "its output is not a key".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(script: &str) -> ApiKey {
        ApiKey::from_command(["sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[tokio::test]
    async fn a_command_runs_once_until_its_key_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let key =
            command(&format!("echo x >> {0}; printf 'key-%s\\n' $(wc -l < {0})", count.display()));
        for _ in 0..3 {
            assert_eq!(key.get().await, Ok(Some("key-1".to_owned())));
        }
        key.invalidate().await;
        assert_eq!(key.get().await, Ok(Some("key-2".to_owned())));
        assert!(!format!("{key:?}").contains("key-2"), "{key:?}");
    }

    #[tokio::test]
    async fn a_failed_command_reports_the_reason_without_its_output() {
        let error_of = |script: &'static str| async move {
            command(script).get().await.unwrap_err().to_string()
        };
        assert_eq!(error_of("echo s3cret; exit 3").await, "`sh` printed no key: exit status: 3");
        assert_eq!(
            error_of("printf 'two words'").await,
            "`sh` printed no key: its output is not a key"
        );
        assert_eq!(error_of("true").await, "`sh` printed no key: its output is not a key");
        let missing = ApiKey::from_command(vec!["/nowhere/prints-a-key".to_owned()]);
        let error = missing.get().await.unwrap_err().to_string();
        assert!(error.starts_with("`/nowhere/prints-a-key` printed no key: "), "{error}");
    }
}
