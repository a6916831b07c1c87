//! Decoding of any JSON from a model: it is a command or a refusal, and every refusal can be rendered.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memory::command::Reply;
use memory::path::Layout;
use memory::tool::{decode, render};

fuzz_target!(|bytes: &[u8]| {
    let Ok(arguments) = serde_json::from_slice(bytes) else { return };
    for layout in [Layout::Scoped, Layout::Flat] {
        match decode(&arguments, layout) {
            Ok(command) => assert!(command.paths().count() > 0),
            Err(refusal) => {
                let shown = render(&Reply::Refused(refusal));
                assert!(shown.is_error && !shown.text.is_empty());
                assert_eq!(shown.facts["ok"], serde_json::Value::Bool(false));
            }
        }
    }
});
