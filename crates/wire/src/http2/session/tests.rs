//! Frames written by hand, and bytes of any kind.

use proptest::prelude::*;

use super::*;

const MESSAGE_MAX: usize = 100_000;
const PATH: &[u8] = b"/a/B";

fn wants(head: &Head) -> Want {
    match &*head.path {
        PATH => Want::Whole,
        b"/pieces" => Want::Pieces,
        _ => Want::Nothing,
    }
}

fn put(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::put(&mut out, kind, flags, stream, payload);
    out
}

/// Fields of a call: POST, http, and the path.
fn fields(path: &[u8]) -> Vec<u8> {
    let mut block = vec![0x83, 0x86, 4, path.len() as u8];
    block.extend_from_slice(path);
    hpack::literal("content-type", b"application/grpc", &mut block);
    hpack::literal("grpc-timeout", b"20m", &mut block);
    block
}

fn greeting() -> Vec<u8> {
    [PREFACE, &put(frame::SETTINGS, 0, 0, &[])].concat()
}

fn call_frames(id: u32, path: &[u8], message: &[u8]) -> Vec<u8> {
    [
        put(frame::HEADERS, frame::END_HEADERS, id, &fields(path)),
        put(frame::DATA, frame::END_STREAM, id, message),
    ]
    .concat()
}

/// A session whose peer has said hello, with nothing to be written.
fn session() -> Session {
    let mut session = Session::new(wants, MESSAGE_MAX);
    let mut calls = Vec::new();
    let greeting = greeting();
    assert_eq!(session.receive(&greeting, &mut calls), Ok(greeting.len()));
    assert!(session.is_greeted() && calls.is_empty());
    session.out().clear();
    session
}

fn receive(session: &mut Session, bytes: &[u8]) -> Result<Vec<Call>, Fault> {
    let mut calls = Vec::new();
    let taken = session.receive(bytes, &mut calls)?;
    assert_eq!(taken, bytes.len());
    Ok(calls)
}

/// Kind, flags and stream of each frame that is to be written.
fn written(session: &mut Session) -> Vec<(u8, u8, u32)> {
    let bytes = std::mem::take(session.out());
    let (mut frames, mut at) = (Vec::new(), 0);
    while let Some(head) = frame::Head::read(&bytes[at..]) {
        frames.push((head.kind, head.flags, head.stream));
        at += frame::HEAD + head.len;
    }
    assert_eq!(at, bytes.len());
    frames
}

const WHOLE: u8 = frame::END_HEADERS | frame::END_STREAM;

#[test]
fn a_call_is_handed_out_whole_and_answered_in_three_frames() {
    let mut session = session();
    let bytes = call_frames(1, PATH, b"hello");
    let calls = receive(&mut session, &bytes).expect("a call");
    let [call] = &calls[..] else {
        panic!("{calls:?}")
    };
    assert!(call.head.is_post && call.head.is_grpc);
    assert_eq!(call.head.timeout, Some(Duration::from_millis(20)));
    let Body::Whole(Piece::Read(range)) = &call.body else {
        panic!("{calls:?}")
    };
    assert_eq!(&bytes[range.clone()], b"hello");
    assert_eq!(session.open(), 1);
    session.answer(1, 3, |out| out.extend_from_slice(b"bye"));
    assert_eq!(
        written(&mut session),
        [
            (frame::HEADERS, frame::END_HEADERS, 1),
            (frame::DATA, 0, 1),
            (frame::HEADERS, WHOLE, 1)
        ]
    );
    assert_eq!(session.open(), 0);
    // Whatever is said of it now is said to nobody.
    session.answer(1, 3, |_| panic!("nobody waits"));
    session.fail(1, 14, "late");
    session.reset(1, ErrorCode::Protocol);
    assert!(session.out().is_empty());
}

