//! Tests that messages survive a round trip, and that arbitrary messages are decoded or refused.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use engine::{
    ContextMode, DraftEdit, EntryAction, FindingSkipReason, ForgetRequest, MemoryTopic,
    MessageRole, RememberRequest, RemoteFolder, ReviewTrigger,
};
use memory::document::Revision;
use memory::path::Scope;
use memory::proposal::ProposalKind;
use proptest::prelude::*;
use strum::VariantArray as _;

use super::*;

fn at(path: &str) -> MemoryPath {
    MemoryPath::parse(path, Layout::Scoped).unwrap()
}

fn entry_note(action: EntryAction) -> EntryOutcome {
    EntryOutcome {
        path: at("/memories/global/user/a.md"),
        action,
        summary: "I keep bees".to_owned(),
    }
}

fn proposal() -> Proposal {
    let path = at("/memories/project/a.md");
    Proposal {
        kind: ProposalKind::Contradiction,
        reason: "`a` and `b`".to_owned(),
        score: 70,
        changes: vec![EntryChange {
            path: path.clone(),
            old: Some("a\n  b".to_owned()),
            new: None,
        }],
        relies_on: vec![EntryReference { path, text: "b".to_owned() }],
        review: None,
    }
}

fn results() -> Vec<TaskResult> {
    let scopes = BTreeSet::from([Mount::Scope(Scope::Global), Mount::Scope(Scope::Workspace)]);
    let topics = BTreeSet::from([MemoryTopic::User, MemoryTopic::Reference]);
    let path = at("/memories/global/user/a.md");
    let result = |summary: &str, changes, proposals: Vec<_>, details| TaskResult {
        summary: summary.to_owned(),
        scopes: scopes.clone(),
        changes,
        proposals: proposals.into(),
        details,
    };
    let notes = EntryAction::VARIANTS.iter().copied().map(entry_note).collect();
    vec![
        result(
            "Saved.",
            notes,
            vec![proposal()],
            TaskDetails::Remember { files_touched: vec![path.clone()] },
        ),
        result(
            "Forgot 1 memory entry.",
            vec![entry_note(EntryAction::Removed)],
            Vec::new(),
            TaskDetails::Forget {
                removed: vec![ForgottenEntry {
                    topic: MemoryTopic::Feedback,
                    summary: "I keep bees".to_owned(),
                    path: path.clone(),
                }],
                topics: topics.clone(),
                candidates: vec![EntryCandidate {
                    path,
                    entry: "I keep\n  bees".to_owned(),
                    summary: "I keep".to_owned(),
                }],
            },
        ),
        result(
            "Saved 1 memory.",
            vec![entry_note(EntryAction::Added)],
            vec![proposal()],
            TaskDetails::Review {
                files_touched: vec![at("/memories/global/a.md")],
                skipped: [(FindingSkipReason::Known, 2)].into(),
            },
        ),
        result(
            "Managed auto-memory dream completed.",
            vec![entry_note(EntryAction::Merged)],
            vec![proposal(), proposal()],
            TaskDetails::Dream { topics, deduped: 3 },
        ),
    ]
}

const fn kind_of(result: &TaskResult) -> TaskKind {
    match &result.details {
        TaskDetails::Remember { .. } => TaskKind::Remember,
        TaskDetails::Forget { .. } => TaskKind::Forget,
        TaskDetails::Dream { .. } => TaskKind::Dream,
        TaskDetails::Review { .. } => TaskKind::Review,
    }
}

#[test]
fn an_answer_survives_a_round_trip() {
    let report = RunReport {
        agent: RunReport::agent("managed-auto-memory-dream"),
        model: Some("local/small".to_owned()),
        turns: 2,
        calls: 3,
        refused_calls: 1,
        usage: TokenUsage { tokens_in: 200, tokens_cached: 80, tokens_out: 14, cost: Some(0.5) },
        fallback: Some("it did not answer".to_owned()),
        failure: None,
    };
    for result in results() {
        let kind = kind_of(&result);
        let edits = vec![
            DraftEdit { path: at("/memories/global/a.md"), base: None, text: Some("- a\n".into()) },
            DraftEdit {
                path: at("/memories/global/b.md"),
                base: Some(Revision::digest(b"b")),
                text: None,
            },
        ];
        let (model, reason) = (Some("local/small".to_owned()), Some("Said in turn 1".to_owned()));
        let staged = StagedAttempt { result, edits, model, reason };
        let answer = answer_to_wire(&staged, &report).unwrap();
        let read = read_answer(answer, (kind, Layout::Scoped)).unwrap();
        assert_eq!((read.result, read.report), (staged.result, report.clone()));
        assert_eq!((read.decided_by, read.has_invalid_path), (staged.model, false));
        assert_eq!(read.decision_reason, staged.reason);
        let staged_edit = |edit: DraftEdit| StagedEdit {
            path: edit.path.to_string(),
            base: edit.base,
            text: edit.text,
        };
        assert_eq!(read.edits, staged.edits.into_iter().map(staged_edit).collect::<Vec<_>>());
    }
}

