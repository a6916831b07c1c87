//! Decoding of embedding responses, which are untrusted.

use serde::Deserialize;

use crate::error::EmbedError;

/// Maximum number of dimensions of a vector: twice as many as large models in common use have.
pub const DIMENSIONS_MAX: usize = 8_192;

/// Maximum bytes of a number with its separator.
const NUMBER_BYTES_MAX: usize = 32;
/// Maximum bytes of a response beside its vectors.
const OVERHEAD_BYTES_MAX: usize = 64 * 1024;

/// Returns the maximum size of a response with this number of vectors.
pub(crate) const fn bytes_max(vectors: usize) -> usize {
    OVERHEAD_BYTES_MAX + vectors * DIMENSIONS_MAX * NUMBER_BYTES_MAX
}

#[derive(Deserialize)]
struct EmbedResponse {
    data: Vec<EmbedResponseItem>,
}

#[derive(Deserialize)]
struct EmbedResponseItem {
    /// Index of the text; some servers omit it and answer in order.
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Decodes one vector for each text, in the order of the texts, all with the same number of dimensions.
pub(crate) fn decode_vectors(body: &[u8], texts: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    // The parser's message is dropped: it may quote the response, and that may quote a text.
    let response: EmbedResponse = serde_json::from_slice(body)
        .map_err(|_| EmbedError::InvalidResponse("no vectors in JSON"))?;
    if response.data.len() != texts {
        return Err(EmbedError::InvalidResponse("not a vector for each text"));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for (position, item) in response.data.into_iter().enumerate() {
        match vectors.get_mut(item.index.unwrap_or(position)) {
            Some(vector @ None) => *vector = Some(item.embedding),
            _ => return Err(EmbedError::InvalidResponse("vectors with wrong numbers")),
        }
    }
    let vectors: Vec<Vec<f32>> = vectors.into_iter().flatten().collect();
    let dimensions = vectors.first().map_or(0, Vec::len);
    let has_direction = |vector: &Vec<f32>| {
        vector.iter().all(|number| number.is_finite()) && vector.iter().any(|number| *number != 0.0)
    };
    if !(1..=DIMENSIONS_MAX).contains(&dimensions)
        || vectors.iter().any(|vector| vector.len() != dimensions)
    {
        return Err(EmbedError::InvalidResponse("vectors of a wrong length"));
    }
    if !vectors.iter().all(has_direction) {
        return Err(EmbedError::InvalidResponse("vectors without direction"));
    }
    Ok(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: Result<&[&[f32]], &str>) {
        let decoded = decode_vectors(body.as_bytes(), 2);
        let checked = decoded.as_ref().map_err(|error| match error {
            EmbedError::InvalidResponse(reason) => *reason,
            other => panic!("{other:?}"),
        });
        let checked = checked.map(|vectors| vectors.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(checked.as_deref(), expected.as_ref().copied(), "{body}");
    }

    #[test]
    fn vectors_are_returned_in_the_order_of_their_texts() {
        let body = r#"{"object": "list", "model": "m", "usage": {}, "data": [
            {"object": "embedding", "index": 1, "embedding": [3, 4.5e0]},
            {"object": "embedding", "index": 0, "embedding": [-1, 2]}]}"#;
        check(body, Ok(&[&[-1.0, 2.0], &[3.0, 4.5]]));
        check(r#"{"data": [{"embedding": [1]}, {"embedding": [2]}]}"#, Ok(&[&[1.0], &[2.0]]));
    }

    #[test]
    fn any_other_response_is_invalid() {
        let two = |one: &str, other: &str| {
            format!(r#"{{"data": [{{"index": {one}}}, {{"index": {other}}}]}}"#)
        };
        for body in
            ["", "[]", "<html>", r#"{"data": {}}"#, r#"{"error": "no"}"#, "{\"data\": [1, 2]}"]
        {
            check(body, Err("no vectors in JSON"));
        }
        let quoted = r#"0, "embedding": "AACAPw==""#;
        check(&two(quoted, quoted), Err("no vectors in JSON"));
        let one = r#"0, "embedding": [1]"#;
        check(&two(one, one), Err("vectors with wrong numbers"));
        check(&two(one, r#"2, "embedding": [1]"#), Err("vectors with wrong numbers"));
        check(r#"{"data": [{"embedding": [1]}]}"#, Err("not a vector for each text"));
        check(&two(one, r#"1, "embedding": [1, 2]"#), Err("vectors of a wrong length"));
        let empty = |at: &str| format!(r#"{at}, "embedding": []"#);
        check(&two(&empty("0"), &empty("1")), Err("vectors of a wrong length"));
        check(&two(one, r#"1, "embedding": [0]"#), Err("vectors without direction"));
        check(&two(one, r#"1, "embedding": [1e39]"#), Err("vectors without direction"));
        check(&two(one, r#"1, "embedding": [1e999]"#), Err("no vectors in JSON"));
    }
}
