use super::*;
use crate::memcached::{Flags, Mode, Operation, Style};
use crate::resp::{Protocol, ReplyBuf};

const LIMITS: Limits = Limits {
    item_max: 1000,
    keys_max: 0,
};

/// A request with the unique number 0x0102030405060708 if `cas`.
fn frame(opcode: u8, cas: bool, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = extras.len() + key.len() + value.len();
    let mut out = vec![MAGIC, opcode];
    out.extend((key.len() as u16).to_be_bytes());
    out.extend([extras.len() as u8, 0, 0, 0]);
    out.extend((body as u32).to_be_bytes());
    out.extend(b"opaq");
    out.extend(if cas {
        [1, 2, 3, 4, 5, 6, 7, 8]
    } else {
        [0; 8]
    });
    [&out, extras, key, value].concat()
}

fn read(bytes: &[u8]) -> Call<'_> {
    match Reader::default().read(bytes, &LIMITS) {
        Read::Call(call, taken) => {
            assert_eq!(taken, bytes.len());
            call
        }
        other => panic!("{other:?}"),
    }
}

fn target<'a>(call: &'a Call<'a>) -> &'a Target<'a> {
    match &call.ask {
        Ask::Item { target, .. } => target,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frames_become_requests() {
    let bytes = frame(0x01, false, &[0, 0, 0, 5, 0, 0, 0, 60], b"k y", b"value");
    let call = read(&bytes);
    assert_eq!((call.head.opcode, &call.head.opaque), (0x01, b"opaq"));
    let set = target(&call);
    assert_eq!((&*set.key, set.data), (&b"k y"[..], &b"value"[..]));
    assert_eq!((set.options.flags, set.options.exptime), (5, Some(60)));
    assert_eq!((set.options.mode, set.options.compare), (Mode::Set, None));

    // With a unique number `add` is `cas`; quiet ones ask for no new number.
    let bytes = frame(0x12, true, &[0; 8], b"k", b"");
    let call = read(&bytes);
    let add = target(&call);
    assert!(call.quiet);
    assert_eq!(add.options.mode, Mode::Set);
    assert_eq!(add.options.compare, Some(0x0102_0304_0506_0708));
    assert_eq!(add.flags, Flags(b""));

    let extras = [[0, 0, 0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 0, 0, 9]].concat();
    for (made, vivify) in [([0xff; 4], None), ([0, 0, 0, 7], Some(7))] {
        let bytes = frame(0x06, false, &[&extras[..], &made].concat(), b"k", b"");
        let call = read(&bytes);
        let options = &target(&call).options;
        assert_eq!((options.delta, options.initial), (2, 9));
        assert_eq!((options.decrement, options.vivify), (true, vivify));
    }
    // An expiry has no sign here.
    let bytes = frame(0x1d, false, &[0xff; 4], b"k", b"");
    assert_eq!(target(&read(&bytes)).options.exptime, Some(i32::MAX));

    for (opcode, key, value, ask) in [
        (0x0a, &b""[..], &b""[..], Ask::Noop),
        (0x10, b"", b"", Ask::Stats(Some(Stats::General))),
        (0x10, b"none", b"", Ask::Stats(None)),
        (0x21, b"PLAIN", b"\0u\0p", Ask::LogIn(Some((b"u", b"p")))),
        (0x21, b"PLAIN", b"\0u", Ask::LogIn(None)),
        (0x21, b"CRAM-MD5", b"", Ask::LogIn(None)),
    ] {
        assert_eq!(read(&frame(opcode, false, b"", key, value)).ask, ask);
    }
}

#[test]
fn what_is_no_frame_is_refused_by_its_head_alone() {
    fn ask(bytes: &[u8]) -> Ask<'_> {
        match Reader::default().read(bytes, &LIMITS) {
            Read::Call(call, taken) => {
                assert_eq!(taken, HEAD_LEN);
                call.ask
            }
            other => panic!("{other:?}"),
        }
    }
    let invalid = Ask::Refused(Status::Invalid, true);
    // A body of 4 GiB is announced, a key that is too long, a GET with a value, a SET without extras.
    let mut huge = frame(0x00, false, b"", b"k", b"");
    huge[8..12].fill(0xff);
    assert_eq!(ask(&huge[..HEAD_LEN]), invalid);
    let long = frame(0x00, false, b"", &[b'k'; KEY_MAX + 1], b"");
    assert_eq!(ask(&long[..HEAD_LEN]), invalid);
    let odd = frame(0x00, false, b"", b"k", b"value");
    assert_eq!(ask(&odd[..HEAD_LEN]), invalid);
    let bare = frame(0x01, false, b"", b"k", b"value");
    assert_eq!(ask(&bare[..HEAD_LEN]), invalid);
    let mut short = frame(0x00, false, b"", b"key", b"");
    short[11] = 1;
    assert_eq!(
        ask(&short[..HEAD_LEN]),
        Ask::Refused(Status::UnknownCommand, true)
    );
    assert_eq!(Reader::default().read(b"get k\r\n", &LIMITS), Read::Broken);
}

