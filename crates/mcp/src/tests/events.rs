//! Event streams: chunking does not change the events, and data cannot end an event.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof};
use proptest::proptest;
use proptest::sample::select;

use crate::sse::{
    Decoder, Event, KEEP_ALIVE, TooLong, escape_line_ends, write_comment, write_data, write_event,
};

fn decode(pieces: &[&[u8]], event_bytes_max: usize) -> Result<Vec<Event>, TooLong> {
    let mut decoder = Decoder::new(event_bytes_max);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        while let Some(event) = decoder.next_event()? {
            events.push(event);
        }
    }
    Ok(events)
}

fn data(text: &str) -> Event {
    Event { data: text.as_bytes().to_vec().into(), ..Event::default() }
}

#[test]
fn a_message_has_no_line_end_that_only_some_parsers_see() {
    let cases = [
        (r#"{"a":"plain"}"#, r#"{"a":"plain"}"#),
        ("{\"a\":\"x\u{2028}\u{2029}data: {}\u{85}\"}", r#"{"a":"x\u2028\u2029data: {}\u0085"}"#),
        ("{\"a\":\"\u{2027}“é\u{86}\u{a0}”\"}", "{\"a\":\"\u{2027}“é\u{86}\u{a0}”\"}"),
        ("\"\u{2028}", "\"\\u2028"),
    ];
    for (message, written) in cases {
        assert_eq!(escape_line_ends(message.into()), written, "{message:?}");
    }
}

#[test]
fn streams_are_read_as_the_standard_says() {
    let full = Event {
        event: Some("message".to_owned()),
        id: Some("7".to_owned()),
        data: b"{}".to_vec().into(),
        retry_ms: Some(3000),
    };
    let priming = Event { id: Some("1".to_owned()), ..Event::default() };
    let cases: Vec<(&str, Vec<Event>)> = vec![
        ("", vec![]),
        ("data: a\n\n", vec![data("a")]),
        ("data: a\r\ndata: b\r\n\r\n", vec![data("a\nb")]),
        ("data:a\r\rdata: b\r\n\r\n", vec![data("a"), data("b")]),
        ("data:  a\ndata\ndata:b: c\n\n", vec![data(" a\n\nb: c")]),
        ("\u{feff}data: a\n\n", vec![data("a")]),
        ("data: \u{feff}a\n\n", vec![data("\u{feff}a")]),
        (": comment\n\n:\n\ndata: a\n\n", vec![data("a")]),
        ("event: message\nid: 7\nretry: 3000\ndata: {}\n\n", vec![full]),
        ("id: 1\ndata:\n\n", vec![priming.clone()]),
        ("id: 1\n\n", vec![priming]),
        ("retry: 5x\nid: a\0b\nfoo: bar\nDATA: x\n\n", vec![]),
        ("data: a\n\ndata: cut off", vec![data("a")]),
        ("data: cut off\n", vec![]),
        ("\n\n\n", vec![]),
    ];
    for (source, expected) in cases {
        assert_eq!(decode(&[source.as_bytes()], 100), Ok(expected), "{source:?}");
    }
}

#[test]
fn an_event_that_is_too_long_ends_the_stream() {
    assert_eq!(decode(&[b"data: 12345\n\n"], 5).unwrap(), [data("12345")]);
    for long in ["data: 123456\n\n", "data: 123\ndata: 456\n\n", "data: 123456", ": 12345678901234"]
    {
        assert_eq!(decode(&[long.as_bytes()], 5), Err(TooLong), "{long}");
    }
    let mut decoder = Decoder::new(5);
    decoder.feed(b"data: 123456");
    assert_eq!(decoder.next_event(), Err(TooLong));
    decoder.feed(b"\n\ndata: a\n\n");
    assert_eq!(decoder.next_event(), Err(TooLong));
}

#[test]
fn comments_and_fields_cannot_make_events() {
    let mut out = KEEP_ALIVE.to_vec();
    write_comment("still\nhere\r\rdata: x", &mut out);
    let name = Some("x\n\ndata: forged".to_owned());
    write_event(&Event { event: name, ..data("a") }, &mut out);
    let expected = Event { event: Some("xdata: forged".to_owned()), ..data("a") };
    assert_eq!(decode(&[&out], 100), Ok(vec![expected]));
}

#[test]
fn long_data_is_independent_of_chunking() {
    let long = "x".repeat(200_000);
    let more = "y".repeat(70_000);
    let stream = format!(
        ": c\r\ndata: {long}\r\n\ndata:{more}\ndata: z\ndata: {long}\n\ndata: a\n\ndata: cut"
    );
    let expected = [data(&long), data(&format!("{more}\nz\n{long}")), data("a")];
    for piece in [1_000, 65_536, 199_999, stream.len()] {
        let pieces: Vec<_> = stream.as_bytes().chunks(piece).collect();
        let events = decode(&pieces, 1_000_000).unwrap();
        assert!(events == expected, "in pieces of {piece}");
    }
}

#[test]
fn line_ends_in_data_do_not_end_the_event() {
    let mut out = Vec::new();
    write_data(b"{\n\n\"a\":\r\n1\r}", &mut out);
    assert_eq!(decode(&[&out], 100), Ok(vec![data("{\n\n\"a\":\n1\n}")]));
}

fn streams() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(
        &[
            "data",
            ":",
            " ",
            "\n",
            "\r",
            "\r\n",
            "\n\n",
            "id",
            "event",
            "retry",
            "5",
            "x",
            "é",
            "\u{feff}",
            "\0",
            "data: ",
            "data: {}\n\n",
        ][..],
    );
    let bytes = prop_oneof![9 => piece.prop_map(|text| text.as_bytes().to_vec()), 1 => vec(any::<u8>(), 1..3)];
    vec(bytes, 0..40).prop_map(|pieces| pieces.concat())
}

fn events() -> impl Strategy<Value = Event> {
    let text = || option::of("[^\\p{Cc}]{0,8}");
    let data = "([ -~é]|\n){0,20}".prop_map(|text| bytes::Bytes::from(text.into_bytes()));
    (text(), text(), data, option::of(any::<u64>())).prop_map(|(event, id, data, retry_ms)| Event {
        event,
        id,
        data,
        retry_ms,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn chunking_does_not_matter(stream in streams(), cuts in vec(any::<u16>(), 0..6), bytes_max in 1..40_usize) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| usize::from(cut) % (stream.len() + 1)).collect();
        cuts.sort_unstable();
        let bounds = std::iter::once(0).chain(cuts.clone()).zip(cuts.into_iter().chain([stream.len()]));
        let pieces: Vec<&[u8]> = bounds.map(|(from, to)| &stream[from..to]).collect();
        let single: Vec<&[u8]> = stream.chunks(1).collect();
        let whole = decode(&[&stream], bytes_max);
        prop_assert_eq!(&decode(&pieces, bytes_max), &whole);
        prop_assert_eq!(&decode(&single, bytes_max), &whole);
    }

    #[test]
    fn written_events_read_back(events in vec(events(), 0..5)) {
        let mut out = Vec::new();
        for event in &events {
            write_event(event, &mut out);
            out.extend_from_slice(KEEP_ALIVE);
        }
        prop_assert_eq!(decode(&[&out], 1000), Ok(events));
    }
}
