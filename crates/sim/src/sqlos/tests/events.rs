use super::{Log, run, small};
use crate::kernel::{Action, Ns, Port};
use crate::sqlos::{Config, Event, Machine, Notice, Resource, Sqlos, WaitType};

/// The port of a handler that sets an event from outside of the workers.
const BELL: Port = Port::new(6);

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
    machine.on(BELL, |_| flushed.set());
    os.kernel().at(40, Action::call(BELL, 0));
    run(&mut machine);
    log.assert(&[(40, "first"), (40, "second"), (40, "third")]);
    assert_eq!(os.books().sessions.of(WaitType::WriteLog).resource_ns, 3 * 40);
}

#[test]
fn an_event_that_is_set_lets_everybody_pass_until_it_is_reset() {
    let (os, log) = (Sqlos::new(small(1)), Log::default());
    let open = os.event(1);
    let mut machine = Machine::new(&os);
    machine.on(BELL, |_| open.set());
    machine.spawn_session(async {
        open.set();
        note_after(&os, &log, "open", &open, WaitType::LogBuffer).await;
        open.reset();
        os.kernel().at(25, Action::call(BELL, 0));
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
fn an_event_lives_as_long_as_its_handles_and_its_place_is_used_again() {
    let os = Sqlos::new(small(1));
    for round in 0..1000 {
        let event = os.event(round);
        let other = event.clone();
        drop(event);
        assert_eq!(os.state().events[0].label, round);
        other.set();
    }
    let state = os.state();
    assert_eq!((state.events.len(), state.free_events.len()), (1, 1));
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
            os.sleep(length_ns, WaitType::WriteCompletion).await;
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
