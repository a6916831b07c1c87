//! Tables of JSON: each text is parsed and serialized back, byte for byte. It is parsed to the same value if a later
//! version adds a field.

use std::fmt::Debug;

use lukasa_protocol::acp::{Method, StageFileEdit, StageParams};
use lukasa_protocol::capabilities::{Capabilities, Health};
use lukasa_protocol::changes::{ChangePage, ChangeWithDiffs, UndoResponse, UndoSeveral};
use lukasa_protocol::context_files::{
    ContextScope, ImportFormat, LoadOptions, LoadScope, LoadedContext, WorkspaceMemory,
    WriteMemoryResponse, WriteMode,
};
use lukasa_protocol::conversation::{
    AgentHosts, CompactionRequest, ContextUpdate, Conversation, EndTurnRequest, ExplainedContext,
    OpenConversation, PromptRequest, ToolResultRequest, TurnRole,
};
use lukasa_protocol::error::{ErrorBody, ErrorCode};
use lukasa_protocol::event::{Envelope, ManagedSource, ProposalAction, Threshold};
use lukasa_protocol::health::{MemoryHealth, RepairResponse};
use lukasa_protocol::memories::{
    BatchRequest, BatchResponse, ImportOutcome, Memory, MemoryPage, Move, Pin, PutMemory,
    RevisionText, SearchResponse, Sort, ToolReply, WriteResponse,
};
use lukasa_protocol::pending::{Decisions, PendingPage, ProposalIds};
use lukasa_protocol::runs::{ModelRunPage, RunKind, RunPage};
use lukasa_protocol::session::{Heartbeat, Session, SessionRequest};
use lukasa_protocol::settings::{
    InstructionSourceKind, PutSetting, PutTrust, SettingKind, SettingSource, Settings, TrustStatus,
};
use lukasa_protocol::status::Stats;
use lukasa_protocol::task::{
    ContextMode, ListedTask, TargetScope, Task, TaskError, TaskKind, TaskList, TaskResult,
    TaskStatus, Topic, WorkKind,
};
use lukasa_protocol::ui::{Login, LoginRequest, Ticket};
use lukasa_protocol::workspaces::{HostWorkspaces, RemovedWorkspace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strum::VariantArray as _;

/// Checks that each text is parsed and serialized back unchanged.
fn check_round_trip<T: DeserializeOwned + Serialize + PartialEq + Debug>(texts: &[&str]) {
    for text in texts {
        let value: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(&serde_json::to_string(&value).unwrap(), text);
    }
}

/// Checks the same, and that an unknown field does not change the value.
fn check_ignores_unknown<T: DeserializeOwned + Serialize + PartialEq + Debug>(texts: &[&str]) {
    check_round_trip::<T>(texts);
    for text in texts {
        let comma = if *text == "{}" { "" } else { "," };
        let later = text.replacen('{', &format!("{{\"later\":[{{}},null]{comma}"), 1);
        let read: T =
            serde_json::from_str(&later).unwrap_or_else(|error| panic!("{error}: {later}"));
        assert_eq!(read, serde_json::from_str::<T>(text).unwrap(), "{later}");
    }
}

/// Checks that each text is refused.
fn check_rejected<T: DeserializeOwned + Debug>(texts: &[&str]) {
    for text in texts {
        let read = serde_json::from_str::<T>(text);
        assert!(read.is_err(), "{text}: {read:?}");
    }
}

/// Checks the words of a closed set: their spelling in JSON, and that others are refused.
fn check_words<T: DeserializeOwned + Serialize + PartialEq + Debug + Copy>(
    all: &[T],
    expected: &str,
) {
    let spelled: Vec<String> = all.iter().map(|one| serde_json::to_string(one).unwrap()).collect();
    assert_eq!(spelled.join(" ").replace('"', ""), expected);
    for (one, text) in all.iter().zip(spelled) {
        assert_eq!(serde_json::from_str::<T>(&text).unwrap(), *one);
    }
    check_rejected::<T>(&[r#""a_later_one""#, r#""""#, "7", "null"]);
}

#[test]
fn the_words_of_the_wire() {
    check_words(TaskKind::VARIANTS, "remember forget dream");
    check_words(WorkKind::VARIANTS, "remember forget dream review");
    check_words(TaskStatus::VARIANTS, "queued running completed failed");
    check_words(ContextMode::VARIANTS, "workspace clean");
    check_words(TargetScope::VARIANTS, "project user");
    check_words(Topic::VARIANTS, "user feedback project reference");
    check_words(ContextScope::VARIANTS, "workspace global");
    check_words(WriteMode::VARIANTS, "append replace");
    check_words(ImportFormat::VARIANTS, "tree flat");
    check_words(LoadScope::VARIANTS, "global project included extension");
    check_words(ProposalAction::VARIANTS, "made accepted rejected");
    check_words(
        ManagedSource::VARIANTS,
        "workspace_memory_remember workspace_memory_forget workspace_memory_dream",
    );
    check_words(Threshold::VARIANTS, "frames bytes frames_and_bytes");
    check_words(Sort::VARIANTS, "path modified uses bytes");
    check_words(TurnRole::VARIANTS, "user assistant tool");
    check_words(RunKind::VARIANTS, "task session");
    check_words(SettingKind::VARIANTS, "switch number choice text list");
    check_words(SettingSource::VARIANTS, "default file environment");
    check_words(InstructionSourceKind::VARIANTS, "contextFile memory");
}

const BEFORE: &str = r#""taskId":"dream-1","status":"queued","createdAt":"2026-11-22T10:00:00.000Z","updatedAt":"2026-11-22T10:00:00.000Z","result":null,"error":null"#;

#[test]
fn tasks() {
    let running = BEFORE.replace("queued", "running");
    check_ignores_unknown::<Task>(&[
        &format!("{{{BEFORE}}}"),
        &format!("{{{running}}}"),
        r#"{"taskId":"remember-1","status":"completed","contextMode":"clean","scope":"user","createdAt":"a","updatedAt":"b","result":{"summary":"s","filesTouched":["/memories/global/a.md"],"touchedScopes":["user"],"changes":[{"filePath":"/memories/global/a.md","action":"added","summary":"s"}]}}"#,
        r#"{"taskId":"forget-1","status":"failed","createdAt":"a","updatedAt":"b","error":{"code":"timeout","message":"m"}}"#,
    ]);
    check_ignores_unknown::<TaskList>(&[
        r#"{"tasks":[]}"#,
        &format!(r#"{{"tasks":[{{"kind":"review","workspaceId":"w",{BEFORE}}}]}}"#),
    ]);
    check_ignores_unknown::<ListedTask>(&[&format!(
        r#"{{"kind":"dream","workspaceId":"w",{BEFORE}}}"#
    )]);
    check_ignores_unknown::<TaskError>(&[
        r#"{"code":"c","message":"m"}"#,
        r#"{"code":"c","message":"m","cause":"scope_full","details":"d"}"#,
    ]);
    check_rejected::<Task>(&[
        "{}",
        "null",
        r#"{"taskId":"a"}"#,
        &format!("{{{}}}", BEFORE.replace("queued", "paused")),
        &format!("{{{}}}", BEFORE.replace("\"dream-1\"", "1")),
        &format!("{{{BEFORE},\"scope\":\"galaxy\"}}"),
    ]);
}

#[test]
fn results_of_tasks() {
    check_round_trip::<TaskResult>(&[
        r#"{"summary":"s","filesTouched":[],"touchedScopes":["project","user"],"proposals":2,"changes":[]}"#,
        r#"{"summary":"s","removedEntries":[{"topic":"user","summary":"s","filePath":"p"}],"touchedTopics":["user"],"touchedScopes":[],"changes":[],"candidates":[{"filePath":"p","entry":"a\nb","summary":"a"}]}"#,
        r#"{"summary":"s","touchedTopics":["feedback"],"touchedScopes":[],"dedupedEntries":2,"changes":[]}"#,
        r#"{"summary":"s","filesTouched":[],"touchedScopes":[],"changes":[],"leftOut":{"known":2}}"#,
    ]);
    let kind = |text: &str| match serde_json::from_str::<TaskResult>(text).unwrap() {
        TaskResult::Remember(_) => "remember",
        TaskResult::Forget(_) => "forget",
        TaskResult::Dream(_) => "dream",
        TaskResult::Review(_) => "review",
    };
    // Earlier daemons send fewer fields.
    assert_eq!(kind(r#"{"summary":"s","filesTouched":[],"touchedScopes":[]}"#), "remember");
    let forget = r#"{"summary":"s","removedEntries":[],"touchedTopics":[],"touchedScopes":[]}"#;
    assert_eq!(kind(forget), "forget");
    let dream = r#"{"summary":"s","touchedTopics":[],"touchedScopes":[],"dedupedEntries":0}"#;
    assert_eq!(kind(dream), "dream");
    check_rejected::<TaskResult>(&["{}", r#"{"summary":"s"}"#, "[]"]);
}

fn envelope(kind: &str, data: &str) -> String {
    format!(r#"{{"id":7,"v":1,"type":"{kind}","data":{data},"_meta":{{"serverTimestamp":1}}}}"#)
}

#[test]
fn events() {
    for (kind, data) in [
        (
            "memory_changed",
            r#"{"scope":"managed","source":"workspace_memory_dream","taskId":"t","touchedScopes":["project"]}"#,
        ),
        (
            "memory_changed",
            r#"{"scope":"file","path":"/memories/global/a.md","kind":"create","actor":"agent"}"#,
        ),
        (
            "memory_changed",
            r#"{"scope":"file","path":"a","movedTo":"b","kind":"rename","actor":"person","revision":"r","change":3,"trust":"person","workspaceId":"w","client":"c","session":"s","task":"t"}"#,
        ),
        (
            "memory_changed",
            r#"{"scope":"workspace","filePath":"/p/AGENTS.md","mode":"append","bytesWritten":9}"#,
        ),
        (
            "memory_changed",
            r#"{"scope":"global","filePath":"/h/AGENTS.md","mode":"replace","bytesWritten":0}"#,
        ),
        ("proposal", r#"{"action":"made","ids":[1,2],"actor":"dream"}"#),
        ("proposal", r#"{"action":"accepted","ids":[1],"actor":"person","task":"t","change":4}"#),
        ("memory_reviewed", r#"{"taskId":"t","saved":2,"message":"m","touchedScopes":[]}"#),
        ("replay_complete", r#"{"replayedCount":2,"lastEventId":9}"#),
        (
            "state_resync_required",
            r#"{"reason":"ring_evicted","lastDeliveredId":1,"earliestAvailableId":5}"#,
        ),
        (
            "slow_client_warning",
            r#"{"queueSize":1,"maxQueued":2,"queuedBytes":3,"maxQueuedBytes":4,"threshold":"frames_and_bytes","lastEventId":5}"#,
        ),
        (
            "client_evicted",
            r#"{"reason":"queue_overflow","droppedAfter":1,"queueSize":2,"maxQueued":3,"queuedBytes":4,"maxQueuedBytes":5}"#,
        ),
    ] {
        let text = envelope(kind, data);
        check_ignores_unknown::<Envelope>(&[&text]);
        let read: Envelope = serde_json::from_str(&text).unwrap();
        assert_eq!(read.event.as_ref(), kind);
        // A reader of this version accepts unknown fields of a later version in the event data, too.
        let later = text.replacen("\"data\":{", "\"data\":{\"later\":1,", 1);
        assert_eq!(serde_json::from_str::<Envelope>(&later).unwrap(), read, "{later}");
    }
    check_round_trip::<Envelope>(&[
        r#"{"v":1,"type":"replay_complete","data":{"replayedCount":0,"lastEventId":0},"originatorClientId":"ide","_meta":{"serverTimestamp":-1}}"#,
    ]);
    check_rejected::<Envelope>(&[
        &envelope("a_later_one", "{}"),
        &envelope("memory_changed", r#"{"scope":"galaxy"}"#),
        &envelope("proposal", "null"),
        r#"{"id":-1,"v":1,"type":"replay_complete","data":{"replayedCount":0,"lastEventId":0},"_meta":{"serverTimestamp":1}}"#,
    ]);
}

#[test]
fn errors() {
    check_round_trip::<ErrorBody>(&[
        r#"{"error":"Nothing is at that path.","code":"not_found"}"#,
        r#"{"error":"x","code":"conflict","blocked":[{"path":"p"}],"revision":null}"#,
    ]);
    for &code in ErrorCode::ALL {
        let text = format!(r#""{code}""#);
        assert_eq!(serde_json::from_str::<ErrorCode>(&text).unwrap(), code);
        assert_eq!(serde_json::to_string(&code).unwrap(), text);
    }
    let later: ErrorCode = serde_json::from_str(r#""a_later_one""#).unwrap();
    assert_eq!((later, later.status()), (ErrorCode::Unknown, 500));
    check_rejected::<ErrorBody>(&[
        "{}",
        r#"{"error":"x"}"#,
        r#"{"error":1,"code":"locked"}"#,
        "[]",
        "null",
    ]);
}

#[test]
fn health_and_status() {
    check_ignores_unknown::<Health>(&[
        r#"{"status":"ok"}"#,
        r#"{"status":"ok","workspaces":[{"id":"w","memories":1,"unfinishedTasks":0,"findings":2}]}"#,
    ]);
    check_ignores_unknown::<MemoryHealth>(&[
        r#"{"findings":[{"kind":"k","subject":"s","detail":"d","fixable":true}],"advice":[{"kind":"k","scope":"global","subject":"s","path":"p","detail":"d","fixable":false}]}"#,
    ]);
    check_ignores_unknown::<RepairResponse>(&[r#"{"done":["a"],"left":[]}"#]);
    check_ignores_unknown::<Stats>(&[
        r#"{"workspaceId":"w","scopes":[{"scope":"global","memories":1,"memoriesMax":2,"bytes":3},{"scope":"project","unavailable":"u","memories":0,"memoriesMax":2,"bytes":0}],"history":{"changes":1,"open":0,"contentBytes":2,"databaseBytes":3},"eventStreams":0,"connections":1}"#,
        r#"{"workspaceId":"w","scopes":[],"history":{"changes":1,"open":0,"contentBytes":2},"nextDream":{"notBefore":"n","sessionsMissing":3},"eventStreams":0,"connections":1}"#,
    ]);
    check_ignores_unknown::<Capabilities>(&[
        r#"{"v":1,"protocolVersions":{"current":"v1","supported":["v1"]},"mode":"http-bridge","features":["health"],"featureOptions":{"a":{"b":1}},"modelServices":[],"transports":["http"],"limits":{"maxBodyBytes":1,"maxTaskTextBytes":2,"maxMemoryBytes":3,"maxUnfinishedTasks":4,"maxUnfinishedMinorTasks":5,"maxSubscribersPerSession":6,"maxQueuedFrames":7},"workspaceCwd":"/w","workspaces":[{"id":"w","cwd":"/w","primary":true,"trusted":false}],"lukasaVersion":"0.1.0"}"#,
    ]);
}

#[test]
fn sessions_and_workspaces() {
    check_ignores_unknown::<SessionRequest>(&["{}", r#"{"cwd":"/w"}"#]);
    check_ignores_unknown::<Session>(&[
        r#"{"sessionId":"s","workspaceCwd":"/w","attached":false,"clientId":"c","createdAt":"a"}"#,
        r#"{"sessionId":"s","workspaceCwd":"/w","attached":true,"clientId":"c","createdAt":"a","eventEpoch":"e"}"#,
    ]);
    check_ignores_unknown::<Heartbeat>(&[r#"{"sessionId":"s","clientId":"c","lastSeenAt":1}"#]);
    check_ignores_unknown::<HostWorkspaces>(&[
        r#"{"workspaces":[{"id":"w","checkout":"/c","checkoutExists":true,"memories":1,"bytes":2,"servedAs":["a"]},{"id":"v","checkoutExists":false,"memories":0,"bytes":0,"servedAs":[]}]}"#,
    ]);
    check_ignores_unknown::<RemovedWorkspace>(&[
        r#"{"memories":[]}"#,
        r#"{"memories":["a"],"change":1,"remainingFolder":"/f"}"#,
    ]);
    check_ignores_unknown::<Ticket>(&[r#"{"ticket":"t"}"#]);
    check_ignores_unknown::<LoginRequest>(&[r#"{"ticket":"t"}"#]);
    check_ignores_unknown::<Login>(&[r#"{"token":"t","workspace":"w"}"#]);
}

#[test]
fn memories() {
    check_ignores_unknown::<MemoryPage>(&[
        r#"{"memories":[],"total":0,"unavailable":[]}"#,
        r#"{"memories":[{"path":"p","scope":"global","description":"d","hasDescription":true,"bytes":1,"modifiedAt":"m","pinned":false,"uses":2,"trust":"person","findings":[]}],"total":1,"nextCursor":"c","unavailable":[{"scope":"project","reason":"r"}]}"#,
        r#"{"memories":[{"path":"p","scope":"global","description":"d","hasDescription":false,"name":"n","type":"user","bytes":1,"modifiedAt":"m","revision":"r","pinned":true,"uses":2,"lastUsedAt":"u","lastAuthor":"a","trust":"agent","lastWrittenAt":"w","model":"o","findings":[{"rule":"r","line":3}]}],"total":1,"unavailable":[]}"#,
    ]);
    check_ignores_unknown::<Memory>(&[
        r#"{"path":"p","text":"t","revision":"r","modifiedAt":"m","trust":"person"}"#,
        r#"{"path":"p","text":"t","revision":"r","modifiedAt":"m","trust":"agent","lastWrittenAt":"w","model":"o"}"#,
    ]);
    // An earlier daemon does not send the trust.
    let earlier: Memory =
        serde_json::from_str(r#"{"path":"p","text":"t","revision":"r","modifiedAt":"m"}"#).unwrap();
    assert_eq!(earlier.trust, "");
    check_ignores_unknown::<PutMemory>(&[r#"{"text":"t"}"#]);
    check_ignores_unknown::<WriteResponse>(&[
        r#"{"path":"p","warnings":[]}"#,
        r#"{"path":"p","revision":"r","change":1,"warnings":[{"rule":"r","line":1}]}"#,
    ]);
    check_ignores_unknown::<Move>(&[r#"{"from":"a","to":"b"}"#]);
    check_ignores_unknown::<Pin>(&[r#"{"path":"p","pinned":true,"changed":false}"#]);
    check_ignores_unknown::<ToolReply>(&[
        r#"{"ok":true,"text":"t"}"#,
        r#"{"ok":false,"text":"t","code":"not_found","change":1,"revision":"r","warnings":[{"rule":"r","line":1}]}"#,
    ]);
    check_ignores_unknown::<SearchResponse>(&[
        r#"{"matches":[{"path":"p","line":1,"text":"t"}],"more":true}"#,
    ]);
    check_ignores_unknown::<ImportOutcome>(&[
        r#"{"memories":[{"path":"p","source":"s","notes":["n"]}],"skipped":[{"source":"s","why":"w"}]}"#,
        r#"{"memories":[],"skipped":[],"change":1}"#,
    ]);
    check_ignores_unknown::<RevisionText>(&[
        r#"{"revision":"r","text":"t"}"#,
        r#"{"revision":"r","text":"t","diff":"d"}"#,
    ]);
    check_ignores_unknown::<BatchResponse>(&["{}", r#"{"change":1}"#]);
    check_ignores_unknown::<BatchRequest>(&[
        r#"{"steps":[{"do":"delete","path":"p"},{"do":"delete","path":"p","revision":"r"},{"do":"move","from":"a","to":"b"}]}"#,
    ]);
    // A step with unknown fields must not be carried out: it may mean something else.
    check_rejected::<BatchRequest>(&[
        r#"{"steps":[{"do":"delete","path":"p","later":1}]}"#,
        r#"{"steps":[{"do":"burn","path":"p"}]}"#,
        r#"{"steps":[{"path":"p"}]}"#,
    ]);
}

#[test]
fn history_and_proposals() {
    let change = r#""id":1,"at":"a","kind":"edit","actor":"agent","trust":"agent","origin":"mcp""#;
    check_ignores_unknown::<ChangePage>(&[
        r#"{"changes":[]}"#,
        &format!(
            r#"{{"changes":[{{{change},"files":[{{"path":"p","movedTo":"q","before":"b","after":"c"}}]}}],"nextCursor":"n"}}"#
        ),
        &format!(
            r#"{{"changes":[{{{change},"client":"c","session":"s","task":"t","toolCall":"l","model":"m","note":"n","undoes":2,"files":[{{"path":"p"}}]}}]}}"#
        ),
    ]);
    check_ignores_unknown::<ChangeWithDiffs>(&[&format!(
        r#"{{{change},"files":[],"diffs":[{{"path":"p","diff":"d","kept":true}}]}}"#
    )]);
    check_round_trip::<UndoSeveral>(&[
        "{}",
        r#"{"changes":[1,2],"task":"t","session":"s","since":"a","until":"b"}"#,
    ]);
    check_rejected::<UndoSeveral>(&[r#"{"later":1}"#, r#"{"changes":["1"]}"#]);
    check_ignores_unknown::<UndoResponse>(&[
        r#"{"undone":[],"paths":[],"warnings":[]}"#,
        r#"{"change":3,"undone":[1],"paths":["p"],"warnings":[]}"#,
    ]);
    check_ignores_unknown::<PendingPage>(&[
        r#"{"proposals":[],"waiting":0}"#,
        r#"{"proposals":[{"id":1,"kind":"k","reason":"r","score":2,"origin":"dream","madeAt":"m","changes":[],"diffs":[]}],"waiting":1}"#,
        r#"{"proposals":[{"id":1,"kind":"k","reason":"r","score":2,"origin":"dream","task":"t","madeAt":"m","stale":"s","changes":[{"path":"p","old":"o","new":"n"}],"review":{"path":"p","revision":"r"},"diffs":[]}],"waiting":2,"nextCursor":"c"}"#,
    ]);
    check_ignores_unknown::<ProposalIds>(&[r#"{"ids":[1]}"#]);
    check_ignores_unknown::<Decisions>(&[
        r#"{"decisions":[{"id":1,"done":true,"change":2},{"id":2,"done":false,"code":"c","error":"e"}]}"#,
    ]);
}

#[test]
fn runs() {
    check_ignores_unknown::<RunPage>(&[
        r#"{"runs":[]}"#,
        r#"{"runs":[{"kind":"session","id":"i","actor":"agent","startedAt":"a","endedAt":"b","changes":[1],"memories":2}],"nextCursor":"c"}"#,
        r#"{"runs":[{"kind":"task","id":"i","actor":"agent","client":"c","model":"m","startedAt":"a","endedAt":"b","changes":[],"memories":2,"status":"failed"}]}"#,
    ]);
    let numbers = r#""background":true,"turns":1,"calls":2,"refused":3,"tokensIn":4,"tokensCached":5,"tokensOut":6"#;
    check_ignores_unknown::<ModelRunPage>(&[
        &format!(
            r#"{{"runs":[{{"number":1,"agent":"a","model":"m","startedAt":"a","endedAt":"b","ended":"e",{numbers}}}],"nextCursor":"c"}}"#
        ),
        &format!(
            r#"{{"runs":[{{"number":1,"task":"t","agent":"a","model":"m","startedAt":"a","endedAt":"b","ended":"e",{numbers},"cost":0.5,"why":"w"}}]}}"#
        ),
    ]);
}

#[test]
fn settings_and_trust() {
    check_ignores_unknown::<Settings>(&[
        r#"{"file":"f","restartNeeded":false,"settings":[{"key":"k","kind":"switch","meaning":"m","value":true,"default":null,"from":"file","readOnly":false,"built":true}]}"#,
        r#"{"file":"f","restartNeeded":true,"settings":[{"key":"k","kind":"number","meaning":"m","value":1,"default":2,"from":"environment","line":3,"min":1,"max":9,"choices":["a"],"readOnly":true,"why":"w","built":false}]}"#,
    ]);
    check_round_trip::<PutSetting>(&[
        r#"{"value":null}"#,
        r#"{"value":1,"expected":null}"#,
        r#"{"value":[1],"expected":{"a":1}}"#,
    ]);
    check_rejected::<PutSetting>(&[r#"{"value":1,"later":1}"#, "{}"]);
    check_ignores_unknown::<TrustStatus>(&[
        r#"{"folders":[]}"#,
        r#"{"folders":["/a"],"here":{"path":"/a","trusted":true,"speaks":[{"kind":"contextFile","path":"p","description":"d"}],"more":1}}"#,
    ]);
    check_round_trip::<PutTrust>(&[r#"{"path":"p","trusted":true}"#]);
    check_rejected::<PutTrust>(&[r#"{"path":"p","trusted":true,"later":1}"#, r#"{"path":"p"}"#]);
}

#[test]
fn conversations() {
    check_ignores_unknown::<OpenConversation>(&[
        "{}",
        r#"{"sessionId":"s","workspaceId":"w","cwd":"/c","context":true,"anew":true,"contextBytesMax":1,"contextFilesLoaded":["a"]}"#,
        r#"{"contextOptions":{"includeFolders":["a"],"extensionFiles":["b"],"folderTrust":false,"importFormat":"flat","contextFilesLoaded":["c"]}}"#,
    ]);
    check_round_trip::<LoadOptions>(&["{}"]);
    check_rejected::<LoadOptions>(&[r#"{"later":1}"#, r#"{"importFormat":"star"}"#]);
    let context = r#""text":"t","revision":"r","tokens":1,"parts":[{"part":"p","revision":"r","bytes":1,"tokens":2}]"#;
    check_ignores_unknown::<Conversation>(&[
        r#"{"sessionId":"s","workspaceId":"w","resumed":false,"turns":0,"segment":0}"#,
        &format!(
            r#"{{"sessionId":"s","workspaceId":"w","resumed":true,"turns":1,"segment":2,"context":{{{context}}},"contextRepeated":true,"changes":{{"text":"t","tokens":1}}}}"#
        ),
    ]);
    check_ignores_unknown::<ExplainedContext>(&[&format!(
        r#"{{{context},"memories":1,"factsShown":2,"facts":3,"files":[{{"path":"p","scope":"included","bytes":1,"tokens":2,"cut":false}}],"skipped":[{{"path":"p","parent":"q","why":"w"}}],"hot":[{{"path":"p","pinned":true,"uses":1,"heat":0.5,"shown":true,"whole":false,"factsShown":1,"facts":2,"why":"w"}}]}}"#
    )]);
    check_ignores_unknown::<AgentHosts>(&[
        r#"{"hosts":[{"name":"n","title":"t","contextBytesMax":1,"contextFilesLoaded":["a"]}]}"#,
    ]);
    check_ignores_unknown::<PromptRequest>(&[
        r#"{"text":"t"}"#,
        r#"{"text":"t","eventId":"e","cancelWithConnection":true}"#,
    ]);
    check_ignores_unknown::<CompactionRequest>(&["{}", r#"{"eventId":"e","context":true}"#]);
    check_ignores_unknown::<ToolResultRequest>(&["{}", r#"{"eventId":"e","memoryWritten":true}"#]);
    check_ignores_unknown::<EndTurnRequest>(&[
        "{}",
        r#"{"eventId":"e","messages":[{"role":"assistant","text":"t"}],"memoryWritten":true}"#,
    ]);
    check_ignores_unknown::<ContextUpdate>(&[
        "{}",
        r#"{"recalled":{"text":"t","memories":[{"path":"p","title":"t","modifiedAt":"m","score":0.5,"weak":false,"why":"w"},{"path":"p","title":"t","modifiedAt":"m","savedAt":"s","score":0.1,"weak":true,"why":"w","alsoIn":["q"],"unreviewed":"u"}]},"changes":{"text":"t","tokens":1}}"#,
    ]);
}

#[test]
fn context_files() {
    check_ignores_unknown::<LoadedContext>(&[
        r#"{"text":"t","files":[{"path":"p","scope":"global","parent":"q","bytes":1,"tokens":2,"cut":true}],"skipped":[{"path":"p","why":"w"}]}"#,
    ]);
    check_ignores_unknown::<WorkspaceMemory>(&[
        r#"{"v":1,"workspaceCwd":"/w","initialized":true,"files":[{"kind":"k","path":"p","scope":"workspace","bytes":1,"revision":"r"}],"totalBytes":1,"fileCount":1,"ruleCount":0}"#,
        r#"{"v":1,"workspaceCwd":"/w","initialized":true,"files":[],"totalBytes":1,"fileCount":1,"ruleCount":0,"errors":[{"kind":"k","status":"s","error":"e"}]}"#,
    ]);
    check_ignores_unknown::<WriteMemoryResponse>(&[
        r#"{"ok":true,"filePath":"p","bytesWritten":1,"mode":"append","changed":true}"#,
        r#"{"ok":true,"filePath":"p","bytesWritten":1,"mode":"replace","changed":false,"warnings":[{"rule":"r","line":1}]}"#,
    ]);
}

#[test]
fn messages_between_daemon_and_child() {
    for (name, method) in [
        ("qwen/control/workspace/memory/remember/availability", Method::Availability),
        ("qwen/control/workspace/memory/remember", Method::Task(TaskKind::Remember)),
        ("qwen/control/workspace/memory/forget", Method::Task(TaskKind::Forget)),
        ("qwen/control/workspace/memory/dream", Method::Task(TaskKind::Dream)),
        ("lukasa/memory/review", Method::Review),
    ] {
        assert_eq!((Method::read(name), method.as_str()), (Some(method), name));
        assert_eq!(Method::read(&format!("_{name}")), Some(method));
    }
    for name in ["", "_", "remember", "qwen/control/workspace/memory/", "__lukasa/memory/review"] {
        assert_eq!(Method::read(name), None, "{name}");
    }
    check_rejected::<StageParams>(&["{}", r#"{"v":1}"#]);
    check_rejected::<StageFileEdit>(&["{}", "null", r#"{"later":{}}"#]);
}
