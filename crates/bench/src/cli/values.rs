//! Values of options as they are written on the command line.

use std::net::{AddrParseError, Ipv4Addr, SocketAddr};
use std::num::ParseIntError;
use std::time::Duration;

use crate::load::keys::Spreading;
use crate::run::plan::{Ladder, Sampling};
use crate::run::steady;

/// Rungs that one ladder may have.
const RUNGS_MAX: usize = 1_000;
/// Most keys of a scenario.
const KEYS_MAX: u32 = 1_000_000;
/// Lowest and highest multiple of a recorded speed.
const SPEED_MIN: f64 = 0.001;
const SPEED_MAX: f64 = 10_000.0;
/// Highest rate accepted, far beyond what one thread can send.
pub(super) const RATE_MAX: f64 = 100e6;

/// `60s`, `500ms`, `2m`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        _ => {
            return Err(format!(
                "'{text}' is not a length of time: give for example 500ms, 60s or 2m"
            ));
        }
    };
    match number.parse::<f64>() {
        Ok(number) if number * scale <= 86_400.0 => Ok(Duration::from_secs_f64(number * scale)),
        _ => Err(format!(
            "'{text}' is not a length of time up to a day: give for example 500ms, 60s or 2m"
        )),
    }
}

/// A key distribution, with the number of keys where it says so itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dist {
    /// How requests spread over the keys.
    pub spreading: Spreading,
    /// Number of keys.
    pub keys: Option<u32>,
}

/// As [`Spreading`], and `/KEYS` behind a distribution with hot keys for the number of all keys: `hot:0.9:1/100`.
pub(super) fn dist(text: &str) -> Result<Dist, String> {
    let (spreading, keys) = match text.rsplit_once('/') {
        Some((head, keys)) if text.starts_with("hot") => (head, Some(keys)),
        _ => (text, None),
    };
    let number = |keys: &str| match keys.parse::<u32>() {
        Ok(number) if (1..=KEYS_MAX).contains(&number) => Ok(number),
        _ => Err(format!(
            "'{text}': '{keys}' is not a number of keys from 1 to {KEYS_MAX}"
        )),
    };
    Ok(Dist {
        spreading: spreading.parse()?,
        keys: keys.map(number).transpose()?,
    })
}

/// A share above 0, up to 1.
pub(super) fn ratio(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(ratio) if ratio > 0.0 && ratio <= 1.0 => Ok(ratio),
        _ => Err(format!("'{text}' is not a share above 0 and up to 1")),
    }
}

/// A multiple of a recorded speed.
pub(super) fn speed(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(speed) if (SPEED_MIN..=SPEED_MAX).contains(&speed) => Ok(speed),
        _ => Err(format!(
            "'{text}' is not a speed: give {SPEED_MIN} to {SPEED_MAX}"
        )),
    }
}

/// How long a step is warmed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmUpRule {
    /// For this time.
    For(Duration),
    /// Until the target is steady, at most for this time.
    Steady(Duration),
}

/// A length of time, or `steady[:LONGEST]`.
pub(super) fn warm_up(text: &str) -> Result<WarmUpRule, String> {
    let Some(rest) = text.strip_prefix("steady") else {
        return duration(text).map(WarmUpRule::For);
    };
    let longest = match rest.strip_prefix(':') {
        Some(longest) => duration(longest)?,
        None if rest.is_empty() => steady::LONGEST,
        None => {
            return Err(format!(
                "'{text}' is neither a length of time nor steady[:LONGEST]"
            ));
        }
    };
    if longest < steady::SHORTEST {
        return Err(format!(
            "'{text}': it takes at least {} s to see whether a target is steady",
            steady::SHORTEST.as_secs()
        ));
    }
    Ok(WarmUpRule::Steady(longest))
}

/// `Name: value`.
pub(super) fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().into(), value.trim().into()))
        }
        _ => Err(format!("'{text}' is not a header: give 'Name: value'")),
    }
}

/// A length of time above zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be above zero".into()),
        length => Ok(length),
    }
}

/// Longest stretch for which a generator stays awake: beyond it nothing is gained.
const SPIN_MAX: Duration = Duration::from_millis(10);

