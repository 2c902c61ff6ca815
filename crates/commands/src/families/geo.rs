//! Positions: sorted sets whose scores are hashes of longitude and latitude.

use smallvec::SmallVec;
use tollgate_containers::geo::Position;
use tollgate_containers::number::{self, Extended};
use tollgate_containers::sorted_set::SortedSet;
use tollgate_wire::resp::ReplyBuf;

use super::{geo_search, zset_add};
use crate::keyspec::{KeyFlags, KeySpec};
use crate::row::{at_least, row};
use crate::{Acl, Args, Arity, CmdError, Cx, Family, Flags, Group, Handler, Reply, Row, Run};

const READ: Flags = Flags::READONLY;
const GROWS: Flags = Flags::WRITE.or(Flags::DENYOOM);
const GROWS_MOVABLE: Flags = GROWS.or(Flags::MOVABLE_KEYS);

const RO_ACCESS: KeyFlags = KeyFlags::RO.or(KeyFlags::ACCESS);
const OW_UPDATE: KeyFlags = KeyFlags::OW.or(KeyFlags::UPDATE);

/// Options of GEORADIUS that have a word behind them.
const LONG_OPTIONS: &[(&str, u8)] = &[("COUNT", 1), ("STORE", 1), ("STOREDIST", 1)];

const READ_KEY: &[KeySpec] = &[KeySpec::at(1, RO_ACCESS)];

/// The key that is searched, and the one that the result is stored at, whose option is looked for from word `from` on.
const fn stored_keys(from: i16) -> [KeySpec; 3] {
    [
        KeySpec::at(1, RO_ACCESS),
        KeySpec::behind_last("STORE", from, LONG_OPTIONS, OW_UPDATE),
        KeySpec::behind_last("STOREDIST", from, LONG_OPTIONS, OW_UPDATE),
    ]
}

const PER_MEMBER: &str = "O(log N) for each member";
const SEARCH: &str =
    "O(N + M log M) in the N elements of the cells around the area and the M in it";

pub(super) static FAMILY: Family = Family {
    name: "Geo",
    about: "Positions on Earth in sorted sets, and searches around them.",
    rows: ROWS,
};

const fn geo(name: &'static str, arity: Arity, flags: Flags, run: Handler) -> Row {
    row(name, arity, flags, Run::Keys(run)).acl(Group::Geo, Acl::GEO)
}

const ROWS: &[Row] = &[
    geo("GEOADD", at_least(5), GROWS, geoadd)
        .keys(const { &[KeySpec::at(1, KeyFlags::RW.or(KeyFlags::UPDATE))] })
        .takes("key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]")
        .docs("Adds members at positions or moves them.", "3.2.0", PER_MEMBER),
    geo("GEODIST", at_least(4), READ, geodist)
        .keys(READ_KEY)
        .takes("key member1 member2 [M | KM | FT | MI]")
        .docs("Returns the distance between two members.", "3.2.0", "O(1)"),
    geo("GEOHASH", at_least(2), READ, geohash)
        .keys(READ_KEY)
        .takes("key [member [member ...]]")
        .docs("Returns the standard geohashes of members.", "3.2.0", "O(1) for each member"),
    geo("GEOPOS", at_least(2), READ, geopos)
        .keys(READ_KEY)
        .takes("key [member [member ...]]")
        .docs("Returns the positions of members.", "3.2.0", "O(1) for each member"),
    geo("GEORADIUS", at_least(6), GROWS_MOVABLE, geo_search::georadius)
        .keys(const { &stored_keys(6) })
        .takes("key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]")
        .docs("Returns or stores the members within a radius of a position.", "3.2.0", SEARCH)
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument"),
    geo("GEORADIUSBYMEMBER", at_least(5), GROWS_MOVABLE, geo_search::georadiusbymember)
        .keys(const { &stored_keys(5) })
        .takes("key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC] [STORE key] [STOREDIST key]")
        .docs("Returns or stores the members within a radius of a member.", "3.2.0", SEARCH)
        .deprecated("6.2.0", "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments"),
    geo("GEORADIUSBYMEMBER_RO", at_least(5), READ, geo_search::georadiusbymember_ro)
        .keys(READ_KEY)
        .takes("key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]")
        .docs("Returns the members within a radius of a member.", "3.2.10", SEARCH)
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments"),
    geo("GEORADIUS_RO", at_least(6), READ, geo_search::georadius_ro)
        .keys(READ_KEY)
        .takes("key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count [ANY]] [ASC | DESC]")
        .docs("Returns the members within a radius of a position.", "3.2.10", SEARCH)
        .deprecated("6.2.0", "`GEOSEARCH` with the `BYRADIUS` argument"),
    geo("GEOSEARCH", at_least(7), READ, geo_search::geosearch)
        .keys(READ_KEY)
        .takes("key <<FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> | BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC | DESC] [COUNT count [ANY]] [WITHCOORD] [WITHDIST] [WITHHASH]")
        .docs("Returns the members within an area.", "6.2.0", SEARCH),
    geo("GEOSEARCHSTORE", at_least(8), GROWS, geo_search::geosearchstore)
        .keys(const { &[KeySpec::at(1, OW_UPDATE), KeySpec::at(2, RO_ACCESS)] })
        .takes("destination source <<FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> | BYPOLYGON num-vertices longitude latitude longitude latitude longitude latitude [longitude latitude ...]> [ASC | DESC] [COUNT count [ANY]] [STOREDIST]")
        .docs("Stores the members within an area.", "6.2.0", SEARCH),
];