#[test]
fn calls_say_where_they_became_whole() {
    let mut session = session();
    let (one, other) = (call_frames(1, PATH, b"a"), call_frames(3, PATH, b"bc"));
    let reset = put(frame::RST_STREAM, 0, 1, &[0; 4]);
    let bytes = [&one[..], &reset, &other].concat();
    let calls = receive(&mut session, &bytes).expect("calls");
    let places: Vec<usize> = calls.iter().map(|call| call.at).collect();
    let data = |message: &[u8]| frame::HEAD + message.len();
    assert_eq!(
        places,
        [one.len() - data(b"a"), bytes.len() - data(b"bc")],
        "the frames that bring their messages"
    );
    assert_eq!(frame::calls_begun(&bytes, 9), 2);
    assert_eq!(frame::calls_begun(&bytes.repeat(3), 4), 4);
    assert_eq!(frame::calls_begun(&bytes[one.len()..], 9), 1);
    assert_eq!(frame::calls_begun(&[&one[..], &other[..8]].concat(), 9), 1);
    assert_eq!(frame::calls_begun(b"", 9), 0);
    assert_eq!(frame::calls_begun(&[0xff; 400], 9), 0);
}

#[test]
fn a_refusal_is_one_frame_of_few_bytes() {
    let mut session = session();
    let mut lens = Vec::new();
    for id in [1, 3, 5] {
        receive(&mut session, &call_frames(id, PATH, b"x")).expect("a call");
        session.refuse(id, 14, "overloaded");
        lens.push(session.out().len());
        assert_eq!(written(&mut session), [(frame::HEADERS, WHOLE, id)]);
    }
    assert_eq!(lens[1..], [frame::HEAD + 4; 2]);
}

#[test]
fn a_call_given_up_in_the_same_breath_is_over() {
    let mut session = session();
    let reset = put(frame::RST_STREAM, 0, 1, &[0, 0, 0, 8]);
    let bytes = [
        call_frames(1, PATH, b"x"),
        reset,
        call_frames(3, PATH, b"y"),
    ]
    .concat();
    let calls = receive(&mut session, &bytes).expect("calls");
    let open: Vec<bool> = calls.iter().map(|call| session.is_open(call.id)).collect();
    assert_eq!(open, [false, true]);
    assert!(session.take_stirred());
}

