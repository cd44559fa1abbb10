//! A player that is killed leaves no program on the device. The test starts itself once more, as the player.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kqps_dataset::Format;
use kqps_kernel::xdp::{Attached, Filter, Prefix, Protocols, XdpMode, route};
use kqps_player::{Arrivals, Control, Io, LoadPlan, Plan, Stop, play};

use crate::past::{FAR, NEAR, Networks};
use crate::support::{Queries, no_subject, plan};

const PORT: u16 = 5300;

/// Set for the player that is to be killed.
const PLAYER: &str = "KQPS_TEST_PLAYER";

fn play_for_an_hour() {
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: Arrivals::Even, window: None };
    let stop = Stop { after: Some(Duration::from_hours(1)), passes: None };
    let plan = Plan { stop, ..plan((FAR, PORT).into(), 2, load, Io::Xdp) };
    let queries = Queries::new("a.test A\n", Format::Text);
    play(&plan, &queries.dataset, &Control::new(1), no_subject).unwrap();
}

/// Puts a program on the device of the near network, and takes it off again.
fn attach(networks: &Networks) -> std::io::Result<()> {
    networks.near(|| {
        let filter = Filter {
            device: route::to(FAR.into())?.device,
            own: vec![Prefix::of_one(NEAR.into())],
            ports: 1..=1,
            peers: Vec::new(),
            protocols: Protocols::Udp,
            vlan: None,
            untagged: false,
        };
        Attached::attach(&filter, XdpMode::Auto).map(drop)
    })
}

#[test]
fn a_player_that_is_killed_leaves_no_program() {
    if std::env::var_os(PLAYER).is_some() {
        play_for_an_hour();
        return;
    }
    let Some(networks) = Networks::new(1) else { return };
    let socket = networks.far(|| UdpSocket::bind((FAR, PORT)));
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut player = networks.near(|| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "xdp_killed::a_player_that_is_killed_leaves_no_program", "--nocapture"]);
        command.env(PLAYER, "1").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    });
    for _ in 0..10 {
        socket.recv_from(&mut [0; 512]).unwrap();
    }
    assert!(attach(&networks).is_err(), "the player has the device");
    player.kill().unwrap();
    player.wait().unwrap();
    // The kernel closes the descriptors of a process before its parent learns of its end.
    let began = Instant::now();
    while let Err(error) = attach(&networks) {
        assert!(began.elapsed() < Duration::from_secs(10), "{error}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
