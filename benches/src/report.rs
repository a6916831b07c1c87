//! What was measured, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::measure::Times;

/// Everything that a run measured.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) sections: Vec<Section>,
}

/// Lines that belong together.
#[derive(Debug)]
pub(crate) struct Section {
    /// What they are about.
    pub(crate) title: &'static str,
    /// What exactly was done, and where.
    pub(crate) method: String,
    pub(crate) lines: Vec<ReportLine>,
}

/// One thing that was measured.
#[derive(Debug)]
pub(crate) struct ReportLine {
    name: String,
    value: MeasuredValue,
    against: Option<Comparison>,
    target: Option<ReportTarget>,
}

/// What came out.
#[derive(Debug)]
enum MeasuredValue {
    Calls {
        p10: Duration,
        p50: Duration,
        p95: Duration,
        p99: Duration,
        count: usize,
    },
    Bytes(u64),
    /// So many a second.
    Rate(f64),
    /// So many.
    Count(u64),
    /// So long, once.
    Seconds(f64),
    /// So much of all there is, which is 1.
    Share(f64),
}

/// What it is compared with.
#[derive(Debug)]
enum Comparison {
    /// So many times as much as that.
    Ratio { of: String, ratio: f64 },
    /// So much more than that.
    More { than: String, seconds: f64 },
    /// With its own slowest hundredth.
    Tail,
}

/// What was to be reached.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReportTarget {
    /// At most so many times what it is compared with.
    Ratio(f64),
    /// At most so much more than what it is compared with.
    More(Duration),
    /// At most so long, half of the time.
    P50(Duration),
    /// At most so long, 99 times of a hundred.
    P99(Duration),
    /// At most so many bytes.
    Bytes(u64),
    /// At most so many a second.
    Rate(f64),
    /// At most so many.
    Count(u64),
    /// At least so much of all there is.
    Share(f64),
}

impl ReportLine {
    /// Returns a line of calls.
    pub(crate) fn calls(what: impl Into<String>, times: &Times) -> Self {
        let value = MeasuredValue::Calls {
            p10: times.p10(),
            p50: times.p50(),
            p95: times.p95(),
            p99: times.p99(),
            count: times.count(),
        };
        Self { name: what.into(), value, against: None, target: None }
    }

    /// Returns a line of an amount.
    pub(crate) fn bytes(what: impl Into<String>, bytes: u64) -> Self {
        Self { name: what.into(), value: MeasuredValue::Bytes(bytes), against: None, target: None }
    }

    /// Returns a line of what happens so many times a second.
    pub(crate) fn rate(what: impl Into<String>, rate: f64) -> Self {
        Self { name: what.into(), value: MeasuredValue::Rate(rate), against: None, target: None }
    }

    /// Returns a line of what was counted.
    pub(crate) fn count(what: impl Into<String>, count: u64) -> Self {
        Self { name: what.into(), value: MeasuredValue::Count(count), against: None, target: None }
    }

    /// Returns a line of what took so long, once.
    pub(crate) fn seconds(what: impl Into<String>, took: Duration) -> Self {
        let value = MeasuredValue::Seconds(took.as_secs_f64());
        Self { name: what.into(), value, against: None, target: None }
    }

    /// Returns a line of a share of all there is.
    pub(crate) fn share(what: impl Into<String>, share: f64) -> Self {
        Self { name: what.into(), value: MeasuredValue::Share(share), against: None, target: None }
    }

    /// Shows what 99 of a hundred calls kept within.
    pub(crate) fn tail(mut self) -> Self {
        self.against = Some(Comparison::Tail);
        self
    }

    /// Says how many times as long as another side this took.
    pub(crate) fn ratio(mut self, of: impl Into<String>, ratio: f64) -> Self {
        self.against = Some(Comparison::Ratio { of: of.into(), ratio });
        self
    }

    /// Says how much longer than another side this took.
    pub(crate) fn more(mut self, than: impl Into<String>, seconds: f64) -> Self {
        self.against = Some(Comparison::More { than: than.into(), seconds });
        self
    }

    /// Says what was to be reached.
    pub(crate) fn target(mut self, target: ReportTarget) -> Self {
        self.target = Some(target);
        self
    }

    /// Returns whether the target was reached; `None` without a target.
    fn is_met(&self) -> Option<bool> {
        Some(match (self.target?, &self.against, &self.value) {
            (ReportTarget::Ratio(most), Some(Comparison::Ratio { ratio, .. }), _) => *ratio <= most,
            (ReportTarget::More(most), Some(Comparison::More { seconds, .. }), _) => {
                *seconds <= most.as_secs_f64()
            }
            (ReportTarget::P50(most), _, MeasuredValue::Calls { p50, .. }) => *p50 <= most,
            (ReportTarget::P99(most), _, MeasuredValue::Calls { p99, .. }) => *p99 <= most,
            (ReportTarget::Bytes(most), _, MeasuredValue::Bytes(bytes)) => *bytes <= most,
            (ReportTarget::Rate(most), _, MeasuredValue::Rate(rate)) => *rate <= most,
            (ReportTarget::Count(most), _, MeasuredValue::Count(count)) => *count <= most,
            (ReportTarget::Share(least), _, MeasuredValue::Share(share)) => *share >= least,
            // A target of something that was not measured is not reached.
            _ => false,
        })
    }