/// A length of time above zero and up to [`SPIN_MAX`]; microseconds too.
pub(super) fn spin(text: &str) -> Result<Duration, String> {
    let micros = text
        .strip_suffix("us")
        .and_then(|number| number.parse::<f64>().ok());
    let micros = micros.filter(|us| us.is_finite() && *us >= 0.0 && *us <= 1e6);
    let length = match micros {
        Some(us) => Duration::from_secs_f64(us * 1e-6),
        None => duration(text).map_err(|_| {
            format!("'{text}' is not a length of time: give for example 50us or 1ms")
        })?,
    };
    match length {
        Duration::ZERO => Err("must be above zero".into()),
        length if length > SPIN_MAX => Err("must be 10ms at most".into()),
        length => Ok(length),
    }
}

/// Which requests are kept one by one: as many as fit, or one in so many.
pub(super) fn sampling(text: &str) -> Result<Sampling, String> {
    match text {
        "" => Ok(Sampling::Fitting),
        text => match text.parse() {
            Ok(every) if (1..=1_000_000_000).contains(&every) => Ok(Sampling::Every(every)),
            _ => Err(format!("'{text}' is not a number from 1 to 1000000000")),
        },
    }
}

/// Name of the ladder of study 000.
const PAPER_LADDER: &str = "paper-000";

/// `FROM:TO:STEP`, rates separated by commas, `sine:LOW:HIGH:STEPS`, `file:PATH`, or the ladder of study 000 by its name.
pub(super) fn ladder(text: &str) -> Result<Ladder, String> {
    if text == PAPER_LADDER {
        return Ok(Ladder::Fixed(crate::paper::ladder()));
    }
    let wrong = || {
        format!(
            "'{text}' is not a ladder: give FROM:TO:STEP, rates separated by commas, sine:LOW:HIGH:STEPS, file:PATH, all rates above 0, or {PAPER_LADDER}"
        )
    };
    if let Some(path) = text.strip_prefix("file:") {
        return rates_of_file(path).map(Ladder::Fixed);
    }
    if let Some(wave) = text.strip_prefix("sine:") {
        return sine(wave).map(Ladder::Fixed).ok_or_else(wrong);
    }
    let numbers = |separator: char| -> Result<Vec<f64>, String> {
        text.split(separator)
            .map(|part| {
                part.trim()
                    .parse::<f64>()
                    .ok()
                    .filter(|n| *n > 0.0 && *n <= RATE_MAX)
                    .ok_or_else(wrong)
            })
            .collect()
    };
    let rates = if text.contains(':') {
        let [from, to, step] = numbers(':')?[..] else {
            return Err(wrong());
        };
        let count = ((to - from) / step + 1e-9).floor();
        if count < 0.0 || count >= RUNGS_MAX as f64 {
            return Err(format!("'{text}' has no rung, or more than {RUNGS_MAX}"));
        }
        (0..=count as usize)
            .map(|rung| from + step * rung as f64)
            .collect()
    } else {
        numbers(',')?
    };
    Ok(Ladder::Fixed(rates))
}

/// One period of a sine from its lowest rate, in so many steps: `LOW:HIGH:STEPS`.
fn sine(text: &str) -> Option<Vec<f64>> {
    let mut parts = text.split(':');
    let mut rate = || parts.next()?.trim().parse::<f64>().ok();
    let (low, high) = (rate()?, rate()?);
    let steps: usize = parts.next()?.trim().parse().ok()?;
    let sane = 0.0 < low && low < high && high <= RATE_MAX && (2..=RUNGS_MAX).contains(&steps);
    if !sane || parts.next().is_some() {
        return None;
    }
    let at = |step: usize| {
        let turn = std::f64::consts::TAU * step as f64 / steps as f64;
        (low + (high - low) * (1.0 - turn.cos()) / 2.0)
            .round()
            .max(1.0)
    };
    Some((0..steps).map(at).collect())
}

/// Longest file of rates, in bytes.
const RATES_FILE_MAX: u64 = 64 * 1024;

