//! One line of a recording: when the request was made, and what else is said of it.

use std::borrow::Cow;

use chrono::DateTime;
use serde_json::{Map, Value};
use tollgate_limiter::{Nanos, Timestamp};

/// What the time is called in JSON and tables, the first that is there.
pub(super) const TIMES: [&str; 7] = [
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "start_time",
    "time_local",
    "time_iso8601",
];
/// As the common log format writes it.
const LOG_TIME: &str = "%d/%b/%Y:%H:%M:%S %z";
/// How long the request was under way, in seconds.
const DURATION: &str = "duration";

/// A line that was understood.
pub(super) enum Line<'a> {
    /// An object of JSON.
    Json(Map<String, Value>),
    /// A line of an access log.
    Access(Vec<(&'static str, Cow<'a, str>)>),
    /// A line of a table.
    Table(Vec<(&'a str, Cow<'a, str>)>),
}

impl<'a> Line<'a> {
    /// Reads a line: an object of JSON, the common or combined format of Apache and nginx, or Envoy's default format, as it is
    /// or as Istio has it.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        if text.starts_with('{') {
            let object = serde_json::from_str(text);
            return object.map(Line::Json).map_err(|error| error.to_string());
        }
        let words = words(text).ok_or("a quote or bracket is not closed")?;
        let fields = match text.starts_with('[') {
            true => envoy(&words),
            false => combined(&words),
        };
        let fields = fields
            .ok_or("it is neither JSON nor a line of the common, combined or Envoy's log format")?;
        let told = fields.into_iter().filter(|(_, value)| is_told(value));
        Ok(Line::Access(told.collect()))
    }

    /// The fields of a line of a table.
    pub(super) fn table(fields: impl Iterator<Item = (&'a str, Cow<'a, str>)>) -> Self {
        Line::Table(fields.filter(|(_, value)| is_told(value)).collect())
    }

    /// What the line says under a name; in JSON a dot leads into an object. `None` where it says nothing.
    pub(super) fn field(&self, name: &str) -> Option<Cow<'_, str>> {
        match self {
            Line::Json(object) => text_of(look_up(object, name)?),
            Line::Access(fields) | Line::Table(fields) => {
                let (_, value) = fields.iter().find(|(field, _)| *field == name)?;
                Some(Cow::Borrowed(value))
            }
        }
    }

    /// When the request was made. In JSON and tables the field may be named.
    pub(super) fn time(&self, named: Option<&str>) -> Result<Timestamp, String> {
        let found = match (self, named) {
            (Line::Access(_), _) => self.field("time"),
            (_, Some(name)) => self.field(name),
            (_, None) => TIMES.iter().find_map(|name| self.field(name)),
        };
        let text = found.ok_or_else(|| match named {
            Some(name) => format!("no time in the field '{name}'"),
            None => "no time in it".to_owned(),
        })?;
        time(&text).ok_or_else(|| format!("'{text}' is not a time"))
    }

    /// How long the request was under way, where the line tells.
    pub(super) fn duration(&self) -> Option<Nanos> {
        let seconds: f64 = self.field(DURATION)?.parse().ok()?;
        // What is negative or no number becomes 0, what is too long the longest.
        Some((seconds * 1e9) as Nanos)
    }
}

/// The value under a name, or under the part of it before a dot what is under the rest.
fn look_up<'v>(object: &'v Map<String, Value>, name: &str) -> Option<&'v Value> {
    if let Some(value) = object.get(name) {
        return Some(value);
    }
    let mut dots = name.match_indices('.').map(|(at, _)| at);
    dots.find_map(|at| look_up(object.get(&name[..at])?.as_object()?, &name[at + 1..]))
}