    fn cells(&self) -> [String; 8] {
        let (low, middle, high, rate) = match &self.value {
            MeasuredValue::Calls { p10, p50, p95, .. } => {
                let [low, middle, high] = [p10, p50, p95].map(|time| shown(time.as_secs_f64()));
                let rate = 1.0 / p50.as_secs_f64().max(f64::MIN_POSITIVE);
                (low, middle, high, format!("{rate:.0}"))
            }
            MeasuredValue::Bytes(bytes) => {
                (String::new(), mebibytes(*bytes), String::new(), String::new())
            }
            MeasuredValue::Rate(rate) => {
                (String::new(), String::new(), String::new(), format!("{rate:.1}"))
            }
            MeasuredValue::Count(count) => {
                (String::new(), count.to_string(), String::new(), String::new())
            }
            MeasuredValue::Seconds(seconds) => {
                (String::new(), shown(*seconds), String::new(), String::new())
            }
            MeasuredValue::Share(share) => {
                (String::new(), format!("{share:.3}"), String::new(), String::new())
            }
        };
        let is_tail = matches!(self.target, Some(ReportTarget::P99(_)));
        let against = match (&self.against, &self.value) {
            (Some(Comparison::Tail), MeasuredValue::Calls { p99, .. }) => {
                format!("p99 {}", shown(p99.as_secs_f64()))
            }
            (None, MeasuredValue::Calls { p99, .. }) if is_tail => {
                format!("p99 {}", shown(p99.as_secs_f64()))
            }
            (None | Some(Comparison::Tail), _) => String::new(),
            (Some(Comparison::Ratio { of, ratio }), _) => format!("{ratio:.2} × {of}"),
            (Some(Comparison::More { than, seconds }), _) => {
                let sign = if *seconds < 0.0 { '−' } else { '+' };
                format!("{than} {sign} {}", shown(seconds.abs()))
            }
        };
        let target = match self.target {
            None => String::new(),
            Some(ReportTarget::Ratio(most)) => format!("≤ {most} ×"),
            Some(ReportTarget::More(most)) => format!("≤ + {}", shown(most.as_secs_f64())),
            Some(ReportTarget::P50(most)) => format!("≤ {}", shown(most.as_secs_f64())),
            Some(ReportTarget::P99(most)) => format!("p99 ≤ {}", shown(most.as_secs_f64())),
            Some(ReportTarget::Rate(most)) => format!("≤ {most}"),
            Some(ReportTarget::Count(most)) => format!("≤ {most}"),
            Some(ReportTarget::Bytes(most)) => format!("≤ {}", mebibytes(most)),
            Some(ReportTarget::Share(least)) => format!("≥ {least}"),
        };
        let met = match self.is_met() {
            None => "",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        [self.name.clone(), low, middle, high, rate, against, target, met.to_owned()]
    }

    fn json(&self) -> Value {
        let mut line = json!({ "what": self.name });
        match &self.value {
            MeasuredValue::Calls { p10, p50, p95, p99, count } => {
                line["p10_us"] = micros(p10.as_secs_f64());
                line["p50_us"] = micros(p50.as_secs_f64());
                line["p95_us"] = micros(p95.as_secs_f64());
                line["p99_us"] = micros(p99.as_secs_f64());
                line["calls"] = json!(count);
            }
            MeasuredValue::Bytes(bytes) => line["bytes"] = json!(bytes),
            MeasuredValue::Rate(rate) => line["a_second"] = json!(rate),
            MeasuredValue::Count(count) => line["count"] = json!(count),
            MeasuredValue::Seconds(seconds) => line["took_us"] = micros(*seconds),
            MeasuredValue::Share(share) => line["share"] = json!(share),
        }
        match &self.against {
            None | Some(Comparison::Tail) => {}
            Some(Comparison::Ratio { of, ratio }) => {
                line["against"] = json!({ "what": of, "ratio": ratio });
            }
            Some(Comparison::More { than, seconds }) => {
                line["against"] = json!({ "what": than, "more_us": micros(*seconds) });
            }
        }
        if let Some(met) = self.is_met() {
            line["met"] = json!(met);
        }
        line
    }
}

impl Section {
    /// Returns the section as Markdown.
    pub(crate) fn markdown(&self) -> String {
        const HEAD: [&str; 8] =
            ["what", "p10", "p50", "p95", "a second", "against, same run", "target", "met"];
        let rows: Vec<[String; 8]> = self.lines.iter().map(ReportLine::cells).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| chars(cell));
            cells.chain(HEAD.get(column).map(|head| chars(head))).max().unwrap_or_default()
        };
        let widths: [usize; 8] = std::array::from_fn(width);
        let mut text = format!("## {}\n\n{}\n\n", self.title, self.method);
        push_row(&mut text, &HEAD.map(str::to_owned), &widths);
        push_row(&mut text, &widths.map(|width| "-".repeat(width)), &widths);
        for row in &rows {
            push_row(&mut text, row, &widths);
        }
        text
    }
}

