use super::{Log, run, small};
use crate::kernel::{Action, MS, Ns, Port, US};
use crate::sqlos::waits::WaitSum;
use crate::sqlos::{Config, Latch, LatchClass, Machine, Mode, Resource, Sqlos, WaitType};

const PFS_PAGE: u64 = 8088;

/// A session that requests a latch at a given time, and then holds it for a given time on its core.
async fn ask(os: &Sqlos, log: &Log, name: &str, latch: Latch<'_>, (mode, at_ns, hold_ns): (Mode, Ns, Ns)) {
    os.until(at_ns, WaitType::AsyncIoCompletion).await;
    let hold = latch.acquire(mode).await;
    log.note(os, name);
    os.cpu_unbroken(hold_ns).await;
    hold.release();
}

#[test]
fn modes_go_together_as_in_sql_server() {
    let modes = [Mode::Sh, Mode::Up, Mode::Ex];
    let os = Sqlos::new(small(1));
    let page = os.latch(1, LatchClass::Page);
    let table = modes.map(|held| {
        let _hold = page.try_acquire(held).expect("nobody has the page");
        modes.map(|wanted| !page.is_barred(wanted))
    });
    let expected = [
        [true, true, false],   // SH
        [true, false, false],  // UP
        [false, false, false], // EX
    ];
    assert_eq!(table, expected);
}

#[test]
fn waits_are_named_by_class_and_mode() {
    let name = |class: LatchClass, mode| class.wait_type(mode).name();
    assert_eq!(name(LatchClass::Page, Mode::Up), "PAGELATCH_UP");
    assert_eq!(name(LatchClass::PageIo, Mode::Ex), "PAGEIOLATCH_EX");
}

#[test]
fn a_free_latch_is_taken_without_a_wait_and_leaves_nothing_behind() {
    let os = Sqlos::new(small(1));
    let mut machine = Machine::new(&os);
    machine.spawn_session(async {
        for page in 0..1_000_000_u64 {
            let hold = os.latch(page, LatchClass::Page).acquire(Mode::Ex).await;
            assert_eq!(os.latches_in_use(), 1);
            drop(hold);
        }
    });
    assert_eq!(run(&mut machine), 0);
    assert_eq!((os.latches_in_use(), os.books().sessions.wait_ns()), (0, 0));
}

#[test]
fn readers_share_and_a_writer_waits_for_the_last_of_them() {
    let (os, log) = (Sqlos::new(small(3)), Log::default());
    let page = os.latch(1, LatchClass::Page);
    let mut machine = Machine::new(&os);
    machine.spawn_session(ask(&os, &log, "reader", page, (Mode::Sh, 0, 50)));
    machine.spawn_session(ask(&os, &log, "slow reader", page, (Mode::Sh, 10, 90)));
    machine.spawn_session(ask(&os, &log, "writer", page, (Mode::Ex, 20, 10)));
    run(&mut machine);
    log.assert(&[(0, "reader"), (10, "slow reader"), (100, "writer")]);
}

#[test]
fn a_reader_behind_a_waiting_writer_waits_though_it_would_go_with_the_holder() {
    let (os, log) = (Sqlos::new(small(3)), Log::default());
    let page = os.latch(1, LatchClass::Page);
    let mut machine = Machine::new(&os);
    machine.spawn_session(ask(&os, &log, "reader", page, (Mode::Sh, 0, 50)));
    machine.spawn_session(ask(&os, &log, "writer", page, (Mode::Ex, 10, 20)));
    machine.spawn_session(ask(&os, &log, "late reader", page, (Mode::Sh, 20, 10)));
    run(&mut machine);
    log.assert(&[(0, "reader"), (50, "writer"), (70, "late reader")]);
}

#[test]
fn all_readers_at_the_head_of_the_queue_are_let_in_together() {
    let (os, log) = (Sqlos::new(small(4)), Log::default());
    let page = os.latch(1, LatchClass::Page);
    let mut machine = Machine::new(&os);
    machine.spawn_session(ask(&os, &log, "writer", page, (Mode::Ex, 0, 50)));
    machine.spawn_session(ask(&os, &log, "reader", page, (Mode::Sh, 1, 10)));
    machine.spawn_session(ask(&os, &log, "updater", page, (Mode::Up, 2, 10)));
    machine.spawn_session(ask(&os, &log, "other updater", page, (Mode::Up, 3, 10)));
    run(&mut machine);
    log.assert(&[(0, "writer"), (50, "reader"), (50, "updater"), (60, "other updater")]);
}

