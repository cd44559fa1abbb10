//! Behaviour when places or memory run out.

use kqps_stack::tcp::{Close, ConnectError, Settings, State};

use super::rig::{ACK, Rig, ends, plain};

#[test]
fn a_half_closed_connection_gives_its_place_to_a_new_one() {
    let mut rig = Rig::established(&Settings { connections: 1, ..plain() });
    let mut other = ends();
    other.from.set_port(other.from.port() + 1);
    rig.close(Close::Fin);
    rig.one();
    assert_eq!(rig.connections.connect(&other, 7, rig.now_ns), Err(ConnectError::Full));
    rig.hand(ACK, b"");
    assert_eq!(rig.state(), Some(State::FinWait2));
    rig.connections.connect(&other, 7, rig.now_ns).unwrap();
    assert_eq!((rig.state(), rig.connections.count()), (None, 1));
    assert_eq!(rig.connections.counts().fin_wait_given_up, 1);
    assert!(rig.connections.has_segment(), "the SYN of the new one");
    assert_eq!(rig.connections.next_tag(), Some(7));
}

#[test]
fn a_connection_that_the_caller_has_is_not_given_up() {
    let mut rig = Rig::established(&Settings { connections: 1, ..plain() });
    rig.shut_down();
    rig.one();
    rig.hand(ACK, b"");
    assert_eq!(rig.state(), Some(State::FinWait2));
    let mut other = ends();
    other.from.set_port(other.from.port() + 1);
    assert_eq!(rig.connections.connect(&other, 7, rig.now_ns), Err(ConnectError::Full));
}

#[test]
fn memory_for_what_is_sent_comes_back_with_its_acknowledgment() {
    // Two blocks.
    let mut rig = Rig::established(&Settings { send_pool: 512, ..plain() });
    assert!(rig.connections.has_send_room());
    let taken = rig.connections.send(rig.id, &[7; 600], rig.now_ns);
    assert!((1..=512).contains(&taken));
    assert!(!rig.connections.has_send_room());
    let mut other = ends();
    other.from.set_port(other.from.port() + 1);
    let starved = rig.connections.connect(&other, 42, rig.now_ns).unwrap();
    assert_eq!(rig.connections.send(starved, b"query", rig.now_ns), 0);
    rig.connections.close(starved, Close::Rst, rig.now_ns);
    rig.one();
    rig.hand(ACK, b"");
    assert!(rig.connections.has_send_room());
    assert_eq!(rig.connections.send(rig.id, &[8; 600], rig.now_ns), 512);
}