fn text_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => is_told(text).then_some(Cow::Borrowed(&**text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(truth) => Some(Cow::Borrowed(if *truth { "true" } else { "false" })),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Logs write a hyphen for what is not there.
fn is_told(value: &str) -> bool {
    !value.is_empty() && value != "-"
}

/// RFC 3339, the common log format, or a number since the Unix epoch: seconds, or where that would lie beyond the year 5000
/// milliseconds, microseconds or nanoseconds.
fn time(text: &str) -> Option<Timestamp> {
    if let Ok(number) = text.parse::<f64>() {
        let per_second = match number.abs() {
            n if n < 1e11 => 1.0,
            n if n < 1e14 => 1e3,
            n if n < 1e17 => 1e6,
            _ => 1e9,
        };
        // Whole microseconds: what a float of this size tells apart is coarser than a nanosecond.
        let micros = (number / per_second * 1e6).round();
        let fits = micros.is_finite() && micros.abs() < i64::MAX as f64 / 1e3;
        return fits.then(|| Timestamp::from_micros(micros as i64));
    }
    let date = DateTime::parse_from_rfc3339(text);
    let date = date.or_else(|_| DateTime::parse_from_str(text, LOG_TIME));
    let nanos = date.ok()?.timestamp_nanos_opt()?;
    Some(Timestamp::from_nanos(nanos))
}

/// The words of a line; those in quotes or brackets without them. `None` if one is not closed.
fn words(text: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (word, after) = match rest.as_bytes()[0] {
            b'"' => quoted(&rest[1..])?,
            b'[' => {
                let (word, after) = rest[1..].split_once(']')?;
                (Cow::Borrowed(word), after)
            }
            _ => {
                let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
                (Cow::Borrowed(word), after)
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Some(words)
}

/// What is in quotes, and what comes behind.
fn quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    let (word, after) = (&text[..end], &text[end + 1..]);
    let word = match word.contains('\\') {
        true => Cow::Owned(word.replace("\\\"", "\"").replace("\\\\", "\\")),
        false => Cow::Borrowed(word),
    };
    Some((word, after))
}

/// `host ident user [time] "request" status bytes "referer" "agent" "forwarded"`, the last three where there are as many.
fn combined<'a>(words: &[Cow<'a, str>]) -> Option<Vec<(&'static str, Cow<'a, str>)>> {
    let [host, _, user, time, request, status, _, more @ ..] = words else {
        return None;
    };
    let mut fields = vec![
        ("remote_addr", host.clone()),
        ("remote_user", user.clone()),
        ("time", time.clone()),
        ("status", status.clone()),
    ];
    push_request(&mut fields, request);
    let names = ["referer", "user_agent", "x_forwarded_for"];
    fields.extend(names.into_iter().zip(more.iter().cloned()));
    Some(fields)
}

/// `[time] "request" status flags received sent duration upstream "forwarded" "agent" "id" "authority" "upstream"`; Istio says
/// three things more behind the flags.
fn envoy<'a>(words: &[Cow<'a, str>]) -> Option<Vec<(&'static str, Cow<'a, str>)>> {
    let [time, request, status, _, more @ ..] = words else {
        return None;
    };
    let more = match more.first()?.parse::<u64>() {
        Ok(_) => more,
        Err(_) => more.get(3..)?,
    };
    let [_, _, duration, _, more @ ..] = more else {
        return None;
    };
    let mut fields = vec![("time", time.clone()), ("status", status.clone())];
    push_request(&mut fields, request);
    if let Ok(millis) = duration.parse::<u64>() {
        fields.push((DURATION, Cow::Owned((millis as f64 / 1e3).to_string())));
    }
    let names = ["x_forwarded_for", "user_agent", "request_id", "authority"];
    fields.extend(names.into_iter().zip(more.iter().cloned()));
    Some(fields)
}

