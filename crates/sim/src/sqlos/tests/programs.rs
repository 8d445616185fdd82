//! Sessions that do anything in any order, on machines of any kind, and the rules that always hold.

use std::cell::RefCell;

use proptest::prelude::*;

use crate::kernel::{Action, Ns, Port, SEC};
use crate::rng::Rng;
use crate::sqlos::{Books, Config, LatchClass, Machine, Mode, Notice, Progress, Resource, Semaphore, Sqlos, WaitType};

const IO_RELEASE: Port = Port::new(6);

#[derive(Clone, Debug)]
enum Step {
    Cpu(Ns),
    CpuUnbroken(Ns),
    Sleep(Ns),
    /// An I/O of this session.
    Io(Ns),
    /// A page that an I/O holds for some time before the session gets it.
    ReadPage(u64, Ns),
    /// Two latches, in the order of their keys, so that sessions never wait in a circle.
    Latches {
        keys: [u64; 2],
        modes: [Mode; 2],
        hold_ns: Ns,
        asleep: bool,
    },
    Permit(Ns),
}

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select([Mode::Sh, Mode::Up, Mode::Ex].as_slice())
}

fn step() -> impl Strategy<Value = Step> {
    let length_ns = 0_u64..300;
    prop_oneof![
        length_ns.clone().prop_map(Step::Cpu),
        length_ns.clone().prop_map(Step::CpuUnbroken),
        length_ns.clone().prop_map(Step::Sleep),
        length_ns.clone().prop_map(Step::Io),
        (0_u64..4, length_ns.clone()).prop_map(|(key, length_ns)| Step::ReadPage(key, length_ns)),
        (0_u64..4, 1_u64..4, mode(), mode(), length_ns.clone(), any::<bool>()).prop_map(
            |(key, above, first, second, hold_ns, asleep)| Step::Latches {
                keys: [key, key + above],
                modes: [first, second],
                hold_ns,
                asleep,
            }
        ),
        length_ns.prop_map(Step::Permit),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let notice = prop::sample::select(vec![Notice::AtOnce, Notice::AtSwitch]);
    (1_u32..5, 1_u64..200, notice, 0_u64..20).prop_map(|(schedulers, quantum_ns, notice, wake_ns)| Config {
        schedulers,
        quantum_ns,
        notice,
        wake_ns,
    })
}

fn programs() -> impl Strategy<Value = Vec<Vec<Step>>> {
    prop::collection::vec(prop::collection::vec(step(), 0..12), 1..10)
}

/// Records from outside who requested which latch in which order, and who holds it.
#[derive(Default)]
struct Watch {
    asked: RefCell<Vec<Request>>,
}

#[derive(Clone, Copy)]
struct Request {
    session: usize,
    key: u64,
    mode: Mode,
    has_it: bool,
}

impl Watch {
    fn asks(&self, session: usize, key: u64, mode: Mode) {
        self.asked.borrow_mut().push(Request {
            session,
            key,
            mode,
            has_it: false,
        });
    }

    /// Checks that grants are compatible, and that no session that still waits requested the same latch earlier.
    fn gets(&self, os: &Sqlos, session: usize, key: u64) {
        let mut asked = self.asked.borrow_mut();
        let waiting = os.waiting_tasks();
        let mine = asked
            .iter()
            .position(|request| (request.session, request.key) == (session, key));
        let mine = mine.expect("who gets a latch has asked for it");
        let mode = asked[mine].mode;
        for (place, other) in asked
            .iter()
            .enumerate()
            .filter(|&(place, other)| place != mine && other.key == key)
        {
            assert!(
                !other.has_it
                    || matches!(
                        (other.mode, mode),
                        (Mode::Sh, Mode::Sh | Mode::Up) | (Mode::Up, Mode::Sh)
                    ),
                "sessions {session} and {} hold latch {key}",
                other.session
            );
            let waits = |task: &crate::sqlos::WaitingTask| {
                task.worker.index() == other.session && task.resource == Resource::Latch(key)
            };
            assert!(
                place > mine || !waiting.iter().any(waits),
                "session {session} overtook {}",
                other.session
            );
        }
        asked[mine].has_it = true;
    }

    fn gives(&self, session: usize, key: u64) {
        let mut asked = self.asked.borrow_mut();
        asked.retain(|request| (request.session, request.key) != (session, key));
    }
}

/// What one session uses.
struct Session<'w> {
    os: &'w Sqlos,
    permits: &'w Semaphore<'w>,
    watch: &'w Watch,
    number: usize,
}

