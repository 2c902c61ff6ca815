//! Requests that were recorded somewhere, in the order of their times.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read as _};

use flate2::bufread::MultiGzDecoder;
use prost::Message as _;
use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_limiter::{Nanos, Timestamp};
use tollgate_policy::Ruleset;
use tollgate_wire::rls::RateLimitRequest;

use super::line::Line;
use super::table::Columns;
use super::template::DescriptorTemplate;
use crate::http::json_request;

/// How many requests a recording has at most, unless it is told. Each takes 32 bytes, and 24 for every limit that applies to it.
pub const DEFAULT_MAX_REQUESTS: u32 = 20_000_000;
/// Most bytes of requests that differ from each other.
const MAX_DIFFERENT_BYTES: usize = 1 << 30;
/// Longest line, in bytes.
const MAX_LINE: usize = 1 << 20;
/// So many of the lines that were left out are named.
const NAMED_LINES: usize = 3;
/// The first byte of what gzip has packed. No line begins with it.
const GZIP: u8 = 0x1f;

/// What the lines of a recording mean.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// The domain of requests that name none.
    pub domain: Option<String>,
    /// The descriptors of each request. Without them lines are JSON and bring their own, as `/json` takes them.
    pub descriptors: Vec<DescriptorTemplate>,
    /// The field of JSON, or the column, that has the time; otherwise it is called as is usual.
    pub time: Option<String>,
}

/// Why a recording cannot be replayed.
#[derive(Debug)]
pub enum RecordingError {
    /// It cannot be read.
    Read(io::Error),
    /// It has more requests than it may.
    TooManyRequests(u32),
    /// Its requests are too many different ones.
    TooManyDifferent,
    /// No line of it is a request; the first reason.
    Nothing(Option<String>),
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => error.fmt(f),
            Self::TooManyRequests(most) => write!(f, "there are more than {most} requests"),
            Self::TooManyDifferent => write!(
                f,
                "the requests that differ from each other take more than {} MiB",
                MAX_DIFFERENT_BYTES >> 20
            ),
            Self::Nothing(None) => f.write_str("there are no requests in it"),
            Self::Nothing(Some(first)) => write!(f, "there are no requests in it: {first}"),
        }
    }
}

impl std::error::Error for RecordingError {}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) at: Timestamp,
    /// How long it was under way, where that is known.
    pub(super) duration: Option<Nanos>,
    /// Its index among those that differ.
    pub(super) request: u32,
}

/// Lines that are no requests of the recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Lines that were not understood, or are requests that a service does not answer.
    pub lines: u64,
    /// The first of them, with the reason.
    pub first: Vec<String>,
    /// Lines that say nothing of what any descriptor needs. Nobody would have asked about them.
    pub without_descriptors: u64,
}

/// Requests, and when they were made.
#[derive(Debug)]
pub struct Recording<'r> {
    shape: Shape,
    rules: Vec<&'r Ruleset>,
    max_requests: u32,
    events: Vec<Event>,
    requests: Vec<RateLimitRequest>,
    /// Their indices by their messages.
    known: HashMap<Box<[u8]>, u32>,
    known_bytes: usize,
    left_out: LeftOut,
}