fn push_row(text: &mut String, cells: &[String; 8], widths: &[usize; 8]) {
    for (cell, width) in cells.iter().zip(widths) {
        // The width of a format counts characters, as the table needs it.
        let written = write!(text, "| {cell:width$} ");
        debug_assert!(written.is_ok(), "writing to a string cannot fail");
    }
    text.push_str("|\n");
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

impl Report {
    /// Returns everything as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let sections: Vec<String> = self.sections.iter().map(Section::markdown).collect();
        format!("{}\n\n{}", self.machine, sections.join("\n"))
    }

    /// Returns everything as JSON.
    pub(crate) fn json(&self) -> Value {
        let sections: Vec<Value> = self
            .sections
            .iter()
            .map(|section| {
                let lines: Vec<Value> = section.lines.iter().map(ReportLine::json).collect();
                json!({ "title": section.title, "method": section.method, "lines": lines })
            })
            .collect();
        json!({ "machine": self.machine.to_string(), "sections": sections })
    }

    /// Returns what missed its target.
    pub(crate) fn missed(&self) -> Vec<&str> {
        let lines = self.sections.iter().flat_map(|section| &section.lines);
        lines.filter(|line| line.is_met() == Some(false)).map(|line| line.name.as_str()).collect()
    }
}

/// Returns a time with three figures and its unit.
fn shown(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s < 1e-3 => (seconds * 1e6, "µs"),
        s if s < 1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    match value {
        v if v < 10.0 => format!("{value:.2} {unit}"),
        v if v < 100.0 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

fn micros(seconds: f64) -> Value {
    json!((seconds * 1e7).round() / 10.0)
}

fn mebibytes(bytes: u64) -> String {
    // Exact to a hundredth and safe for any size that a file or a process has.
    let hundredths = bytes.saturating_mul(100) / (1024 * 1024);
    format!("{}.{:02} MiB", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(micros: u64) -> Times {
        let mut times = Times::default();
        times.add(Duration::from_micros(micros));
        times
    }

    #[test]
    fn a_section_shows_what_was_measured_beside_what_was_to_be_reached() {
        let bare = times(500);
        let own = times(700);
        let section = Section {
            title: "Writes",
            method: "600 bytes.".to_owned(),
            lines: vec![
                ReportLine::calls("bare", &bare),
                ReportLine::calls("create", &own)
                    .ratio("bare", own.ratio_to(&bare))
                    .target(ReportTarget::Ratio(1.3)),
                ReportLine::calls("call", &own)
                    .more("echo", own.more_than(&bare))
                    .target(ReportTarget::More(Duration::from_micros(300))),
                ReportLine::bytes("size", 12_900_000).target(ReportTarget::Bytes(12 << 20)),
            ],
        };
        insta::assert_snapshot!(section.markdown(), @r"
        ## Writes

        600 bytes.

        | what   | p10    | p50       | p95    | a second | against, same run | target      | met    |
        | ------ | ------ | --------- | ------ | -------- | ----------------- | ----------- | ------ |
        | bare   | 500 µs | 500 µs    | 500 µs | 2000     |                   |             |        |
        | create | 700 µs | 700 µs    | 700 µs | 1429     | 1.40 × bare       | ≤ 1.3 ×     | **no** |
        | call   | 700 µs | 700 µs    | 700 µs | 1429     | echo + 200 µs     | ≤ + 300 µs  | yes    |
        | size   |        | 12.30 MiB |        |          |                   | ≤ 12.00 MiB | **no** |
        ");
    }

    #[test]
    fn a_target_of_something_else_is_not_met() {
        assert_eq!(ReportLine::calls("a", &times(1)).is_met(), None);
        assert_eq!(
            ReportLine::calls("a", &times(1)).target(ReportTarget::Ratio(2.0)).is_met(),
            Some(false)
        );
        assert_eq!(
            ReportLine::calls("a", &times(1)).target(ReportTarget::Bytes(9)).is_met(),
            Some(false)
        );
    }

    #[test]
    fn what_took_less_is_shown_as_less() {
        let line = ReportLine::calls("a", &times(1)).more("b", -0.002);
        assert_eq!(line.cells()[5], "b − 2.00 ms");
    }

    #[test]
    fn a_time_has_three_figures() {
        let check = |seconds: f64, expected: &str| assert_eq!(shown(seconds), expected);
        check(0.0, "0.00 µs");
        check(0.000_001_234, "1.23 µs");
        check(0.000_999_9, "1000 µs");
        check(0.012_34, "12.3 ms");
        check(2.0, "2.00 s");
    }
}
