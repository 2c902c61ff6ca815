//! Words of random commands: few keys and members, so that they meet; numbers at every edge; texts that look like numbers.

use super::Choose;

#[rustfmt::skip]
const NUMBERS: &[&str] = &[
    "0", "1", "-1", "2", "3", "7", "10", "100", "127", "128", "255", "-129", "65536", "2147483648", "-2147483648",
    "4294967296", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551615",
    "18446744073709551616", "99999999999999999999999999999999", "+1", "01", "-0", "1.0", "1e3", "0x10", "inf", "nan",
    "", " 1", "1 ", "abc", "1\0",
];
#[rustfmt::skip]
const FLOATS: &[&str] = &[
    "0", "1", "2", "-1", "0.5", "10", "2.25", "inf", "-inf", "0.1", "1.5", "1e3", "1e17", "1e-7", "3.0e3",
    "123456789.123456789", "+inf", "nan", "-0", "1e308", "1e400", "5e-324", "0x10", "9007199254740993", "+5", ".5",
    "5.", "1e", "", " 1", "1 ",
];
#[rustfmt::skip]
const TEXTS: &[&str] = &[
    "", "a", "b", "hello", "hello world", "12", "-5", "3.5", "99999", "ohmytext", "mynewtext", "\0\x01\x7f", "a\r\nb",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
];
#[rustfmt::skip]
const MEMBERS: &[&str] = &[
    "a", "b", "c", "d", "e", "f", "1", "2", "3", "10", "-1", "300", "70000", "5000000000", "", "\0m", "01",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];
#[rustfmt::skip]
const ODD: &[&str] = &[
    "", "NX", "XX", "GET", "COUNT", "-1", "0", "abc", "LIMIT", "STORE", "WITHSCORES", "*", "(", "[", "-", "$", ">",
    "=", "~", "nan", "9223372036854775808", "KEEPTTL", "REPLACE", "MATCH", "BY", "-9223372036854775808", "DB", "ANY",
    "STREAMS", "GROUP",
];
#[rustfmt::skip]
const IDS: &[&str] = &[
    "0", "1", "2", "5", "0-0", "5-*", "9-*", "0-*", "18446744073709551615-18446744073709551615",
    "18446744073709551616", "-1", "1-", "a", "", "1-a", "01-1",
];

#[rustfmt::skip]
const PATTERNS: &[&str] = &[
    "*", "s*", "?0", "[a-m]*", "[^s]*", "\\*", "", "*[", "a\\", "[z-a]0", "**", "x??",
];

/// Words by their name: the usual ones, and what comes now and then.
#[rustfmt::skip]
const WORDS: &[(&str, &[&str], &[&str])] = &[
    ("v", TEXTS, NUMBERS),
    ("i", &["0", "1", "2", "3", "5", "10", "-1", "-2", "-3", "-100"], NUMBERS),
    ("c", &["0", "1", "2", "3", "5", "10", "100"], NUMBERS),
    ("n", &["0", "1", "-1", "7", "100", "-300", "4611686018427387904"], NUMBERS),
    ("x", &["0", "1", "2", "-1", "0.5", "10", "2.25", "inf", "-inf"], FLOATS),
    ("bit", &["0", "1"], NUMBERS),
    ("off", &["0", "1", "7", "8", "20", "63", "79"], &["-1", "abc", "4294967296", "1.0"]),
    ("bt", &["u1", "i1", "u4", "i5", "u8", "i8", "u13", "i16", "u32", "i63", "u63", "i64"], &["u0", "i65", "u64", "x8", "u", "8"]),
    ("bo", &["0", "1", "#0", "#1", "#2", "7", "9", "33"], &["-1", "#", "#-1", "abc", "4294967296"]),
    ("ttl", &["100000", "200000", "300000", "100000000"], &["0", "-1", "abc", "9223372036854775807"]),
    ("at", &["4000000000", "5000000000"], &["0", "1", "abc", "9223372036854775807"]),
    ("atms", &["4000000000000", "5000000000001"], &["0", "1", "abc", "-9223372036854775808"]),
    ("lb", &["-", "+", "[a", "(a", "[b", "(c", "[", "("], &["a", "", "-inf", "++"]),
    ("unit", &["m", "km", "ft", "mi"], &["KM", "x", ""]),
    ("dist", &["0", "1", "10", "100", "1000", "20000", "300.25"], FLOATS),
    ("rid", &["-", "+", "(1-1", "(5", "1", "2-1", "(3-1"], IDS),
    ("g", &["g"], &["h"]),
    ("u", &["c1", "c2"], &["c3"]),
    ("db", &["0", "0", "0", "1", "2"], &["15", "16", "-1", "abc", ""]),
];

/// Letters of the families that keep data under keys of their own.
const LETTERS: &str = "sbylthzgx";

fn among(texts: &[&str], choose: Choose<'_>) -> String {
    texts[choose(texts.len())].to_owned()
}

/// Mostly one of the first, now and then one of the second.
fn mostly(usual: &[&str], rare: &[&str], choose: Choose<'_>) -> String {
    let texts = if choose(12) == 0 { rare } else { usual };
    among(texts, choose)
}

fn tenths(low: i32, high: i32, choose: Choose<'_>) -> String {
    let range = usize::try_from((high - low) * 10).expect("low comes first");
    let drawn = i32::try_from(choose(range)).expect("a small range");
    (f64::from(low * 10 + drawn) / 10.0).to_string()
}

fn key(letter: char, choose: Choose<'_>) -> String {
    let number = choose(3);
    let own = letter != '?' && choose(12) != 0;
    let other = || LETTERS.as_bytes();
    let letter = if own {
        letter
    } else {
        char::from(other()[choose(LETTERS.len())])
    };
    format!("{letter}{number}")
}

/// A word that does not belong where it is put.
pub(super) fn odd(choose: Choose<'_>) -> String {
    mostly(ODD, NUMBERS, choose)
}

/// Draws the words of that name.
///
/// # Panics
/// When the table uses a name that is not here.
pub(super) fn draw(name: &str, letter: char, out: &mut Vec<String>, choose: Choose<'_>) {
    if let Some((_, usual, rare)) = WORDS.iter().find(|(known, ..)| *known == name) {
        return out.push(mostly(usual, rare, choose));
    }
    let word = match name {
        "k" => key(letter, choose),
        "m" | "f" => among(MEMBERS, choose),
        "pat" => among(PATTERNS, choose),
        "zb" if choose(6) == 0 => among(&["[a", "(b", "-", "+", "[", "("], choose),
        "zb" => {
            let open = ["", "", "", "("][choose(4)];
            format!("{open}{}", mostly(&FLOATS[..9], FLOATS, choose))
        }
        "lon" if choose(2) == 0 => tenths(-180, 180, choose),
        "lat" if choose(2) == 0 => tenths(-85, 85, choose),
        "lon" => mostly(&["13.4", "13.5", "14"], FLOATS, choose),
        "lat" => mostly(&["37.1", "37.5", "38"], FLOATS, choose),
        "sid" if choose(4) == 0 => among(IDS, choose),
        "sid" => format!("{}-{}", choose(9), choose(5)),
        "nk" => {
            let keys: Vec<String> = (0..=choose(3)).map(|_| key(letter, choose)).collect();
            let count = keys.len().to_string();
            out.push(if choose(12) == 0 {
                among(NUMBERS, choose)
            } else {
                count
            });
            return out.extend(keys);
        }
        other => panic!("no words are called {other}"),
    };
    out.push(word);
}