#[test]
fn answers_wait_for_the_peers_window() {
    let mut session = session();
    let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
    setting.extend_from_slice(&2_u32.to_be_bytes());
    receive(&mut session, &put(frame::SETTINGS, 0, 0, &setting)).expect("settings");
    receive(&mut session, &call_frames(1, PATH, b"x")).expect("a call");
    session.out().clear();
    session.answer(1, 5, |out| out.extend_from_slice(b"12345"));
    assert_eq!(session.held(1), Some(3));
    assert_eq!(
        written(&mut session),
        [(frame::HEADERS, frame::END_HEADERS, 1), (frame::DATA, 0, 1)]
    );
    let grant = |stream, bytes: u32| put(frame::WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    receive(&mut session, &grant(1, 2)).expect("a grant");
    assert_eq!(written(&mut session), [(frame::DATA, 0, 1)]);
    // A larger window for all streams.
    let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
    setting.extend_from_slice(&3_u32.to_be_bytes());
    receive(&mut session, &put(frame::SETTINGS, 0, 0, &setting)).expect("settings");
    assert_eq!(
        written(&mut session)[1..],
        [(frame::DATA, 0, 1), (frame::HEADERS, WHOLE, 1)]
    );
    assert_eq!(session.held(1), None);
    for bytes in [
        grant(0, 0),
        grant(0, u32::MAX >> 1),
        put(frame::WINDOW_UPDATE, 0, 0, b"abc"),
        grant(9, 1),
    ] {
        let mut other = Session::new(wants, MESSAGE_MAX);
        receive(&mut other, &greeting()).expect("a greeting");
        assert!(receive(&mut other, &bytes).is_err());
    }
}

#[test]
fn fields_may_come_in_several_frames_with_padding_and_priority() {
    let mut session = session();
    let block = fields(PATH);
    let (first, rest) = block.split_at(3);
    let padded = [&[2, 0, 0, 0, 0, 9][..], first, &[0, 0]].concat();
    let flags = frame::PADDED | frame::WITH_PRIORITY;
    let bytes = [
        put(frame::HEADERS, flags, 1, &padded),
        put(frame::CONTINUATION, frame::END_HEADERS, 1, rest),
        put(frame::DATA, frame::PADDED, 1, b"\x01a\0"),
        put(
            frame::DATA,
            frame::END_STREAM | frame::PADDED,
            1,
            b"\x02b\0\0",
        ),
    ]
    .concat();
    let calls = receive(&mut session, &bytes).expect("a call");
    assert!(
        matches!(&calls[..], [Call { body: Body::Whole(Piece::Kept(kept)), .. }] if kept == b"ab"),
        "{calls:?}"
    );
    // Between them nothing else may come, and they do not go on for ever.
    let open = put(frame::HEADERS, 0, 3, first);
    let ping = put(frame::PING, 0, 0, b"12345678");
    let nothing = put(frame::CONTINUATION, 0, 3, &[]);
    let much = put(frame::CONTINUATION, 0, 3, &[0; 16_384]);
    for (after, code) in [
        (ping, ErrorCode::Protocol),
        (nothing, ErrorCode::EnhanceYourCalm),
        (much.repeat(300), ErrorCode::EnhanceYourCalm),
    ] {
        let mut other = Session::new(wants, MESSAGE_MAX);
        let bytes = [greeting(), open.clone(), after].concat();
        assert_eq!(receive(&mut other, &bytes).err(), Some(Fault(code)));
    }
}

#[test]
fn bounds_hold() {
    // Streams.
    let mut session = session();
    let open = |id| put(frame::HEADERS, frame::END_HEADERS, id, &fields(PATH));
    for id in 0..MAX_STREAMS as u32 {
        receive(&mut session, &open(2 * id + 1)).expect("a stream");
    }
    assert_eq!(
        (session.open(), session.receiving()),
        (MAX_STREAMS, MAX_STREAMS)
    );
    assert!(session.out().is_empty());
    let next = 2 * MAX_STREAMS as u32 + 1;
    receive(&mut session, &open(next)).expect("one more");
    assert_eq!(written(&mut session), [(frame::RST_STREAM, 0, next)]);
    // Messages that do not become whole.
    let mut calls = Vec::new();
    session.give_up(3, &mut calls);
    assert_eq!(calls.len(), 2);
    assert!(matches!(calls[0].body, Body::Late));
    assert_eq!(session.receiving(), MAX_STREAMS - 2);
    // Messages that are too long: told at once, and the rest is thrown away.
    let mut calls = Vec::new();
    let piece = put(frame::DATA, 0, 9, &[0; 16_384]);
    for _ in 0..20 {
        calls.extend(receive(&mut session, &piece).expect("a piece"));
    }
    assert!(matches!(
        &calls[..],
        [Call {
            id: 9,
            body: Body::TooLong,
            ..
        }]
    ));
    // All of them together.
    let mut resets = 0;
    for id in (11..next).step_by(2) {
        let piece = put(frame::DATA, 0, id, &[0; 16_384]);
        for _ in 0..5 {
            receive(&mut session, &piece).expect("a piece");
        }
        let frames = written(&mut session);
        resets += frames
            .iter()
            .filter(|frame| frame.0 == frame::RST_STREAM)
            .count();
    }
    assert!(resets > 0 && session.kept <= MAX_KEPT);
}

#[test]
fn more_than_was_granted_is_a_fault() {
    let mut session = session();
    let open = put(frame::HEADERS, frame::END_HEADERS, 1, &fields(b"/pieces"));
    let calls = receive(&mut session, &open).expect("a stream");
    assert!(matches!(
        calls[..],
        [Call {
            body: Body::Open,
            ..
        }]
    ));
    let piece = put(frame::DATA, 0, 1, &[7; 16_384]);
    for _ in 0..3 {
        receive(&mut session, &piece).expect("a piece");
    }
    let (taken, ended) = session.take(1).expect("a stream");
    assert_eq!((taken.len(), ended), (3 * 16_384, false));
    assert_eq!(written(&mut session), [(frame::WINDOW_UPDATE, 0, 1)]);
    for _ in 0..3 {
        receive(&mut session, &piece).expect("a piece");
    }
    assert!(session.is_open(1));
    receive(&mut session, &piece).expect("only the stream ends");
    assert!(!session.is_open(1));
    assert_eq!(written(&mut session), [(frame::RST_STREAM, 0, 1)]);
}

#[test]
fn requests_that_break_the_rules_are_reset() {
    let block = |fields: &[(&str, &str)]| {
        let mut block = Vec::new();
        for (name, value) in fields {
            hpack::literal(name, value.as_bytes(), &mut block);
        }
        block
    };
    let whole = [(":method", "POST"), (":scheme", "http"), (":path", "/x")];
    let with = |field| [&whole[..], &[field]].concat();
    for bad in [
        whole[..2].to_vec(),
        whole[1..].to_vec(),
        vec![whole[0], whole[2]],
        with((":path", "/y")),
        with((":status", "200")),
        with(("connection", "close")),
        with(("te", "gzip")),
        with(("X-Up", "1")),
        vec![("a", "b"), whole[0], whole[1], whole[2]],
    ] {
        let mut session = session();
        let head = put(frame::HEADERS, frame::END_HEADERS, 1, &block(&bad));
        let calls = receive(&mut session, &head).expect("only the stream ends");
        assert!(calls.is_empty(), "{bad:?}");
        assert_eq!(
            written(&mut session),
            [(frame::RST_STREAM, 0, 1)],
            "{bad:?}"
        );
    }
}

/// The frames of a call whose block of fields is cut into frames of `piece` bytes.
fn long_call(id: u32, block: &[u8], piece: usize) -> Vec<u8> {
    let mut pieces = block.chunks(piece).peekable();
    let first = pieces.next().unwrap_or_default();
    let whole = match pieces.peek() {
        Some(_) => 0,
        None => frame::END_HEADERS,
    };
    let mut bytes = put(frame::HEADERS, whole, id, first);
    while let Some(part) = pieces.next() {
        let flags = match pieces.peek() {
            Some(_) => 0,
            None => frame::END_HEADERS,
        };
        bytes.extend(put(frame::CONTINUATION, flags, id, part));
    }
    bytes.extend(put(frame::DATA, frame::END_STREAM, id, b"x"));
    bytes
}

/// Fields of a call with others behind them, the last of which goes into the table.
fn padded_fields(names: usize, len: usize, kept: &[u8]) -> Vec<u8> {
    let mut block = fields(PATH);
    for _ in 0..names {
        hpack::literal("x", &vec![b'x'; len], &mut block);
    }
    block.extend([0x40, 1, b'k', kept.len() as u8]);
    block.extend(kept);
    block
}

#[test]
fn long_heads_are_taken_and_longer_ones_end_their_call_only() {
    let newest = |block: &[u8]| [block, &[0x80 | 62]].concat();
    for piece in [1_000, 16_384] {
        let mut session = session();
        let mut path = |id: u32, frames: &[u8]| {
            let calls = receive(&mut session, frames).expect("the connection goes on");
            let taken = calls.len();
            if taken > 0 {
                session.refuse(id, 14, "overloaded");
                session.out().clear();
            }
            (taken, written(&mut session))
        };
        // 16 fields of 15 KiB, which is less than is taken.
        let long = padded_fields(16, 15 << 10, b"one");
        assert_eq!(path(1, &long_call(1, &long, piece)).0, 1);
        // Longer than is taken as fields, but not on the wire: each of them names one of the table.
        let mut many = padded_fields(0, 0, &[b'v'; 100]);
        many.extend([0x80 | 62].repeat(3_000));
        let (taken, out) = path(3, &long_call(3, &many, piece));
        assert_eq!((taken, out[0]), (0, (frame::HEADERS, WHOLE, 3)));
        // On the wire as well, in many fields and in few.
        for (id, names, len) in [(5, 300, 1 << 10), (9, 3, 200 << 10), (13, 3_000, 1_000)] {
            let longer = padded_fields(names, len, format!("field {id}").as_bytes());
            let (taken, out) = path(id, &long_call(id, &longer, piece));
            assert_eq!((taken, out[0]), (0, (frame::HEADERS, WHOLE, id)), "{id}");
            // What it put into the table is there.
            let frames = long_call(id + 2, &newest(&fields(PATH)), piece);
            assert_eq!(path(id + 2, &frames).0, 1, "{id}");
        }
    }
    let mut session = session();
    let endless = padded_fields(5_000, 1 << 10, b"x");
    let mut calls = Vec::new();
    let ended = session.receive(&long_call(1, &endless, 16_384), &mut calls);
    assert_eq!(ended, Err(Fault(ErrorCode::EnhanceYourCalm)));
    let one = padded_fields(1, 400 << 10, b"x");
    let mut session = self::session();
    let ended = session.receive(&long_call(1, &one, 16_384), &mut calls);
    assert_eq!(ended, Err(Fault(ErrorCode::EnhanceYourCalm)));
    assert!(calls.is_empty());
}

/// Whoever waits for a part knows it by what came before it.
#[test]
fn what_has_begun_is_told_until_it_is_whole() {
    let mut session = session();
    assert_eq!(session.begun(false), None);
    let before = session.begun(true).expect("a frame has begun");
    receive(&mut session, &put(frame::PING, 0, 0, &[0; 8])).expect("a ping");
    assert_eq!(
        session.begun(true),
        Some(before + 1),
        "that is another frame"
    );
    let block = fields(PATH);
    receive(&mut session, &put(frame::HEADERS, 0, 1, &block[..3])).expect("fields");
    for byte in &block[3..] {
        assert_eq!(
            session.begun(false),
            Some(before + 1),
            "a piece is not all of it"
        );
        let piece = put(frame::CONTINUATION, 0, 1, &[*byte]);
        receive(&mut session, &piece).expect("fields");
    }
    let end = put(frame::CONTINUATION, frame::END_HEADERS, 1, &[]);
    receive(&mut session, &end).expect("fields");
    assert_eq!(session.begun(false), None);
    // Two in one read are two.
    let two = [1, 3].map(|id| put(frame::HEADERS, 0, 2 + id, &block));
    let read = [
        &two[0][..],
        &put(frame::CONTINUATION, frame::END_HEADERS, 3, &[]),
        &two[1],
    ]
    .concat();
    receive(&mut session, &read).expect("fields");
    assert_eq!(session.begun(false), Some(before + 3));
    session.end_late();
    assert_eq!(written(&mut session).last(), Some(&(frame::GOAWAY, 0, 0)));
}

#[test]
fn what_is_no_http2_is_a_fault() {
    for (bytes, code) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), ErrorCode::Protocol),
        (
            [PREFACE, &put(frame::PING, 0, 0, &[0; 8])].concat(),
            ErrorCode::Protocol,
        ),
    ] {
        let mut session = Session::new(wants, MESSAGE_MAX);
        assert_eq!(receive(&mut session, &bytes).err(), Some(Fault(code)));
    }
    let call = fields(PATH);
    for (bytes, code) in [
        (put(frame::DATA, 0, 1, b"x"), ErrorCode::Protocol),
        (put(frame::HEADERS, 4, 2, &call), ErrorCode::Protocol),
        (put(frame::HEADERS, 4, 1, &[0x80]), ErrorCode::Compression),
        (
            put(frame::HEADERS, 4 | frame::PADDED, 1, &[9, 1]),
            ErrorCode::Protocol,
        ),
        (put(frame::PUSH_PROMISE, 4, 1, &call), ErrorCode::Protocol),
        (put(frame::RST_STREAM, 0, 1, &[0; 4]), ErrorCode::Protocol),
        (put(frame::RST_STREAM, 0, 1, &[0; 3]), ErrorCode::FrameSize),
        (put(frame::SETTINGS, 0, 0, &[0; 5]), ErrorCode::FrameSize),
        (put(frame::SETTINGS, 0, 1, &[]), ErrorCode::Protocol),
        (
            put(frame::SETTINGS, 0, 0, &[0, 4, 0xff, 0, 0, 0]),
            ErrorCode::FlowControl,
        ),
        (
            put(frame::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 0]),
            ErrorCode::Protocol,
        ),
        (put(frame::PING, 0, 0, &[0; 7]), ErrorCode::FrameSize),
        (put(frame::PRIORITY, 0, 1, &[0; 4]), ErrorCode::FrameSize),
        (put(frame::CONTINUATION, 4, 1, &[]), ErrorCode::Protocol),
        (vec![0xff; 9], ErrorCode::FrameSize),
    ] {
        let mut session = session();
        let got = receive(&mut session, &bytes);
        assert_eq!(got.err(), Some(Fault(code)), "{bytes:?}");
        let frames = written(&mut session);
        assert_eq!(frames.last(), Some(&(frame::GOAWAY, 0, 0)));
    }
}

