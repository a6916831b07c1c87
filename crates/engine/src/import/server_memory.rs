//! The knowledge graph of the MCP reference memory server: `memory.jsonl`, one JSON object a line.
//!
//! Every entity becomes a memory, `<type>/<name>.md`, with one bullet an observation and one a
//! relation that starts at it. A line that cannot be read is reported and the rest is taken over.

use std::collections::{BTreeMap, HashMap};

use memory::document::{description_line, set_field};
use serde::Deserialize;

use super::planner::Planner;
use super::{SourceFile, slug};

/// Where relations go whose first entity is not in the graph.
const LOOSE_RELATIONS: &str = "relations.md";

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Entity(Entity),
    Relation(Relation),
}

#[derive(Deserialize)]
struct Entity {
    name: String,
    #[serde(rename = "entityType")]
    kind: String,
    observations: Vec<String>,
    #[serde(skip)]
    source: String,
}

#[derive(Deserialize)]
struct Relation {
    from: String,
    to: String,
    #[serde(rename = "relationType")]
    kind: String,
}

/// Whether the first line of some file is an entity or a relation, and nothing is Markdown.
pub(super) fn is_source(files: &[SourceFile]) -> bool {
    let is_graph = |file: &SourceFile| {
        let text = str::from_utf8(&file.bytes).unwrap_or_default();
        let first = text.lines().find(|line| !line.trim().is_empty());
        is_json(file) && first.is_some_and(|line| serde_json::from_str::<Line>(line).is_ok())
    };
    files.iter().any(is_graph) && !files.iter().any(|file| file.extension() == "md")
}

/// Plans one memory an entity, and one for the relations that start at none.
pub(super) fn plan(files: &[SourceFile], planner: &mut Planner) {
    let mut graph = Graph::default();
    for file in files {
        for (source, line) in read(file, planner) {
            graph.add(source, line);
        }
    }
    let Graph { entities, mut relations, .. } = graph;
    for entity in &entities {
        let relations = relations.remove(&entity.name).unwrap_or_default();
        let path = format!("{}/{}.md", slug::word(&entity.kind), slug::word(&entity.name));
        planner.add(&path, &text_of(entity, &relations), &entity.source);
    }
    if !relations.is_empty() {
        let mut text = String::new();
        for relation in relations.values().flatten() {
            bullet(&mut text, relation);
        }
        let text = set_field(&text, "name", "Relations");
        let description = "Relations of entities that were not in the imported graph.";
        let sources: Vec<&str> =
            files.iter().filter(|file| is_json(file)).map(|file| &*file.path).collect();
        let text = set_field(&text, "description", description);
        planner.add(LOOSE_RELATIONS, &text, &sources.join(", "));
    }
}

/// What the lines add up to.
#[derive(Default)]
struct Graph {
    /// In the order of the source, each name once.
    entities: Vec<Entity>,
    /// Where each name is among them.
    places: HashMap<String, usize>,
    /// What is said of each name that a relation starts at.
    relations: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn add(&mut self, source: String, line: Line) {
        match line {
            Line::Relation(Relation { from, to, kind }) => {
                let text = format!("relates: {from} — {kind} → {to}");
                self.relations.entry(from).or_default().push(text);
            }
            Line::Entity(entity) => {
                let place = *self.places.entry(entity.name.clone()).or_insert(self.entities.len());
                match self.entities.get_mut(place) {
                    Some(known) => merge(known, Entity { source, ..entity }),
                    None => self.entities.push(Entity { source, ..entity }),
                }
            }
        }
    }
}

/// The lines of a graph with where they stand; reports those that are none.
fn read(file: &SourceFile, planner: &mut Planner) -> Vec<(String, Line)> {
    if !is_json(file) {
        planner.skip(&file.path, "is not a graph");
        return Vec::new();
    }
    let mut lines = Vec::new();
    for (at, line) in file.bytes.split(|&byte| byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let source = format!("{}:{}", file.path, at + 1);
        match serde_json::from_slice(line) {
            Ok(line) => lines.push((source, line)),
            Err(_) => planner.skip(&source, "is neither an entity nor a relation"),
        }
    }
    lines
}

fn is_json(file: &SourceFile) -> bool {
    matches!(&*file.extension(), "jsonl" | "json")
}

/// Adds the observations of an entity that the source holds twice.
fn merge(entity: &mut Entity, again: Entity) {
    entity.source = format!("{}, {}", entity.source, again.source);
    for observation in again.observations {
        if !entity.observations.contains(&observation) {
            entity.observations.push(observation);
        }
    }
}

fn text_of(entity: &Entity, relations: &[String]) -> String {
    let mut text = String::new();
    for line in entity.observations.iter().chain(relations) {
        bullet(&mut text, line);
    }
    let known = entity.observations.join("; ");
    let description = match description_line(&format!("{}: {known}", entity.kind)) {
        line if known.trim().is_empty() => line.trim_end_matches([':', ' ']).to_owned(),
        line => line,
    };
    let text = set_field(&text, "name", &description_line(&entity.name));
    set_field(&text, "description", &description)
}

/// Writes one observation as one top-level bullet, whatever lines and marks it holds.
fn bullet(text: &mut String, observation: &str) {
    // A memory that holds NUL could not be read again.
    let observation = observation.replace('\0', "\u{FFFD}");
    let mut lines = observation.trim().split(['\n', '\r']).map(str::trim_end);
    let Some(first) = lines.next().filter(|line| !line.is_empty()) else { return };
    // `- ---` would be a thematic break.
    let guard = if first.chars().all(|c| "-*_ \t".contains(c)) { "\\" } else { "" };
    text.extend(["- ", guard, first, "\n"]);
    for line in lines {
        let indent = if line.is_empty() { "" } else { "  " };
        text.extend([indent, line, "\n"]);
    }
}