/// Returns bindings of all kinds.
fn bindings() -> Vec<BindingRequest> {
    let path = |text: &str| Some(PathBuf::from(text));
    vec![
        BindingRequest::default(),
        BindingRequest {
            project: Some(PathBuf::from("/a").into()),
            no_project: Some("gone".into()),
            ..Default::default()
        },
        BindingRequest { project_root: ProjectRoot::Host, read_only: true, ..Default::default() },
        BindingRequest { workspace: WorkspaceChoice::Checkout, ..Default::default() },
        BindingRequest {
            workspace: WorkspaceChoice::Id("w".parse().unwrap()),
            ..Default::default()
        },
        BindingRequest { flat: path("/f"), ..Default::default() },
        // A folder whose name is not UTF-8.
        BindingRequest {
            project: Some(PathBuf::from(OsStr::from_bytes(b"/a/\xff")).into()),
            ..Default::default()
        },
        BindingRequest {
            project: Some("ssh://build/a%FF".parse::<RemoteFolder>().unwrap().into()),
            ..Default::default()
        },
    ]
}

#[test]
fn a_request_survives_a_round_trip() {
    let bindings = bindings();
    let remember = |content: &str, context_mode, scope| {
        CuratorRequest::Remember(RememberRequest {
            content: content.to_owned(),
            context_mode,
            scope,
        })
    };
    let file = Some(at("/memories/global/a.md"));
    let requests = [
        remember("a\n\u{1f980}", ContextMode::Workspace, None),
        remember("a", ContextMode::Clean, Some(Scope::Workspace)),
        CuratorRequest::Forget(ForgetRequest {
            query: "a".into(),
            scope: Some(Scope::Global),
            file,
        }),
        CuratorRequest::Forget(ForgetRequest { query: "a".into(), scope: None, file: None }),
        CuratorRequest::Dream,
        CuratorRequest::Review(ReviewRequest {
            session: "talk".to_owned(),
            turns: (2, 4),
            trigger: ReviewTrigger::Compaction,
            messages: vec![ReviewMessage {
                id: "m1".to_owned(),
                role: MessageRole::User,
                text: "a\nb".to_owned(),
            }],
        }),
    ];
    for binding in bindings {
        let workspace = Workspace::new(PathBuf::from("/a"), binding);
        for request in &requests {
            let id = TaskId::new(request.kind());
            let Value::Object(fields) = parameters(&id, request, &workspace) else {
                panic!("an object")
            };
            let stage = serde_json::from_value(meta(&fields, "stage").unwrap()).unwrap();
            let kind = id.kind().as_str().parse().ok();
            let read = match kind {
                Some(kind) => read_request(stage, from_wire::request(kind, &fields).unwrap()),
                None => read_review(stage),
            };
            let read = read.unwrap();
            assert_eq!((&read.task, &read.request, &read.workspace), (&id, request, &workspace));
        }
        let Value::Object(fields) = workspace_parameters(&workspace) else { panic!("an object") };
        let of = serde_json::from_value(meta(&fields, "workspace").unwrap()).unwrap();
        assert_eq!(read_workspace(of), Some(workspace));
    }
}

/// Generates arbitrary JSON, often with the field names of an answer.
fn any_json() -> impl Strategy<Value = Value> {
    let names =
        "edits|scopes|proposed|report|summary|filesTouched|changes|path|base|text|[a-z]{1,4}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        "/memories/(global|project|x)/[a-z./%]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(names, inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_messages_of_a_child_are_decoded_or_refused(
        mut message in any_json(),
        part in any_json(),
        name in "edits|scopes|proposed|report|decidedBy|summary|filesTouched|changes|candidates",
    ) {
        for result in results() {
            let kind = kind_of(&result);
            drop(read_answer(message.clone(), (kind, Layout::Scoped)));
            // A valid answer with one arbitrary part.
            let staged = StagedAttempt { result, edits: Vec::new(), model: None, reason: None };
            let mut answer = answer_to_wire(&staged, &RunReport::default()).unwrap();
            answer[&name] = part.clone();
            if let Some(read) = read_answer(answer, (kind, Layout::Flat)) {
                prop_assert!(read.result.summary.chars().all(|c| !c.is_control()));
            }
        }
        drop(serde_json::from_value::<StageParams>(message.take()));
    }
}
