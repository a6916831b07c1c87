//! What the daemon counts about itself, for `GET /metrics` and `GET /v1/stats`.
//!
//! Routes are counted by their pattern, never by what was asked for, so that the number of series is
//! bounded and no name of a memory gets into them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use engine::RunningServices;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds of answer times, in seconds: from a read out of memory to a write that waited for a root.
const ANSWER_SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// What an answer is counted under.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

/// How many tasks of a workspace are how far.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    workspace: String,
    status: &'static str,
}

/// How much a scope of a workspace holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScopeLabels {
    workspace: String,
    scope: String,
}

/// What a model did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelRunLabels {
    task: &'static str,
    model: String,
    ended: &'static str,
}

/// Which tokens a model took.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelTokenLabels {
    task: &'static str,
    model: String,
    kind: &'static str,
}

/// The counts.
pub(super) struct Metrics {
    registry: Registry,
    answers: Family<RequestLabels, Counter>,
    answer_time: Histogram,
    connections: Gauge,
    rejected_connections: Counter,
    event_streams: Gauge,
    events: Counter,
    tasks: Family<TaskLabels, Gauge>,
    memories: Family<ScopeLabels, Gauge>,
    memory_bytes: Family<ScopeLabels, Gauge>,
    changes: Gauge,
    database_bytes: Gauge,
    model_runs: Family<ModelRunLabels, Gauge>,
    model_tokens: Family<ModelTokenLabels, Gauge>,
    model_refusals: Family<ModelRunLabels, Gauge>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Measures").finish_non_exhaustive()
    }
}

/// One more of something, while this lives.
#[derive(Debug)]
pub(super) struct GaugeGuard(Gauge);

impl GaugeGuard {
    fn increment(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Metrics {
    pub(super) fn new() -> Arc<Self> {
        let measures = Self {
            registry: Registry::with_prefix("lukasa"),
            answers: Family::default(),
            answer_time: Histogram::new(ANSWER_SECONDS),
            connections: Gauge::default(),
            rejected_connections: Counter::default(),
            event_streams: Gauge::default(),
            events: Counter::default(),
            tasks: Family::default(),
            memories: Family::default(),
            memory_bytes: Family::default(),
            changes: Gauge::default(),
            database_bytes: Gauge::default(),
            model_runs: Family::default(),
            model_tokens: Family::default(),
            model_refusals: Family::default(),
        };
        Arc::new(measures.register_all())
    }

    fn register_all(mut self) -> Self {
        let registry = &mut self.registry;
        registry.register("http_answers", "Requests answered", self.answers.clone());
        registry.register_with_unit(
            "http_answer",
            "Time until an answer began",
            Unit::Seconds,
            self.answer_time.clone(),
        );
        registry.register("connections", "Connections open", self.connections.clone());
        registry.register(
            "connections_turned_away",
            "Connections dropped because there were too many",
            self.rejected_connections.clone(),
        );
        registry.register("event_streams", "Streams that read events", self.event_streams.clone());
        registry.register("events", "Frames sent to streams", self.events.clone());
        registry.register("tasks", "Tasks by how far they are", self.tasks.clone());
        registry.register("memories", "Memories held", self.memories.clone());
        registry.register_with_unit(
            "memory_size",
            "Bytes of memories held",
            Unit::Bytes,
            self.memory_bytes.clone(),
        );
        registry.register(
            "model_runs",
            "Work done by models since the start",
            self.model_runs.clone(),
        );
        registry.register(
            "model_tokens",
            "Tokens that models took since the start: in, cached, which are among those in, and out",
            self.model_tokens.clone(),
        );
        registry.register(
            "model_refusals",
            "Calls of models that were refused since the start",
            self.model_refusals.clone(),
        );
        registry.register("changes", "Changes in history", self.changes.clone());
        registry.register_with_unit(
            "database_size",
            "Bytes of the state database",
            Unit::Bytes,
            self.database_bytes.clone(),
        );
        self
    }

    /// Counts an answer.
    pub(super) fn record_response(
        &self,
        method: &Method,
        route: &str,
        status: u16,
        took: Duration,
    ) {
        let answer =
            RequestLabels { method: method_label(method), route: route.to_owned(), status };
        self.answers.get_or_create(&answer).inc();
        self.answer_time.observe(took.as_secs_f64());
    }

    /// Counts a connection while the value lives.
    pub(super) fn track_connection(&self) -> GaugeGuard {
        GaugeGuard::increment(&self.connections)
    }

    /// Counts a connection that was dropped.
    pub(super) fn record_rejected_connection(&self) {
        self.rejected_connections.inc();
    }

    /// Counts a stream while the value lives.
    pub(super) fn track_event_stream(&self) -> GaugeGuard {
        GaugeGuard::increment(&self.event_streams)
    }

    /// Counts a frame.
    pub(super) fn record_event(&self) {
        self.events.inc();
    }

    /// Returns how many connections and streams there are.
    pub(super) fn open_counts(&self) -> (u64, u64) {
        let count = |gauge: &Gauge| u64::try_from(gauge.get()).unwrap_or(0);
        (count(&self.connections), count(&self.event_streams))
    }

    /// Notes how many tasks of a workspace are how far.
    pub(super) fn set_tasks(&self, workspace: &str, status: &'static str, count: u64) {
        let tasks = TaskLabels { workspace: workspace.to_owned(), status };
        self.tasks.get_or_create(&tasks).set(to_gauge_value(count));
    }

    /// Notes how much a scope holds.
    pub(super) fn set_scope(&self, workspace: &str, scope: &str, (memories, bytes): (usize, u64)) {
        let held = ScopeLabels { workspace: workspace.to_owned(), scope: scope.to_owned() };
        self.memories.get_or_create(&held).set(to_gauge_value(memories));
        self.memory_bytes.get_or_create(&held).set(to_gauge_value(bytes));
    }

    /// Notes what models did.
    pub(super) fn set_models(&self, serving: &RunningServices) {
        let mut tokens: BTreeMap<(&'static str, String), [u64; 3]> = BTreeMap::new();
        for ((task, model, ended), spent) in serving.spending() {
            let by = ModelRunLabels { task, model: model.clone(), ended };
            self.model_runs.get_or_create(&by).set(to_gauge_value(spent.works));
            self.model_refusals.get_or_create(&by).set(to_gauge_value(spent.refused));
            let [tokens_in, cached, out] = tokens.entry((task, model)).or_default();
            *tokens_in += spent.tokens_in;
            *cached += spent.tokens_cached;
            *out += spent.tokens_out;
        }
        for ((task, model), counts) in tokens {
            for (kind, count) in ["in", "cached", "out"].into_iter().zip(counts) {
                let of = ModelTokenLabels { task, model: model.clone(), kind };
                self.model_tokens.get_or_create(&of).set(to_gauge_value(count));
            }
        }
    }

    /// Notes how much history holds.
    pub(super) fn set_history(&self, changes: u64, database_bytes: u64) {
        self.changes.set(to_gauge_value(changes));
        self.database_bytes.set(to_gauge_value(database_bytes));
    }

    /// Returns everything as Prometheus reads it.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn to_gauge_value(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// Returns a method's word; one that nobody serves has none of its own.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
