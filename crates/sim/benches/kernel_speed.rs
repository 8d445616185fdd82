//! How fast the kernel is, against the same simulation written by hand as a state machine: `cargo bench --bench kernel_speed`.
//!
//! The cycle: each process thinks for a random time, then is served for another, and so on, with nothing in between, so
//! that all the work is the event list's and the executor's. Contestants run in turn within one process, round by round,
//! and each round gives one ratio; the medians of the rounds are printed, so a noisy neighbour disturbs both sides alike.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use storagelab_sim::kernel::{Action, EventList, Executor, Kernel, Ns, Port};

const EVENTS: u64 = 200_000;
const ROUNDS: usize = 61;

/// A cheap stream of random lengths of time (xorshift64), so that drawing them does not hide the cost of the kernel.
#[derive(Clone)]
struct Lengths(u64);

impl Lengths {
    fn of(process: u32) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (u64::from(process) + 1).wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    #[inline]
    fn next(&mut self, mask_ns: Ns) -> Ns {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1 + (self.0 & mask_ns)
    }
}

const THINK_MASK_NS: Ns = 0xf_ffff;
const SERVICE_MASK_NS: Ns = 0xffff;

/// What a contestant did: how many events in what simulated time. All must agree.
type Outcome = (u64, Ns);

/// Processes as futures on the executor.
fn futures(processes: u32, jumps: bool) -> Outcome {
    async fn cycle(kernel: &Kernel, served: &Cell<u64>, mut lengths: Lengths) {
        loop {
            kernel.sleep(lengths.next(THINK_MASK_NS)).await;
            served.set(served.get() + 1);
            kernel.sleep(lengths.next(SERVICE_MASK_NS)).await;
            served.set(served.get() + 1);
            if served.get() >= EVENTS {
                kernel.stop();
            }
        }
    }

    let kernel = Kernel::new();
    kernel.set_jumps(jumps);
    let served = Cell::new(0);
    let mut executor = Executor::new(&kernel);
    for process in 0..processes {
        executor.spawn(cycle(&kernel, &served, Lengths::of(process)));
    }
    executor.run();
    (served.get(), kernel.now())
}

#[derive(Clone, Copy)]
enum State {
    Thinking,
    Served,
}

/// The events to come, as a state machine needs them.
trait Events: Default {
    fn put(&mut self, time_ns: Ns, process: u32);
    fn take(&mut self) -> Option<(Ns, u32)>;
}

/// A process as a state, advanced by one `match`.
fn state_machine<E: Events>(processes: u32) -> Outcome {
    let mut events = E::default();
    let mut machines: Vec<(State, Lengths)> = Vec::new();
    for process in 0..processes {
        let mut lengths = Lengths::of(process);
        events.put(lengths.next(THINK_MASK_NS), process);
        machines.push((State::Thinking, lengths));
    }
    let mut served = 0;
    while let Some((now_ns, process)) = events.take() {
        let (state, lengths) = &mut machines[process as usize];
        served += 1;
        let length_ns = match state {
            State::Thinking => {
                *state = State::Served;
                lengths.next(SERVICE_MASK_NS)
            }
            State::Served => {
                *state = State::Thinking;
                if served >= EVENTS {
                    return (served, now_ns);
                }
                lengths.next(THINK_MASK_NS)
            }
        };
        events.put(now_ns + length_ns, process);
    }
    (served, 0)
}

const MACHINE: Port = Port::new(5);

/// The kernel's own event list, without the executor: what is left is the price of futures.
#[derive(Default)]
struct OwnList(EventList);

impl Events for OwnList {
    #[inline]
    fn put(&mut self, time_ns: Ns, process: u32) {
        self.0.push(time_ns, Action::call(MACHINE, process));
    }

    #[inline]
    fn take(&mut self) -> Option<(Ns, u32)> {
        self.0.pop_until(Ns::MAX).map(|(time_ns, action)| (time_ns, action.token()))
    }
}

/// The standard library's heap, as one would take it without further thought.
#[derive(Default)]
struct StandardHeap {
    heap: BinaryHeap<Reverse<(Ns, u64, u32)>>,
    sequence: u64,
}

impl Events for StandardHeap {
    #[inline]
    fn put(&mut self, time_ns: Ns, process: u32) {
        self.heap.push(Reverse((time_ns, self.sequence, process)));
        self.sequence += 1;
    }

    #[inline]
    fn take(&mut self) -> Option<(Ns, u32)> {
        self.heap.pop().map(|Reverse((time_ns, _, process))| (time_ns, process))
    }
}

/// Millions of events a second, and the outcome.
fn timed(contestant: impl FnOnce() -> Outcome) -> (f64, Outcome) {
    let start = Instant::now();
    let outcome = contestant();
    #[expect(clippy::cast_precision_loss, reason = "a few million")]
    let millions = outcome.0 as f64 / 1e6;
    (millions / start.elapsed().as_secs_f64(), outcome)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    println!("timer events a second, in millions: medians of {ROUNDS} rounds of {EVENTS} events");
    println!("processes  kernel  by hand, same list  by hand, std heap  kernel/same  kernel/std  kernel with jumps");
    for processes in [16, 64, 256, 1024, 4096] {
        let mut speeds: [Vec<f64>; 6] = Default::default();
        for _ in 0..ROUNDS {
            let (kernel, expected) = timed(|| futures(processes, false));
            let (own, outcome_own) = timed(|| state_machine::<OwnList>(processes));
            let (standard, outcome_standard) = timed(|| state_machine::<StandardHeap>(processes));
            let (jumping, outcome_jumping) = timed(|| futures(processes, true));
            assert_eq!([outcome_own, outcome_standard, outcome_jumping], [expected; 3]);
            let round = [kernel, own, standard, kernel / own, kernel / standard, jumping];
            for (all, one) in speeds.iter_mut().zip(round) {
                all.push(one);
            }
        }
        let [kernel, own, standard, to_own, to_standard, jumping] = speeds.map(median);
        println!(
            "{processes:9}  {kernel:6.1}  {own:18.1}  {standard:17.1}  {to_own:11.2}  {to_standard:10.2}  {jumping:17.1}"
        );
    }
}
