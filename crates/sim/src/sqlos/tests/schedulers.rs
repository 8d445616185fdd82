use super::{Log, run, small};
use crate::kernel::{Action, MS, Ns, Port, SEC};
use crate::rng::Rng;
use crate::sqlos::waits::WaitSum;
use crate::sqlos::{Config, Machine, Notice, Resource, Role, Sqlos, WaitType};

/// A session that computes once, and notes when this was done.
async fn burst(os: &Sqlos, log: &Log, name: &str, length_ns: Ns) {
    os.cpu(length_ns).await;
    log.note(os, name);
}

#[test]
fn a_worker_that_uses_up_its_quantum_goes_to_the_tail() {
    let (os, log) = (Sqlos::new(small(1)), Log::default());
    let mut machine = Machine::new(&os);
    machine.spawn_session(burst(&os, &log, "a", 250));
    machine.spawn_session(burst(&os, &log, "b", 50));
    machine.spawn_session(burst(&os, &log, "c", 150));
    run(&mut machine);
    // a 0-100, b 100-150, c 150-250, a 250-350, c 350-400, a 400-450
    log.assert(&[(150, "b"), (400, "c"), (450, "a")]);
    let yields = |worker: usize| *os.books().workers[worker].account.of(WaitType::SosSchedulerYield);
    let signal_only = |count, signal_ns| WaitSum {
        count,
        resource_ns: 0,
        signal_ns,
    };
    assert_eq!(
        [yields(0), yields(1), yields(2)],
        [signal_only(2, 150 + 50), signal_only(0, 0), signal_only(1, 100)]
    );
}

#[test]
fn a_worker_alone_on_its_core_yields_at_each_quantum_and_goes_straight_on() {
    let (os, log) = (Sqlos::new(small(1)), Log::default());
    let mut machine = Machine::new(&os);
    machine.spawn_session(burst(&os, &log, "alone", 1000));
    assert_eq!(run(&mut machine), 1000);
    let yields = *os.books().sessions.of(WaitType::SosSchedulerYield);
    // The last quantum ends with the work, so no yield is needed.
    assert_eq!((yields.count, yields.wait_ns()), (9, 0));
}

#[test]
fn a_quantum_starts_afresh_after_each_wait() {
    let os = Sqlos::new(small(1));
    let mut machine = Machine::new(&os);
    machine.spawn_session(async {
        for _ in 0..10 {
            os.cpu(90).await;
            os.sleep(1, WaitType::PageIoLatchEx).await;
        }
    });
    run(&mut machine);
    assert_eq!(os.books().sessions.of(WaitType::SosSchedulerYield).count, 0);
}

#[test]
fn a_quantum_is_used_up_by_many_short_bursts_as_by_a_long_one() {
    let (os, log) = (Sqlos::new(small(1)), Log::default());
    let mut machine = Machine::new(&os);
    machine.spawn_session(async {
        for _ in 0..4 {
            burst(&os, &log, "short", 40).await;
        }
    });
    machine.spawn_session(burst(&os, &log, "other", 10));
    run(&mut machine);
    // The third burst is divided at 100.
    log.assert(&[
        (40, "short"),
        (80, "short"),
        (110, "other"),
        (130, "short"),
        (170, "short"),
    ]);
}

#[test]
fn code_that_offers_no_yield_overruns_its_quantum_and_yields_after_that() {
    let (os, log) = (Sqlos::new(small(1)), Log::default());
    let mut machine = Machine::new(&os);
    machine.spawn_session(async {
        os.cpu_unbroken(230).await;
        log.note(&os, "unbroken");
        burst(&os, &log, "next", 10).await;
    });
    machine.spawn_session(burst(&os, &log, "other", 10));
    run(&mut machine);
    log.assert(&[(230, "unbroken"), (240, "other"), (250, "next")]);
}

#[test]
fn workers_are_dealt_out_to_the_schedulers_in_turn_and_stay_there() {
    let (os, log) = (Sqlos::new(small(2)), Log::default());
    let mut machine = Machine::new(&os);
    for (name, length_ns) in [("a", 100), ("b", 10), ("c", 100), ("d", 10)] {
        machine.spawn_session(burst(&os, &log, name, length_ns));
    }
    run(&mut machine);
    // b and d end early, but their core stays idle. a and c share the other core.
    log.assert(&[(10, "b"), (20, "d"), (100, "a"), (200, "c")]);
}

#[test]
fn a_worker_can_be_put_on_a_given_scheduler() {
    let (os, log) = (Sqlos::new(small(2)), Log::default());
    let mut machine = Machine::new(&os);
    for name in ["a", "b"] {
        machine.spawn_worker(Role::Session, Some(1), burst(&os, &log, name, 10));
    }
    run(&mut machine);
    log.assert(&[(10, "a"), (20, "b")]);
}