/// The next two words as a position.
pub(super) fn position(args: &mut Args<'_>) -> Result<Position, CmdError> {
    let mut degrees = || number::parse_f64(args.next()?).ok_or(CmdError::NotAFloat);
    let position = Position {
        longitude: degrees()?,
        latitude: degrees()?,
    };
    if !position.is_valid() {
        let Position {
            longitude,
            latitude,
        } = position;
        return Err(CmdError::invalid_position(longitude, latitude));
    }
    Ok(position)
}

/// The next word as a unit of length, in metres.
pub(super) fn unit_m(args: &mut Args<'_>) -> Result<f64, CmdError> {
    const UNITS: [(&str, f64); 4] = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let unit = UNITS.iter().find(|(name, _)| args.keyword(name));
    unit.map(|(_, metres)| *metres).ok_or(CmdError::NotAUnit)
}

/// Writes a distance with four places.
pub(super) fn write_distance(out: &mut ReplyBuf, distance: f64) {
    const PER_UNIT: u64 = 10_000;
    let parts = (distance * PER_UNIT as f64).round_ties_even() as u64;
    let text = format!("{}.{:04}", parts / PER_UNIT, parts % PER_UNIT);
    out.bulk(text.as_bytes());
}

/// Writes longitude and latitude.
pub(super) fn write_position(out: &mut ReplyBuf, position: Position) {
    out.array(2);
    out.double_as(&Extended::from(position.longitude).to_text());
    out.double_as(&Extended::from(position.latitude).to_text());
}

fn geoadd(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let mut options = zset_add::Options::default();
    loop {
        if args.keyword("NX") {
            options.nx = true;
        } else if args.keyword("XX") {
            options.xx = true;
        } else if args.keyword("CH") {
            options.ch = true;
        } else {
            break;
        }
    }
    if !args.len().is_multiple_of(3) || (options.nx && options.xx) {
        return Err(CmdError::Syntax);
    }
    let mut pairs: SmallVec<[(f64, &[u8]); 8]> = SmallVec::new();
    while !args.is_empty() {
        let hash = position(&mut args)?.hash();
        pairs.push((hash as f64, args.next()?));
    }
    if pairs.is_empty() {
        return Err(CmdError::Syntax);
    }
    zset_add::add_pairs(cx, key, &options, &pairs)
}

fn geodist(cx: &mut Cx<'_>, mut args: Args<'_>) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let (from, to) = (args.next()?, args.next()?);
    let unit = match args.len() {
        0 => 1.0,
        1 => unit_m(&mut args)?,
        _ => return Err(CmdError::Syntax),
    };
    let Some(seen) = cx.read_as::<SortedSet>(key)? else {
        return Ok(Reply::Null);
    };
    let (Some(from), Some(to)) = (seen.value.score(from), seen.value.score(to)) else {
        return Ok(Reply::Null);
    };
    let distance = Position::of_score(from).distance_m(Position::of_score(to));
    write_distance(seen.out, distance / unit);
    Ok(Reply::Written)
}

fn geopos(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    each_position(cx, args, |out, position| match position {
        Some(position) => write_position(out, position),
        None => out.null_array(),
    })
}

fn geohash(cx: &mut Cx<'_>, args: Args<'_>) -> Result<Reply, CmdError> {
    each_position(cx, args, |out, position| match position {
        Some(position) => out.bulk(&position.geohash()),
        None => out.null(),
    })
}

/// Replies with what `write` writes for each member's position, `None` where it has none.
fn each_position(
    cx: &mut Cx<'_>,
    mut args: Args<'_>,
    write: fn(&mut ReplyBuf, Option<Position>),
) -> Result<Reply, CmdError> {
    let key = args.key()?;
    let members = args.rest();
    let Some(seen) = cx.read_as::<SortedSet>(key)? else {
        cx.out.array(members.len());
        members.iter().for_each(|_| write(cx.out, None));
        return Ok(Reply::Written);
    };
    seen.out.array(members.len());
    for member in members {
        let score = seen.value.score(member);
        write(seen.out, score.map(Position::of_score));
    }
    Ok(Reply::Written)
}
