//! Import from the knowledge graph of the MCP reference memory server: `memory.jsonl`, one JSON
//! object per line.
//!
//! Each entity becomes a memory, `<type>/<name>.md`, with one bullet per observation and one per
//! relation that starts at it.
//!
//! The server writes its file without a lock, so files in use may be damaged: several objects share
//! a line, or one is cut and the next follows it. Users also save the answer of `read_graph`, or an
//! array of it. All these forms are read. Parts that are neither an entity nor a relation are
//! reported, and the rest is imported.

use std::collections::{BTreeMap, HashMap};

use memory::document::{description_line, set_field};
use serde::Deserialize;
use serde_json::{Deserializer, Map, Value};

use super::planner::Planner;
use super::{SourceFile, slug};

/// Path of the memory for relations whose first entity is not in the graph.
const LOOSE_RELATIONS: &str = "relations.md";

/// Type of an entity without a type.
const NO_TYPE: &str = "entity";

/// Start of an object as the server writes it.
const OBJECT_START: &[u8] = b"{\"type\"";

enum GraphItem {
    Entity(Entity),
    Relation(Relation),
}

#[derive(Deserialize)]
struct Entity {
    name: String,
    #[serde(rename = "entityType", default = "no_type")]
    kind: String,
    observations: Vec<Value>,
    /// Fields that the server itself does not write.
    #[serde(flatten)]
    others: Map<String, Value>,
    #[serde(skip)]
    source: String,
}

#[derive(Deserialize)]
struct Relation {
    from: String,
    to: String,
    #[serde(rename = "relationType")]
    kind: String,
    #[serde(flatten)]
    others: Map<String, Value>,
}

fn no_type() -> String {
    NO_TYPE.to_owned()
}

impl GraphItem {
    /// Decodes an entity or a relation; one without a type is recognized by its fields.
    fn from_value(value: Value) -> Option<Self> {
        let kind = value.get("type").map_or(Some(None), |kind| kind.as_str().map(Some))?;
        let is_entity = kind == Some("entity") || kind.is_none() && value.get("name").is_some();
        let is_relation = kind == Some("relation") || kind.is_none() && value.get("from").is_some();
        if is_entity {
            serde_json::from_value(value).ok().map(Self::Entity)
        } else if is_relation {
            serde_json::from_value(value).ok().map(Self::Relation)
        } else {
            None
        }
    }
}

/// Checks whether a file contains an entity or a relation, and no file is Markdown.
pub(super) fn is_source(files: &[SourceFile]) -> bool {
    let is_graph = |file: &SourceFile| {
        is_json(file)
            && read_pieces(file).iter().any(|(_, piece)| matches!(piece, SourcePiece::Item(_)))
    };
    !files.iter().any(|file| file.extension() == "md") && files.iter().any(is_graph)
}

/// Plans one memory per entity, and one for the relations whose first entity is missing.
pub(super) fn plan(files: &[SourceFile], planner: &mut Planner) {
    let mut graph = Graph::default();
    for file in files {
        if !is_json(file) {
            planner.skip(&file.path, "is not a graph");
            continue;
        }
        for (source, piece) in read_pieces(file) {
            match piece {
                SourcePiece::Item(part) => graph.add(source, part),
                SourcePiece::Other => {
                    planner.report_loss(&source, "is neither an entity nor a relation");
                }
                SourcePiece::Damaged => planner.report_loss(&source, "is damaged: it is not JSON"),
            }
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
            push_bullet(&mut text, relation);
        }
        let text = set_field(&text, "name", "Relations");
        let description = "Relations of entities that were not in the imported graph.";
        let sources: Vec<&str> =
            files.iter().filter(|file| is_json(file)).map(|file| &*file.path).collect();
        let text = set_field(&text, "description", description);
        planner.add(LOOSE_RELATIONS, &text, &sources.join(", "));
    }
}

/// The graph collected from all lines.
#[derive(Default)]
struct Graph {
    /// The entities in the order of the source, each name once.
    entities: Vec<Entity>,
    /// Index of each name in `entities`.
    indices: HashMap<String, usize>,
    /// Relations by the name that they start at.
    relations: BTreeMap<String, Vec<String>>,
}

impl Graph {
    fn add(&mut self, source: String, part: GraphItem) {
        match part {
            GraphItem::Relation(Relation { from, to, kind, others }) => {
                let mut text = format!("relates: {from} — {kind} → {to}");
                let details: Vec<String> = extra_fields(&others).collect();
                if !details.is_empty() {
                    text = format!("{text} ({})", details.join("; "));
                }
                let known = self.relations.entry(from).or_default();
                if !known.contains(&text) {
                    known.push(text);
                }
            }
            GraphItem::Entity(mut entity) => {
                let others = std::mem::take(&mut entity.others);
                entity.observations.extend(extra_fields(&others).map(Value::String));
                let place = *self.indices.entry(entity.name.clone()).or_insert(self.entities.len());
                match self.entities.get_mut(place) {
                    Some(known) => merge(known, Entity { source, ..entity }),
                    None => self.entities.push(Entity { source, ..entity }),
                }
            }
        }
    }
}