impl<'r> Recording<'r> {
    /// An empty one of at most `max_requests`, all of which services with each of these rules would answer.
    pub fn new(shape: Shape, rules: &[&'r Ruleset], max_requests: u32) -> Self {
        Self {
            shape,
            rules: rules.to_vec(),
            max_requests,
            events: Vec::new(),
            requests: Vec::new(),
            known: HashMap::new(),
            known_bytes: 0,
            left_out: LeftOut::default(),
        }
    }

    /// Adds the lines of `input`, which is called `name` and may be packed by gzip. Empty lines are passed over.
    ///
    /// # Errors
    /// It cannot be read, or there are too many requests.
    pub fn read(&mut self, name: &str, mut input: impl BufRead) -> Result<(), RecordingError> {
        let begin = input.fill_buf().map_err(RecordingError::Read)?;
        match begin.first() {
            Some(&GZIP) => self.read_lines(name, BufReader::new(MultiGzDecoder::new(input))),
            _ => self.read_lines(name, input),
        }
    }

    fn read_lines(&mut self, name: &str, mut input: impl BufRead) -> Result<(), RecordingError> {
        let mut line = Vec::new();
        let mut layout = Layout::Unknown;
        for number in 1u64.. {
            line.clear();
            let most = MAX_LINE as u64 + 1;
            let read = input.by_ref().take(most).read_until(b'\n', &mut line);
            if read.map_err(RecordingError::Read)? == 0 {
                break;
            }
            let request = match line.len() > MAX_LINE {
                true => {
                    if line.last() != Some(&b'\n') {
                        input.skip_until(b'\n').map_err(RecordingError::Read)?;
                    }
                    Err(format!("it is longer than {MAX_LINE} bytes"))
                }
                false => self.understand(&line, &mut layout),
            };
            match request {
                Ok(Some(made)) => self.add(made)?,
                Ok(None) => {}
                Err(reason) => self.leave_out(name, number, &reason),
            }
        }
        Ok(())
    }

    fn understand(&mut self, line: &[u8], layout: &mut Layout) -> Result<Option<Made>, String> {
        let text = std::str::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        if matches!(layout, Layout::Unknown) {
            if let Some(columns) = Columns::of(text, self.shape.time.as_deref()) {
                *layout = Layout::Table(columns);
                return Ok(None);
            }
            *layout = Layout::Lines;
        }
        let line = match layout {
            Layout::Table(columns) => columns.line(text)?,
            _ => Line::parse(text.trim())?,
        };
        let at = line.time(self.shape.time.as_deref())?;
        let duration = line.duration();
        let mut request = match self.shape.descriptors.is_empty() {
            true => self.own_request(line)?,
            false => RateLimitRequest {
                descriptors: self
                    .shape
                    .descriptors
                    .iter()
                    .filter_map(|template| template.fill(&line))
                    .collect(),
                ..RateLimitRequest::default()
            },
        };
        if request.descriptors.is_empty() {
            self.left_out.without_descriptors += 1;
            return Ok(None);
        }
        if request.domain.is_empty() {
            let domain = self.shape.domain.as_ref();
            request.domain = domain.ok_or("no domain in it")?.clone();
        }
        for rules in &self.rules {
            rules.resolve(&request).map_err(|error| error.to_string())?;
        }
        Ok(Some(Made {
            at,
            duration,
            request,
        }))
    }

    /// The request that a line of JSON is, without what only recordings say.
    fn own_request(&self, line: Line<'_>) -> Result<RateLimitRequest, String> {
        let Line::Json(mut object) = line else {
            return Err("it has no descriptors, and no --descriptor says how they are made".into());
        };
        let mut only = Map::new();
        for name in ["domain", "descriptors", "hitsAddend", "hits_addend"] {
            if let Some(value) = object.remove(name) {
                only.insert(name.to_owned(), value);
            }
        }
        json_request(Value::Object(only)).map_err(|error| error.to_string())
    }

    fn add(&mut self, made: Made) -> Result<(), RecordingError> {
        if self.events.len() >= self.max_requests as usize {
            return Err(RecordingError::TooManyRequests(self.max_requests));
        }
        let message = made.request.encode_to_vec();
        let request = match self.known.get(&*message) {
            Some(&index) => index,
            None => {
                // Twice as bytes, and what the parts of a message take each.
                self.known_bytes += 4 * message.len() + 256;
                let index = u32::try_from(self.requests.len());
                let index = index.map_err(|_| RecordingError::TooManyDifferent)?;
                if self.known_bytes > MAX_DIFFERENT_BYTES {
                    return Err(RecordingError::TooManyDifferent);
                }
                self.known.insert(message.into(), index);
                self.requests.push(made.request);
                index
            }
        };
        self.events.push(Event {
            at: made.at,
            duration: made.duration,
            request,
        });
        Ok(())
    }

    fn leave_out(&mut self, name: &str, number: u64, reason: &str) {
        self.left_out.lines += 1;
        if self.left_out.first.len() < NAMED_LINES {
            let named = format!("{name}, line {number}: {reason}");
            self.left_out.first.push(named);
        }
    }

    /// Puts what was read in the order of its times: access logs are written when requests end.
    ///
    /// # Errors
    /// There is no request.
    pub fn finish(&mut self) -> Result<(), RecordingError> {
        if self.events.is_empty() {
            let first = self.left_out.first.first().cloned();
            return Err(RecordingError::Nothing(first));
        }
        self.known = HashMap::new();
        self.events.sort_by_key(|event| event.at);
        Ok(())
    }

    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(super) fn requests(&self) -> &[RateLimitRequest] {
        &self.requests
    }

    pub(super) fn left_out(&self) -> &LeftOut {
        &self.left_out
    }
}

/// How the lines of one input are written.
enum Layout {
    /// No line has been read.
    Unknown,
    /// Each says what it is.
    Lines,
    /// The first has named the columns.
    Table(Columns),
}

/// A line that is a request.
struct Made {
    at: Timestamp,
    duration: Option<Nanos>,
    request: RateLimitRequest,
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn recorded(shape: Shape, text: impl AsRef<[u8]>) -> Recording<'static> {
        let mut recording = Recording::new(shape, &[], 100);
        recording.read("log", text.as_ref()).unwrap();
        recording.finish().unwrap();
        recording
    }

