//! A network card in memory: what its driver reports, and what it does when it begins anew.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use kqps_host::setup::Answers;

use super::Memory;
use crate::setting::Setting;
use crate::setting::value::{NONE, pairs, table, table_to_write};
use crate::system::{Identity, SettingError};

/// The name of the card.
pub(crate) const DEVICE: &str = "eth0";

/// The cores of this host.
const CORES: &str = "0,1,2,3";

/// A card by what a driver answered for it, the entries of its table, and the names of the interrupts of a queue, with
/// `#` for its number.
pub(crate) type Recorded = (&'static str, u32, &'static [&'static str]);

/// The interrupts of a queue of a virtio device.
const VIRTIO: &[&str] = &["virtio3-input.#", "virtio3-output.#"];

/// The cards of six drivers; that of virtio with and without a table.
pub(crate) const CARDS: [Recorded; 7] = [
    (include_str!("../../../host/src/setup/cards/ixgbe.json"), 128, &["eth0-TxRx-#"]),
    (include_str!("../../../host/src/setup/cards/i40e.json"), 512, &["i40e-eth0-TxRx-#"]),
    (include_str!("../../../host/src/setup/cards/ice.json"), 2048, &["ice-eth0-TxRx-#"]),
    (include_str!("../../../host/src/setup/cards/mlx5.json"), 256, &["mlx5_comp#@pci:0000:3b:00.0"]),
    (include_str!("../../../host/src/setup/cards/ena.json"), 128, &["eth0-Tx-Rx-#"]),
    (include_str!("../../../host/src/setup/cards/virtio.json"), 0, VIRTIO),
    (include_str!("../../../host/src/setup/cards/virtio-rss.json"), 128, VIRTIO),
];

/// A card and its driver.
#[derive(Debug)]
pub(crate) struct Card {
    answers: Answers,
    /// The slots of its table.
    slots: usize,
    handlers: &'static [&'static str],
    /// Whether somebody set the table. The kernel then keeps the number of queues above those in the table
    /// (`IFF_RXFH_CONFIGURED`).
    is_table_set: Cell<bool>,
}

impl Card {
    /// The most queues that the driver offers.
    pub(crate) fn queues_most(&self) -> u32 {
        self.answers.queues.map_or(0, |queues| queues.combined_max)
    }

    /// Whether the driver's own table stays when the number of queues changes. It may then name queues that are gone
    /// (`virtio_net` of Linux 6.1).
    fn keeps_table(&self) -> bool {
        self.answers.driver.as_deref() == Some("virtio_net")
    }

    fn delays(&self) -> Option<String> {
        let on = |adapts| if adapts { "on" } else { "off" };
        self.answers.coalesce.map(|now| {
            let (rx, tx) = (on(now.adaptive_rx), on(now.adaptive_tx));
            format!("rx-usecs={},tx-usecs={},adaptive-rx={rx},adaptive-tx={tx}", now.rx_usecs, now.tx_usecs)
        })
    }

    /// Returns a value in the form that the driver makes of it.
    pub(super) fn takes(
        &self,
        values: &BTreeMap<Setting, String>,
        setting: &Setting,
        value: &str,
    ) -> Result<String, SettingError> {
        let invalid = || SettingError::refused(setting, "Invalid argument (os error 22)");
        let all = pairs(value);
        let number = |key: &str| all.get(key).and_then(|word| word.parse::<u32>().ok()).unwrap_or(0);
        match setting {
            Setting::Channels { .. } => {
                let count = number("combined");
                let in_table =
                    values.get(&rss_table()).and_then(|table| table.strip_prefix("equal=")?.parse().ok());
                let is_below = self.is_table_set.get() && in_table.unwrap_or(0) > count;
                if count == 0 || count > self.queues_most() || is_below {
                    Err(invalid())
                } else {
                    Ok(value.into())
                }
            }
            Setting::Rings { .. } => {
                let most = self.answers.rings.unwrap_or_default();
                let (rx, tx) = (number("rx").next_multiple_of(8), number("tx").next_multiple_of(8));
                if rx > most.rx_max || tx > most.tx_max {
                    Err(invalid())
                } else {
                    Ok(format!("rx={rx},tx={tx}"))
                }
            }
            Setting::RssTable { .. } => {
                let queues = values.get(&channels()).and_then(|value| pairs(value)["combined"].parse().ok());
                let is_beyond = |queue: &u32| queues.is_some_and(|queues| *queue >= queues);
                if table(value, self.slots).is_some_and(|table| table.iter().any(is_beyond)) {
                    return Err(invalid());
                }
                // No table is the driver's own.
                let written = table_to_write(value, self.slots, queues).ok_or_else(invalid)?;
                self.is_table_set.set(!written.is_empty());
                Ok(value.to_owned())
            }
            _ => Ok(value.to_owned()),
        }
    }

    /// Changes other values as the driver does when a setting has been written.
    pub(super) fn begin_anew(&self, values: &mut BTreeMap<Setting, String>, setting: &Setting, value: &str) {
        if let Setting::Channels { .. } = setting {
            let count: u32 = pairs(value)["combined"].parse().unwrap();
            if !self.is_table_set.get() && !self.keeps_table() {
                values.extend(
                    values.contains_key(&rss_table()).then(|| (rss_table(), format!("equal={count}"))),
                );
            }
            self.queues(values, count);
        }
        if !matches!(setting, Setting::Channels { .. } | Setting::Rings { .. } | Setting::Coalesce { .. }) {
            return;
        }
        for (one, value) in values.iter_mut() {
            match one {
                Setting::Irq(_) => CORES.clone_into(value),
                Setting::Xps { queue: Some(queue), .. } => *value = queue.to_string(),
                Setting::Coalesce { .. } if one != setting => {
                    if let Some(delays) = self.delays() {
                        *value = delays;
                    }
                }
                _ => {}
            }
        }
    }

    /// Makes as many queues, each with its settings and interrupts. Those that are there keep theirs.
    fn queues(&self, values: &mut BTreeMap<Setting, String>, count: u32) {
        let handlers = |queue: u32| {
            let names = self.handlers.iter().map(move |name| name.replace('#', &queue.to_string()));
            names.map(Setting::Irq)
        };
        for queue in 0..self.queues_most() {
            let device = || DEVICE.to_owned();
            let rps = (Setting::Rps { device: device(), queue: Some(queue) }, NONE.to_owned());
            let xps = (Setting::Xps { device: device(), queue: Some(queue) }, queue.to_string());
            let irqs = handlers(queue).map(|irq| (irq, CORES.to_owned()));
            for (setting, value) in [rps, xps].into_iter().chain(irqs) {
                if queue < count {
                    values.entry(setting).or_insert(value);
                } else {
                    values.remove(&setting);
                }
            }
        }
    }
}

fn channels() -> Setting {
    Setting::Channels { device: DEVICE.to_owned() }
}

fn rss_table() -> Setting {
    Setting::RssTable { device: DEVICE.to_owned() }
}

impl Memory {
    /// A host with a card as a driver reported it.
    pub(crate) fn with_card((answers, entries, handlers): Recorded) -> Self {
        let answers: Answers = serde_json::from_str(answers).unwrap();
        let count = answers.queues.unwrap().combined;
        let card = Card { answers, slots: entries as usize, handlers, is_table_set: Cell::default() };
        let mut values = BTreeMap::new();
        let mut set = |name: &str, value: String| values.insert(name.parse::<Setting>().unwrap(), value);
        set("channels.eth0", format!("rx=0,tx=0,combined={count}"));
        if let Some(rings) = card.answers.rings {
            set("rings.eth0", format!("rx={},tx={}", rings.rx, rings.tx));
        }
        if let Some(delays) = card.delays() {
            set("coalesce.eth0", delays);
        }
        if let Some(rss) = &card.answers.rss {
            assert!(entries >= count);
            set("rss.eth0", format!("equal={count}"));
            set("rss-fields.eth0.udp4", rss.fields_udp4.clone().unwrap());
        }
        for (name, on) in &card.answers.features {
            set(&format!("feature.eth0.{name}"), if *on { "on".into() } else { "off".into() });
        }
        card.queues(&mut values, count);
        let Answers { permanent_mac, bus, .. } = card.answers.clone();
        let identity = Identity { device: Some(DEVICE.into()), mac: permanent_mac, bus, index: Some(2) };
        let memory = Self { values: RefCell::new(values), card: Some(card), ..Self::default() };
        memory.identities.borrow_mut().insert(DEVICE.into(), identity);
        memory.linked.borrow_mut().insert(DEVICE.into());
        memory
    }
}