/// The rates of a file: one a line; what follows a `#` is a remark.
fn rates_of_file(path: &str) -> Result<Vec<f64>, String> {
    use std::io::Read as _;
    let failed = |why: std::io::Error| format!("the ladder {path}: {why}");
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(RATES_FILE_MAX + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > RATES_FILE_MAX {
        return Err(format!(
            "the ladder {path} has more than {} KiB",
            RATES_FILE_MAX >> 10
        ));
    }
    let mut rates = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let said = line.split('#').next().unwrap_or_default().trim();
        if said.is_empty() {
            continue;
        }
        let rate = said
            .parse()
            .ok()
            .filter(|rate| *rate > 0.0 && *rate <= RATE_MAX);
        rates.push(rate.ok_or_else(|| {
            format!("the ladder {path}: line {number}: '{said}' is not a rate above 0")
        })?);
    }
    match rates.len() {
        0 => Err(format!("the ladder {path} has no rate")),
        1..=RUNGS_MAX => Ok(rates),
        _ => Err(format!("the ladder {path} has more than {RUNGS_MAX} rates")),
    }
}

/// Longest beginning of keys.
const KEY_PREFIX_MAX: usize = 64;

/// Up to 64 printable ASCII characters without spaces.
pub(super) fn key_prefix(text: &str) -> Result<String, String> {
    if text.len() <= KEY_PREFIX_MAX && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "give up to {KEY_PREFIX_MAX} printable ASCII characters without spaces"
    ))
}

/// An amount of money above zero.
pub(super) fn price(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|price: &f64| price.is_finite() && *price > 0.0)
        .ok_or_else(|| format!("'{text}' is not an amount above 0, such as 0.34"))
}

/// A rate above zero.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate: &f64| *rate >= 1.0 && *rate <= RATE_MAX)
        .ok_or_else(|| format!("'{text}' is not a number of requests per second"))
}

/// How long clients wait for an answer; `None` as long as the run lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub Option<Duration>);

/// A length of time above zero, or `inf`.
pub(super) fn deadline(text: &str) -> Result<Deadline, String> {
    match text {
        "inf" => Ok(Deadline(None)),
        other => positive_duration(other).map(|length| Deadline(Some(length))),
    }
}

/// Percent, above 0 and up to 50.
pub(super) fn width_percent(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|width: &f64| *width > 0.0 && *width <= 50.0)
        .ok_or_else(|| format!("'{text}' is not a width: give percent above 0 and up to 50"))
}

/// A share from 0 to below 1.
pub(super) fn exceed_ratio(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|ratio: &f64| (0.0..1.0).contains(ratio))
        .ok_or_else(|| format!("'{text}' is not a share: give a number from 0 to below 1"))
}

/// Where to listen: a port of this machine, or an address with a port.
pub(super) fn listening(text: &str) -> Result<SocketAddr, String> {
    let port = text
        .parse()
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_: ParseIntError| text.parse())
        .map_err(|_: AddrParseError| format!("'{text}' is not a port: give 9100 or 0.0.0.0:9100"))
}

