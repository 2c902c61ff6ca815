//! LOLWUT: a picture that is different each time.

use crate::{Args, CmdError, Cx, Reply};
use tollgate_containers::number;

/// Columns and rows of the picture.
const WIDTH: usize = 60;
const HEIGHT: usize = 12;

/// Words that end LOLWUT in Redis, so that clients find them.
const VERSION: &str = "Redis ver. 7.0.15";

pub(super) fn lolwut(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    if args.keyword("VERSION") && !args.is_empty() {
        number::parse_i64(args.next()?).ok_or(CmdError::NotAnInteger)?;
    }
    let mut text = picture(&mut |bound| cx.rng.below(bound));
    text.push_str("\nA toll road at night, every car counted. ");
    text.push_str(VERSION);
    text.push('\n');
    cx.out.verbatim("txt", text.as_bytes());
    Ok(Reply::Written)
}

/// Stars above a road with a gate and the cars that wait before it.
fn picture(random: &mut dyn FnMut(usize) -> usize) -> String {
    let mut cells = vec![[b' '; WIDTH]; HEIGHT];
    for _ in 0..24 {
        let star = b".*+'"[random(4)];
        cells[random(HEIGHT - 6)][random(WIDTH)] = star;
    }
    let gate = 20 + random(20);
    for row in &mut cells[HEIGHT - 5..HEIGHT - 1] {
        row[gate] = b'|';
    }
    for cell in &mut cells[HEIGHT - 4][gate..gate + 9] {
        *cell = b'=';
    }
    let mut at = gate;
    while at > 8 {
        at -= 7 + random(4).min(at - 7);
        cells[HEIGHT - 3][at + 1..at + 4].copy_from_slice(b"___");
        cells[HEIGHT - 2][at..at + 6].copy_from_slice(b"[o--o]");
    }
    cells[HEIGHT - 1] = [b'_'; WIDTH];
    let lines = cells.iter().map(|row| {
        let line = String::from_utf8_lossy(row);
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picture_fits() {
        let mut state = 1usize;
        for _ in 0..10_000 {
            let mut random = |bound: usize| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % bound
            };
            let text = picture(&mut random);
            assert_eq!(text.lines().count(), HEIGHT);
            assert!(text.contains("[o--o]"), "{text}");
        }
    }
}