    #[test]
    fn requests_come_in_the_order_of_their_times_and_are_kept_once() {
        let text = r#"{"time": 3, "domain": "d", "descriptors": [{"entries": [{"key": "a", "value": "b"}]}], "status": 200}
            {"time": 1, "descriptors": [{"entries": [{"key": "a", "value": "b"}]}]}

            {"time": 2, "domain": "e", "hitsAddend": 2, "descriptors": [{"entries": [{"key": "a"}]}], "duration": 0.5}"#;
        let shape = Shape {
            domain: Some("d".to_owned()),
            ..Shape::default()
        };
        let recording = recorded(shape, text);
        let events = recording.events().iter();
        let events: Vec<_> = events
            .map(|event| (event.at.secs(), event.request, event.duration))
            .collect();
        assert_eq!(
            events,
            [(1, 0, None), (2, 1, Some(500_000_000)), (3, 0, None)]
        );
        assert_eq!(recording.requests().len(), 2);
        assert_eq!(recording.left_out(), &LeftOut::default());
    }

    #[test]
    fn what_is_no_request_is_told() {
        let shape = Shape {
            domain: Some("d".to_owned()),
            descriptors: vec!["user={user}".parse().unwrap()],
            time: None,
        };
        let text = "{\"time\": 1, \"user\": \"ann\"}\n{\"time\": 1}\n{\"user\": \"ann\"}\nnonsense\n{\"time\": \"x\"}\n{}\n";
        let recording = recorded(shape, text);
        assert_eq!(recording.events().len(), 1);
        let left_out = recording.left_out();
        assert_eq!((left_out.lines, left_out.without_descriptors), (4, 1));
        assert_eq!(left_out.first[0], "log, line 3: no time in it");
        assert_eq!(left_out.first.len(), NAMED_LINES);
    }

    #[test]
    fn tables_may_be_packed() {
        let shape = Shape {
            domain: Some("d".to_owned()),
            descriptors: vec!["user={user}".parse().unwrap()],
            time: Some("when".to_owned()),
        };
        let text = "user,when,duration\nann,2,0.5\n\nbob,x,\nann,1,\n-,1,1\nann\n";
        let packed = |text: &str| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            packed.finish().unwrap()
        };
        let (first, second) = text.split_at(20);
        let parts = [packed(first), packed(second)].concat();
        for bytes in [text.as_bytes(), &packed(text), &parts] {
            let recording = recorded(shape.clone(), bytes);
            let events = recording.events().iter();
            let events: Vec<_> = events
                .map(|event| (event.at.secs(), event.duration))
                .collect();
            assert_eq!(events, [(1, None), (2, Some(500_000_000))]);
            let left_out = recording.left_out();
            assert_eq!((left_out.lines, left_out.without_descriptors), (2, 1));
            assert_eq!(
                left_out.first,
                [
                    "log, line 4: 'x' is not a time",
                    "log, line 7: it has 1 fields, and the first line 3"
                ]
            );
        }
        let mut cut = packed(text);
        cut.truncate(cut.len() / 2);
        let read = Recording::new(shape, &[], 9).read("log", &*cut);
        assert!(matches!(read, Err(RecordingError::Read(_))), "{read:?}");
    }

    #[test]
    fn what_no_service_answers_is_left_out() {
        let rules =
            "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]";
        let rules = Ruleset::load(&[("a", rules)]).unwrap();
        let entries = "{\"entries\": [{\"key\": \"a\"}]}";
        let line = |descriptors: &str| {
            format!("{{\"time\": 1, \"domain\": \"d\", \"descriptors\": [{descriptors}]}}\n")
        };
        let many = vec![entries; 1_025].join(",");
        let unit = "{\"entries\": [{\"key\": \"a\"}], \"limit\": {\"requests_per_unit\": 3}}";
        let text = [line(&many), line(entries), line(unit)].concat();
        let mut recording = Recording::new(Shape::default(), &[&rules], 9);
        recording.read("log", text.as_bytes()).unwrap();
        recording.finish().unwrap();
        assert_eq!(recording.events().len(), 1);
        assert_eq!(recording.left_out().lines, 2);
        assert_eq!(
            recording.left_out().first,
            [
                "log, line 1: rate limit descriptor list must not be longer than 1024",
                "log, line 3: descriptor 0: the limit override has no valid unit"
            ]
        );
    }

    #[test]
    fn a_recording_is_bounded() {
        let line = "{\"time\": 1, \"domain\": \"d\", \"descriptors\": [{\"entries\": [{\"key\": \"a\"}]}]}\n";
        let mut recording = Recording::new(Shape::default(), &[], 2);
        let error = recording
            .read("log", line.repeat(3).as_bytes())
            .unwrap_err();
        assert_eq!(error.to_string(), "there are more than 2 requests");
        let mut recording = Recording::new(Shape::default(), &[], 2);
        let long = format!("{}\n{line}", "x".repeat(2 * MAX_LINE));
        recording.read("log", long.as_bytes()).unwrap();
        recording.finish().unwrap();
        assert_eq!(
            (recording.events().len(), recording.left_out().lines),
            (1, 1)
        );
        let error = Recording::new(Shape::default(), &[], 2)
            .finish()
            .unwrap_err();
        assert_eq!(error.to_string(), "there are no requests in it");
    }
}
