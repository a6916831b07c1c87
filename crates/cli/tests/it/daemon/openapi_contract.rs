//! The daemon keeps to its own description: Schemathesis, which nobody here wrote, asks for whatever that
//! allows and for what it does not, and looks at every answer.

use std::path::Path;
use std::process::Command;

use super::{Daemon, TOKEN};
use crate::mcp_clients::tool;
use crate::sandbox::Sandbox;

/// How many requests are made up for each operation, beside those that follow from its description; set by
/// `cargo xtask api`.
const EXAMPLES: &str = "LUKASA_API_EXAMPLES";

/// So many are made up in the usual run: a few seconds.
const EXAMPLES_DEFAULT: &str = "10";

/// What is looked at: faults, statuses, kinds and shapes of answers, and that nothing is answered without
/// the token or with a method that is not there. What a request may hold beside what is known is not: it
/// is ignored.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      ignored_auth,unsupported_method";

#[test]
fn every_answer_is_as_it_is_described() {
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
        // The same requests each time, one after the other, and nothing kept.
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
