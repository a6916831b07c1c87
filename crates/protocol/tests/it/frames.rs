//! The frame reader with input in arbitrary pieces, and with hostile input.

use lukasa_protocol::sse::{
    FRAME_BYTES_MAX, Frame, FrameReader, FrameTooLong, HEARTBEAT, RETRY, write,
};
use proptest::prelude::*;

/// Reads bytes in pieces that end at `cuts`.
fn read_in_pieces(bytes: &[u8], cuts: &[usize]) -> Result<Vec<Frame>, FrameTooLong> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
    ends.extend([0, bytes.len()]);
    ends.sort_unstable();
    let mut reader = FrameReader::default();
    let mut frames = Vec::new();
    for pair in ends.windows(2) {
        frames.extend(reader.push(&bytes[pair[0]..pair[1]])?);
    }
    Ok(frames)
}

proptest! {
    #[test]
    fn written_frames_are_read_back_from_any_pieces(
        written in proptest::collection::vec(
            (any::<Option<u64>>(), "[a-z_]{0,9}", "[^\r\n]{0,40}"), 0..6),
        cuts in proptest::collection::vec(any::<usize>(), 0..40),
    ) {
        let mut text = RETRY.to_owned();
        let mut expected = Vec::new();
        for (id, event, data) in written {
            text.push_str(&write(id, &event, &data));
            text.push_str(HEARTBEAT);
            expected.push(Frame { id, event, data });
        }
        prop_assert_eq!(read_in_pieces(text.as_bytes(), &cuts), Ok(expected));
    }

    #[test]
    fn the_result_does_not_depend_on_how_bytes_are_split(
        bytes in proptest::collection::vec(
            prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' ')], 0..200),
        cuts in proptest::collection::vec(any::<usize>(), 0..40),
    ) {
        prop_assert_eq!(read_in_pieces(&bytes, &cuts), read_in_pieces(&bytes, &[]));
    }
}

/// Feeds a reader an endless frame; returns the number of bytes that it accepted before an error.
fn bytes_until_refused(beginning: &str, piece: &str) -> usize {
    let mut reader = FrameReader::default();
    reader.push(beginning.as_bytes()).unwrap();
    let pieces_max = 2 * FRAME_BYTES_MAX / piece.len();
    let taken = (0..pieces_max).take_while(|_| reader.push(piece.as_bytes()).is_ok()).count();
    assert!(taken < pieces_max, "an endless frame of {beginning:?} and {piece:?} is accepted");
    taken * piece.len()
}

#[test]
fn an_endless_frame_is_refused_before_it_takes_much_memory() {
    let line = format!("data: {}\n", "x".repeat(999));
    for (beginning, piece) in
        [("", "xxxxxxxxxxxxxxxx"), ("data: ", "xxxxxxxxxxxxxxxx"), ("id: 1\n", line.as_str())]
    {
        let taken = bytes_until_refused(beginning, piece);
        // The names of fields do not count: they are not stored.
        assert!(taken <= FRAME_BYTES_MAX * 11 / 10, "{beginning:?}: {taken}");
    }
}

#[test]
fn the_longest_frame_is_read() {
    let data = "x".repeat(FRAME_BYTES_MAX - "data: ".len());
    let text = write(Some(1), "a", &data);
    let frames = FrameReader::default().push(text.as_bytes()).unwrap();
    assert_eq!(frames, [Frame { id: Some(1), event: "a".to_owned(), data }]);
    let data = "x".repeat(FRAME_BYTES_MAX);
    assert_eq!(FrameReader::default().push(write(None, "a", &data).as_bytes()), Err(FrameTooLong));
}

#[test]
fn endless_comments_and_unknown_fields_take_no_memory() {
    let mut reader = FrameReader::default();
    let piece = ": nothing\ncolour: red\n".repeat(1000);
    for _ in 0..2 * FRAME_BYTES_MAX / piece.len() {
        assert_eq!(reader.push(piece.as_bytes()), Ok(Vec::new()));
    }
    let frames = reader.push(write(Some(1), "a", "{}").as_bytes()).unwrap();
    assert_eq!(frames.len(), 1);
}

#[test]
fn invalid_utf_8_spoils_only_its_own_line() {
    let frames = FrameReader::default().push(b"id: 1\ndata: a\xffb\n\nid: 2\ndata: c\n\n").unwrap();
    let data: Vec<_> = frames.iter().map(|frame| (frame.id, frame.data.as_str())).collect();
    assert_eq!(data, [(Some(1), "a\u{fffd}b"), (Some(2), "c")]);
}
