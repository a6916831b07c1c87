//! The daemon of the demo: a child process that is asked over HTTP to remember, is heard when it did, and
//! takes it back. Requests are written by hand, byte for byte as any program could.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::Duration;

use memory::code::Code;
use protocol::frame;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::stage::{Stage, text_of};
use super::teller::Teller;
use crate::exit::Failure;

/// How long the daemon may take for an answer or an event.
const PATIENCE: Duration = Duration::from_secs(30);

const REMEMBER: &str = "/workspace/memory/remember";

/// A daemon and how it is reached.
struct Daemon {
    process: u32,
    /// Kept open, so that it can say more.
    _stdout: BufReader<ChildStdout>,
    address: String,
    token: String,
}

/// What was answered.
struct Answer {
    status: u16,
    body: Value,
}

/// Plays the chapter.
pub(super) fn play(teller: &Teller, stage: &Stage) -> Result<(), Failure> {
    teller.chapter("7. A daemon")?;
    teller.sent("$ quipu serve --port 0 --json")?;
    let daemon = Daemon::start(stage)?;
    teller.got(&format!("it listens at http://{}", daemon.address))?;
    let stranger = daemon.send("GET", "/capabilities", None, "a-token-that-was-guessed")?;
    teller.claim(stranger.status == 401, "without the token that it made, nobody gets in")?;
    let events = daemon.open("GET", "/v1/events", None, &daemon.token)?;
    let asked = json!({ "content": "I prefer tabs over spaces." });
    teller.sent(&format!("POST {REMEMBER} {asked}"))?;
    let queued = daemon.ask("POST", REMEMBER, Some(&asked))?;
    teller.got(&format!("{} {}", queued.status, queued.body))?;
    let Some(task) = queued.body["taskId"].as_str().filter(|_| queued.status == 202) else {
        return teller.claim(false, "the task is queued");
    };
    let told = told_of(events, task)?;
    teller.got(&format!("event: {told}"))?;
    teller.claim(told["type"] == "memory_changed", "whoever listens is told when it is done")?;
    take_back(teller, &daemon, task)?;
    teller.claim(daemon.end(stage)?, "told to end, it ends in good order")
}

/// Looks at what a task wrote, and takes it back.
fn take_back(teller: &Teller, daemon: &Daemon, task: &str) -> Result<(), Failure> {
    let done = daemon.ask("GET", &format!("{REMEMBER}/{task}"), None)?.body;
    teller.got(&done["result"].to_string())?;
    teller.claim(done["status"] == "completed", "the task is completed, without any model")?;
    let found = || daemon.ask("GET", "/v1/search?q=tabs+over+spaces", None);
    let matches = |answer: &Answer| answer.body["matches"].as_array().map_or(0, Vec::len);
    teller.claim(matches(&found()?) == 1, "the sentence is in a memory, once")?;
    let changes = daemon.ask("GET", &format!("/v1/changes?task={task}"), None)?;
    let change = changes.body["changes"][0]["id"].to_string();
    let path = format!("/v1/changes/{change}/undo");
    teller.sent(&format!("POST {path}"))?;
    let undone = daemon.ask("POST", &path, None)?;
    teller.got(&undone.body.to_string())?;
    teller.claim(
        undone.status == 200 && matches(&found()?) == 0,
        "one request takes back what the task did, and nothing else",
    )
}

/// Reads a stream of events until it tells of a task; returns that.
fn told_of(mut stream: TcpStream, task: &str) -> Result<Value, Failure> {
    let (mut head, mut bytes) = (Vec::new(), [0; 4_096]);
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).map_err(|error| broken(&error))?;
        head.extend(byte);
    }
    let mut frames = frame::Reader::default();
    loop {
        let count = stream.read(&mut bytes).map_err(|error| broken(&error))?;
        let Some(read) = bytes.get(..count).filter(|read| !read.is_empty()) else {
            return Err(Failure::new(Code::StorageFailed, "the daemon ended the stream"));
        };
        let frames = frames.take(read);
        let frames =
            frames.map_err(|error| Failure::new(Code::StorageFailed, error.to_string()))?;
        for frame in frames {
            let event: Value = serde_json::from_str(&frame.data).unwrap_or_default();
            if event["data"]["taskId"] == task {
                return Ok(event);
            }
        }
    }
}

impl Daemon {
    /// Starts one for the project on the stage, at a port that is free, and waits until it listens.
    fn start(stage: &Stage) -> Result<Self, Failure> {
        let mut command = stage.quipu(&["serve", "--port", "0", "--json"]);
        // It is to make a token of its own.
        command.env_remove("QUIPU_TOKEN");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = stage.start(command, |child| child.stdout.take());
        let (process, stdout) = started.map_err(|error| stage.cannot_start(&error))?;
        let silent =
            || Failure::new(Code::StorageFailed, "the daemon does not say where it listens");
        let mut stdout = BufReader::new(stdout.ok_or_else(silent)?);
        let mut line = String::new();
        stdout.read_line(&mut line).map_err(|error| broken(&error))?;
        let said: Value = serde_json::from_str(&line).map_err(|_| silent())?;
        let address = said["url"].as_str().and_then(|url| url.strip_prefix("http://"));
        let token = said["token_file"].as_str().and_then(|file| text_of(Path::new(file)));
        let (Some(address), Some(token)) = (address, token) else { return Err(silent()) };
        let (address, token) = (address.to_owned(), token.trim().to_owned());
        Ok(Self { process, _stdout: stdout, address, token })
    }

    /// Sends a request with the token and reads the answer.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, Failure> {
        self.send(method, path, body, &self.token)
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        token: &str,
    ) -> Result<Answer, Failure> {
        let mut answer = String::new();
        let mut stream = self.open(method, path, body, token)?;
        stream.read_to_string(&mut answer).map_err(|error| broken(&error))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(Answer {
            status: status.unwrap_or_default(),
            body: serde_json::from_str(body).unwrap_or_default(),
        })
    }

    /// Sends a request over a connection of its own, whose end is the end of the answer.
    fn open(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        token: &str,
    ) -> Result<TcpStream, Failure> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let sent = TcpStream::connect(&self.address).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(request.as_bytes())?;
            Ok(stream)
        });
        sent.map_err(|error| broken(&error))
    }

    /// Tells it to end, as a service manager does; returns whether it ended well.
    fn end(self, stage: &Stage) -> Result<bool, Failure> {
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            kill_process(process, Signal::TERM).map_err(|error| broken(&error.into()))?;
        }
        let ended = stage.wait(self.process).map_err(|error| stage.cannot_start(&error))?;
        Ok(ended.success())
    }
}

fn broken(error: &std::io::Error) -> Failure {
    Failure::new(Code::StorageFailed, format!("the daemon cannot be talked to: {error}"))
}
