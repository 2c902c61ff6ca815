//! BITFIELD: integers of any width within a string.

use smallvec::SmallVec;
use tollgate_containers::bits::{FieldType, Overflow};
use tollgate_containers::number;
use tollgate_keyspace::Key;

use super::bitmap::bit_offset;
use super::string_edit::{Edited, bytes_of, edit};
use crate::keyspec::KeyFlags;
use crate::{Args, CmdError, Cx, Event, Reply};

/// One subcommand.
struct Step {
    field: FieldType,
    offset: usize,
    action: Action,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    IncrBy(i64, Overflow),
}

type Steps = SmallVec<[Step; 4]>;
/// An answer for each step; `None` where an overflow forbade the change.
type Answers = SmallVec<[Option<i64>; 4]>;

impl Step {
    /// Carries the step out; true beside the answer when the field changed.
    fn run(&self, bytes: &mut [u8]) -> (Option<i64>, bool) {
        let old = self.field.read(bytes, self.offset);
        let new = match self.action {
            Action::Get => return (Some(old), false),
            Action::Set(value, overflow) => self.field.accept(value, overflow),
            Action::IncrBy(by, overflow) => self.field.add(old, by, overflow),
        };
        let Some(new) = new else {
            return (None, false);
        };
        self.field.write(bytes, self.offset, new);
        let answer = match self.action {
            Action::IncrBy(..) => new,
            _ => old,
        };
        (Some(answer), old != new)
    }

    /// Bytes that a string needs for the step to change it; 0 for one that only looks.
    fn needs(&self) -> usize {
        match self.action {
            Action::Get => 0,
            _ => (self.offset + self.field.bits() - 1) / 8 + 1,
        }
    }
}

fn steps(cx: &Cx<'_>, mut args: Args<'_>) -> Result<Steps, CmdError> {
    let mut steps = Steps::new();
    let mut overflow = Overflow::Wrap;
    while !args.is_empty() {
        let word = args.next()?;
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("OVERFLOW") && !args.is_empty() {
            overflow = if args.keyword("WRAP") {
                Overflow::Wrap
            } else if args.keyword("SAT") {
                Overflow::Saturate
            } else if args.keyword("FAIL") {
                Overflow::Fail
            } else {
                return Err(CmdError::BadOverflow);
            };
            continue;
        }
        let gets = is("GET");
        if !(gets && args.len() >= 2 || (is("SET") || is("INCRBY")) && args.len() >= 3) {
            return Err(CmdError::Syntax);
        }
        let field = FieldType::parse(args.next()?).ok_or(CmdError::BadFieldType)?;
        let offset = field_offset(cx, args.next()?, field)?;
        let action = if gets {
            Action::Get
        } else if is("SET") {
            Action::Set(args.int()?, overflow)
        } else {
            Action::IncrBy(args.int()?, overflow)
        };
        steps.push(Step {
            field,
            offset,
            action,
        });
    }
    Ok(steps)
}

/// An offset in bits, or behind `#` in fields of that type.
fn field_offset(cx: &Cx<'_>, word: &[u8], field: FieldType) -> Result<usize, CmdError> {
    let offset = match word.strip_prefix(b"#") {
        Some(digits) => number::parse_i64(digits).and_then(|n| n.checked_mul(field.bits() as i64)),
        None => number::parse_i64(word),
    };
    bit_offset(cx, offset)
}

pub(super) fn bitfield(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let steps = steps(cx, args)?;
    let needed = steps.iter().map(Step::needs).max().unwrap_or(0);
    if needed == 0 {
        return look(cx, key, &steps);
    }
    let (answers, changes) = edit(cx, key, Event::SetBit, |string, is_new| {
        let grows = string.len() < needed;
        string.grow_to(needed);
        let bytes = string.as_mut_slice();
        let mut changes = 0;
        let answers: Answers = steps
            .iter()
            .map(|step| {
                let (answer, differs) = step.run(bytes);
                let writes = step.needs() > 0 && answer.is_some();
                changes += u64::from(differs || grows && writes);
                answer
            })
            .collect();
        Ok(Edited {
            result: (answers, changes),
            changed: is_new || grows || changes > 0,
        })
    })?;
    cx.effects.count(changes.saturating_sub(1));
    Ok(write_answers(cx, &answers))
}

pub(super) fn bitfield_ro(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let steps = steps(cx, args)?;
    if steps.iter().any(|step| step.needs() > 0) {
        return Err(CmdError::BitfieldReadOnly);
    }
    look(cx, key, &steps)
}

/// Answers steps that change nothing.
fn look(cx: &mut Cx<'_>, key: Key<'_>, steps: &[Step]) -> Result<Reply, CmdError> {
    let mut digits = [0; number::I64_TEXT_LEN];
    let bytes = match cx.read(key) {
        Some(found) => bytes_of(found.entry.value(), &mut digits)?,
        None => &[],
    };
    let answers: Answers = steps
        .iter()
        .map(|step| Some(step.field.read(bytes, step.offset)))
        .collect();
    Ok(write_answers(cx, &answers))
}

fn write_answers(cx: &mut Cx<'_>, answers: &[Option<i64>]) -> Reply {
    cx.out.array(answers.len());
    for answer in answers {
        match answer {
            Some(value) => cx.out.int(*value),
            None => cx.out.null(),
        }
    }
    Reply::Written
}

/// What BITFIELD does to its key: it only reads when every subcommand is GET.
pub(super) fn key_flags(words: &[&[u8]]) -> KeyFlags {
    let mut rest = words.get(2..).unwrap_or_default();
    while let [word, tail @ ..] = rest {
        let arguments = if word.eq_ignore_ascii_case(b"GET") {
            2
        } else if word.eq_ignore_ascii_case(b"OVERFLOW") {
            1
        } else {
            return KeyFlags::RW.or(KeyFlags::ACCESS).or(KeyFlags::UPDATE);
        };
        rest = tail.get(arguments..).unwrap_or_default();
    }
    KeyFlags::RO.or(KeyFlags::ACCESS)
}
