//! Forgetting by a model: the selected entries are removed, and no others.
//!
//! Selections are checked against the list that the model was shown.

use super::*;

pub(super) async fn forget(
    memories: &Memories,
    query: &str,
    script: Vec<ModelReply>,
) -> (Result<lukasa_agents::ForgetReport, CurateError>, Vec<Value>) {
    let server = ModelServer::scripted(script).unwrap();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let request = ForgetRequest { query: query.to_owned(), scope: None, file: None };
    let done =
        curator(&server, false).forget(memories, &mut draft, &request, &Ledger::default()).await;
    if done.is_ok() {
        draft.commit().await.unwrap();
    }
    (done, server.requests().into_iter().map(|request| request.body).collect())
}

pub(super) fn select(ids: &[&str]) -> ModelReply {
    ModelReply::call("select_entries", json!({ "ids": ids }))
}

#[tokio::test]
async fn a_model_chooses_the_entries_that_are_forgotten() {
    let (_home, memories) = memories();
    create(&memories, "/memories/global/a.md", "- I drink tea\n- I own a kayak\n").await;
    let (done, requests) = forget(&memories, "my boat", vec![select(&["global/a.md:1"])]).await;
    assert_eq!(done.unwrap().summary, "Forgot 1 memory entry.");
    assert_eq!(text_of(&memories, "/memories/global/a.md").await.unwrap(), "- I drink tea\n");
    assert_eq!(requests.len(), 1, "the selection ends the run");
    assert!(requests[0].to_string().contains("global/a.md:1 \\\"I own a kayak"), "{}", requests[0]);
    // JSON text is an answer too, also with an empty list.
    let (done, _) =
        forget(&memories, "my boat", vec![ModelReply::text("```json\n{\"ids\": []}\n```")]).await;
    assert_eq!(done.unwrap().summary, "No managed auto-memory entries matched.");
    let (done, _) = forget(&memories, "my boat", vec![ModelReply::text("I am not sure.")]).await;
    assert!(matches!(done, Err(CurateError::Agent(AgentError::NoAnswer))), "{done:?}");
}

#[tokio::test]
async fn an_unlisted_id_may_be_corrected_once() {
    let (_home, memories) = memories();
    create(&memories, "/memories/global/a.md", "- I drink tea\n- I own a kayak\n").await;
    let (done, requests) =
        forget(&memories, "my boat", vec![select(&["global/a.md:9"]), select(&["global/a.md:1"])])
            .await;
    assert_eq!((done.unwrap().removed.len(), requests.len()), (1, 2));
    let (done, requests) = forget(&memories, "tea", vec![select(&["global/a.md:9"])]).await;
    assert!(matches!(done, Err(CurateError::Agent(AgentError::UnknownEntries))), "{done:?}");
    assert_eq!(requests.len(), 2);
    assert_eq!(text_of(&memories, "/memories/global/a.md").await.unwrap(), "- I drink tea\n");
}

/// The order and repetition of ids do not matter.
#[tokio::test]
async fn only_the_selected_entries_are_removed() {
    let all =
        ["- one tea\n", "- two coffee is in the red tin\n", "- three mate\n", "- four juice\n"];
    for selected in [[2, 0, 2, 0], [0, 0, 0, 0], [3, 2, 1, 0], [1, 3, 1, 3], [0, 1, 2, 2]] {
        let (_home, memories) = memories();
        create(&memories, "/memories/global/a.md", &all.concat()).await;
        let ids: Vec<String> =
            selected.iter().map(|index| format!("global/a.md:{index}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let (done, _) = forget(&memories, "the tea", vec![select(&ids)]).await;
        let expected: String =
            (0..4).filter(|index| !selected.contains(index)).map(|index| all[index]).collect();
        let text = text_of(&memories, "/memories/global/a.md").await.unwrap_or_default();
        assert_eq!(text, expected, "{selected:?}");
        let count = (0..4).filter(|index| selected.contains(index)).count();
        assert_eq!(done.unwrap().removed.len(), count, "{selected:?}");
    }
}

#[tokio::test]
async fn more_entries_than_a_person_would_review_are_only_candidates() {
    let (_home, memories) = memories();
    let facts: Vec<String> = (0..40).map(|number| format!("- fact number {number}\n")).collect();
    let facts = facts.concat();
    create(&memories, "/memories/global/a.md", &facts).await;
    let ids: Vec<String> = (0..40).map(|at| format!("global/a.md:{at}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (done, _) = forget(&memories, "my kayak", vec![select(&ids)]).await;
    let done = done.unwrap();
    assert_eq!((done.removed.len(), done.candidates.len()), (0, 40));
    assert_eq!(text_of(&memories, "/memories/global/a.md").await.unwrap(), facts);
}

#[tokio::test]
async fn a_memory_with_a_secret_is_not_among_the_candidates() {
    let (home, memories) = memories();
    let file = home.path().join("data/memory/k.md");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC\n".repeat(6);
    let key = format!(
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{body}\n-----END RSA PRIVATE KEY-----\n"
    );
    fs::write(&file, format!("- bees\n\n{key}")).unwrap();
    create(&memories, "/memories/global/b.md", "- I keep bees\n").await;
    let (done, requests) = forget(&memories, "bees key", vec![select(&[])]).await;
    done.unwrap();
    let sent: String = requests.iter().map(Value::to_string).collect();
    assert!(sent.contains("I keep bees") && !sent.contains("MIIEvQ"), "{sent}");
}

#[tokio::test]
async fn pinned_memories_keep_entries_that_a_model_selects() {
    let (_home, memories) = memories();
    create(&memories, "/memories/global/a.md", "- I own a kayak\n").await;
    memories
        .for_caller(Caller::person("test"))
        .set_pin(&path("/memories/global/a.md"), true)
        .await
        .unwrap();
    let (done, _) = forget(&memories, "my kayak", vec![select(&["global/a.md:0"])]).await;
    let done = done.unwrap();
    assert_eq!((done.removed.len(), done.skipped_pinned.len()), (0, 1));
    assert!(text_of(&memories, "/memories/global/a.md").await.is_some());
}
