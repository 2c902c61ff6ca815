use super::*;

/// Integers at both sides of every width.
fn ints() -> Vec<i64> {
    let mut ints = vec![0, i64::MIN, i64::MAX];
    for bits in [6, 7, 12, 13, 15, 16, 23, 24, 31, 32, 62] {
        for near in -2..=2 {
            ints.extend([(1_i64 << bits) + near, -(1_i64 << bits) + near]);
        }
    }
    ints
}

#[test]
fn elements_come_back_in_both_directions() {
    let mut list = Listpack::new();
    let mut texts: Vec<Vec<u8>> = ints()
        .iter()
        .map(|int| int.to_string().into_bytes())
        .collect();
    for len in [
        0, 1, 63, 64, 121, 122, 127, 128, 4095, 4096, 16_370, 16_378, 16_390, 70_000,
    ] {
        texts.push(vec![b'x'; len]);
    }
    texts.push(b"007".to_vec());
    texts.push(b"-0".to_vec());
    texts.iter().for_each(|text| list.push(text));
    assert_eq!(list.len(), texts.len());
    assert_eq!(list.iter().map(Element::to_vec).collect::<Vec<_>>(), texts);
    let mut back = Vec::new();
    let mut at = list.end();
    while let Some(before) = list.back(at) {
        back.push(list.get(before).expect("an element").0.to_vec());
        at = before;
    }
    back.reverse();
    assert_eq!(back, texts);
    let again = Listpack::from_bytes(list.as_bytes().to_vec());
    assert_eq!(again.as_ref(), Some(&list));
}

#[test]
fn integers_are_replaced_in_place() {
    for from in ints() {
        for to in ints() {
            let mut list = Listpack::new();
            list.push(b"before");
            let at = list.end();
            list.push_int(from);
            list.push(b"after");
            list.replace_int(at, to);
            let texts: Vec<_> = list.iter().map(Element::to_vec).collect();
            let digits = to.to_string().into_bytes();
            assert_eq!(texts, [b"before".to_vec(), digits, b"after".to_vec()]);
            assert!(Listpack::from_bytes(list.as_bytes().to_vec()).is_some());
        }
    }
}

#[test]
fn more_elements_than_the_header_counts() {
    let mut list = Listpack::new();
    for int in 0..70_000 {
        list.push_int(int);
    }
    assert_eq!(list.len(), 70_000);
    assert!(Listpack::from_bytes(list.as_bytes().to_vec()).is_some());
}

#[test]
fn damage_is_refused() {
    let mut list = Listpack::new();
    list.push(b"text");
    list.push_int(1234);
    list.push(&[b'y'; 300]);
    let whole = list.as_bytes();
    for len in 0..whole.len() {
        assert!(Listpack::from_bytes(whole[..len].to_vec()).is_none());
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7F, 0x80, 0xC5, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF] {
            let mut bytes = whole.to_vec();
            bytes[at] = value;
            if let Some(list) = Listpack::from_bytes(bytes) {
                let (forth, mut back) = (list.iter().count(), 0);
                let mut at = list.end();
                while let Some(before) = list.back(at) {
                    back += 1;
                    at = before;
                }
                assert_eq!(forth, back);
            }
        }
    }
}