/// `GET /path?query HTTP/1.1`. What a client sent that is no request has no method.
fn push_request(fields: &mut Vec<(&'static str, Cow<'_, str>)>, request: &str) {
    let mut parts = request.split(' ');
    let (Some(method), Some(uri)) = (parts.next(), parts.next()) else {
        return;
    };
    let path = uri.split('?').next().unwrap_or(uri);
    for (name, value) in [("method", method), ("uri", uri), ("path", path)] {
        fields.push((name, Cow::Owned(value.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, names: &[&str]) -> Vec<String> {
        let line = Line::parse(text).unwrap();
        let field = |name: &&str| line.field(name).unwrap_or_default().into_owned();
        names.iter().map(field).collect()
    }

    #[test]
    fn access_logs_are_understood() {
        let nginx = r#"10.0.0.7 - ann [22/Nov/2026:10:00:01 +0100] "GET /a?b=1 HTTP/1.1" 200 12 "-" "curl \"8\"""#;
        let names = [
            "remote_addr",
            "remote_user",
            "method",
            "path",
            "uri",
            "user_agent",
            "referer",
        ];
        assert_eq!(
            said(nginx, &names),
            ["10.0.0.7", "ann", "GET", "/a", "/a?b=1", "curl \"8\"", ""]
        );
        let common = r#"10.0.0.7 - - [22/Nov/2026:10:00:01 +0100] "\x16\x03" 400 0"#;
        assert_eq!(
            said(common, &["remote_user", "method", "status"]),
            ["", "", "400"]
        );
        let envoy = r#"[2026-11-22T09:00:01.250Z] "POST /a HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "ua" "id-1" "shop" "tcp://10.0.2.1:80""#;
        let names = ["x_forwarded_for", "request_id", "authority", "status"];
        assert_eq!(said(envoy, &names), ["10.0.35.28", "id-1", "shop", "204"]);
        let istio = r#"[2026-11-22T09:00:01.250Z] "POST /a HTTP/2" 204 - via_upstream - "-" 154 0 226 100 "10.0.35.28" "ua" "id-1" "shop" "x" inbound - - - -"#;
        assert_eq!(said(istio, &names), ["10.0.35.28", "id-1", "shop", "204"]);
        for log in [envoy, istio] {
            let line = Line::parse(log).unwrap();
            assert_eq!(line.duration(), Some(226_000_000));
            assert_eq!(line.time(None).unwrap().millis(), 1_795_338_001_250);
        }
        let line = Line::parse(nginx).unwrap();
        assert_eq!(line.time(None).unwrap().millis(), 1_795_338_001_000);
    }

    #[test]
    fn fields_of_json_lie_in_objects_too() {
        let line =
            Line::parse(r#"{"ts": 1.5, "user": {"id": 7, "a.b": "x"}, "a.b": true}"#).unwrap();
        assert_eq!(line.field("user.id").unwrap(), "7");
        assert_eq!(line.field("user.a.b").unwrap(), "x");
        assert_eq!(line.field("a.b").unwrap(), "true");
        assert_eq!(line.field("user"), None);
        assert_eq!(line.time(None).unwrap().millis(), 1_500);
        assert_eq!(
            line.time(Some("when")).unwrap_err(),
            "no time in the field 'when'"
        );
    }

    #[test]
    fn times_are_told_in_many_ways() {
        let millis = |text| time(text).map(Timestamp::millis);
        for text in [
            "1795338001.25",
            "1795338001250",
            "1795338001250000",
            "1795338001250000000",
            "2026-11-22T10:00:01.25+01:00",
        ] {
            assert_eq!(millis(text), Some(1_795_338_001_250), "{text}");
        }
        for text in ["", "now", "inf", "NaN", "1e40", "9999-01-01T00:00:00Z"] {
            assert_eq!(millis(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_odd(text in r#"[\[{]?([\[\]"\\{}:.,0-9a-z ü-]|time|null){0,40}"#) {
            if let Ok(line) = Line::parse(&text) {
                drop((line.time(None), line.duration(), line.field("a.b")));
            }
        }
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        for text in [
            "",
            "GET /",
            "{",
            "[",
            "a \"b",
            "[x] \"GET / HTTP/1.1\" 200 -",
            "1 2 3",
        ] {
            assert!(Line::parse(text).is_err(), "{text}");
        }
    }
}