#[test]
fn a_latch_is_handed_over_through_the_runnable_queue() {
    let (os, log) = (Sqlos::new(small(2)), Log::default());
    let page = os.latch(PFS_PAGE, LatchClass::Page);
    let mut machine = Machine::new(&os);
    machine.spawn_session(ask(&os, &log, "first", page, (Mode::Up, 0, 20)));
    machine.spawn_session(ask(&os, &log, "second", page, (Mode::Up, 10, 20)));
    machine.spawn_session(ask(&os, &log, "third", page, (Mode::Up, 15, 20)));
    // When the second worker gets the latch, another worker is on its core.
    machine.spawn_session(async {
        os.until(12, WaitType::AsyncIoCompletion).await;
        os.cpu_unbroken(88).await;
    });
    run(&mut machine);
    log.assert(&[(0, "first"), (100, "second"), (120, "third")]);
    let books = os.books();
    let wait_of = |session: usize| *books.workers[session].account.of(WaitType::PageLatchUp);
    let wait = |resource_ns, signal_ns| WaitSum {
        count: 1,
        resource_ns,
        signal_ns,
    };
    assert_eq!([wait_of(1), wait_of(2)], [wait(10, 80), wait(100, 0)]);
}

#[test]
fn a_page_in_io_is_held_by_the_io_and_waited_for_as_such() {
    const READ_DONE: Port = Port::new(6);
    let (os, log) = (Sqlos::new(small(2)), Log::default());
    let page = os.latch(7, LatchClass::PageIo);
    let mut machine = Machine::new(&os);
    machine.on(READ_DONE, |key| {
        os.latch(u64::from(key), LatchClass::PageIo).release(Mode::Ex);
    });
    machine.spawn_session(async {
        let io = page.try_acquire(Mode::Ex).expect("nobody has the page").hand_over();
        os.kernel().at(60, Action::call(READ_DONE, 7));
        assert!(io.is_barred(Mode::Ex) && io.is_barred(Mode::Sh));
        ask(&os, &log, "who reads it", page, (Mode::Ex, 0, 10)).await;
    });
    machine.spawn_session(ask(&os, &log, "who comes later", page, (Mode::Sh, 20, 10)));
    run(&mut machine);
    log.assert(&[(60, "who reads it"), (70, "who comes later")]);
    let sessions = os.books().sessions;
    assert_eq!(sessions.of(WaitType::PageIoLatchEx).resource_ns, 60);
    assert_eq!(sessions.of(WaitType::PageIoLatchSh).resource_ns, 50);
    assert!(!page.is_barred(Mode::Ex));
}

#[test]
fn samples_show_who_waits_for_what_since_when_and_because_of_whom() {
    let (os, log) = (Sqlos::new(small(2)), Log::default());
    let page = os.latch(PFS_PAGE, LatchClass::Page);
    let mut machine = Machine::new(&os);
    let holder = machine.spawn_session(ask(&os, &log, "holder", page, (Mode::Up, 0, 50)));
    let waiter = machine.spawn_session(ask(&os, &log, "waiter", page, (Mode::Up, 10, 5)));
    machine.run_until(30).expect("the holder is at work");
    let tasks = os.waiting_tasks();
    assert_eq!(tasks.len(), 1);
    assert_eq!((tasks[0].worker, tasks[0].blocker), (waiter, Some(holder)));
    assert_eq!((tasks[0].wait, tasks[0].since_ns), (WaitType::PageLatchUp, 10));
    assert_eq!(tasks[0].resource, Resource::Latch(PFS_PAGE));
}

/// Each transaction holds the latch for 1/7 of its time. So two cores would hardly have a queue if a worker needed no
/// core: a latch that is granted to a worker without a core is unused until that worker's turn.
#[test]
fn a_hot_latch_makes_a_convoy_out_of_short_holds() {
    let os = Sqlos::new(Config::new(4));
    let page = os.latch(PFS_PAGE, LatchClass::Page);
    let mut machine = Machine::new(&os);
    for _ in 0..32 {
        machine.spawn_session(async {
            for _ in 0..200 {
                os.cpu(60 * US).await;
                let hold = page.acquire(Mode::Up).await;
                os.cpu_unbroken(10 * US).await;
                hold.release();
            }
        });
    }
    let mut deepest = 0;
    let mut sample_ns = 0;
    while machine.run_until(sample_ns).expect("nobody is stuck") == crate::sqlos::Progress::LimitReached {
        deepest = deepest.max(os.waiting_tasks().len());
        sample_ns += MS;
    }
    assert!(deepest >= 12, "a convoy of {deepest}");
    let wait = *os.books().sessions.of(WaitType::PageLatchUp);
    assert!(wait.count > 32 * 200 / 4 && wait.signal_ns > 0, "{wait:?}");
}

#[test]
#[should_panic(expected = "nobody holds it")]
fn a_release_in_the_wrong_mode_is_refused() {
    let os = Sqlos::new(small(1));
    let page = os.latch(1, LatchClass::Page);
    let held = page.try_acquire(Mode::Sh).map(crate::sqlos::Hold::hand_over);
    held.expect("nobody has the page").release(Mode::Ex);
}
