//! Matching by Lua's patterns, as Lua 5.1 does it step by step, with the choices that are still open on a list and not on
//! the stack of the thread.
//!
//! A pattern ends with its first zero byte. What can still be tried grows with the pattern, the work with more than the
//! subject: so the work is counted, and who asks for a match is asked from time to time whether to go on.

use smallvec::SmallVec;

use super::class::{Class, in_set};

/// Captures of one pattern.
const CAPTURES_MAX: usize = 32;

/// Choices that may be open at once. Redis' matcher takes some of its stack for each and dies of many more.
const CHOICES_MAX: usize = 200_000;

/// Work that is done at once in the midst of an item.
const TOGETHER: usize = 10_000;

/// The sign that takes the meaning of the next one.
pub(super) const ESCAPE: u8 = b'%';

/// Why a match is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The pattern is none, in Lua's words.
    Pattern(&'static str),
    /// Whoever asked for it wants no more of it.
    Ended,
}

/// A part of the subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// Its end has not been met.
    Open {
        start: usize,
    },
    /// Only its place counts.
    Place {
        start: usize,
    },
    Text {
        start: usize,
        end: usize,
    },
}

/// What to do when the rest of the pattern does not fit.
#[derive(Debug, Clone, Copy)]
enum Choice {
    /// Go on with less of what was repeated: `more` times beyond `from`. If the rest begins with `then`, only there.
    Fewer {
        from: usize,
        more: usize,
        rest: usize,
        then: Option<u8>,
    },
    /// Go on with one more of the item at `item`, which ends at `end` and takes the byte at `at`. If the rest begins with
    /// `then`, only there.
    Further {
        at: usize,
        item: usize,
        end: usize,
        then: Option<u8>,
    },
    /// Go on at these places.
    Without { at: usize, rest: usize },
    /// Forget the last capture.
    Opened,
    /// Open that capture again.
    Closed(usize),
}

/// What an item has come to.
enum Step {
    /// The places in the subject and in the pattern from which to go on.
    On(usize, usize),
    /// The whole pattern fits up to here.
    Fits(usize),
    Fails,
}

type Choices = SmallVec<[Choice; 8]>;

/// A pattern on a subject. Nothing in it needs dropping.
pub(super) struct Matcher<'a, G> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [Capture; CAPTURES_MAX],
    level: usize,
    /// Work until the next question.
    left: usize,
    /// Says how much more work may be done until it is asked again; 0: none.
    go_on: G,
}

impl<'a, G: FnMut() -> usize> Matcher<'a, G> {
    /// `left` is what may be done before `go_on` is asked.
    #[inline]
    pub(super) fn new(subject: &'a [u8], pattern: &'a [u8], left: usize, go_on: G) -> Self {
        Matcher {
            subject,
            pattern,
            captures: [Capture::Open { start: 0 }; CAPTURES_MAX],
            level: 0,
            left,
            go_on,
        }
    }

