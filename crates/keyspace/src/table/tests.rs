use super::*;

/// Records of a table in these tests.
const COUNT: u32 = if cfg!(miri) { 400 } else { 2000 };

/// Keys that are too long for a record, so that the hash given here is the one that is kept.
fn name(id: u32) -> Vec<u8> {
    format!("a key of more than sixteen bytes: {id}").into_bytes()
}

fn insert(table: &mut Table, seed: &Seed, key: &Key<'_>, id: u32) {
    assert!(table.find(key).is_none());
    table.insert(seed, key, Value::Int(id.into()), None, 0);
    assert!(table.find(key).is_some());
}

/// A thousand keys of one hash among others: correct, in bounded memory, and gone without a trace.
#[test]
fn equal_hashes_are_spilled() {
    let seed = Seed::new(1);
    let mut table = Table::new();
    let names: Vec<_> = (0..COUNT).map(name).collect();
    let keys: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(id, name)| {
            let mut key = seed.key(name);
            if id % 2 == 0 {
                key.hash = 0x1234_5678_9abc_def0;
            }
            key
        })
        .collect();
    for (id, key) in (0..).zip(&keys) {
        insert(&mut table, &seed, key, id);
    }
    assert_eq!(
        (table.len(), table.spilled().len()),
        (COUNT as usize, COUNT as usize / 2 / CAPACITY)
    );
    assert!(table.directory.len() <= 64 * table.heads.len() as usize);
    for (id, key) in keys.iter().enumerate().rev() {
        let found = table.find(key).expect("present");
        assert_eq!(table.remove(&seed, found).0, Value::Int(id as i64));
        assert!(table.find(key).is_none());
    }
    assert_eq!((table.len(), table.memory()), (0, 0));
}

#[test]
fn the_directory_shrinks_with_the_table() {
    let seed = Seed::new(2);
    let mut table = Table::new();
    let names: Vec<_> = (0..2 * COUNT).map(name).collect();
    for (id, name) in (0..).zip(&names) {
        insert(&mut table, &seed, &seed.key(name), id);
    }
    let full = (table.directory.len(), table.heads.len());
    for name in &names[10..] {
        let found = table.find(&seed.key(name)).expect("present");
        table.remove(&seed, found);
    }
    assert!(
        names[..10]
            .iter()
            .all(|name| table.find(&seed.key(name)).is_some())
    );
    assert!(
        table.heads.len() <= 4 && table.directory.len() <= 64,
        "{full:?} {:?}",
        table.directory.len()
    );
}
