//! Compares the diagram of `ARCHITECTURE.md` with the layer table of the root `Cargo.toml`.
//!
//! The diagram is a Mermaid flowchart with one edge `a --> b` a line: `a` uses `b`. A node without
//! edges is alone on its line. A node may have a label, as in `a[label]`.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::finding::TidyFinding;
use crate::tidy::rust;
use crate::tidy::tree::SourceTree;

const DOCUMENT: &str = "ARCHITECTURE.md";
const CHECK: &str = "architecture-diagram";

/// The nodes and edges of a diagram.
#[derive(Debug, Default, PartialEq, Eq)]
struct Diagram<'a> {
    nodes: BTreeSet<&'a str>,
    edges: BTreeSet<(&'a str, &'a str)>,
}

/// Compares the diagram with the layers, each with the layers that it uses.
pub(super) fn diagram(
    tree: &SourceTree,
    layers: &BTreeMap<String, Vec<String>>,
) -> Vec<TidyFinding> {
    let finding = |wrong: String, remedy: &str| TidyFinding::file(CHECK, DOCUMENT, wrong, remedy);
    let blocks = mermaid_blocks(tree.text(DOCUMENT).unwrap_or_default());
    let [(first_line, lines)] = blocks.as_slice() else {
        let wrong = format!("has {} blocks of `mermaid`, not one", blocks.len());
        return vec![finding(wrong, "draw the layers as one flowchart")];
    };
    let drawn = match Diagram::parse(lines) {
        Ok(drawn) => drawn,
        Err((index, wrong)) => {
            let remedy = "write `flowchart TD`, then one node or one edge `a --> b` a line";
            return vec![finding(wrong, remedy).at(first_line + index)];
        }
    };
    let expected = Diagram::of(layers);
    let mut findings = Vec::new();
    for (from, to) in expected.edges.difference(&drawn.edges) {
        findings.push(finding(format!("the edge `{from} --> {to}` is missing"), "draw it"));
    }
    for (from, to) in drawn.edges.difference(&expected.edges) {
        let wrong = format!("the edge `{from} --> {to}` is not in the layer table");
        findings.push(finding(wrong, "remove it"));
    }
    for node in expected.nodes.difference(&drawn.nodes) {
        findings.push(finding(format!("the node `{node}` is missing"), "draw it"));
    }
    for node in drawn.nodes.difference(&expected.nodes) {
        findings.push(finding(format!("the node `{node}` is no layer"), "remove it"));
    }
    findings
}

/// Returns the lines of each fenced block of Mermaid, with the index of the first one in the text.
fn mermaid_blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if line.trim() == "```mermaid" {
            let block = lines.by_ref().map(|(_, line)| line.trim());
            blocks.push((index + 1, block.take_while(|line| *line != "```").collect()));
        }
    }
    blocks
}

impl<'a> Diagram<'a> {
    /// Returns the diagram that the layer table describes.
    fn of(layers: &'a BTreeMap<String, Vec<String>>) -> Self {
        let mut diagram = Self::default();
        for (layer, used) in layers {
            diagram.nodes.insert(layer);
            for other in used {
                diagram.insert_edge(layer, other);
            }
        }
        diagram
    }

    /// Parses the lines of a flowchart; the error has the index of the first line that is no edge and no node.
    fn parse(lines: &[&'a str]) -> Result<Self, (usize, String)> {
        let mut diagram = Self::default();
        let first = lines.first().copied().unwrap_or_default();
        if !matches!(first.split_whitespace().next(), Some("flowchart" | "graph")) {
            return Err((0, "the diagram is no flowchart".to_owned()));
        }
        for (index, line) in lines.iter().enumerate().skip(1) {
            let is_comment = line.starts_with("%%");
            let wrong = || (index, format!("`{line}` is neither a node nor an edge"));
            if let Some((from, to)) = line.split_once("-->") {
                let (from, to) = node(from).zip(node(to)).ok_or_else(wrong)?;
                diagram.insert_edge(from, to);
            } else if !line.is_empty() && !is_comment {
                diagram.nodes.insert(node(line).ok_or_else(wrong)?);
            }
        }
        Ok(diagram)
    }

    fn insert_edge(&mut self, from: &'a str, to: &'a str) {
        self.nodes.extend([from, to]);
        self.edges.insert((from, to));
    }
}

/// Returns the name of a node, without its label.
fn node(text: &str) -> Option<&str> {
    let tokens = rust::tokens(text);
    let (name, label) = tokens.split_first()?;
    let has_label = matches!(label, ["[" | "(" | "{", .., "]" | ")" | "}"]);
    let is_name = name.starts_with(char::is_alphabetic);
    (is_name && (label.is_empty() || has_label)).then_some(*name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let row = |layer: &str, used: &[&str]| {
            (layer.to_owned(), used.iter().map(ToString::to_string).collect())
        };
        let layers = [row("memory", &[]), row("state", &["memory"]), row("model", &[])].into();
        let tree = SourceTree::from([("ARCHITECTURE.md", text)]);
        assert_eq!(printed(&diagram(&tree, &layers)), expected, "{text}");
    }

    #[test]
    fn a_diagram_equal_to_the_table_passes() {
        check("# A\n```mermaid\nflowchart TD\n  state --> memory\n  model\n```\n", &[]);
        check(
            "```mermaid\ngraph BT\n%% why\n\nstate[\"a store\"] --> memory(files)\nmodel{x}\n```",
            &[],
        );
    }

    #[test]
    fn there_is_exactly_one_diagram() {
        let remedy = "draw the layers as one flowchart";
        check(
            "```toml\n```\n",
            &[&format!("ARCHITECTURE.md: has 0 blocks of `mermaid`, not one; {remedy}")],
        );
        check(
            "```mermaid\n```\n```mermaid\n```\n",
            &[&format!("ARCHITECTURE.md: has 2 blocks of `mermaid`, not one; {remedy}")],
        );
    }

    #[test]
    fn a_difference_names_the_edge_or_the_node() {
        check(
            "```mermaid\nflowchart TD\nmemory --> state\nserver\n```\n",
            &[
                "ARCHITECTURE.md: the edge `state --> memory` is missing; draw it",
                "ARCHITECTURE.md: the edge `memory --> state` is not in the layer table; remove it",
                "ARCHITECTURE.md: the node `model` is missing; draw it",
                "ARCHITECTURE.md: the node `server` is no layer; remove it",
            ],
        );
    }

    #[test]
    fn an_unknown_line_is_a_finding() {
        let remedy = "write `flowchart TD`, then one node or one edge `a --> b` a line";
        check(
            "```mermaid\nsequenceDiagram\n```\n",
            &[&format!("ARCHITECTURE.md:2: the diagram is no flowchart; {remedy}")],
        );
        for line in ["state --> memory --> model", "state & model --> memory", "end x"] {
            check(
                &format!("\n```mermaid\nflowchart TD\n{line}\n```\n"),
                &[&format!("ARCHITECTURE.md:4: `{line}` is neither a node nor an edge; {remedy}")],
            );
        }
    }
}
