//! Compares the kernel's speed with the same simulation written by hand as a state machine: `cargo bench --features
//! internals --bench kernel_speed`.
//!
//! In the timer cycle, each process sleeps again and again for a random time, so the event list and the executor do all
//! the work. In the cycle of two, long and short sleeps alternate: two waits in a loop for a future, two states for a
//! state machine. All variants run in turn within one process. Each round gives one ratio. The medians over the rounds
//! are printed, so other load on the machine affects all variants alike.
#![expect(clippy::print_stdout, reason = "a bench prints its figures")]

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use storagelab_sim::internals::{
    Action, Config, EventList, Executor, Kernel, LatchClass, Machine, Mode, Ns, Port, Sqlos, WaitType,
};

const EVENTS: u64 = 200_000;
const ROUNDS: usize = 61;

/// Random durations (xorshift64), which are drawn so fast that they hardly add to the kernel's time.
#[derive(Clone)]
struct Lengths(u64);

impl Lengths {
    fn of(process: u64) -> Self {
        Self(0x9e37_79b9_7f4a_7c15 ^ (process + 1).wrapping_mul(0x2545_f491_4f6c_dd1d))
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

/// The number of events and the simulated time of a variant. All variants must agree.
type Outcome = (u64, Ns);

/// A process that sleeps. If nothing else happens meanwhile, it continues at once.
struct Sleep<'k> {
    kernel: &'k Kernel,
    length_ns: Ns,
    scheduled: bool,
}

const fn sleep(kernel: &Kernel, length_ns: Ns) -> Sleep<'_> {
    Sleep {
        kernel,
        length_ns,
        scheduled: false,
    }
}

impl Future for Sleep<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let kernel = self.kernel;
        if self.scheduled || kernel.try_advance(self.length_ns) {
            return Poll::Ready(());
        }
        self.scheduled = true;
        kernel.resume_at(kernel.now() + self.length_ns, kernel.current());
        Poll::Pending
    }
}

/// A time that no run reaches.
const LIMIT_NS: Ns = 1 << 50;

/// Processes as futures on the executor.
fn futures<const STATES: u32>(processes: u32, jumps: bool) -> Outcome {
    async fn cycle<const STATES: u32>(kernel: &Kernel, served: &Cell<u64>, mut lengths: Lengths) {
        loop {
            sleep(kernel, lengths.next(THINK_MASK_NS)).await;
            served.set(served.get() + 1);
            if STATES == 2 {
                sleep(kernel, lengths.next(SERVICE_MASK_NS)).await;
                served.set(served.get() + 1);
            }
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
        kernel.resume(executor.spawn(cycle::<STATES>(&kernel, &served, Lengths::of(process.into()))));
    }
    executor.run_until(LIMIT_NS);
    (served.get(), kernel.now())
}

#[derive(Clone, Copy)]
enum State {
    Thinking,
    Served,
}

/// The future events, as a state machine needs them.
trait Events: Default {
    fn put(&mut self, time_ns: Ns, process: u32);
    fn take(&mut self) -> Option<(Ns, u32)>;
}

/// Runs processes as states that one `match` advances.
fn state_machine<E: Events, const STATES: u32>(processes: u32) -> Outcome {
    let mut events = E::default();
    let mut machines: Vec<(State, Lengths)> = Vec::new();
    for process in 0..processes {
        let mut lengths = Lengths::of(process.into());
        events.put(lengths.next(THINK_MASK_NS), process);
        machines.push((State::Thinking, lengths));
    }
    let mut served = 0;
    while let Some((now_ns, process)) = events.take() {
        let (state, lengths) = &mut machines[process as usize];
        served += 1;
        let length_ns = match state {
            State::Thinking if STATES == 2 => {
                *state = State::Served;
                lengths.next(SERVICE_MASK_NS)
            }
            State::Thinking | State::Served => {
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

/// The kernel's own event list without the executor. The difference is the cost of futures.
#[derive(Default)]
struct OwnList(EventList);

impl Events for OwnList {
    #[inline]
    fn put(&mut self, time_ns: Ns, process: u32) {
        self.0.push(time_ns, Action::call(MACHINE, process));
    }

    #[inline]
    fn take(&mut self) -> Option<(Ns, u32)> {
        self.0
            .pop_until(Ns::MAX)
            .map(|(time_ns, action)| (time_ns, action.token()))
    }
}

/// The heap of the standard library, the obvious choice.
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

/// Returns millions of events per second, and the outcome.
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

/// Runs sessions on cores. Each computes, takes a latch that is usually free, computes and waits for an I/O. Returns
/// how many of these four steps were made.
fn sessions(count: u64, cores: u32) -> Outcome {
    const STEPS_A_ROUND: u64 = 4;
    let os = Sqlos::new(Config::new(cores));
    let mut machine = Machine::new(&os);
    let rounds = EVENTS / STEPS_A_ROUND / count;
    for session in 0..count {
        let os = &os;
        machine.spawn_session(async move {
            let mut lengths = Lengths::of(session);
            for _ in 0..rounds {
                os.cpu(lengths.next(SERVICE_MASK_NS)).await;
                let page = os.latch(lengths.next(0xfff), LatchClass::Page).acquire(Mode::Ex).await;
                os.cpu_unbroken(lengths.next(SERVICE_MASK_NS)).await;
                page.release();
                os.until(os.now() + lengths.next(THINK_MASK_NS), WaitType::PageIoLatchEx)
                    .await;
            }
        });
    }
    machine.run_until(LIMIT_NS).expect("no session is stuck");
    (rounds * count * STEPS_A_ROUND, os.now())
}

/// Prints the medians of one cycle for several numbers of processes.
fn race<const STATES: u32>() {
    println!("processes  kernel  by hand, same list  by hand, std heap  kernel/same  kernel/std  kernel with jumps");
    for processes in [16, 64, 256, 1024, 4096] {
        let mut speeds: [Vec<f64>; 6] = Default::default();
        for _ in 0..ROUNDS {
            let (kernel, expected) = timed(|| futures::<STATES>(processes, false));
            let (own, outcome_own) = timed(|| state_machine::<OwnList, STATES>(processes));
            let (standard, outcome_standard) = timed(|| state_machine::<StandardHeap, STATES>(processes));
            let (jumping, outcome_jumping) = timed(|| futures::<STATES>(processes, true));
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

fn main() {
    println!("millions a second, medians of {ROUNDS} rounds of {EVENTS} events");
    println!("\ntimer events, the timer cycle");
    race::<1>();
    println!("\ntimer events, the cycle of two");
    race::<2>();
    println!("\nsteps of sessions on cores (compute, latch, compute, I/O)");
    for (count, cores) in [(16, 2), (64, 8), (1024, 64)] {
        let rounds = (0..ROUNDS).map(|_| timed(|| sessions(count, cores)).0).collect();
        println!("{count} sessions on {cores} cores: {:.1}", median(rounds));
    }
}
