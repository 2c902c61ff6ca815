//! Reading the commands of a pipeline ahead of running them.

use tollgate_wire::resp::{
    ArgList, Limits, Progress, ProtocolError, RequestParser, read_whole, request_len,
};

/// Commands read ahead: enough for their waits for memory to overlap, few enough for what they need to stay cached.
pub(crate) const BATCH: usize = 16;

/// Words of a batch whose room is kept for the next one.
const KEPT_WORDS: usize = 1024;

/// Why reading ahead has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadEnd {
    /// There are commands to run, or all is read.
    Done,
    /// Nothing is to be run: the command is not complete; so many bytes are missing at least.
    Incomplete(usize),
    /// Nothing is to be run: what follows is no command.
    Broken(ProtocolError),
}

/// Reads commands that are there as a whole, several at a time, and all others one at a time.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// For commands that are not the usual. Between reads it is in the middle of one only if that was resumed.
    parser: RequestParser,
    /// The parser is in the middle of the first command.
    resumed: bool,
    /// The only command of the batch is the parser's.
    parsed: bool,
    /// Where each command ends: among the words of the batch, and in its input.
    ends: [(usize, usize); BATCH],
    len: usize,
    consumed: usize,
    /// Room for words.
    words: Vec<&'static [u8]>,
}

impl Pipeline {
    pub(crate) fn new() -> Pipeline {
        Pipeline {
            parser: RequestParser::new(),
            resumed: false,
            parsed: false,
            ends: [(0, 0); BATCH],
            len: 0,
            consumed: 0,
            words: Vec::new(),
        }
    }

    /// Continues a command whose beginning was read earlier; before `read`.
    pub(crate) fn resume(&mut self, parser: RequestParser) {
        self.parser = parser;
        self.resumed = true;
    }

