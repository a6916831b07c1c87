//! What an endpoint answers: read with suspicion, for it may be anything.

use serde::Deserialize;

use crate::error::EmbedError;

/// The most numbers that a vector may have: twice as many as the largest models that are common.
pub const DIMENSIONS_MAX: usize = 8_192;

/// Bytes that a number may take, with what stands between two.
const NUMBER_BYTES_MAX: usize = 32;
/// Bytes of an answer beside its vectors.
const OVERHEAD_BYTES_MAX: usize = 64 * 1024;

/// Returns how many bytes an answer with so many vectors may have.
pub(crate) const fn bytes_max(vectors: usize) -> usize {
    OVERHEAD_BYTES_MAX + vectors * DIMENSIONS_MAX * NUMBER_BYTES_MAX
}

#[derive(Deserialize)]
struct EmbedResponse {
    data: Vec<EmbedResponseItem>,
}

#[derive(Deserialize)]
struct EmbedResponseItem {
    /// For which text it is; some servers answer in order and leave it out.
    index: Option<usize>,
    embedding: Vec<f32>,
}

/// Reads vectors, one for each of so many texts, in their order, all with as many numbers.
pub(crate) fn decode_vectors(body: &[u8], texts: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    // What the reader says may quote the answer, and the answer a text.
    let answer: EmbedResponse = serde_json::from_slice(body)
        .map_err(|_| EmbedError::InvalidResponse("no vectors in JSON"))?;
    if answer.data.len() != texts {
        return Err(EmbedError::InvalidResponse("not a vector for each text"));
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for (place, item) in answer.data.into_iter().enumerate() {
        match vectors.get_mut(item.index.unwrap_or(place)) {
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
        let read = decode_vectors(body.as_bytes(), 2);
        let told = read.as_ref().map_err(|error| match error {
            EmbedError::InvalidResponse(what) => *what,
            other => panic!("{other:?}"),
        });
        let told = told.map(|vectors| vectors.iter().map(Vec::as_slice).collect::<Vec<_>>());
        assert_eq!(told.as_deref(), expected.as_ref().copied(), "{body}");
    }

    #[test]
    fn vectors_are_put_in_the_order_of_their_texts() {
        let body = r#"{"object": "list", "model": "m", "usage": {}, "data": [
            {"object": "embedding", "index": 1, "embedding": [3, 4.5e0]},
            {"object": "embedding", "index": 0, "embedding": [-1, 2]}]}"#;
        check(body, Ok(&[&[-1.0, 2.0], &[3.0, 4.5]]));
        check(r#"{"data": [{"embedding": [1]}, {"embedding": [2]}]}"#, Ok(&[&[1.0], &[2.0]]));
    }

    #[test]
    fn whatever_else_comes_is_wrong() {
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
