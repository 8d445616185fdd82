use super::{Log, run, small};
use crate::kernel::Ns;
use crate::sqlos::{Config, Event, Machine, Notice, Resource, Sqlos, WaitType};

async fn note_after(os: &Sqlos, log: &Log, name: &str, event: &Event<'_>, wait: WaitType) {
    event.wait(wait).await;
    log.note(os, name);
}

#[test]
fn all_that_wait_for_an_event_go_on_in_the_order_of_their_coming() {
    let (os, log) = (Sqlos::new(small(1)), Log::default());
    let flushed = os.event(1);
    let mut machine = Machine::new(&os);
    for name in ["first", "second", "third"] {
        machine.spawn_session(note_after(&os, &log, name, &flushed, WaitType::WriteLog));
    }
    flushed.set_at(40);
    run(&mut machine);
    log.assert(&[(40, "first"), (40, "second"), (40, "third")]);
    assert_eq!(os.books().sessions.of(WaitType::WriteLog).resource_ns, 3 * 40);
}

#[test]
fn an_event_that_is_set_lets_everybody_pass_until_it_is_reset() {
    let (os, log) = (Sqlos::new(small(1)), Log::default());
    let open = os.event(1);
    let mut machine = Machine::new(&os);
    machine.spawn_session(async {
        open.set();
        note_after(&os, &log, "open", &open, WaitType::LogBuffer).await;
        open.reset();
        assert!(!open.is_set());
        open.set_at(25);
        note_after(&os, &log, "open again", &open, WaitType::LogBuffer).await;
    });
    run(&mut machine);
    log.assert(&[(0, "open"), (25, "open again")]);
    assert_eq!(os.books().sessions.of(WaitType::LogBuffer).count, 1);
}

#[test]
fn one_worker_wakes_another_at_once_though_completions_wait_for_a_switch() {
    let os = Sqlos::new(Config {
        notice: Notice::AtSwitch,
        ..small(2)
    });
    let (log, event) = (Log::default(), os.event(1));
    let mut machine = Machine::new(&os);
    machine.spawn_session(note_after(&os, &log, "woken", &event, WaitType::LogBuffer));
    machine.spawn_session(async {
        os.cpu(30).await;
        event.set();
        os.cpu(50).await;
    });
    run(&mut machine);
    log.assert(&[(30, "woken")]);
}

#[test]
fn an_io_is_noticed_by_the_scheduler_of_who_issued_it_for_all_that_wait() {
    let os = Sqlos::new(Config {
        notice: Notice::AtSwitch,
        ..small(2)
    });
    let (log, read) = (Log::default(), os.event_on(0, 1));
    let mut machine = Machine::new(&os);
    read.io_done_at(10);
    machine.spawn_session(os.cpu(70));
    machine.spawn_session(note_after(&os, &log, "on an idle core", &read, WaitType::PageIoLatchSh));
    run(&mut machine);
    log.assert(&[(70, "on an idle core")]);
}

#[test]
fn an_event_lives_as_long_as_its_handles_and_firings_and_its_place_is_used_again() {
    let os = Sqlos::new(small(1));
    let mut machine = Machine::new(&os);
    machine.spawn_session(async {
        for round in 0..1000 {
            let event = os.event(round);
            let device = event.clone();
            device.io_done_at(os.now() + 1);
            drop(device);
            event.wait(WaitType::IoCompletion).await;
            drop(event);
            // Nobody waits for this one, and it fires after its last handle is gone.
            os.event(round).io_done_at(os.now() + 1);
        }
        os.sleep(10, WaitType::WaitFor).await;
    });
    run(&mut machine);
    let state = os.state();
    assert!(state.events.len() <= 3, "{} events", state.events.len());
    assert_eq!(state.free_events.len(), state.events.len());
}

#[test]
fn a_semaphore_lets_so_many_in_and_the_others_wait_in_the_order_of_their_coming() {
    let (os, log) = (Sqlos::new(small(4)), Log::default());
    let places = os.semaphore(2, 9);
    let mut machine = Machine::new(&os);
    for (name, length_ns) in [("a", 50), ("b", 20), ("c", 10), ("d", 10)] {
        let (os, log, places) = (&os, &log, &places);
        machine.spawn_session(async move {
            places.take(WaitType::SleepBpoolFlush).await;
            log.note(os, name);
            os.sleep(length_ns, WaitType::IoCompletion).await;
            places.give();
        });
    }
    machine.run_until(0).expect("two sleep");
    assert_eq!(os.waiting_tasks()[2].resource, Resource::Event(9));
    run(&mut machine);
    log.assert(&[(0, "a"), (0, "b"), (20, "c"), (30, "d")]);
    assert_eq!(places.free(), 2);
    let waits_ns: Ns = os.books().sessions.of(WaitType::SleepBpoolFlush).wait_ns();
    assert_eq!(waits_ns, 20 + 30);
}
