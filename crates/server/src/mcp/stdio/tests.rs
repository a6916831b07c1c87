//! Tests of the stdio transport: lines, batches, invalid messages and bounds.

use proptest::prelude::*;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use super::*;

/// Parses a line; returns its messages re-encoded, and the codes of its errors.
fn shown(line: &[u8]) -> Value {
    read_line(line)
        .into_iter()
        .map(|result| match result {
            Ok(message) => serde_json::to_value(message).unwrap(),
            Err(InvalidMessage { id, error }) => json!({ "refused": error.code.0, "id": id }),
        })
        .collect()
}

fn check(line: &str, expected: &Value) {
    assert_eq!(&shown(line.as_bytes()), expected, "{line}");
}

#[test]
fn a_line_is_one_message_or_a_batch_of_them() {
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    check("", &json!([]));
    check(&ping.to_string(), &json!([ping]));
    check(&json!([ping, initialized]).to_string(), &json!([ping, initialized]));
}

#[test]
fn an_invalid_message_is_refused_with_its_id_if_it_has_one() {
    let invalid = |id: Value| json!([{ "refused": -32600, "id": id }]);
    check("{", &json!([{ "refused": -32700, "id": null }]));
    check("GET / HTTP/1.1", &json!([{ "refused": -32700, "id": null }]));
    check("[]", &invalid(json!(null)));
    check("17", &invalid(json!(null)));
    check(r#"{"id":"a"}"#, &invalid(json!("a")));
    check(r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, &invalid(json!(7)));
    check(r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, &invalid(json!(null)));
    check(
        r#"[1,{"id":2}]"#,
        &json!([
            { "refused": -32600, "id": null },
            { "refused": -32600, "id": 2 },
        ]),
    );
}

#[test]
fn an_invalid_notification_is_dropped() {
    check(r#"{"method":"textDocument/didOpen"}"#, &json!([]));
}

#[test]
fn invalid_utf8_and_lone_surrogates_are_read_as_replacement_characters() {
    let is_read = |line: &[u8]| {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "x\u{fffd}", "params": null });
        assert_eq!(shown(line), json!([message]));
    };
    is_read(br#"{"jsonrpc":"2.0","id":1,"method":"x\ud83d"}"#);
    is_read(br#"{"jsonrpc":"2.0","id":1,"method":"x\udc00"}"#);
    is_read(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\xff\"}");
    let batch = br#"[{"jsonrpc":"2.0","id":"a","method":"ping"},{"id":"\ud83d"}]"#;
    let ping = json!({ "jsonrpc": "2.0", "id": "a", "method": "ping" });
    assert_eq!(shown(batch), json!([ping, { "refused": -32600, "id": "\u{fffd}" }]));
}

/// Reads all lines of an input.
async fn lines(input: &[u8]) -> Vec<LineRead> {
    let mut lines = LineReader::new(BufReader::with_capacity(7, input), MCP_LINE_BYTES_MAX);
    let mut read = Vec::new();
    loop {
        read.push(lines.next().await);
        if matches!(read.last(), Some(LineRead::End | LineRead::TooLong)) {
            return read;
        }
    }
}

#[tokio::test]
async fn lines_end_with_or_without_a_carriage_return_and_at_the_end() {
    let line = |text: &str| LineRead::Line(text.as_bytes().to_vec());
    let expected = vec![line("one"), line("two, longer"), line(""), line("last"), LineRead::End];
    assert_eq!(lines(b"one\r\ntwo, longer\n\nlast").await, expected);
}

#[tokio::test]
async fn a_line_has_a_maximal_length() {
    let mut input = vec![b' '; MCP_LINE_BYTES_MAX];
    input.push(b'\n');
    assert_eq!(lines(&input).await.len(), 2, "the longest line and the end");
    input.insert(0, b' ');
    assert_eq!(lines(&input).await, vec![LineRead::TooLong]);
}

#[tokio::test]
async fn a_partial_line_is_kept_when_the_read_is_cancelled() {
    let (mut client, server) = tokio::io::duplex(64);
    let mut lines = LineReader::new(BufReader::new(server), MCP_LINE_BYTES_MAX);
    client.write_all(b"first ").await.unwrap();
    tokio::select! {
        biased;
        read = lines.next() => panic!("{read:?} before the end of the line"),
        () = tokio::task::yield_now() => {}
    }
    client.write_all(b"half\n").await.unwrap();
    assert_eq!(lines.next().await, LineRead::Line(b"first half".to_vec()));
}

#[tokio::test]
async fn messages_before_the_first_request_are_dropped() {
    let (mut client, server) = tokio::io::duplex(1024);
    let (input, output) = tokio::io::split(server);
    let (mut wire, writer) = StdioTransport::open(input, output, CancellationToken::new());
    let cancelled = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 },
    });
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {} });
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    let all = format!("{cancelled}\n{answer}\nnonsense\n{ping}\n{cancelled}\n");
    client.write_all(all.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();
    let mut received = Vec::new();
    while let Some(message) = wire.receive().await {
        received.push(serde_json::to_value(message).unwrap());
    }
    assert_eq!(received, [ping, cancelled]);
    drop(wire);
    writer.await.unwrap();
    let mut written = String::new();
    client.read_to_string(&mut written).await.unwrap();
    let refusals: Vec<Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(refusals.len(), 1, "{written}");
    assert_eq!(refusals[0]["error"]["code"], -32700);
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_parsed_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        for refused in read_line(&line).into_iter().filter_map(Result::err) {
            prop_assert!([-32600, -32700].contains(&refused.error.code.0));
        }
    }

    #[test]
    fn arbitrary_json_is_at_most_one_message(id in "[a-z]{0,3}|[0-9]{1,20}|null", method in ".{0,12}", rest in ".{0,12}") {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method:?},"params":{rest:?}}}"#);
        prop_assert!(read_line(line.as_bytes()).len() <= 1);
    }
}