impl Session<'_> {
    async fn run(self, program: &[Step]) {
        for step in program {
            self.step(step).await;
        }
    }

    async fn step(&self, step: &Step) {
        let os = self.os;
        match *step {
            Step::Cpu(length_ns) => os.cpu(length_ns).await,
            Step::CpuUnbroken(length_ns) => os.cpu_unbroken(length_ns).await,
            Step::Sleep(length_ns) => os.sleep(length_ns, WaitType::AsyncIoCompletion).await,
            Step::Io(length_ns) => os.until(os.now() + length_ns, WaitType::WriteCompletion).await,
            Step::ReadPage(key, length_ns) => {
                let page = os.latch(key, LatchClass::PageIo);
                if let Some(hold) = page.try_acquire(Mode::Ex) {
                    let _ = hold.hand_over();
                    let token = u32::try_from(key).expect("keys are small");
                    os.kernel().at(os.now() + length_ns, Action::call(IO_RELEASE, token));
                }
                self.under_latch(key, Mode::Sh, async {}).await;
            }
            Step::Latches {
                keys: [first, second],
                modes: [first_mode, second_mode],
                hold_ns,
                asleep,
            } => {
                let inner = self.under_latch(second, second_mode, async {
                    if asleep {
                        os.sleep(hold_ns, WaitType::WriteLog).await;
                    } else {
                        os.cpu(hold_ns).await;
                    }
                });
                self.under_latch(first, first_mode, inner).await;
            }
            Step::Permit(length_ns) => {
                self.permits.take(WaitType::SleepBpoolFlush).await;
                os.sleep(length_ns, WaitType::WriteCompletion).await;
                self.permits.give();
            }
        }
    }

    async fn under_latch(&self, key: u64, mode: Mode, inner: impl Future<Output = ()>) {
        self.watch.asks(self.number, key, mode);
        let hold = self.os.latch(key, LatchClass::Page).acquire(mode).await;
        self.watch.gets(self.os, self.number, key);
        inner.await;
        self.watch.gives(self.number, key);
        hold.release();
    }
}

/// Runs the programs in slices of `slice_ns`, and checks what can be seen at the end.
fn outcome(config: &Config, programs: &[Vec<Step>], jumps: bool, slice_ns: Ns) -> (u64, Books) {
    let os = Sqlos::new(config.clone());
    os.kernel().set_jumps(jumps);
    let permits = os.semaphore(2, 0);
    let watch = Watch::default();
    let mut machine = Machine::new(&os);
    machine.on(IO_RELEASE, |key| {
        os.latch(u64::from(key), LatchClass::PageIo).release(Mode::Ex);
    });
    for (number, program) in programs.iter().enumerate() {
        let session = Session {
            os: &os,
            permits: &permits,
            watch: &watch,
            number,
        };
        machine.spawn_session(session.run(program));
    }
    loop {
        match machine.run_until(os.now() + slice_ns) {
            Ok(Progress::Finished) => break,
            Ok(Progress::LimitReached) => {}
            Err(stuck) => panic!("{stuck}"),
        }
    }
    let books = os.books();
    assert_eq!(books.sessions.total_ns(), programs.len() as u64 * books.elapsed_ns);
    assert!(
        os.waiting_tasks().is_empty() && os.runnable() == 0,
        "somebody was left behind"
    );
    // An I/O and its latch may last longer than the session that began them. Nothing else may.
    assert!(os.latches_in_use() <= 4 && permits.free() == 2);
    (os.fingerprint(), books)
}

fn cpu_ns(program: &[Step]) -> Ns {
    let step_ns = |step: &Step| match *step {
        Step::Cpu(length_ns) | Step::CpuUnbroken(length_ns) => length_ns,
        Step::Latches {
            hold_ns, asleep: false, ..
        } => hold_ns,
        _ => 0,
    };
    program.iter().map(step_ns).sum()
}

proptest! {
    /// The accounts assert that no time is lost. The watch asserts the order of grants. The end of the run asserts that
    /// no session still waits. So this test only checks that CPU time is what the programs requested.
    #[test]
    fn whatever_sessions_do_every_nanosecond_is_accounted_for_and_nobody_is_left_behind(
        config in config(),
        programs in programs(),
    ) {
        let (_, books) = outcome(&config, &programs, true, SEC);
        for (worker, program) in books.workers.iter().zip(&programs) {
            prop_assert_eq!(worker.account.cpu_ns, cpu_ns(program));
        }
    }

    #[test]
    fn neither_jumps_nor_cuts_change_anything(config in config(), programs in programs(), slice_ns in 1_u64..500) {
        let plain = outcome(&config, &programs, false, SEC);
        prop_assert_eq!(&outcome(&config, &programs, true, SEC), &plain);
        prop_assert_eq!(&outcome(&config, &programs, true, slice_ns), &plain);
    }
}

/// The fingerprint below is in the source code, because debug and release builds must find it in every process. If it
/// changes, every simulated result has changed. Increase the version then.
#[test]
fn a_run_is_the_same_in_every_build_and_every_process() {
    let mut rng = Rng::stream(1, "programs");
    let programs: Vec<Vec<Step>> = (0..16)
        .map(|_| {
            let step = |_| match rng.below(4) {
                0 => Step::Cpu(rng.below(9000)),
                1 => Step::ReadPage(rng.below(4), rng.below(900)),
                2 => Step::Permit(rng.below(900)),
                _ => Step::Latches {
                    keys: [0, 1 + rng.below(3)],
                    modes: [Mode::Up, Mode::Sh],
                    hold_ns: rng.below(500),
                    asleep: rng.below(8) == 0,
                },
            };
            (0..200).map(step).collect()
        })
        .collect();
    let config = Config {
        quantum_ns: 4000,
        ..Config::new(4)
    };
    let (fingerprint, books) = outcome(&config, &programs, true, SEC);
    assert_eq!((fingerprint, books.elapsed_ns), (5_634_855_117_941_077_434, 1_454_457));
}