#[test]
fn a_wait_is_resource_time_until_the_time_has_come_and_signal_time_until_the_core_is_free() {
    let os = Sqlos::new(small(1));
    let mut machine = Machine::new(&os);
    machine.spawn_session(async {
        os.sleep(30, WaitType::WriteCompletion).await;
    });
    machine.spawn_session(os.cpu(80));
    assert_eq!(machine.run_until(50), Ok(crate::sqlos::Progress::LimitReached));
    assert_eq!(os.runnable(), 1);
    run(&mut machine);
    let expected = WaitSum {
        count: 1,
        resource_ns: 30,
        signal_ns: 50,
    };
    assert_eq!(*os.books().sessions.of(WaitType::WriteCompletion), expected);
}

/// Returns the resource and the signal time of an I/O of 30 ns, while a worker computes for 80 ns on the same core.
fn io_beside_a_burst(notice: Notice) -> (Ns, Ns) {
    let os = Sqlos::new(Config { notice, ..small(1) });
    let mut machine = Machine::new(&os);
    machine.spawn_session(os.until(30, WaitType::PageIoLatchEx));
    machine.spawn_session(os.cpu(80));
    run(&mut machine);
    let wait = *os.books().sessions.of(WaitType::PageIoLatchEx);
    (wait.resource_ns, wait.signal_ns)
}

#[test]
fn a_finished_io_is_noticed_when_a_worker_leaves_the_core() {
    assert_eq!(io_beside_a_burst(Notice::AtOnce), (30, 50));
    assert_eq!(io_beside_a_burst(Notice::AtSwitch), (80, 0));
}

#[test]
fn an_idle_core_notices_a_finished_io_at_once() {
    let os = Sqlos::new(Config {
        notice: Notice::AtSwitch,
        ..small(2)
    });
    let mut machine = Machine::new(&os);
    machine.spawn_session(os.sleep(30, WaitType::AsyncIoCompletion));
    machine.spawn_session(os.cpu(80));
    run(&mut machine);
    let wait = *os.books().sessions.of(WaitType::AsyncIoCompletion);
    assert_eq!((wait.resource_ns, wait.signal_ns), (30, 0));
}

#[test]
fn an_idle_core_takes_its_time_to_wake_up_and_a_busy_one_does_not() {
    let os = Sqlos::new(Config {
        wake_ns: 13,
        ..small(1)
    });
    let log = Log::default();
    let mut machine = Machine::new(&os);
    for (name, sleep_ns) in [("first", 50), ("second", 60), ("third", 70)] {
        let (os, log) = (&os, &log);
        machine.spawn_session(async move {
            os.sleep(sleep_ns, WaitType::AsyncIoCompletion).await;
            os.cpu(20).await;
            log.note(os, name);
        });
    }
    run(&mut machine);
    // All begin to sleep at 13, when the core has woken up for the first time. It wakes up at 63 + 13 for the first
    // worker. The others become runnable while the core wakes up or computes.
    log.assert(&[(96, "first"), (116, "second"), (136, "third")]);
    let wait = *os.books().sessions.of(WaitType::AsyncIoCompletion);
    assert_eq!((wait.resource_ns, wait.signal_ns), (50 + 60 + 70, 13 + 23 + 33));
}

#[test]
fn what_has_arrived_goes_before_the_worker_that_yields() {
    let os = Sqlos::new(Config {
        notice: Notice::AtSwitch,
        ..small(1)
    });
    let log = Log::default();
    let mut machine = Machine::new(&os);
    machine.spawn_session(async {
        os.sleep(30, WaitType::AsyncIoCompletion).await;
        log.note(&os, "sleeper");
    });
    machine.spawn_session(burst(&os, &log, "worker", 150));
    run(&mut machine);
    log.assert(&[(100, "sleeper"), (150, "worker")]);
}

#[test]
fn an_io_that_no_worker_waits_for_calls_its_port_when_the_scheduler_notices_it() {
    const WRITTEN: Port = Port::new(7);
    const DONE: Port = Port::new(8);
    let os = Sqlos::new(Config::new(1));
    let log = Log::default();
    let mut machine = Machine::new(&os);
    machine.on(WRITTEN, |page| log.note(&os, format!("page {page} is written")));
    // The device's own port. The write is done at 1 ms, whatever the cores do at that time.
    machine.on(DONE, |page| os.arrive(0, Action::call(WRITTEN, page)));
    os.kernel().at(MS, Action::call(DONE, 17));
    machine.spawn_session(burst(&os, &log, "burst", 5 * MS));
    run(&mut machine);
    log.assert(&[(4 * MS, "page 17 is written"), (5 * MS, "burst")]);
}