/// `gen=0,sut=1`, or `none`.
pub(super) fn pins(text: &str) -> Result<super::Pins, String> {
    let mut pins = super::Pins {
        generator: None,
        target: None,
    };
    if text == "none" {
        return Ok(pins);
    }
    for part in text.split(',') {
        let wrong = || format!("'{part}' is not a pin: give gen=CORE,sut=CORE or none");
        let (who, core) = part.split_once('=').ok_or_else(wrong)?;
        let core = Some(core.parse::<usize>().map_err(|_| wrong())?);
        match who {
            "gen" => pins.generator = core,
            "sut" => pins.target = core,
            _ => return Err(wrong()),
        }
    }
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("1.5").unwrap(), Duration::from_millis(1500));
        assert_eq!(duration("2m").unwrap(), Duration::from_secs(120));
        for bad in ["", "s", "5h", "-1s", "1e99", "999999m"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert!(positive_duration("0").is_err());
    }

    #[test]
    fn ladders_are_read() {
        let Ladder::Fixed(rates) = ladder("10000:30000:2500").unwrap() else {
            panic!("a fixed ladder")
        };
        assert_eq!((rates.len(), rates[0], rates[8]), (9, 10_000.0, 30_000.0));
        assert_eq!(ladder("100,50").unwrap(), Ladder::Fixed(vec![100.0, 50.0]));
        for bad in ["", "1:2", "5:1:1", "0:10:5", "a:b:c", "1:1000000:0.1", "-5"] {
            assert!(ladder(bad).is_err(), "{bad}");
        }
        assert_eq!(ladder("paper-000"), ladder("10000:30000:2500"));
    }

    #[test]
    fn distributions_may_say_how_many_keys_there_are() {
        let hot = Spreading::Hot { share: 0.9, hot: 1 };
        let of = |text: &str| dist(text).map(|found| (found.spreading, found.keys));
        assert_eq!(of("hot:0.9:1/100"), Ok((hot, Some(100))));
        assert_eq!(of("hot:0.9"), Ok((hot, None)));
        let moving = of("hotspot-moving:0.8:2:500/1000").unwrap();
        assert_eq!(moving, of("hotspot:0.8:2:500/1000").unwrap());
        assert_eq!(moving.1, Some(1_000));
        for bad in [
            "hot:0.9:1/",
            "hot:0.9:1/0",
            "hot/100",
            "uniform/100",
            "hot:0.9:1/2000000",
        ] {
            assert!(dist(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_wave_goes_up_and_down_again() {
        let wave = Ladder::Fixed(vec![100.0, 250.0, 400.0, 250.0]);
        assert_eq!(ladder("sine:100:400:4"), Ok(wave));
        for bad in [
            "sine:",
            "sine:1:2",
            "sine:2:1:4",
            "sine:0:1:4",
            "sine:1:2:1",
            "sine:1:2:3:4",
        ] {
            assert!(
                ladder(bad).unwrap_err().contains("sine:LOW:HIGH:STEPS"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_file_has_a_rate_per_line() {
        let name = format!("tollgate-ladder-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            ladder(&format!("file:{}", path.display()))
        };
        assert_eq!(
            read("# of a Monday\n100\n\n 250.5 # noon\n100\n"),
            Ok(Ladder::Fixed(vec![100.0, 250.5, 100.0]))
        );
        for (text, says) in [
            ("", "no rate"),
            ("100\nmany\n", "line 2: 'many' is not a rate"),
            ("-1\n", "line 1"),
            (&"1\n".repeat(1_001), "more than 1000 rates"),
            (&"#".repeat(70_000), "KiB"),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            ladder("file:/no/such/ladder")
                .unwrap_err()
                .contains("/no/such/ladder")
        );
    }

    #[test]
    fn prices_and_prefixes_are_read() {
        assert_eq!(price("0.34"), Ok(0.34));
        for bad in ["", "0", "-1", "inf", "nan", "1e999", "free"] {
            assert!(price(bad).is_err(), "{bad}");
        }
        assert_eq!(key_prefix("key:").as_deref(), Ok("key:"));
        assert!(key_prefix("a b").is_err() && key_prefix(&"x".repeat(65)).is_err());
    }

    #[test]
    fn stretches_awake_and_shares_of_requests_are_read() {
        assert_eq!(spin("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(spin("1ms"), Ok(Duration::from_millis(1)));
        for bad in ["", "0us", "0", "-1us", "nanus", "1s", "inf", "us", "1e99us"] {
            assert!(spin(bad).is_err(), "{bad}");
        }
        assert_eq!(sampling(""), Ok(Sampling::Fitting));
        assert_eq!(sampling("100"), Ok(Sampling::Every(100)));
        for bad in ["0", "-1", "1.5", "all", "1000000001"] {
            assert!(sampling(bad).is_err(), "{bad}");
        }
        assert_eq!(Sampling::Fitting.every(1_000_000), 1);
        assert_eq!(Sampling::Fitting.every(10_000_000), 10);
    }

    #[test]
    fn pins_are_read() {
        let pinned = pins("gen=0,sut=1").unwrap();
        assert_eq!((pinned.generator, pinned.target), (Some(0), Some(1)));
        assert_eq!(pins("none").unwrap().generator, None);
        assert!(pins("gen").is_err() && pins("x=1").is_err() && pins("gen=a").is_err());
    }
}
