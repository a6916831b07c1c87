//! The report of a run: sections of rows with times, comparisons and targets, as Markdown and as JSON.
//!
//! Titles and row names agree with the tables in `docs/PERFORMANCE.md`.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::measure::Times;

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) sections: Vec<Section>,
}

/// The rows of one subject.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    /// The conditions of the measurements, in sentences.
    pub(crate) method: String,
    pub(crate) lines: Vec<ReportLine>,
}

/// A row of the report: a measured value with its comparison and target.
#[derive(Debug)]
pub(crate) struct ReportLine {
    name: String,
    value: MeasuredValue,
    against: Option<Comparison>,
    target: Option<ReportTarget>,
}

/// A measured value.
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
    /// A number per second.
    Rate(f64),
    Count(u64),
    /// A single duration.
    Seconds(f64),
    /// A share between 0 and 1.
    Share(f64),
    /// The reason why there is no value.
    Missing(&'static str),
}

/// The comparison of a value.
#[derive(Debug)]
enum Comparison {
    /// A multiple of another side.
    Ratio { of: String, ratio: f64 },
    /// A difference to another side.
    More { than: String, seconds: f64 },
    /// The share of another side.
    Share { of: String, share: f64 },
    /// The p99 of the same calls.
    Tail,
}

/// The target of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReportTarget {
    /// The highest ratio to the compared side.
    Ratio(f64),
    /// The longest p50.
    P50(Duration),
    /// The longest p99.
    P99(Duration),
    /// The largest number of bytes.
    Bytes(u64),
    /// The highest number per second.
    Rate(f64),
    /// The highest count.
    Count(u64),
    /// The lowest share.
    Share(f64),
}

impl ReportLine {
    /// Returns a row of timed calls.
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

    /// Returns a row of a size.
    pub(crate) fn bytes(what: impl Into<String>, bytes: u64) -> Self {
        Self { name: what.into(), value: MeasuredValue::Bytes(bytes), against: None, target: None }
    }

    /// Returns a row of a rate per second.
    pub(crate) fn rate(what: impl Into<String>, rate: f64) -> Self {
        Self { name: what.into(), value: MeasuredValue::Rate(rate), against: None, target: None }
    }

    /// Returns a row of a count.
    pub(crate) fn count(what: impl Into<String>, count: u64) -> Self {
        Self { name: what.into(), value: MeasuredValue::Count(count), against: None, target: None }
    }

    /// Returns a row of a single duration.
    pub(crate) fn seconds(what: impl Into<String>, took: Duration) -> Self {
        let value = MeasuredValue::Seconds(took.as_secs_f64());
        Self { name: what.into(), value, against: None, target: None }
    }

    /// Returns a row of a share between 0 and 1.
    pub(crate) fn share(what: impl Into<String>, share: f64) -> Self {
        Self { name: what.into(), value: MeasuredValue::Share(share), against: None, target: None }
    }

    /// Returns a row that says why it has no value.
    pub(crate) fn missing(what: impl Into<String>, reason: &'static str) -> Self {
        let value = MeasuredValue::Missing(reason);
        Self { name: what.into(), value, against: None, target: None }
    }

    /// Returns the name of the row.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Adds the p99 to the row.
    pub(crate) fn tail(mut self) -> Self {
        self.against = Some(Comparison::Tail);
        self
    }

    /// Adds the ratio to another side.
    pub(crate) fn ratio(mut self, of: impl Into<String>, ratio: f64) -> Self {
        self.against = Some(Comparison::Ratio { of: of.into(), ratio });
        self
    }

    /// Returns whether the row has a ratio to another side.
    pub(crate) const fn has_ratio(&self) -> bool {
        matches!(self.against, Some(Comparison::Ratio { .. }))
    }

    /// Adds the difference to another side.
    pub(crate) fn more(mut self, than: impl Into<String>, seconds: f64) -> Self {
        self.against = Some(Comparison::More { than: than.into(), seconds });
        self
    }

    /// Adds the share of another row, if both have one.
    pub(crate) fn beside(mut self, of: impl Into<String>, other: &Self) -> Self {
        if let (MeasuredValue::Share(_), MeasuredValue::Share(share)) = (&self.value, &other.value)
        {
            self.against = Some(Comparison::Share { of: of.into(), share: *share });
        }
        self
    }

