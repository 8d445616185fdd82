//! Tests of the clock, the event list and the executor.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

use proptest::prelude::*;

use super::{Action, EventList, Executor, Halt, Kernel, MS, Ns, Port, SEC, TIME_LIMIT_NS, US};
use crate::rng::Rng;

const BELL: Port = Port::new(5);

/// Adds a process that begins when the simulation runs.
fn start<'w>(kernel: &Kernel, executor: &mut Executor<'w>, process: impl Future<Output = ()> + 'w) {
    kernel.resume(executor.spawn(process));
}

/// Suspends the running process for `length_ns`.
async fn sleep(kernel: &Kernel, length_ns: Ns) {
    let mut scheduled = false;
    poll_fn(|_| {
        if scheduled || kernel.try_advance(length_ns) {
            return Poll::Ready(());
        }
        scheduled = true;
        kernel.resume_at(kernel.now() + length_ns, kernel.current());
        Poll::Pending
    })
    .await;
}

fn bell(token: u32) -> Action {
    Action::call(BELL, token)
}

/// Returns all events of the list, in order.
fn drain(list: &mut EventList) -> Vec<(Ns, u32)> {
    std::iter::from_fn(|| list.pop_until(Ns::MAX))
        .map(|(time_ns, action)| (time_ns, action.token()))
        .collect()
}

#[test]
fn events_come_in_the_order_of_their_times() {
    let mut list = EventList::new();
    for (time_ns, token) in [(30, 3), (10, 1), (50, 5), (20, 2), (40, 4)] {
        list.push(time_ns, bell(token));
    }
    assert_eq!(drain(&mut list), [(10, 1), (20, 2), (30, 3), (40, 4), (50, 5)]);
}

#[test]
fn events_of_one_time_come_in_the_order_of_their_scheduling() {
    let mut list = EventList::new();
    for token in 0..9 {
        list.push(7, bell(token));
    }
    assert_eq!(drain(&mut list), (0..9).map(|token| (7, token)).collect::<Vec<_>>());
}

#[test]
fn an_event_after_the_limit_stays_in_the_list() {
    let mut list = EventList::new();
    list.push(10, bell(1));
    assert_eq!(list.pop_until(9), None);
    assert_eq!(list.pop_until(10), Some((10, bell(1))));
    assert_eq!((list.len(), list.next_time_ns(), list.taken()), (0, Ns::MAX, 1));
}

proptest! {
    /// The reference is a plain vector that is searched completely.
    #[test]
    fn the_event_list_does_what_a_sorted_vector_would(steps in prop::collection::vec(prop::option::of(0_u64..20), 0..200)) {
        let mut list = EventList::new();
        let mut model: Vec<(Ns, u32)> = Vec::new();
        for (token, step) in (0..).zip(steps) {
            if let Some(time_ns) = step {
                list.push(time_ns, bell(token));
                model.push((time_ns, token));
            } else {
                let earliest = model.iter().copied().min();
                model.retain(|&event| Some(event) != earliest);
                let popped = list.pop_until(Ns::MAX).map(|(time_ns, action)| (time_ns, action.token()));
                prop_assert_eq!(popped, earliest);
            }
            prop_assert_eq!(list.len(), model.len());
            prop_assert_eq!(list.next_time_ns(), model.iter().map(|&(time_ns, _)| time_ns).min().unwrap_or(Ns::MAX));
        }
        model.sort_unstable();
        prop_assert_eq!(drain(&mut list), model);
    }
}

proptest! {
    /// Few events are kept in another way than many, so this list grows and shrinks repeatedly.
    #[test]
    fn no_event_is_lost_or_late_while_few_events_become_many_and_few_again(
        tides in prop::collection::vec((0_usize..400, 0_usize..400), 0..12),
        seed in any::<u64>(),
    ) {
        let mut rng = Rng::stream(seed, "tides");
        let mut list = EventList::new();
        let mut model = std::collections::BTreeSet::new();
        let mut tokens = 0..;
        for (pushes, pops) in tides {
            for token in tokens.by_ref().take(pushes) {
                let time_ns = rng.below(50);
                list.push(time_ns, bell(token));
                model.insert((time_ns, token));
            }
            prop_assert_eq!(list.len(), model.len());
            for _ in 0..pops {
                let popped = list.pop_until(Ns::MAX).map(|(time_ns, action)| (time_ns, action.token()));
                prop_assert_eq!(popped, model.pop_first());
                prop_assert_eq!(list.next_time_ns(), model.first().map_or(Ns::MAX, |&(time_ns, _)| time_ns));
            }
        }
        prop_assert_eq!(drain(&mut list), model.into_iter().collect::<Vec<_>>());
    }
}

