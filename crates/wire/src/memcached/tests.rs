use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    item_max: 1 << 20,
    keys_max: 1 << 16,
};

/// All requests of a stream that arrives in pieces of up to `piece` bytes, as texts.
fn read_all(stream: &[u8], piece: usize) -> Vec<String> {
    let (mut reader, mut held, mut out) = (Reader::default(), Vec::new(), Vec::new());
    for part in stream.chunks(piece) {
        held.extend_from_slice(part);
        loop {
            let (text, consumed) = match reader.read(&held, &LIMITS) {
                Read::Request(request, consumed) => (Some(format!("{request:?}")), consumed),
                Read::Incomplete { consumed, .. } => (None, consumed),
                Read::Broken => {
                    out.push("broken".to_owned());
                    return out;
                }
                Read::Credentials(..) => unreachable!("nobody asked for them"),
            };
            held.drain(..consumed);
            match text {
                Some(text) => out.push(text),
                None => break,
            }
        }
    }
    out
}

fn one(line: &[u8]) -> Request<'_> {
    match Reader::default().read(line, &LIMITS) {
        Read::Request(request, consumed) if consumed == line.len() => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_do_not_depend_on_how_their_bytes_arrive() {
    let stream = b"set k 5 0 3\r\na\nb\r\nget a  b\r\nms Zm9v 2 b c O1\r\nhi\r\nmg k v\n\r\nset k 0 0 1\r\nabc\r\n\
        incr n 5 noreply\r\ndelete k 0\r\nquit\r\nset k 0 0 3000000\r\nx";
    let whole = read_all(stream, stream.len());
    assert!(whole.len() > 8, "{whole:#?}");
    for piece in 1..40 {
        assert_eq!(read_all(stream, piece), whole, "in pieces of {piece}");
    }
}

#[test]
fn data_that_nobody_wants_are_passed_over_and_not_kept() {
    let mut reader = Reader::default();
    let line = b"set k 0 0 2000000\r\n";
    let Read::Request(Request::TooLarge { removes: true, .. }, consumed) =
        reader.read(line, &LIMITS)
    else {
        panic!("it is too large");
    };
    assert_eq!(consumed, line.len());
    let mut left = 2_000_002;
    while left > 0 {
        let part = vec![b'x'; 4096.min(left)];
        let Read::Incomplete { consumed, .. } = reader.read(&part, &LIMITS) else {
            panic!("there is nothing to answer");
        };
        assert_eq!(consumed, part.len());
        left -= consumed;
    }
    assert_eq!(
        reader.read(b"mn\r\n", &LIMITS),
        Read::Request(Request::Noop, 4)
    );
}

#[test]
fn a_line_that_never_ends_ends_the_connection() {
    let read = |text: &[u8]| Reader::default().read(text, &LIMITS) == Read::Broken;
    assert!(read(&[b'x'; 3000]));
    assert!(!read(&[b'x'; 2000]));
    let many = [b"get ".as_slice(), &b"k ".repeat(10_000)].concat();
    assert!(!read(&many));
    assert!(read(&[many.as_slice(), &many, &many, &many].concat()));
}

#[test]
fn numbers_are_read_as_in_c() {
    assert_eq!(parse_u32(b"4294967295"), Some(u32::MAX));
    assert_eq!(parse_u32(b"4294967296"), Some(0));
    assert_eq!(parse_u32(b"-1"), None);
    assert_eq!(parse_u32(b"+5"), Some(5));
    assert_eq!(parse_i32(b"-1"), Some(-1));
    assert_eq!(parse_i32(b"4294967297"), Some(1));
    assert_eq!(parse_u64(b" 5 x"), Some(5));
    assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
    for text in [
        &b"18446744073709551616"[..],
        b"",
        b"x",
        b"5x",
        b"-5",
        b"-",
        b"+",
    ] {
        assert_eq!(parse_u64(text), None, "{}", text.escape_ascii());
    }
    let mut room = Digits::default();
    assert_eq!(digits(0, &mut room), b"0");
    assert_eq!(digits(u64::MAX, &mut room), b"18446744073709551615");
}

#[test]
fn keys_may_come_in_base64() {
    let Request::Item(target) = one(b"mg Zm9v b k\r\n") else {
        panic!("it is about an item");
    };
    assert_eq!((&*target.key, target.options.base64), (&b"foo"[..], true));
    for bad in [&b"Zm9"[..], b"Zm9*", b"", b"====", b"Z==="] {
        assert_eq!(decode_base64(bad), None, "{}", bad.escape_ascii());
    }
}

#[test]
fn credentials_are_the_data_of_a_set() {
    let read = |text: &'static [u8]| Reader::default().read_credentials(text);
    assert_eq!(
        read(b"set x 0 0 9\r\nuser pass\r\n"),
        Read::Credentials(Some((b"user", b"pass")), 24)
    );
    assert_eq!(
        read(b"set x 0 0 4\r\nuser\r\n"),
        Read::Credentials(None, 19)
    );
    assert!(matches!(
        read(b"get x\r\n"),
        Read::Request(
            Request::Refused {
                line: Some("CLIENT_ERROR unauthenticated")
            },
            7
        )
    ));
    assert!(matches!(
        read(b"set x 0 0 99999999\r\n"),
        Read::Request(Request::Refused { .. }, 20)
    ));
    assert_eq!(
        read(b"set x 0 0 9\r\nuser"),
        Read::Incomplete {
            consumed: 0,
            needed: 7
        }
    );
}

proptest! {
    #[test]
    fn any_bytes_are_read_the_same_in_any_pieces(
        stream in proptest::collection::vec(
            prop_oneof![
                Just(b"get ".to_vec()), Just(b"set k 0 0 2\r\n".to_vec()), Just(b"ms k 1 ".to_vec()),
                Just(b"\r\n".to_vec()), Just(b" ".to_vec()), Just(b"k".to_vec()), Just(b"ab".to_vec()),
                Just(b"mg k ".to_vec()), Just(b"v b O1".to_vec()), Just(b"gat 0 k".to_vec()),
                Just(b"incr k 1".to_vec()), Just(b"noreply".to_vec()),
                proptest::collection::vec(any::<u8>(), 0..6),
            ],
            0..40,
        ),
        piece in 1usize..20,
    ) {
        let stream = stream.concat();
        prop_assert_eq!(read_all(&stream, piece), read_all(&stream, stream.len().max(1)));
    }

    #[test]
    fn base64_is_read_back(bytes in proptest::collection::vec(any::<u8>(), 1..100)) {
        let mut text = Vec::new();
        encode_base64(&bytes, &mut text);
        prop_assert_eq!(decode_base64(&text), Some(bytes));
    }

    #[test]
    fn options_are_read_back(flags: u32, exptime: Option<i32>, compare: Option<u64>, delta: u64, quiet: bool, value: bool) {
        let options = Options {
            style: Style::Meta, mode: Mode::Prepend, flags, exptime, compare, delta, quiet, value,
            ..Options::default()
        };
        prop_assert_eq!(Options::from_bytes(&options.to_bytes()), Some(options));
    }
}