    /// Adds the target.
    pub(crate) fn target(mut self, target: ReportTarget) -> Self {
        self.target = Some(target);
        self
    }

    /// Returns whether the value meets the target; `None` without a target.
    fn is_met(&self) -> Option<bool> {
        Some(match (self.target?, &self.against, &self.value) {
            (ReportTarget::Ratio(most), Some(Comparison::Ratio { ratio, .. }), _) => *ratio <= most,
            (ReportTarget::P50(most), _, MeasuredValue::Calls { p50, .. }) => *p50 <= most,
            (ReportTarget::P99(most), _, MeasuredValue::Calls { p99, .. }) => *p99 <= most,
            (ReportTarget::Bytes(most), _, MeasuredValue::Bytes(bytes)) => *bytes <= most,
            (ReportTarget::Rate(most), _, MeasuredValue::Rate(rate)) => *rate <= most,
            (ReportTarget::Count(most), _, MeasuredValue::Count(count)) => *count <= most,
            (ReportTarget::Share(least), _, MeasuredValue::Share(share)) => *share >= least,
            // A target for another kind of value is not met.
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
            MeasuredValue::Missing(reason) => {
                (String::new(), (*reason).to_owned(), String::new(), String::new())
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
            (Some(Comparison::Share { of, share }), _) => format!("{share:.3} {of}"),
        };
        let target = match self.target {
            None => String::new(),
            Some(ReportTarget::Ratio(most)) => format!("≤ {most} ×"),
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
            MeasuredValue::Missing(reason) => line["missing"] = json!(reason),
        }
        match &self.against {
            None | Some(Comparison::Tail) => {}
            Some(Comparison::Ratio { of, ratio }) => {
                line["against"] = json!({ "what": of, "ratio": ratio });
            }
            Some(Comparison::More { than, seconds }) => {
                line["against"] = json!({ "what": than, "more_us": micros(*seconds) });
            }
            Some(Comparison::Share { of, share }) => {
                line["against"] = json!({ "what": of, "share": share });
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
            ["metric", "p10", "p50", "p95", "per second", "relative, same run", "target", "met"];
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
    // Integer arithmetic is exact to a hundredth for any size of a file or a process.
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
    fn a_section_shows_values_beside_their_targets() {
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
                    .target(ReportTarget::P50(Duration::from_millis(1))),
                ReportLine::bytes("size", 12_900_000).target(ReportTarget::Bytes(12 << 20)),
                ReportLine::missing("another", "not installed"),
            ],
        };
        insta::assert_snapshot!(section.markdown(), @"
        ## Writes

        600 bytes.

        | metric  | p10    | p50           | p95    | per second | relative, same run | target      | met    |
        | ------- | ------ | ------------- | ------ | ---------- | ------------------ | ----------- | ------ |
        | bare    | 500 µs | 500 µs        | 500 µs | 2000       |                    |             |        |
        | create  | 700 µs | 700 µs        | 700 µs | 1429       | 1.40 × bare        | ≤ 1.3 ×     | **no** |
        | call    | 700 µs | 700 µs        | 700 µs | 1429       | echo + 200 µs      | ≤ 1.00 ms   | yes    |
        | size    |        | 12.30 MiB     |        |            |                    | ≤ 12.00 MiB | **no** |
        | another |        | not installed |        |            |                    |             |        |
        ");
    }

    #[test]
    fn a_target_for_another_kind_of_value_is_not_met() {
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
    fn a_shorter_time_is_shown_as_a_negative_difference() {
        let line = ReportLine::calls("a", &times(1)).more("b", -0.002);
        assert_eq!(line.cells()[5], "b − 2.00 ms");
    }

    #[test]
    fn a_time_has_three_significant_digits() {
        let check = |seconds: f64, expected: &str| assert_eq!(shown(seconds), expected);
        check(0.0, "0.00 µs");
        check(0.000_001_234, "1.23 µs");
        check(0.000_999_9, "1000 µs");
        check(0.012_34, "12.3 ms");
        check(2.0, "2.00 s");
    }
}