/// As many events as thousands of connections have, often at equal times. The list grows, keeps its length, and
/// empties.
#[test]
fn a_list_of_thousands_of_events_does_so_too() {
    for (seed, span_ns) in [(1, 50), (2, 5_000), (3, 1 << 40)] {
        let mut rng = Rng::stream(seed, "a long list");
        let mut list = EventList::new();
        let mut model = std::collections::BTreeSet::new();
        let mut now_ns = 0;
        for token in 0..30_000 {
            let pops = match token {
                0..3_000 => 0,
                3_000..20_000 => 1,
                _ => rng.below(3),
            };
            for _ in 0..pops {
                let earliest = model.pop_first();
                let popped = list
                    .pop_until(Ns::MAX)
                    .map(|(time_ns, action)| (time_ns, action.token()));
                assert_eq!(popped, earliest);
                now_ns = earliest.map_or(now_ns, |(time_ns, _)| time_ns);
            }
            let time_ns = now_ns + rng.below(span_ns);
            list.push(time_ns, bell(token));
            model.insert((time_ns, token));
            assert_eq!(
                list.next_time_ns(),
                model.first().map_or(Ns::MAX, |&(time_ns, _)| time_ns)
            );
            assert_eq!(list.len(), model.len());
        }
        assert_eq!(drain(&mut list), model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_sleeping_process_goes_on_at_its_time() {
    let kernel = Kernel::new();
    let log = RefCell::new(Vec::new());
    let mut executor = Executor::new(&kernel);
    for (name, length_ns) in [("long", 2 * US), ("short", US)] {
        let (kernel, log) = (&kernel, &log);
        start(kernel, &mut executor, async move {
            for _ in 0..2 {
                sleep(kernel, length_ns).await;
                log.borrow_mut().push((kernel.now(), name));
            }
        });
    }
    assert_eq!(executor.run_until(TIME_LIMIT_NS - 1), Halt::NothingLeft);
    // At 2 us the long sleep comes first, because it was scheduled first.
    let expected = [(US, "short"), (2 * US, "long"), (2 * US, "short"), (4 * US, "long")];
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn a_port_is_called_at_its_time_with_its_token() {
    let kernel = Kernel::new();
    let rung = RefCell::new(Vec::new());
    let mut executor = Executor::new(&kernel);
    executor.on(BELL, |token| {
        rung.borrow_mut().push((kernel.now(), token));
        if token < 3 {
            kernel.at(kernel.now() + MS, bell(token + 1));
        }
    });
    kernel.at(0, bell(1));
    kernel.soon(bell(3));
    executor.run_until(TIME_LIMIT_NS - 1);
    assert_eq!(*rung.borrow(), [(0, 3), (0, 1), (MS, 2), (2 * MS, 3)]);
}

#[test]
fn a_run_stops_at_its_limit_and_goes_on_from_there() {
    let kernel = Kernel::new();
    let mut executor = Executor::new(&kernel);
    start(&kernel, &mut executor, async { sleep(&kernel, 10).await });
    assert_eq!((executor.run_until(9), kernel.now()), (Halt::LimitReached, 9));
    assert_eq!((executor.run_until(10), kernel.now()), (Halt::NothingLeft, 10));
}

#[test]
fn a_run_can_be_stopped_from_within() {
    let kernel = Kernel::new();
    let mut executor = Executor::new(&kernel);
    start(&kernel, &mut executor, async {
        sleep(&kernel, 5).await;
        kernel.stop();
        sleep(&kernel, 5).await;
    });
    start(&kernel, &mut executor, async { sleep(&kernel, 6).await });
    assert_eq!(
        (executor.run_until(TIME_LIMIT_NS - 1), kernel.now()),
        (Halt::Stopped, 5)
    );
    assert_eq!(
        (executor.run_until(TIME_LIMIT_NS - 1), kernel.now()),
        (Halt::NothingLeft, 10)
    );
}

#[test]
fn a_process_alone_in_the_world_jumps_and_needs_no_events() {
    let kernel = Kernel::new();
    let mut executor = Executor::new(&kernel);
    start(&kernel, &mut executor, async {
        for _ in 0..1000 {
            sleep(&kernel, SEC).await;
        }
    });
    executor.run_until(TIME_LIMIT_NS - 1);
    assert_eq!((kernel.now(), kernel.steps()), (1000 * SEC, 1000));
}

#[test]
#[should_panic(expected = "is past")]
fn an_event_in_the_past_is_refused() {
    let kernel = Kernel::new();
    let mut executor = Executor::new(&kernel);
    start(&kernel, &mut executor, async {
        sleep(&kernel, 5).await;
        kernel.at(4, bell(0));
    });
    executor.run_until(TIME_LIMIT_NS - 1);
}

#[test]
#[should_panic(expected = "only a process can wait")]
fn a_handler_that_wants_to_wait_is_refused() {
    let kernel = Kernel::new();
    let mut executor = Executor::new(&kernel);
    executor.on(BELL, |_| kernel.resume(kernel.current()));
    kernel.soon(bell(0));
    executor.run_until(TIME_LIMIT_NS - 1);
}

/// Returns what processes did and when. Each sleeps for its given lengths. The run is made in slices of `slice_ns`.
fn diary(lengths_ns: &[Vec<Ns>], jumps: bool, slice_ns: Ns) -> Vec<(Ns, usize)> {
    let kernel = Kernel::new();
    kernel.set_jumps(jumps);
    let diary = RefCell::new(Vec::new());
    let mut executor = Executor::new(&kernel);
    for (process, lengths_ns) in lengths_ns.iter().enumerate() {
        let (kernel, diary) = (&kernel, &diary);
        start(kernel, &mut executor, async move {
            for &length_ns in lengths_ns {
                sleep(kernel, length_ns).await;
                diary.borrow_mut().push((kernel.now(), process));
            }
        });
    }
    while executor.run_until(kernel.now() + slice_ns) != Halt::NothingLeft {}
    drop(executor);
    diary.into_inner()
}

proptest! {
    #[test]
    fn neither_jumps_nor_cuts_change_what_happens(
        lengths_ns in prop::collection::vec(prop::collection::vec(0_u64..9, 0..20), 1..6),
        slice_ns in 1_u64..50,
    ) {
        let plain = diary(&lengths_ns, false, SEC);
        prop_assert_eq!(&diary(&lengths_ns, true, SEC), &plain);
        prop_assert_eq!(&diary(&lengths_ns, true, slice_ns), &plain);
    }
}
