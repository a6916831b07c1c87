//! Measures the size of the program.

use std::path::Path;

use crate::report::{ReportLine, ReportTarget, Section};

const PROGRAM_BYTES_MAX: u64 = 40 << 20;

/// The tables that the feature `embedder` adds to the program.
const TABLES: [&[u8]; 2] = [
    include_bytes!("../../crates/recall/data/tokens.qtv"),
    include_bytes!("../../crates/recall/data/wordings.qwt"),
];

/// Measures the program at `lukasa`.
pub(crate) fn measure(lukasa: &Path) -> anyhow::Result<Section> {
    let program = std::fs::read(lukasa)?;
    // The program holds each table as it is, so the beginning of a table identifies it.
    let holds = |table: &&[u8]| program.windows(64).any(|bytes| bytes == &table[..64]);
    let tables: usize = TABLES.into_iter().filter(holds).map(<[u8]>::len).sum();
    let size = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    let lines = vec![
        ReportLine::bytes("release program", size(program.len()))
            .target(ReportTarget::Bytes(PROGRAM_BYTES_MAX)),
        ReportLine::bytes("of which tables of recall", size(tables)),
    ];
    Ok(Section {
        title: "Size",
        method: "The program as it is built for a release.".to_owned(),
        lines,
    })
}
