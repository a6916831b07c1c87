//! Tests that the daemon follows its own API description.
//!
//! Schemathesis, a tool of other authors, sends requests that the description allows and others, and checks every answer.

use std::path::Path;
use std::process::Command;

use super::{Daemon, TOKEN};
use crate::mcp_clients::tool;
use crate::sandbox::Sandbox;

/// The environment variable for the number of generated requests for each operation; `cargo xtask api` sets it.
const EXAMPLES: &str = "LUKASA_API_EXAMPLES";

/// The number in the usual run, which takes a few seconds.
const EXAMPLES_DEFAULT: &str = "10";

/// The checks: server errors, statuses, content types and schemas of answers, and refusals without the token or with an
/// unknown method. Unknown fields of requests are not checked, because the daemon ignores them.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      ignored_auth,unsupported_method";

#[test]
fn every_answer_follows_the_api_description() {
    let place = Sandbox::with(&[("global/prefs.md", "- Prefers short answers.\n")]);
    let daemon = Daemon::start(&place);
    let examples = std::env::var(EXAMPLES).unwrap_or_else(|_| EXAMPLES_DEFAULT.to_owned());
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/schemathesis_hooks.py");
    let output = Command::new(tool("LUKASA_TEST_PYTHON"))
        .args(["-m", "schemathesis.cli", "run"])
        .arg(format!("{}/openapi.json", daemon.log_lines["url"].as_str().unwrap()))
        .args(["--header", &format!("Authorization: Bearer {TOKEN}")])
        .args(["--checks", CHECKS, "--max-examples", &examples])
        // Streams never end, and their frames are tested elsewhere.
        .args(["--exclude-path-regex", "/events$"])
        // The same requests each time, one after the other, and without stored examples.
        .args(["--seed", "1", "--workers", "1", "--generation-database", "none", "--no-color"])
        .env("SCHEMATHESIS_HOOKS", hooks)
        .current_dir(place.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("✅ Fuzzing"), "it did look: {told}");
    assert_eq!(daemon.get("/health").status, 200);
}
