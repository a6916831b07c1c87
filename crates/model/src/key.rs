//! How a server knows who asks.

use std::fmt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long a command that tells a key may take: somebody may have to unlock a key store.
const COMMAND_WAIT: Duration = Duration::from_mins(1);
/// Bytes that a key may have.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// What a server is told to know who asks. `Debug` shows no key.
#[derive(Clone, Debug)]
pub enum ApiKey {
    /// It asks for none.
    None,
    /// This one.
    Value(Secret),
    /// The variable of the environment that a person named holds none: nothing is ever sent.
    Missing(String),
    /// What a command prints, asked for once.
    Command(Arc<KeyCommand>),
}

/// A key, as it is sent.
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

/// Why there is no key. Says nothing of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The variable holds none.
    #[error("the variable `{0}` of the environment holds no key")]
    Variable(String),
    /// The command, which is named, printed none.
    #[error("`{0}` told no key: {1}")]
    Command(String, String),
}

fn parse_secret(text: &str) -> Option<Secret> {
    let key = text.trim();
    let is_key =
        !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.chars().all(|c| c.is_ascii_graphic());
    is_key.then(|| Secret(key.to_owned()))
}

impl ApiKey {
    /// Returns the key that a variable of the environment holds, if it holds one: printable ASCII in one word.
    pub fn from_variable(name: &str, value: Option<&str>) -> Self {
        value.and_then(parse_secret).map_or_else(|| Self::Missing(name.to_owned()), Self::Value)
    }

    /// Returns a key that a command prints. The words are its program and arguments; no shell reads them.
    pub fn from_command(words: Vec<String>) -> Self {
        Self::Command(Arc::new(KeyCommand { words, cached: Mutex::default() }))
    }

    /// Returns the key, `None` where none is needed.
    pub(crate) async fn get(&self) -> Result<Option<String>, KeyError> {
        match self {
            Self::None => Ok(None),
            Self::Value(Secret(key)) => Ok(Some(key.clone())),
            Self::Missing(name) => Err(KeyError::Variable(name.clone())),
            Self::Command(command) => command.get().await.map(Some),
        }
    }

    /// Forgets what a command printed: a server did not take it, and it may print another one by now.
    pub(crate) async fn invalidate(&self) {
        if let Self::Command(command) = self {
            *command.cached.lock().await = None;
        }
    }
}

impl KeyCommand {
    async fn get(&self) -> Result<String, KeyError> {
        let mut known = self.cached.lock().await;
        if let Some(Secret(key)) = &*known {
            return Ok(key.clone());
        }
        let name = self.words.first().cloned().expect("a command has a program");
        let told = self.run(&name).await.map_err(|why| KeyError::Command(name, why))?;
        *known = Some(told.clone());
        Ok(told.0)
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
        printed.ok_or_else(|| "what it printed is no key".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(script: &str) -> ApiKey {
        ApiKey::from_command(["sh", "-c", script].map(str::to_owned).to_vec())
    }

    #[tokio::test]
    async fn a_command_is_asked_once_until_its_key_is_refused() {
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
    async fn a_command_that_fails_says_why_and_not_what_it_printed() {
        let why = |script: &'static str| async move {
            command(script).get().await.unwrap_err().to_string()
        };
        assert_eq!(why("echo s3cret; exit 3").await, "`sh` told no key: exit status: 3");
        assert_eq!(why("printf 'two words'").await, "`sh` told no key: what it printed is no key");
        assert_eq!(why("true").await, "`sh` told no key: what it printed is no key");
        let missing = ApiKey::from_command(vec!["/nowhere/tells-a-key".to_owned()]);
        let error = missing.get().await.unwrap_err().to_string();
        assert!(error.starts_with("`/nowhere/tells-a-key` told no key: "), "{error}");
    }
}
