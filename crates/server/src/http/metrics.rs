//! The metrics of the daemon, for `GET /metrics` and `GET /v1/stats`.
//!
//! Requests are labelled by the pattern of their route, never by their path, so that the number of series is bounded
//! and no name of a memory becomes a label. Gauges of tasks and scopes are set when metrics are read; connections and
//! streams are counted by guards.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use engine::RunningServices;
use memory::owner::OwnerSize;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// The histogram buckets of answer times, in seconds: from a read in memory to a write that waited for a lock.
const ANSWER_SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// The labels of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

/// The labels of a number of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    workspace: String,
    status: &'static str,
}

/// The labels of the size of a scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ScopeLabels {
    workspace: String,
    scope: String,
}

/// The label of the size of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OwnerLabels {
    owner: String,
}

/// The labels of model runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelRunLabels {
    task: &'static str,
    model: String,
    ended: &'static str,
}

/// The labels of a number of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelTokenLabels {
    task: &'static str,
    model: String,
    kind: &'static str,
}

/// All metrics of a daemon.
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
    owner_memories: Family<OwnerLabels, Gauge>,
    owner_bytes: Family<OwnerLabels, Gauge>,
    owner_tasks: Family<OwnerLabels, Gauge>,
    model_runs: Family<ModelRunLabels, Gauge>,
    model_tokens: Family<ModelTokenLabels, Gauge>,
    model_refusals: Family<ModelRunLabels, Gauge>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// The open event streams of one owner.
#[derive(Debug, Default)]
pub(super) struct OwnerStreams(Gauge);

impl OwnerStreams {
    /// Returns their number.
    pub(super) fn count(&self) -> u64 {
        count(&self.0)
    }
}

/// A guard that keeps a gauge incremented until it is dropped.
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
        let metrics = Self {
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
            owner_memories: Family::default(),
            owner_bytes: Family::default(),
            owner_tasks: Family::default(),
            model_runs: Family::default(),
            model_tokens: Family::default(),
            model_refusals: Family::default(),
        };
        Arc::new(metrics.register_all())
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
            "owner_memories",
            "Memories of each owner that is open here",
            self.owner_memories.clone(),
        );
        registry.register_with_unit(
            "owner_memory_size",
            "Bytes of the memories of each owner that is open here",
            Unit::Bytes,
            self.owner_bytes.clone(),
        );
        registry.register(
            "owner_unfinished_tasks",
            "Waiting and running tasks of each owner that is open here",
            self.owner_tasks.clone(),
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
        let labels =
            RequestLabels { method: method_label(method), route: route.to_owned(), status };
        self.answers.get_or_create(&labels).inc();
        self.answer_time.observe(took.as_secs_f64());
    }

    /// Counts a connection until the guard is dropped.
    pub(super) fn track_connection(&self) -> GaugeGuard {
        GaugeGuard::increment(&self.connections)
    }

    /// Counts a connection that was refused or evicted.
    pub(super) fn record_rejected_connection(&self) {
        self.rejected_connections.inc();
    }

    /// Counts an event stream of an owner until the guards are dropped.
    pub(super) fn track_event_stream(&self, of_owner: &OwnerStreams) -> [GaugeGuard; 2] {
        [&self.event_streams, &of_owner.0].map(GaugeGuard::increment)
    }

    /// Counts a frame sent to a stream.
    pub(super) fn record_event(&self) {
        self.events.inc();
    }

    /// Returns the numbers of open connections and event streams.
    pub(super) fn open_counts(&self) -> (u64, u64) {
        (count(&self.connections), count(&self.event_streams))
    }

    /// Sets the number of tasks of a workspace with a status.
    pub(super) fn set_tasks(&self, workspace: &str, status: &'static str, count: u64) {
        let labels = TaskLabels { workspace: workspace.to_owned(), status };
        self.tasks.get_or_create(&labels).set(to_gauge_value(count));
    }

    /// Sets the number and bytes of memories of a scope.
    pub(super) fn set_scope(&self, workspace: &str, scope: &str, (memories, bytes): (usize, u64)) {
        let labels = ScopeLabels { workspace: workspace.to_owned(), scope: scope.to_owned() };
        self.memories.get_or_create(&labels).set(to_gauge_value(memories));
        self.memory_bytes.get_or_create(&labels).set(to_gauge_value(bytes));
    }

    /// Sets the sizes of the open owners. Owners that are closed now are left out.
    pub(super) fn set_owners(&self, sizes: &[OwnerSize]) {
        for family in [&self.owner_memories, &self.owner_bytes, &self.owner_tasks] {
            family.clear();
        }
        for size in sizes {
            let labels = OwnerLabels { owner: size.owner.clone() };
            let set = |family: &Family<OwnerLabels, Gauge>, count: u64| {
                family.get_or_create(&labels).set(to_gauge_value(count));
            };
            set(&self.owner_memories, size.memories);
            set(&self.owner_bytes, size.memory_bytes);
            set(&self.owner_tasks, size.unfinished_tasks);
        }
    }

    /// Sets the runs, refusals and tokens of models.
    pub(super) fn set_models(&self, serving: &RunningServices) {
        let mut tokens: BTreeMap<(&'static str, String), [u64; 3]> = BTreeMap::new();
        for ((task, model, ended), spent) in serving.spending() {
            let labels = ModelRunLabels { task, model: model.clone(), ended };
            self.model_runs.get_or_create(&labels).set(to_gauge_value(spent.works));
            self.model_refusals.get_or_create(&labels).set(to_gauge_value(spent.refused));
            let [tokens_in, cached, out] = tokens.entry((task, model)).or_default();
            *tokens_in += spent.tokens_in;
            *cached += spent.tokens_cached;
            *out += spent.tokens_out;
        }
        for ((task, model), counts) in tokens {
            for (kind, count) in ["in", "cached", "out"].into_iter().zip(counts) {
                let labels = ModelTokenLabels { task, model: model.clone(), kind };
                self.model_tokens.get_or_create(&labels).set(to_gauge_value(count));
            }
        }
    }

    /// Sets the size of the history.
    pub(super) fn set_history(&self, changes: u64, database_bytes: u64) {
        self.changes.set(to_gauge_value(changes));
        self.database_bytes.set(to_gauge_value(database_bytes));
    }

    /// Encodes all metrics in the text format of Prometheus.
    pub(super) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn count(gauge: &Gauge) -> u64 {
    u64::try_from(gauge.get()).unwrap_or(0)
}

fn to_gauge_value(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// Returns the label of a method. Methods that are never served share one, to bound the number of series.
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