#[test]
fn leaving_waits_for_calls_on_the_way() {
    let mut session = session();
    receive(&mut session, &call_frames(1, PATH, b"x")).expect("a call");
    session.leave();
    session.leave();
    assert_eq!(
        written(&mut session),
        [(frame::GOAWAY, 0, 0), (frame::PING, 0, 0)]
    );
    let crossed = call_frames(3, PATH, b"y");
    assert_eq!(receive(&mut session, &crossed).expect("a call").len(), 1);
    receive(&mut session, &put(frame::PING, frame::ACK, 0, &GOODBYE)).expect("an answer");
    assert_eq!(written(&mut session), [(frame::GOAWAY, 0, 0)]);
    assert_eq!(
        receive(&mut session, &call_frames(5, PATH, b"z"))
            .expect("too late")
            .len(),
        0
    );
    assert_eq!(written(&mut session), [(frame::RST_STREAM, 0, 5)]);
    for id in [1, 3] {
        assert!(!session.is_over());
        session.fail(id, 14, "gone");
    }
    assert!(session.is_over());
}

/// Runs a connection whose bytes come in pieces, and answers every call: streams asked, and the bytes written.
fn run(bytes: &[u8], pieces: &[usize]) -> (Vec<(u32, Vec<u8>)>, Vec<u8>) {
    let mut session = Session::new(wants, MESSAGE_MAX);
    let (mut asked, mut rest, mut at) = (Vec::new(), Vec::new(), 0);
    let mut pieces = pieces.iter().copied().chain(std::iter::repeat(usize::MAX));
    while at < bytes.len() {
        let len = pieces
            .next()
            .unwrap_or(usize::MAX)
            .clamp(1, bytes.len() - at);
        rest.extend_from_slice(&bytes[at..at + len]);
        at += len;
        let mut calls = Vec::new();
        let taken = session.receive(&rest, &mut calls);
        for call in calls {
            let body = match call.body {
                Body::Whole(Piece::Read(range)) => rest[range].to_vec(),
                Body::Whole(Piece::Kept(kept)) => kept,
                _ => Vec::new(),
            };
            asked.push((call.id, body));
        }
        match taken {
            Ok(taken) => drop(rest.drain(..taken)),
            Err(_) => break,
        }
        assert!(session.open() <= MAX_STREAMS && session.kept <= MAX_KEPT);
    }
    // Answers come once all is read, so that they do not depend on where the bytes were cut.
    for (id, _) in &asked {
        session.answer(*id, 2, |out| out.extend_from_slice(b"ok"));
    }
    let out = std::mem::take(session.out());
    (asked, out)
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![Just(0_u32), 1..12_u32];
    let wild = (
        0..11_u8,
        any::<u8>(),
        id,
        prop::collection::vec(any::<u8>(), 0..40),
    );
    let good = (0..6_u32, prop::collection::vec(any::<u8>(), 0..40));
    prop_oneof![
        wild.prop_map(|(kind, flags, id, payload)| put(kind, flags, id, &payload)),
        good.prop_map(|(id, message)| call_frames(2 * id + 1, PATH, &message)),
        (1..12_u32).prop_map(|id| put(frame::RST_STREAM, 0, id, &[0; 4])),
        prop::collection::vec(any::<u8>(), 0..30),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_read_alike_however_they_are_cut(
        frames in prop::collection::vec(any_frame(), 0..12),
        pieces in prop::collection::vec(1..50_usize, 0..40),
    ) {
        let bytes = [greeting(), frames.concat()].concat();
        prop_assert_eq!(run(&bytes, &pieces), run(&bytes, &[]));
    }
}

/// What fields mean that are named by their places follows from the table as it is when they come.
#[test]
fn the_same_block_says_something_else_once_the_table_has_changed() {
    let mut session = session();
    let mut ask = |id: u32, block: &[u8]| {
        let frames = [
            put(frame::HEADERS, frame::END_HEADERS, id, block),
            put(frame::DATA, frame::END_STREAM, id, b"x"),
        ];
        let calls = receive(&mut session, &frames.concat()).expect("it goes on");
        session.refuse(id, 14, "overloaded");
        let mut heads = calls.into_iter().map(|call| call.head);
        heads.next().map(|head| (head.path.to_vec(), head.timeout))
    };
    let path = |id: u32| [&[0x83, 0x86, 0x44, 2, b'/'][..], &[b'0' + id as u8]].concat();
    let newest = [0x83, 0x86, 0x80 | 62];
    let mut last = None;
    for id in [1, 3, 5] {
        // Kept in the table, then named: twice, as most calls do.
        assert_eq!(
            ask(id * 10 + 1, &path(id)),
            Some((vec![b'/', b'0' + id as u8], None))
        );
        for again in [3, 5] {
            let named = ask(id * 10 + again, &newest);
            assert_eq!(named, Some((vec![b'/', b'0' + id as u8], None)));
            assert_ne!(named, last);
        }
        last = ask(id * 10 + 7, &newest);
    }
    // A literal value that goes nowhere is part of the block.
    for (id, text, wait) in [(101, b"10m", 10), (103, b"20m", 20), (105, b"20m", 20)] {
        let mut block = newest.to_vec();
        hpack::literal("grpc-timeout", text, &mut block);
        let (_, timeout) = ask(id, &block).expect("a call");
        assert_eq!(timeout, Some(Duration::from_millis(wait)));
    }
    // A table without room: its newest field is gone.
    let small = [&[0x20][..], &[0x83, 0x86, 0x04, 2, b'/', b'z']].concat();
    assert_eq!(ask(107, &small), Some((b"/z".to_vec(), None)));
    let broken = put(frame::HEADERS, WHOLE, 109, &newest);
    assert_eq!(
        receive(&mut session, &broken).err(),
        Some(Fault(ErrorCode::Compression))
    );
}

#[test]
fn streams_between_which_some_are_over_or_left_out_are_found() {
    let mut session = session();
    let ids = [1, 3, 7, 9, 21, 23, 25];
    for id in ids {
        receive(&mut session, &call_frames(id, PATH, b"x")).expect("a call");
    }
    session.refuse(3, 14, "overloaded");
    session.refuse(21, 14, "overloaded");
    for id in 1..30 {
        let open = ids.contains(&id) && id != 3 && id != 21;
        assert_eq!(session.is_open(id), open, "{id}");
    }
    for id in [1, 25, 7, 9, 23] {
        session.refuse(id, 14, "overloaded");
        assert!(!session.is_open(id));
    }
    assert_eq!(session.open(), 0);
}