    /// Work that is left until the next question.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    pub(super) fn captures(&self) -> &[Capture] {
        &self.captures[..self.level]
    }

    /// The first place from `start` on where the pattern fits, and where it ends; with `here` only at `start`.
    pub(super) fn find(
        &mut self,
        start: usize,
        here: bool,
    ) -> Result<Option<(usize, usize)>, Fault> {
        if here {
            return Ok(self.fits(start)?.map(|end| (start, end)));
        }
        let first = self.literal(0);
        let mut start = start;
        while start <= self.subject.len() {
            if let Some(first) = first {
                let rest = &self.subject[start..];
                let Some(skipped) = memchr::memchr(first, rest) else {
                    self.spend(rest.len() / 16)?;
                    return Ok(None);
                };
                self.spend(skipped / 16)?;
                start += skipped;
            }
            if let Some(end) = self.fits(start)? {
                return Ok(Some((start, end)));
            }
            start += 1;
        }
        Ok(None)
    }

    /// Where the pattern ends that begins at this place of the subject.
    fn fits(&mut self, start: usize) -> Result<Option<usize>, Fault> {
        self.level = 0;
        let (mut at, mut item) = (start, 0);
        let mut choices = Choices::new();
        loop {
            self.spend(1)?;
            match self.step(at, item, &mut choices)? {
                Step::On(next_at, next_item) => (at, item) = (next_at, next_item),
                Step::Fits(end) => return Ok(Some(end)),
                Step::Fails => match self.choose(&mut choices)? {
                    Some(next) => (at, item) = next,
                    None => return Ok(None),
                },
            }
        }
    }

    /// Does one item.
    #[inline]
    fn step(&mut self, at: usize, item: usize, choices: &mut Choices) -> Result<Step, Fault> {
        let Some(&sign) = self.pattern.get(item) else {
            return Ok(Step::Fits(at));
        };
        match sign {
            b'(' => {
                let is_place = self.sign(item + 1) == b')';
                let capture = match is_place {
                    true => Capture::Place { start: at },
                    false => Capture::Open { start: at },
                };
                if self.level >= CAPTURES_MAX {
                    return Err(Fault::Pattern("too many captures"));
                }
                self.captures[self.level] = capture;
                self.level += 1;
                keep(choices, Choice::Opened)?;
                Ok(Step::On(at, item + 1 + usize::from(is_place)))
            }
            b')' => {
                let (number, start) = self.last_open()?;
                self.captures[number] = Capture::Text { start, end: at };
                keep(choices, Choice::Closed(number))?;
                Ok(Step::On(at, item + 1))
            }
            ESCAPE => match self.sign(item + 1) {
                b'b' => self.balanced(at, item),
                b'f' => self.frontier(at, item),
                digit @ b'0'..=b'9' => self.again(at, item, digit),
                _ => self.single(at, item, choices),
            },
            b'$' if item + 1 == self.pattern.len() => Ok(match at == self.subject.len() {
                true => Step::Fits(at),
                false => Step::Fails,
            }),
            _ => self.single(at, item, choices),
        }
    }

    /// An item for one byte, and how often it may come.
    #[inline]
    fn single(&mut self, at: usize, item: usize, choices: &mut Choices) -> Result<Step, Fault> {
        let end = self.item_end(item)?;
        let here = self.takes(item, end, at)?;
        let rest = end + 1;
        Ok(match (self.sign(end), here) {
            (b'?', true) => {
                keep(choices, Choice::Without { at, rest })?;
                Step::On(at + 1, rest)
            }
            (b'?', false) => Step::On(at, rest),
            (b'*', false) => Step::On(at, rest),
            (b'+', false) => Step::Fails,
            (sign @ (b'*' | b'+'), true) => {
                let run = 1 + self.run(item, end, at + 1)?;
                let least = usize::from(sign == b'+');
                if run > least {
                    keep(
                        choices,
                        Choice::Fewer {
                            from: at + least,
                            more: run - least,
                            rest,
                            then: self.literal(rest),
                        },
                    )?;
                }
                Step::On(at + run, rest)
            }
            (b'-', here) => {
                if here {
                    let then = self.literal(rest);
                    keep(
                        choices,
                        Choice::Further {
                            at,
                            item,
                            end,
                            then,
                        },
                    )?;
                }
                Step::On(at, rest)
            }
            (_, true) => Step::On(at + 1, end),
            (_, false) => Step::Fails,
        })
    }

    /// Takes the last choice that is open, and says where to go on.
    fn choose(&mut self, choices: &mut Choices) -> Result<Option<(usize, usize)>, Fault> {
        while let Some(choice) = choices.pop() {
            match choice {
                Choice::Opened => self.level -= 1,
                Choice::Closed(number) => {
                    if let Capture::Text { start, .. } = self.captures[number] {
                        self.captures[number] = Capture::Open { start };
                    }
                }
                Choice::Without { at, rest } => return Ok(Some((at, rest))),
                Choice::Further {
                    mut at,
                    item,
                    end,
                    then,
                } => loop {
                    at += 1;
                    let takes = self.takes(item, end, at)?;
                    if then.is_none() || self.subject.get(at).copied() == then {
                        if takes {
                            choices.push(Choice::Further {
                                at,
                                item,
                                end,
                                then,
                            });
                        }
                        return Ok(Some((at, end + 1)));
                    }
                    if !takes {
                        break;
                    }
                    self.spend(1)?;
                },
                Choice::Fewer {
                    from,
                    more,
                    rest,
                    then,
                } => {
                    let run = &self.subject[from..from + more];
                    let fewer = match then {
                        None => more - 1,
                        Some(byte) => match memchr::memrchr(byte, run) {
                            Some(fewer) => fewer,
                            None => {
                                self.spend(more / 16)?;
                                continue;
                            }
                        },
                    };
                    self.spend((more - fewer) / 16)?;
                    if fewer > 0 {
                        let more = fewer;
                        choices.push(Choice::Fewer {
                            from,
                            more,
                            rest,
                            then,
                        });
                    }
                    return Ok(Some((from + fewer, rest)));
                }
            }
        }
        Ok(None)
    }

    /// The byte that must come next if the pattern is to fit from `item` on, where that is plain.
    #[inline]
    fn literal(&self, item: usize) -> Option<u8> {
        let byte = *self.pattern.get(item)?;
        let repeats = matches!(self.sign(item + 1), b'?' | b'*' | b'+' | b'-');
        (!repeats && !matches!(byte, b'(' | b')' | ESCAPE | b'$' | b'.' | b'[')).then_some(byte)
    }

    /// The sign at a place of the pattern, zero behind its end.
    #[inline]
    fn sign(&self, at: usize) -> u8 {
        self.pattern.get(at).copied().unwrap_or(0)
    }

    /// The place behind an item for one byte.
    #[inline]
    fn item_end(&mut self, item: usize) -> Result<usize, Fault> {
        match self.pattern[item] {
            ESCAPE if item + 1 == self.pattern.len() => {
                Err(Fault::Pattern("malformed pattern (ends with '%')"))
            }
            ESCAPE => Ok(item + 2),
            b'[' => {
                let end = set_end(self.pattern, item)?;
                self.spend((end - item) / 4)?;
                Ok(end)
            }
            _ => Ok(item + 1),
        }
    }

    /// Whether the item takes the byte at `at` of the subject.
    #[inline]
    fn takes(&mut self, item: usize, end: usize, at: usize) -> Result<bool, Fault> {
        let Some(&byte) = self.subject.get(at) else {
            return Ok(false);
        };
        Ok(match self.pattern[item] {
            b'.' => true,
            ESCAPE => Class::of(self.pattern[item + 1]).has(byte),
            b'[' => {
                self.spend((end - item) / 4)?;
                in_set(byte, &self.pattern[item + 1..end - 1])
            }
            own => own == byte,
        })
    }

    /// How many bytes from `at` on the item takes.
    fn run(&mut self, item: usize, end: usize, at: usize) -> Result<usize, Fault> {
        let rest = &self.subject[at..];
        if self.pattern[item] == b'[' {
            return self.run_of_set(&self.pattern[item + 1..end - 1], rest);
        }
        let run = match self.pattern[item] {
            b'.' => return Ok(rest.len()),
            ESCAPE => {
                let class = Class::of(self.pattern[item + 1]);
                rest.iter().take_while(|&&byte| class.has(byte)).count()
            }
            own => rest.iter().take_while(|&&byte| byte == own).count(),
        };
        self.spend(run)?;
        Ok(run)
    }

    /// How many bytes at the beginning of `rest` are in the set.
    fn run_of_set(&mut self, set: &[u8], rest: &[u8]) -> Result<usize, Fault> {
        if let [b'^', other] = *set
            && other != ESCAPE
        {
            let run = memchr::memchr(other, rest).unwrap_or(rest.len());
            self.spend(run / 16)?;
            return Ok(run);
        }
        let cost = 1 + set.len() / 4;
        let together = TOGETHER.div_ceil(cost);
        let mut run = 0;
        for part in rest.chunks(together) {
            let taken = part.iter().take_while(|&&byte| in_set(byte, set)).count();
            self.spend(taken * cost)?;
            run += taken;
            if taken < part.len() {
                break;
            }
        }
        Ok(run)
    }

    /// `%bxy`.
    fn balanced(&mut self, at: usize, item: usize) -> Result<Step, Fault> {
        let Some(&[open, close]) = self.pattern.get(item + 2..item + 4) else {
            return Err(Fault::Pattern("unbalanced pattern"));
        };
        let Some((_, rest)) = self.subject[at..]
            .split_first()
            .filter(|(first, _)| **first == open)
        else {
            return Ok(Step::Fails);
        };
        let mut depth = 1;
        for (passed, &byte) in rest.iter().enumerate() {
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    self.spend(passed)?;
                    return Ok(Step::On(at + passed + 2, item + 4));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        self.spend(rest.len())?;
        Ok(Step::Fails)
    }

    /// `%f[set]`: the byte before is not in the set and this one is; beyond the ends of the subject stand zeros.
    fn frontier(&mut self, at: usize, item: usize) -> Result<Step, Fault> {
        let item = item + 2;
        if self.sign(item) != b'[' {
            return Err(Fault::Pattern("missing '[' after '%f' in pattern"));
        }
        let end = self.item_end(item)?;
        self.spend((end - item) / 2)?;
        let set = &self.pattern[item + 1..end - 1];
        let before = at.checked_sub(1).map_or(0, |before| self.subject[before]);
        let here = self.subject.get(at).copied().unwrap_or(0);
        Ok(match !in_set(before, set) && in_set(here, set) {
            true => Step::On(at, end),
            false => Step::Fails,
        })
    }

    /// `%1`: the same text as that capture.
    fn again(&mut self, at: usize, item: usize, digit: u8) -> Result<Step, Fault> {
        let number = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let text = match self.captures().get(number) {
            Some(&Capture::Text { start, end }) => &self.subject[start..end],
            // Lua takes its mark of a place for a length that nothing has.
            Some(Capture::Place { .. }) => return Ok(Step::Fails),
            Some(Capture::Open { .. }) | None => {
                return Err(Fault::Pattern("invalid capture index"));
            }
        };
        self.spend(text.len() / 16)?;
        Ok(match self.subject[at..].starts_with(text) {
            true => Step::On(at + text.len(), item + 2),
            false => Step::Fails,
        })
    }

    /// The capture that was opened last and is open, with its start.
    fn last_open(&self) -> Result<(usize, usize), Fault> {
        let found = self.captures().iter().enumerate().rev();
        found
            .filter_map(|(number, capture)| match capture {
                Capture::Open { start } => Some((number, *start)),
                _ => None,
            })
            .next()
            .ok_or(Fault::Pattern("invalid pattern capture"))
    }

    #[inline]
    fn spend(&mut self, work: usize) -> Result<(), Fault> {
        if work < self.left {
            self.left -= work;
            return Ok(());
        }
        self.ask()
    }

    #[cold]
    fn ask(&mut self) -> Result<(), Fault> {
        self.left = (self.go_on)();
        match self.left {
            0 => Err(Fault::Ended),
            _ => Ok(()),
        }
    }
}

/// Keeps a choice open.
#[inline]
fn keep(choices: &mut Choices, choice: Choice) -> Result<(), Fault> {
    if choices.len() == CHOICES_MAX {
        return Err(Fault::Pattern("pattern too complex"));
    }
    choices.push(choice);
    Ok(())
}

/// The place behind a set. Its first sign is never its end.
fn set_end(pattern: &[u8], item: usize) -> Result<usize, Fault> {
    let mut at = item + 1;
    if pattern.get(at) == Some(&b'^') {
        at += 1;
    }
    loop {
        match pattern.get(at) {
            None => return Err(Fault::Pattern("malformed pattern (missing ']')")),
            Some(&ESCAPE) if at + 1 < pattern.len() => at += 2,
            Some(_) => at += 1,
        }
        if pattern.get(at) == Some(&b']') {
            return Ok(at + 1);
        }
    }
}
