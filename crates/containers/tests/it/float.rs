//! `INCRBYFLOAT` of a real redis-server against the software `long double`.

use tollgate_containers::number::Extended;
use tollgate_testkit::{Server, peers};
use tollgate_wire::resp::{Value, write_command};

use crate::Random;

const PAIRS: usize = 20_000;
const PIPELINE: usize = 500;

const SPECIAL: [&str; 34] = [
    "0",
    "-0",
    "0.0",
    "1",
    "-1",
    "inf",
    "-inf",
    "+Infinity",
    "nan",
    "",
    " 1",
    "1 ",
    "1e",
    ".",
    "-.5",
    "5.",
    "0x1p-3",
    "0x.8",
    "0x",
    "1e4932",
    "-1.18e4932",
    "1.2e4932",
    "3.6e-4951",
    "1e-4951",
    "1.8e-4951",
    "0x1p-16445",
    "0x1p-16446",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0.1",
    "3.0e3",
    "1e-18",
    "5e-18",
];

fn digits(random: &mut Random, most: usize) -> String {
    (0..random.below(most) + 1)
        .map(|_| char::from(b'0' + random.below(10) as u8))
        .collect()
}

/// Number text of all shapes, now and then not quite a number.
fn number(random: &mut Random) -> String {
    let sign = random.pick(&["", "", "-", "+"]);
    match random.below(12) {
        0 => random.pick(&SPECIAL).to_owned(),
        1 => format!("{sign}{}", digits(random, 19)),
        2 => format!("{sign}{}.{}", digits(random, 40), digits(random, 40)),
        3 => format!(
            "{sign}{}.{}e{}",
            digits(random, 5),
            digits(random, 5),
            random.below(9000) as i64 - 4500
        ),
        4 => format!(
            "{sign}{}e{}",
            digits(random, 20),
            random.below(60) as i64 - 30
        ),
        5 => format!(
            "{sign}0x{:x}.{:x}p{}",
            random.below(1 << 40),
            random.below(1 << 50),
            random.below(200) as i64 - 100
        ),
        6 => format!(
            "{sign}{}{}",
            digits(random, 3),
            random.pick(&["e", "x", ".", "..1", "e+", "p3", "_0"])
        ),
        // Ties of the 17 printed digits and of the 64 bits of the mantissa.
        7 => format!("{sign}{}.{:017}5", random.below(100), random.below(1000)),
        8 => format!(
            "{sign}{}",
            (1_u128 << 64) + (random.below(1 << 20) as u128) * 2 + 1
        ),
        _ => format!("{sign}{}.{}", random.below(1_000_000), digits(random, 6)),
    }
}

fn expected(a: &str, b: &str) -> String {
    // Redis reads the stored value first, then the increment.
    let (Some(a), Some(b)) = (Extended::parse(a.as_bytes()), Extended::parse(b.as_bytes())) else {
        return "ERR value is not a valid float".into();
    };
    let sum = a + b;
    if !sum.is_finite() {
        return "ERR increment would produce NaN or Infinity".into();
    }
    String::from_utf8(sum.to_text()).expect("numbers are ASCII")
}

#[test]
fn sums_are_those_of_redis() {
    let Some(redis) = Server::redis(&[]).expect("redis-server starts") else {
        return peers::skip("sums_are_those_of_redis", "redis-server");
    };
    let mut client = redis.connect().expect("redis-server listens");
    let mut random = Random(20_261_121);
    let mut pairs: Vec<(String, String)> = SPECIAL
        .iter()
        .map(|&text| (text.into(), "0".into()))
        .collect();
    pairs.extend((0..PAIRS).map(|_| (number(&mut random), number(&mut random))));
    // Sums that cancel leave the rounding of the operands bare.
    pairs.extend((0..PAIRS / 10).map(|_| {
        let (a, b) = (number(&mut random), random.below(1000));
        (
            a.clone(),
            format!("-{}{b}", a.trim_start_matches(['-', '+'])),
        )
    }));
    for chunk in pairs.chunks(PIPELINE) {
        let mut bytes = Vec::new();
        for (a, b) in chunk {
            write_command(&mut bytes, &[b"SET", b"k", a.as_bytes()]);
            write_command(&mut bytes, &[b"INCRBYFLOAT", b"k", b.as_bytes()]);
        }
        client.send(&bytes).expect("redis-server reads");
        for (a, b) in chunk {
            client.value().expect("a reply to SET");
            let text = match client.value().expect("a reply to INCRBYFLOAT") {
                Value::Bulk(text) | Value::Error(text) => String::from_utf8(text).expect("ASCII"),
                other => panic!("{a:?} + {b:?} gave {other:?}"),
            };
            assert_eq!(expected(a, b), text, "{a:?} + {b:?}");
        }
    }
}