#[test]
fn frames_may_come_in_pieces_and_large_ones_are_passed_over() {
    let noop = frame(0x0a, false, b"", b"", b"");
    for bytes in [
        frame(0x01, false, &[0; 8], b"k", &[b'x'; 2000]),
        frame(0x77, false, b"", b"k", b"value"),
    ] {
        let all = [&bytes[..], &noop].concat();
        // One byte after the other, as a connection that keeps what is not consumed.
        let (mut reader, mut kept, mut asks) = (Reader::default(), Vec::new(), Vec::new());
        for &byte in &all {
            kept.push(byte);
            match reader.read(&kept, &LIMITS) {
                Read::Call(call, taken) => {
                    asks.push(format!("{:?}", call.ask));
                    kept.drain(..taken);
                }
                Read::Incomplete { consumed, .. } => drop(kept.drain(..consumed)),
                Read::Broken => panic!(),
            }
        }
        assert_eq!(asks.len(), 2, "{asks:?}");
        assert_eq!(asks[1], "Noop");
    }
    let head = &frame(0x01, false, &[0; 8], b"k", &[b'x'; 100])[..HEAD_LEN + 9];
    let read = Reader::default().read(head, &LIMITS);
    assert_eq!(
        read,
        Read::Incomplete {
            consumed: 0,
            needed: 100
        }
    );
}

#[test]
fn answers_in_text_become_frames() {
    let say = |opcode, extras: &[u8], key: &'static [u8], text: &str| {
        let value: &[u8] = if opcode < 4 && opcode > 0 { b"v" } else { b"" };
        let bytes = frame(opcode, false, extras, key, value);
        let call = read(&bytes);
        let Ask::Item { target, shows } = &call.ask else {
            panic!()
        };
        let mut out = ReplyBuf::new(Protocol::Resp2);
        told(target, *shows, text.as_bytes()).write(call.head, &mut out);
        out.bytes().to_vec()
    };
    // GETK of a key with blanks: flags, key, value, and the number.
    let answer = say(0x0c, b"", b"a 1\r\n", "VALUE a 1\r\n 7 2 258\r\nxy\r\n");
    let mut wanted = vec![0x81, 0x0c, 0, 5, 4, 0, 0, 0, 0, 0, 0, 11];
    wanted.extend(b"opaq\0\0\0\0\0\0\x01\x02\0\0\0\x07a 1\r\nxy");
    assert_eq!(answer, wanted);
    let status = |answer: Vec<u8>| u16::from_be_bytes([answer[6], answer[7]]);
    assert!(say(0x00, b"", b"k", "").ends_with(b"Not found"));
    assert!(say(0x0c, b"", b"key", "").ends_with(b"\0\0key"));
    let extras = &[0; 8];
    assert_eq!(status(say(0x01, extras, b"k", "HD c9\r\n")), 0);
    assert_eq!(say(0x01, extras, b"k", "HD c9\r\n")[23], 9);
    assert_eq!(status(say(0x01, extras, b"k", "EX c0\r\n")), 2);
    assert_eq!(status(say(0x02, extras, b"k", "NS c0\r\n")), 2);
    assert_eq!(status(say(0x03, extras, b"k", "NS c0\r\n")), 1);
    assert_eq!(status(say(0x0e, b"", b"k", "NS c0\r\n")), 5);
    let number = say(0x05, &[0; 20], b"k", "VA 2 c3\r\n42\r\n");
    assert!(number.ends_with(b"\0\0\x0342"));
    let wrong = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
    assert_eq!(status(say(0x05, &[0; 20], b"k", wrong)), 6);
    assert_eq!(
        Style::TextCas,
        target(&read(&frame(0, false, b"", b"k", b"")))
            .options
            .style
    );
    assert_eq!(
        Operation::Delete,
        target(&read(&frame(4, false, b"", b"k", b""))).operation
    );
}