/// A piece of a file.
enum SourcePiece {
    Item(GraphItem),
    /// JSON that is neither an entity nor a relation.
    Other,
    /// Text that is not JSON.
    Damaged,
}

impl SourcePiece {
    fn from_value(value: Value) -> Self {
        GraphItem::from_value(value).map_or(Self::Other, Self::Item)
    }
}

/// Returns the pieces of a graph, each with its position.
fn read_pieces(file: &SourceFile) -> Vec<(String, SourcePiece)> {
    let text = memory::json::mend(&file.bytes);
    let text = text.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(&text);
    let mut pieces = Vec::new();
    let (mut at, mut line) = (0, 1);
    // The damaged lines since the last value.
    let mut damaged: Option<(usize, usize)> = None;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let (rest, first) = (&rest[blank..], line + newlines(&rest[..blank]));
        let mut values = Deserializer::from_slice(rest).into_iter::<Value>();
        let taken = match values.next() {
            None => rest.len(),
            Some(Ok(value)) => {
                pieces.extend(damaged.take().map(|lines| damaged_piece(file, lines)));
                collect_items(value, &format!("{}:{first}", file.path), &mut pieces);
                values.byte_offset()
            }
            Some(Err(_)) => {
                let taken = damaged_bytes(rest);
                // The rest of an array whose values are read one by one is no loss.
                if !rest[..taken].iter().all(|byte| b"[], \t\r\n".contains(byte)) {
                    damaged = Some((damaged.map_or(first, |(start, _)| start), first));
                }
                taken
            }
        };
        line = first + newlines(&rest[..taken]);
        at += blank + taken;
    }
    pieces.extend(damaged.map(|lines| damaged_piece(file, lines)));
    pieces
}

fn newlines(bytes: &[u8]) -> usize {
    bytes.split(|&byte| byte == b'\n').count() - 1
}

fn damaged_piece(file: &SourceFile, (first, last): (usize, usize)) -> (String, SourcePiece) {
    let lines = if first == last { first.to_string() } else { format!("{first}-{last}") };
    (format!("{}:{lines}", file.path), SourcePiece::Damaged)
}

/// Returns the number of bytes to skip where no value begins: up to the next line, or to an object
/// that begins before it.
fn damaged_bytes(rest: &[u8]) -> usize {
    let ends = |at: &usize| rest[at - 1] == b'\n' || rest[*at..].starts_with(OBJECT_START);
    (1..rest.len()).find(ends).unwrap_or(rest.len())
}

/// Collects the entities and relations of a value: a single one, an array, or an answer of
/// `read_graph`.
fn collect_items(value: Value, source: &str, pieces: &mut Vec<(String, SourcePiece)>) {
    let all = match value {
        Value::Array(all) => all,
        Value::Object(mut fields) if !fields.contains_key("type") && is_graph(&fields) => {
            let lists = ["entities", "relations"].map(|name| fields.remove(name));
            let lists = lists.into_iter().flatten();
            lists
                .flat_map(|list| if let Value::Array(all) = list { all } else { vec![list] })
                .collect()
        }
        value => return pieces.push((source.to_owned(), SourcePiece::from_value(value))),
    };
    for (index, value) in all.into_iter().enumerate() {
        pieces.push((format!("{source}, entry {}", index + 1), SourcePiece::from_value(value)));
    }
}

fn is_graph(fields: &serde_json::Map<String, Value>) -> bool {
    fields.contains_key("entities") || fields.contains_key("relations")
}

fn is_json(file: &SourceFile) -> bool {
    matches!(&*file.extension(), "jsonl" | "json")
}

/// Adds the observations of a duplicate entity.
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
    let observations: Vec<String> = entity.observations.iter().map(observation_text).collect();
    for line in observations.iter().chain(relations) {
        push_bullet(&mut text, line);
    }
    let known = observations.join("; ");
    let description = match description_line(&format!("{}: {known}", entity.kind)) {
        line if known.trim().is_empty() => line.trim_end_matches([':', ' ']).to_owned(),
        line => line,
    };
    let text = set_field(&text, "name", &description_line(&entity.name));
    set_field(&text, "description", &description)
}

/// Returns the text of an observation; one that is not a string, as JSON.
fn observation_text(observation: &Value) -> String {
    observation.as_str().map_or_else(|| observation.to_string(), str::to_owned)
}

/// Returns the fields that the server itself does not write; its forks keep dates and sources
/// there.
fn extra_fields(others: &Map<String, Value>) -> impl Iterator<Item = String> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(all) => all.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    others
        .iter()
        .filter(move |(name, value)| *name != "type" && !is_empty(value))
        .map(|(name, value)| format!("{name}: {}", observation_text(value)))
}

/// Writes an observation as one top-level bullet, whatever line breaks and marks it contains.
fn push_bullet(text: &mut String, observation: &str) {
    // A memory with NUL bytes could not be read again.
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