#[test]
fn what_is_known_to_come_to_a_core_is_noticed_at_its_switch_and_by_an_idle_core_in_that_nanosecond() {
    const WRITTEN: Port = Port::new(7);
    let os = Sqlos::new(Config::new(1));
    let log = Log::default();
    let mut machine = Machine::new(&os);
    machine.on(WRITTEN, |page| log.note(&os, format!("page {page}")));
    for (page, done_ns) in [(1, 7 * MS), (2, MS), (3, 6 * MS)] {
        os.arrive_at(done_ns, 0, Action::call(WRITTEN, page));
    }
    machine.spawn_session(async {
        os.cpu(5 * MS).await;
        os.sleep(10 * MS, WaitType::AsyncIoCompletion).await;
    });
    run(&mut machine);
    log.assert(&[(4 * MS, "page 2"), (6 * MS, "page 3"), (7 * MS, "page 1")]);
}

#[test]
fn a_parked_worker_waits_for_what_it_says_until_somebody_calls_it() {
    let os = Sqlos::new(Config::new(2));
    let mut machine = Machine::new(&os);
    let parked = machine.spawn_session(os.park(WaitType::PageIoLatchEx, Resource::Latch(17)));
    let os = &os;
    machine.spawn_session(async move {
        os.cpu(30).await;
        assert_eq!(os.waiting_tasks()[0].resource, Resource::Latch(17));
        os.unpark(parked);
        os.cpu(10).await;
    });
    assert_eq!(run(&mut machine), 40);
    let wait = *os.books().sessions.of(WaitType::PageIoLatchEx);
    assert_eq!((wait.count, wait.resource_ns, wait.signal_ns), (1, 30, 0));
}

/// Eight sessions per core only compute. Each yields at every quantum, and then waits for the quanta of seven others.
#[test]
fn sessions_in_memory_share_a_core_in_turn() {
    let os = Sqlos::new(Config::new(8));
    let mut machine = Machine::new(&os);
    for _ in 0..64 {
        machine.spawn_session(os.cpu(100 * MS));
    }
    assert_eq!(run(&mut machine), 800 * MS);
    let yields = *os.books().sessions.of(WaitType::SosSchedulerYield);
    assert_eq!((yields.count, yields.resource_ns), (64 * 24, 0));
    assert_eq!(yields.signal_ns, 64 * 24 * 7 * 4 * MS);
}

/// N users think for a random time Z and need a core for a random time S. Both are exponential. In theory (closed M/M/1
/// queue), with r = S / Z and p(k) ~ N! / (N - k)! r^k for k users at the core, it is idle for p(0) of the time.
#[test]
#[expect(clippy::cast_precision_loss, reason = "a few seconds")]
fn a_core_shared_by_thinking_users_is_as_busy_as_queueing_theory_says() {
    const USERS: u32 = 8;
    const ROUNDS: u32 = 20_000;
    const THINK_NS: Ns = 1_000_000;
    const SERVICE_NS: Ns = 200_000;
    let os = Sqlos::new(Config {
        notice: Notice::AtOnce,
        ..Config::new(1)
    });
    let mut machine = Machine::new(&os);
    for user in 0..USERS {
        let os = &os;
        machine.spawn_session(async move {
            let mut lengths = Rng::stream(1, &format!("user/{user}"));
            let mut draw = |mean_ns| lengths.exponential_ns(mean_ns);
            for _ in 0..ROUNDS {
                os.sleep(draw(THINK_NS), WaitType::AsyncIoCompletion).await;
                os.cpu_unbroken(draw(SERVICE_NS)).await;
            }
        });
    }
    let elapsed_ns = run(&mut machine);
    let weights = (0..USERS).scan(1.0, |weight, k| {
        *weight *= f64::from(USERS - k) * SERVICE_NS as f64 / THINK_NS as f64;
        Some(*weight)
    });
    let expected = 1.0 - 1.0 / (1.0 + weights.sum::<f64>());
    let busy = os.books().sessions.cpu_ns as f64 / elapsed_ns as f64;
    assert!(
        (busy / expected - 1.0).abs() < 0.02,
        "busy {busy}, should be {expected}"
    );
}

#[test]
fn a_session_that_nobody_will_ever_wake_is_named() {
    let os = Sqlos::new(Config::new(1));
    let never = os.event(42);
    let mut machine = Machine::new(&os);
    machine.spawn_session(never.wait(WaitType::LogBuffer));
    let stuck = machine.run_until(SEC).expect_err("nobody sets the event");
    let expected = "at 0 ns nothing is left to happen, and these wait for ever: worker 0 for LOGBUFFER (Event(42))";
    assert_eq!(stuck.to_string(), expected);
}