    /// Reads up to `most` commands from the front of `input` into `words`, which is empty; empty ones are passed over.
    pub(crate) fn read<'a>(
        &mut self,
        input: &'a [u8],
        limits: &Limits,
        most: usize,
        words: &mut Vec<&'a [u8]>,
    ) -> ReadEnd {
        self.len = 0;
        self.consumed = 0;
        self.parsed = false;
        if !self.resumed {
            let most = most.min(BATCH);
            while self.len < most
                && let Some(taken) = read_whole(&input[self.consumed..], limits, words)
            {
                self.consumed += taken;
                self.ends[self.len] = (words.len(), self.consumed);
                self.len += 1;
            }
        }
        if self.len > 0 {
            return ReadEnd::Done;
        }
        self.read_other(input, limits)
    }

    /// Reads one command of any form.
    #[cold]
    fn read_other(&mut self, input: &[u8], limits: &Limits) -> ReadEnd {
        while self.consumed < input.len() {
            match self.parser.parse(&input[self.consumed..], limits) {
                Ok(Progress::Ready { consumed }) => {
                    let start = self.consumed;
                    self.consumed += consumed;
                    self.resumed = false;
                    if self.parser.arg_count() > 0 {
                        self.parsed = true;
                        self.ends[0] = (start, self.consumed);
                        self.len = 1;
                        return ReadEnd::Done;
                    }
                }
                Ok(Progress::Incomplete { needed }) => return ReadEnd::Incomplete(needed),
                Err(error) => {
                    self.parser = RequestParser::new();
                    self.resumed = false;
                    return ReadEnd::Broken(error);
                }
            }
        }
        ReadEnd::Done
    }

    /// Number of commands read.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that the commands take, empty ones included.
    #[inline]
    pub(crate) fn consumed(&self) -> usize {
        self.consumed
    }

    /// Bytes up to the end of one command.
    #[inline]
    pub(crate) fn end(&self, index: usize) -> usize {
        self.ends[index].1
    }

    /// Bytes of one command, whose words these are.
    #[inline]
    pub(crate) fn size(&self, index: usize, words: &[&[u8]]) -> usize {
        if self.parsed {
            // Its beginning may have been read earlier.
            return request_len(words);
        }
        let start = index.checked_sub(1).map_or(0, |last| self.ends[last].1);
        self.ends[index].1 - start
    }

    /// The words that `read` could not add: those of the only command, if it is not the usual. `input` as given to `read`.
    #[inline]
    pub(crate) fn parsed<'a>(&'a self, input: &'a [u8]) -> Option<ArgList<'a>> {
        self.parsed.then(|| {
            let (start, end) = self.ends[0];
            self.parser.args(&input[start..end])
        })
    }

    /// The words of one command among those that `read` has added.
    #[inline]
    pub(crate) fn words<'w, 'a>(&self, index: usize, words: &'w [&'a [u8]]) -> &'w [&'a [u8]] {
        let start = index.checked_sub(1).map_or(0, |last| self.ends[last].0);
        &words[start..self.ends[index].0]
    }

    /// Takes out the parser of the incomplete command.
    pub(crate) fn take_incomplete(&mut self) -> Box<RequestParser> {
        self.resumed = false;
        Box::new(std::mem::take(&mut self.parser))
    }

    /// Takes out the room for words.
    #[inline]
    pub(crate) fn take_room<'a>(&mut self) -> Vec<&'a [u8]> {
        std::mem::take(&mut self.words)
    }

    /// Gives it back.
    #[inline]
    pub(crate) fn put_room(&mut self, mut words: Vec<&[u8]>) {
        words.clear();
        words.shrink_to(KEPT_WORDS);
        // An empty list holds no word whose lifetime would matter; this keeps its memory.
        self.words = words.into_iter().map(|_| &[][..]).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads once; what was read as texts, and why it ended.
    fn read(pipeline: &mut Pipeline, input: &[u8], most: usize) -> (Vec<String>, ReadEnd) {
        let mut words = pipeline.take_room();
        assert!(words.is_empty());
        let end = pipeline.read(input, &Limits::authenticated(), most, &mut words);
        let parsed = pipeline.parsed(input);
        let command = |i| {
            let words = match &parsed {
                Some(words) => words,
                None => pipeline.words(i, &words),
            };
            let texts = words
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned());
            texts.collect::<Vec<_>>().join(" ")
        };
        let texts = (0..pipeline.len()).map(command).collect();
        drop(parsed);
        pipeline.put_room(words);
        (texts, end)
    }

    /// Reads until all is read.
    fn read_all(pipeline: &mut Pipeline, input: &[u8], most: usize) -> Vec<Vec<String>> {
        let (mut at, mut batches) = (0, Vec::new());
        while at < input.len() {
            let (texts, end) = read(pipeline, &input[at..], most);
            assert_eq!(end, ReadEnd::Done);
            at += pipeline.consumed();
            batches.push(texts);
        }
        batches
    }

    #[test]
    fn reads_as_many_as_wanted_and_passes_over_empty_ones() {
        let mut pipeline = Pipeline::new();
        let input = b"\r\n*0\r\nPING a\r\n*1\r\n$4\r\nQUIT\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n*1\r\n$1\r\nc\r\n";
        assert_eq!(
            read_all(&mut pipeline, input, 2),
            [vec!["PING a"], vec!["QUIT", "GET b"], vec!["c"]]
        );
        let (texts, end) = read(&mut pipeline, input, 2);
        assert_eq!((texts.len(), end), (1, ReadEnd::Done));
        assert_eq!(pipeline.end(0), "\r\n*0\r\nPING a\r\n".len());
        let (texts, end) = read(&mut pipeline, b"\r\n\r\n", 2);
        assert_eq!(
            (texts.len(), end, pipeline.consumed()),
            (0, ReadEnd::Done, 4)
        );
        let many = b"*1\r\n$4\r\nPING\r\n".repeat(BATCH + 1);
        let batches = read_all(&mut pipeline, &many, usize::MAX);
        assert_eq!([batches[0].len(), batches[1].len()], [BATCH, 1]);
    }

    #[test]
    fn an_incomplete_command_goes_on_in_another_call() {
        let mut pipeline = Pipeline::new();
        let input = b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$1\r\nx\r\n";
        let cut = input.len() - 14;
        let (texts, end) = read(&mut pipeline, &input[..cut], BATCH);
        assert_eq!((texts, end), (vec!["PING".to_owned()], ReadEnd::Done));
        let rest = pipeline.consumed();
        let (texts, end) = read(&mut pipeline, &input[rest..cut], BATCH);
        assert_eq!(texts.len(), 0);
        assert!(matches!(end, ReadEnd::Incomplete(_)));
        let parser = pipeline.take_incomplete();
        // Others are served meanwhile.
        assert_eq!(read_all(&mut pipeline, b"ECHO x\r\n", BATCH), [["ECHO x"]]);
        pipeline.resume(*parser);
        assert_eq!(
            read_all(&mut pipeline, &input[rest..], BATCH),
            [["GET k"], ["x"]]
        );
    }

    #[test]
    fn commands_before_a_broken_one_are_read() {
        let mut pipeline = Pipeline::new();
        let input = b"*1\r\n$4\r\nPING\r\n*x\r\n";
        let (texts, end) = read(&mut pipeline, input, BATCH);
        assert_eq!((texts, end), (vec!["PING".to_owned()], ReadEnd::Done));
        let rest = pipeline.consumed();
        let (texts, end) = read(&mut pipeline, &input[rest..], BATCH);
        assert_eq!(texts.len(), 0);
        assert_eq!(end, ReadEnd::Broken(ProtocolError::InvalidMultibulkLength));
        assert_eq!(read_all(&mut pipeline, b"PING\r\n", BATCH), [["PING"]]);
    }
}
