//! Reading the commands of a pipeline ahead of running them.

use tollgate_wire::resp::{ArgList, Limits, Progress, ProtocolError, RequestParser};

/// Commands read ahead: enough for their waits for memory to overlap, few enough for what they need to stay cached.
pub(crate) const BATCH: usize = 16;

/// Why reading ahead has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// Everything is read, or as many commands as were wanted.
    Done,
    /// A command is not complete; so many bytes are missing at least.
    Incomplete(usize),
    /// What follows is no command.
    Broken(ProtocolError),
}

/// A parser for each command that is read ahead. Between batches none is in the middle of a command.
#[derive(Debug)]
pub(crate) struct Pipeline {
    parsers: [RequestParser; BATCH],
    /// Where each command starts and ends in the input of the last `read`.
    spans: [(usize, usize); BATCH],
    len: usize,
    consumed: usize,
}

impl Pipeline {
    pub(crate) fn new() -> Pipeline {
        let parsers = std::array::from_fn(|_| RequestParser::new());
        Pipeline {
            parsers,
            spans: [(0, 0); BATCH],
            len: 0,
            consumed: 0,
        }
    }

    /// Continues a command whose beginning was read earlier; before `read`.
    pub(crate) fn resume(&mut self, parser: RequestParser) {
        self.parsers[0] = parser;
    }

    /// Reads up to `most` commands from the front of `input`; empty ones are passed over.
    pub(crate) fn read(&mut self, input: &[u8], limits: &Limits, most: usize) -> ReadEnd {
        self.len = 0;
        self.consumed = 0;
        while self.len < most && self.consumed < input.len() {
            let parser = &mut self.parsers[self.len];
            match parser.parse(&input[self.consumed..], limits) {
                Ok(Progress::Ready { consumed }) => {
                    let start = self.consumed;
                    self.consumed += consumed;
                    if parser.arg_count() > 0 {
                        self.spans[self.len] = (start, self.consumed);
                        self.len += 1;
                    }
                }
                Ok(Progress::Incomplete { needed }) => return ReadEnd::Incomplete(needed),
                Err(error) => {
                    *parser = RequestParser::new();
                    return ReadEnd::Broken(error);
                }
            }
        }
        ReadEnd::Done
    }

    /// Number of commands read.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the commands take, empty ones included.
    pub(crate) fn consumed(&self) -> usize {
        self.consumed
    }

    /// Bytes up to the end of one command.
    pub(crate) fn end(&self, index: usize) -> usize {
        self.spans[index].1
    }

    /// The words of one command; `input` as given to `read`.
    #[inline]
    pub(crate) fn words<'a>(&'a self, index: usize, input: &'a [u8], words: &mut ArgList<'a>) {
        let (start, end) = self.spans[index];
        self.parsers[index].args_into(&input[start..end], words);
    }

    /// Takes out the parser of the incomplete command behind those read.
    pub(crate) fn take_incomplete(&mut self) -> Box<RequestParser> {
        Box::new(std::mem::take(&mut self.parsers[self.len]))
    }

    /// Forgets the commands read; they will be read again.
    pub(crate) fn abandon(&mut self) {
        if let Some(parser) = self.parsers.get_mut(self.len) {
            *parser = RequestParser::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pipeline: &Pipeline, input: &[u8]) -> Vec<String> {
        let command = |i| {
            let mut words = ArgList::new();
            pipeline.words(i, input, &mut words);
            words
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        (0..pipeline.len()).map(command).collect()
    }

    #[test]
    fn reads_as_many_as_wanted_and_passes_over_empty_ones() {
        let mut pipeline = Pipeline::new();
        let input = b"\r\n*0\r\nPING a\r\n\r\n*1\r\n$4\r\nQUIT\r\n\r\nGET b\r\n";
        assert_eq!(
            pipeline.read(input, &Limits::authenticated(), 2),
            ReadEnd::Done
        );
        assert_eq!(words(&pipeline, input), ["PING a", "QUIT"]);
        assert_eq!(pipeline.consumed(), input.len() - "\r\nGET b\r\n".len());
        assert_eq!(pipeline.end(0), "\r\n*0\r\nPING a\r\n".len());
        assert_eq!(
            pipeline.read(b"\r\n\r\n", &Limits::authenticated(), 2),
            ReadEnd::Done
        );
        assert_eq!((pipeline.len(), pipeline.consumed()), (0, 4));
    }

    #[test]
    fn an_incomplete_command_goes_on_in_another_call() {
        let mut pipeline = Pipeline::new();
        let input = b"PING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        let cut = input.len() - 3;
        assert!(matches!(
            pipeline.read(&input[..cut], &Limits::authenticated(), BATCH),
            ReadEnd::Incomplete(_)
        ));
        assert_eq!(words(&pipeline, input), ["PING"]);
        let rest = &input[pipeline.consumed()..];
        let parser = pipeline.take_incomplete();
        // Others are served meanwhile.
        assert_eq!(
            pipeline.read(b"ECHO x\r\n", &Limits::authenticated(), BATCH),
            ReadEnd::Done
        );
        pipeline.resume(*parser);
        assert_eq!(
            pipeline.read(rest, &Limits::authenticated(), BATCH),
            ReadEnd::Done
        );
        assert_eq!(words(&pipeline, rest), ["GET k"]);
    }

    #[test]
    fn what_is_abandoned_is_read_again() {
        let mut pipeline = Pipeline::new();
        let input = b"PING\r\n*2\r\n$3\r\nGET\r\n";
        assert!(matches!(
            pipeline.read(input, &Limits::authenticated(), BATCH),
            ReadEnd::Incomplete(_)
        ));
        pipeline.abandon();
        assert!(matches!(
            pipeline.read(input, &Limits::authenticated(), BATCH),
            ReadEnd::Incomplete(_)
        ));
        assert_eq!(words(&pipeline, input), ["PING"]);
    }

    #[test]
    fn commands_before_a_broken_one_are_read() {
        let mut pipeline = Pipeline::new();
        let input = b"PING\r\n*x\r\n";
        let end = pipeline.read(input, &Limits::authenticated(), BATCH);
        assert_eq!(end, ReadEnd::Broken(ProtocolError::InvalidMultibulkLength));
        assert_eq!(words(&pipeline, input), ["PING"]);
    }
}
