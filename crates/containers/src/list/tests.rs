use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    PushFront(Vec<u8>),
    PushBack(Vec<u8>),
    PopFront,
    PopBack,
    Set(prop::sample::Index, Vec<u8>),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    RemoveEqual(prop::sample::Index, usize, bool),
}

/// Mostly short, some long enough for every form of the length.
fn element() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![
        10 => 0usize..12,
        3 => 120usize..140,
        1 => 1000usize..1100,
        1 => 16_380usize..16_390,
    ];
    (b'a'..b'd', len).prop_map(|(byte, len)| vec![byte; len])
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => element().prop_map(Step::PushFront),
        4 => element().prop_map(Step::PushBack),
        1 => Just(Step::PopFront),
        1 => Just(Step::PopBack),
        1 => (any::<prop::sample::Index>(), element()).prop_map(|(at, e)| Step::Set(at, e)),
        2 => (any::<prop::sample::Index>(), element()).prop_map(|(at, e)| Step::Insert(at, e)),
        1 => (any::<prop::sample::Index>(), 0usize..9).prop_map(|(at, n)| Step::Remove(at, n)),
        1 => (any::<prop::sample::Index>(), 0usize..5, any::<bool>())
            .prop_map(|(at, n, back)| Step::RemoveEqual(at, n, back)),
    ]
}

/// The same on a plain deque.
fn run_model(model: &mut VecDeque<Vec<u8>>, step: &Step) -> usize {
    match step {
        Step::PushFront(element) => model.push_front(element.clone()),
        Step::PushBack(element) => model.push_back(element.clone()),
        Step::PopFront => drop(model.pop_front()),
        Step::PopBack => drop(model.pop_back()),
        Step::Set(at, element) => {
            let at = at.index(model.len());
            model[at].clone_from(element);
        }
        Step::Insert(at, element) => model.insert(at.index(model.len() + 1), element.clone()),
        Step::Remove(at, count) => {
            let at = at.index(model.len());
            model.drain(at..(at + count).min(model.len()));
        }
        Step::RemoveEqual(at, most, back) => {
            let wanted = model[at.index(model.len())].clone();
            let mut places: Vec<usize> = (0..model.len()).filter(|&i| model[i] == wanted).collect();
            if *back {
                places.reverse();
            }
            places.truncate(*most);
            places.sort_unstable();
            places.iter().rev().for_each(|&at| drop(model.remove(at)));
            return places.len();
        }
    }
    0
}

fn run(list: &mut List, step: &Step, limit: NodeLimit) -> usize {
    match step {
        Step::PushFront(element) => list.push_front(element, limit),
        Step::PushBack(element) => list.push_back(element, limit),
        Step::PopFront => list.drop_first(),
        Step::PopBack => list.drop_last(),
        Step::Set(at, element) => list.set(at.index(list.len()), element, limit),
        Step::Insert(at, element) => list.insert(at.index(list.len() + 1), element, limit),
        Step::Remove(at, count) => list.remove(at.index(list.len()), *count),
        Step::RemoveEqual(at, most, back) => {
            let wanted = list.get(at.index(list.len())).map(<[u8]>::to_vec);
            let wanted = wanted.unwrap_or_default();
            return match back {
                false => list.remove_first_equal(&wanted, *most),
                true => list.remove_last_equal(&wanted, *most),
            };
        }
    }
    0
}

/// What must hold between changes.
fn check_shape(list: &List) {
    let chunks: Vec<&Chunk> = (0..).map_while(|at| list.chunks.get(at)).collect();
    let count: usize = chunks.iter().map(|chunk| chunk.count()).sum();
    let bytes: usize = chunks.iter().map(|chunk| chunk.capacity()).sum();
    assert_eq!((list.len, list.chunk_bytes), (count, bytes));
    assert!(chunks.len() == 1 || chunks.iter().all(|chunk| chunk.count() > 0));
}

proptest! {
    #[test]
    fn a_list_is_a_deque(
        steps in prop::collection::vec(step(), 1..200),
        setting in prop_oneof![Just(-2i64), Just(-1), Just(1), Just(3), Just(0)],
    ) {
        let limit = NodeLimit::from_setting(setting);
        let (mut list, mut model) = (List::new(), VecDeque::new());
        for step in steps {
            let needs_element = matches!(
                step,
                Step::Set(..) | Step::Remove(..) | Step::RemoveEqual(..)
            );
            if needs_element && model.is_empty() {
                continue;
            }
            prop_assert_eq!(run(&mut list, &step, limit), run_model(&mut model, &step));
            check_shape(&list);
            prop_assert!(list.iter().eq(model.iter().map(|e| &e[..])), "{:?}", step);
            prop_assert!(list.iter_back().eq(model.iter().rev().map(|e| &e[..])));
        }
        for index in 0..model.len() + 1 {
            prop_assert_eq!(list.get(index), model.get(index).map(|e| &e[..]));
            prop_assert!(list.iter_from(index).eq(model.iter().skip(index).map(|e| &e[..])));
            let back = model.iter().take(index + 1).rev().map(|e| &e[..]);
            if index < model.len() {
                prop_assert!(list.iter_back_from(index).eq(back));
            }
        }
        let copy = list.clone();
        prop_assert_eq!(&copy, &list);
    }
}

#[test]
fn equal_by_content_however_it_was_built() {
    let (mut a, mut b) = (List::new(), List::new());
    for n in 0..1000u32 {
        a.push_back(&n.to_be_bytes(), NodeLimit::default());
        b.push_front(&(999 - n).to_be_bytes(), NodeLimit::from_setting(7));
    }
    assert_eq!(a, b);
    b.drop_last();
    assert_ne!(a, b);
}

#[test]
fn memory_is_near_the_content_and_comes_back() {
    let mut list = List::new();
    assert_eq!(list.heap_bytes(), 0);
    list.push_back(b"one", NodeLimit::default());
    assert!(list.heap_bytes() <= 32);
    for n in 0..100_000u32 {
        list.push_back(&n.to_be_bytes(), NodeLimit::default());
        list.push_front(&n.to_be_bytes(), NodeLimit::default());
    }
    // Four bytes and two beside them.
    assert!(list.heap_bytes() < 200_000 * 8, "{}", list.heap_bytes());
    while list.len() > 3 {
        list.drop_first();
        list.drop_last();
    }
    assert!(list.heap_bytes() < 1024, "{}", list.heap_bytes());
}

#[test]
fn a_queue_keeps_its_memory() {
    let mut list = List::new();
    for n in 0..50u32 {
        list.push_back(&n.to_be_bytes(), NodeLimit::default());
    }
    let before = list.heap_bytes();
    for n in 0..10_000u32 {
        list.push_back(&n.to_be_bytes(), NodeLimit::default());
        list.drop_first();
    }
    assert!(list.heap_bytes() <= 2 * before);
}
