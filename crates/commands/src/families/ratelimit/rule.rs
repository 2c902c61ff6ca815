//! The words that name an algorithm and its quota.

use tollgate_containers::number;
use tollgate_limiter::calendar::{Calendar, CalendarUnit, Zone};
use tollgate_limiter::{ALGORITHMS, Act, AlgorithmKind, Cost, Method, Nanos, Quota, Timestamp};

use crate::{Args, CmdError};

/// Longest period: its nanoseconds must fit an `i64`, some 292 years.
pub(super) const PERIOD_MAX_MS: i64 = i64::MAX / NANOS_PER_MS as i64;
pub(super) const NANOS_PER_MS: u64 = 1_000_000;

/// The word of the sliding log.
const LOG: &str = "LOG";
/// The word of what may be in use at the same time.
const LEASES: &str = "LEASES";

/// What is asked of one limiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) quota: Quota,
    pub(super) cost: Cost,
    pub(super) peek: bool,
    /// RL.MTAKE: what a denial calls it.
    pub(super) name: Option<&'a [u8]>,
    /// RL.MTAKE: the name and time of the reservation or lease that it takes under.
    pub(super) hold: Option<(&'a [u8], Nanos)>,
    /// RL.LEASE: units wanted.
    pub(super) count: Option<u64>,
    /// RL.REFUND: when the units were taken.
    pub(super) taken: Option<Timestamp>,
}

/// Which options a command takes beside those of the algorithm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Options {
    /// COST.
    Cost,
    /// COST and TAKEN; LEASES is an algorithm here.
    Refund,
    /// COST and PEEK.
    Take,
    /// COST, PEEK, NAME and HOLD, until the next algorithm; LEASES is one here.
    Many,
    /// COUNT.
    Lease,
}

impl<'a> Ask<'a> {
    /// An algorithm, its quota and the options behind it.
    pub(super) fn parse(args: &mut Args<'a>, options: Options) -> Result<Ask<'a>, CmdError> {
        let word = args.next()?;
        let method = method_of(word, options).ok_or_else(|| CmdError::unknown_algorithm(word))?;
        let limit = integer(args, 0, i64::MAX, CmdError::LimitOutOfRange)?;
        let (method, period) = match method {
            Method::Small(AlgorithmKind::Calendar(calendar)) => {
                let unit = args.next()?;
                let unit = CalendarUnit::by_name(unit).ok_or(CmdError::BadCalendarUnit)?;
                let calendar = Calendar { unit, ..calendar };
                (Method::Small(AlgorithmKind::Calendar(calendar)), 1)
            }
            Method::Concurrency => (method, 1),
            method => {
                let period = integer(args, 1, PERIOD_MAX_MS, CmdError::WindowOutOfRange)?;
                (method, period)
            }
        };
        let mut ask = Ask {
            method,
            quota: Quota::new(limit, period * NANOS_PER_MS),
            cost: Cost(1),
            peek: false,
            name: None,
            hold: None,
            count: None,
            taken: None,
        };
        while !args.is_empty() {
            if !ask.option(args, options)? {
                let next = args.peek().and_then(|word| method_of(word, options));
                if options != Options::Many || next.is_none() {
                    return Err(CmdError::Syntax);
                }
                break;
            }
        }
        if options == Options::Lease && ask.method == Method::Log {
            return Err(CmdError::NoAdvanceOfLogs);
        }
        match ask.act() {
            Act::Hold { .. } if ask.method == Method::Log => Err(CmdError::NoReservationsOnLogs),
            Act::Take if ask.method == Method::Concurrency && options != Options::Refund => {
                Err(CmdError::Syntax)
            }
            _ => Ok(ask),
        }
    }

    /// What is done with the units.
    pub(super) fn act(&self) -> Act<'a> {
        match self.hold {
            _ if self.peek => Act::Peek,
            Some((id, ttl)) => Act::Hold { id, ttl },
            None => Act::Take,
        }
    }

    /// Takes one option; false when the next word is none.
    fn option(&mut self, args: &mut Args<'a>, options: Options) -> Result<bool, CmdError> {
        let takes = matches!(options, Options::Take | Options::Many);
        if options != Options::Lease && args.keyword("COST") {
            self.cost = cost(args)?;
        } else if takes && args.keyword("PEEK") {
            self.peek = true;
        } else if options == Options::Many && args.keyword("NAME") {
            self.name = Some(args.next()?);
        } else if options == Options::Many && args.keyword("HOLD") {
            let id = super::lease::id(args)?;
            let ttl = integer(args, 1, PERIOD_MAX_MS, CmdError::DurationOutOfRange)?;
            self.hold = Some((id, ttl * NANOS_PER_MS));
        } else if options == Options::Lease && args.keyword("COUNT") {
            self.count = Some(integer(
                args,
                1,
                i64::MAX,
                CmdError::LimiterCountOutOfRange,
            )?);
        } else if options == Options::Refund
            && self.method != Method::Concurrency
            && args.keyword("TAKEN")
        {
            let ms = integer(args, 0, PERIOD_MAX_MS, CmdError::TakenOutOfRange)?;
            self.taken = Some(Timestamp::from_millis(ms as i64));
        } else if self.method.has_burst() && args.keyword("BURST") {
            self.quota.burst = integer(args, 0, i64::MAX, CmdError::BurstOutOfRange)?;
        } else if let Method::Small(AlgorithmKind::Calendar(calendar)) = &mut self.method
            && args.keyword("ZONE")
        {
            calendar.zone = Zone::by_name(args.next()?).ok_or(CmdError::UnknownTimeZone)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

/// The algorithm of a word, in any case.
fn method_of(word: &[u8], options: Options) -> Option<Method> {
    if matches!(options, Options::Many | Options::Refund)
        && word.eq_ignore_ascii_case(LEASES.as_bytes())
    {
        return Some(Method::Concurrency);
    }
    if word.eq_ignore_ascii_case(LOG.as_bytes()) {
        return Some(Method::Log);
    }
    let row = ALGORITHMS
        .iter()
        .find(|row| row.word.as_bytes().eq_ignore_ascii_case(word));
    row.map(|row| Method::Small(row.kind))
}

/// The next word as a cost.
pub(super) fn cost(args: &mut Args<'_>) -> Result<Cost, CmdError> {
    integer(args, 0, i64::MAX, CmdError::CostOutOfRange).map(Cost)
}

/// The next word as a number from `least` to `most`.
pub(super) fn integer(
    args: &mut Args<'_>,
    least: i64,
    most: i64,
    or: CmdError,
) -> Result<u64, CmdError> {
    let word = args.next()?;
    match number::parse_i64(word) {
        Some(n) if (least..=most).contains(&n) => Ok(n as u64),
        _ => Err(or),
    }
}
