use super::{run, small};
use crate::kernel::SEC;
use crate::sqlos::waits::WAIT_TYPES;
use crate::sqlos::{Machine, Mode, Progress, Role, Sqlos, WaitType};

#[test]
fn every_wait_type_has_a_name_of_its_own() {
    let mut names: Vec<&str> = WaitType::ALL.iter().map(|wait| wait.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), WAIT_TYPES);
    assert!(
        WaitType::ALL
            .iter()
            .enumerate()
            .all(|(place, wait)| wait.index() == place)
    );
}

#[test]
fn waiting_for_the_first_turn_is_signal_time_too() {
    let os = Sqlos::new(small(1));
    let mut machine = Machine::new(&os);
    for _ in 0..3 {
        machine.spawn_session(os.cpu(50));
    }
    run(&mut machine);
    let start = *os.books().sessions.of(WaitType::WorkerStart);
    assert_eq!((start.count, start.resource_ns, start.signal_ns), (3, 0, 50 + 100));
}

#[test]
fn a_worker_that_ends_early_is_finished_for_the_rest_of_the_run() {
    let os = Sqlos::new(small(2));
    let mut machine = Machine::new(&os);
    machine.spawn_session(os.cpu(10));
    machine.spawn_session(os.cpu(90));
    let elapsed_ns = run(&mut machine);
    let books = os.books();
    assert_eq!(books.workers[0].account.finished_ns, 80);
    assert_eq!(books.sessions.total_ns(), 2 * elapsed_ns);
}

#[test]
fn books_may_be_asked_for_in_the_middle_of_everything() {
    let os = Sqlos::new(small(1));
    let page = os.latch(1, crate::sqlos::LatchClass::Page);
    let mut machine = Machine::new(&os);
    for _ in 0..3 {
        machine.spawn_session(async {
            for _ in 0..5 {
                let hold = page.acquire(Mode::Ex).await;
                os.cpu(70).await;
                hold.release();
                os.sleep(30, WaitType::AsyncIoCompletion).await;
            }
        });
    }
    let mut limit_ns = 0;
    while machine.run_until(limit_ns).expect("nobody is stuck") == Progress::LimitReached {
        assert_eq!(os.books().sessions.total_ns(), 3 * limit_ns);
        limit_ns += 1;
    }
    assert_eq!(os.books().sessions.cpu_ns, 3 * 5 * 70);
}

#[test]
fn a_run_ends_with_its_sessions_whatever_works_in_the_background() {
    let os = Sqlos::new(small(1));
    let mut machine = Machine::new(&os);
    machine.spawn_background(async {
        loop {
            os.sleep(SEC, WaitType::LazyWriterSleep).await;
            os.cpu(10).await;
        }
    });
    machine.spawn_session(os.sleep(10 * SEC, WaitType::AsyncIoCompletion));
    assert_eq!(run(&mut machine), 10 * SEC);
    let books = os.books();
    assert_eq!(
        (books.workers[0].role, books.workers[1].role),
        (Role::Background, Role::Session)
    );
    assert_eq!(books.background.cpu_ns, 9 * 10);
    assert_eq!(books.background.of(WaitType::LazyWriterSleep).count, 9);
    assert_eq!(books.background.total_ns(), 10 * SEC);
}

#[test]
fn a_run_of_no_sessions_is_finished_before_it_starts() {
    let os = Sqlos::new(small(1));
    assert_eq!(Machine::new(&os).run_until(SEC), Ok(Progress::Finished));
    assert_eq!(os.now(), 0);
}
