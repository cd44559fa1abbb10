//! The Internet in a box of a resolver: which cells have one, its recipe and its clients' queries, and the conditions of a
//! resolver's figures.

pub mod running;

use kqps_catalogue::choice::{InternetAttack, InternetSize};
use kqps_dataset::Digest;
use kqps_internet::{ClientQuestion, Expected, ExpectedRecord, Internet, InternetRecipe, RecipeError};
use kqps_message::name::NameText;
use kqps_message::query::CLASS_IN;
use kqps_message::rcode::RcodeName;
use kqps_message::rtype::RtypeName;
use kqps_observation::factors::name;
use kqps_observation::{Factors, question};

use crate::subject::definition::Definition;

pub use kqps_internet::KEPT;

/// How long a reply of a resolver may take by default, seconds: it may need several servers for it.
pub const TIMEOUT_S: f64 = 2.0;

/// Why a run over several hosts has no resolvers.
pub const ON_ONE_HOST: &str =
    "a resolver in an Internet in a box is asked on its own host, and this run has several";

/// Queries in a file of clients. A start of a resolver that asked more of them would find new names in its cache.
pub const QUERIES: u64 = 1_000_000;

/// The built-in recipe of a size under an attack, with a seed for its tree and for the questions of its clients.
///
/// # Errors
///
/// If a built-in recipe is wrong.
pub fn recipe(
    size: InternetSize,
    attack: Option<InternetAttack>,
    seed: u64,
) -> Result<InternetRecipe, RecipeError> {
    let mut recipe = InternetRecipe::named("internet", Some(size.word()), &attack_settings(attack))?;
    (recipe.seed, recipe.queries.seed) = (seed, seed);
    Ok(recipe)
}

/// The settings of a recipe, `KEY=VALUE`, that make an attack.
fn attack_settings(attack: Option<InternetAttack>) -> Vec<String> {
    let settings: &[&str] = match attack {
        None | Some(InternetAttack::None) => &[],
        Some(InternetAttack::ManyServers) => {
            &["behaviour=[{ fault = \"many-servers\", among = \"company\", queries = 0.1, names = 30 }]"]
        }
        Some(InternetAttack::Aliases) => {
            &["zone.aliases=[0,0,0,0,0,0,0,0,1]", "zone.alias_to_apex=0", "queries.names=[1,0,0]"]
        }
    };
    settings.iter().map(|setting| (*setting).to_owned()).collect()
}

/// Whether a cell with these factors can have this subject: a resolver needs an Internet, and no other server has one.
///
/// # Errors
///
/// The factor that is missing or sets nothing, as a sentence without its full stop.
pub fn check(definition: &Definition, factors: &Factors) -> Result<(), String> {
    let (title, dataset) = (&definition.title, factors.dataset());
    let of_internet = factors.words().keys().find(|name| name.starts_with(name::INTERNET));
    match dataset.internet {
        None if definition.resolves() => Err(format!(
            "{title} resolves in an Internet in a box: give its size, such as {} = \"small\"",
            name::INTERNET
        )),
        None => match of_internet {
            Some(setting) => Err(format!("{setting} sets nothing without {}", name::INTERNET)),
            None => Ok(()),
        },
        Some(_) if !definition.resolves() => Err(format!(
            "{} is for resolvers, and {title} does not use {{root_hints}} in its definition",
            name::INTERNET
        )),
        Some(_) => {
            let is_of_zones = |name: &&String| name.starts_with(name::DATASET) && *name != name::DATASET_FILE;
            let is_path = factors.path().kind == Some(question::Path::Veth);
            let is_of_path =
                |name: &&String| name.starts_with(name::PATH_SETTING) || *name == name::HOST_RECEIVE_CORE;
            let has_own_names = dataset.hits_percent.is_some() || dataset.file.is_some();
            if dataset.attack == Some(InternetAttack::Aliases) && has_own_names {
                return Err(format!(
                    "{} = \"aliases\" is of names by popularity: leave {} and a query file out",
                    name::INTERNET_ATTACK,
                    name::INTERNET_HITS
                ));
            }
            let mut words = factors.words().keys();
            let unfit = words.find(|name| is_of_zones(name) || is_of_path(name)).map(String::as_str);
            match unfit.or(is_path.then_some(name::PATH)) {
                Some(unfit) => Err(format!(
                    "{unfit} sets nothing beside {}: the box has zones, queries and a network of its own",
                    name::INTERNET
                )),
                None => Ok(()),
            }
        }
    }
}

/// Whether a rate of a cell with these factors says something: that of a resolver needs a hit rate and a delay.
///
/// # Errors
///
/// The factors that are missing, as a sentence without its full stop.
pub fn check_rate(factors: &Factors) -> Result<(), String> {
    let dataset = factors.dataset();
    let missing = [
        (dataset.hits_percent.is_none(), name::INTERNET_HITS, 80),
        (dataset.delay_ms.is_none(), name::INTERNET_DELAY, 20),
    ];
    let missing = missing.into_iter().filter(|(is_missing, ..)| *is_missing && dataset.internet.is_some());
    let missing: Vec<String> = missing.map(|(_, name, usual)| format!("{name}={usual}")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the rate of a resolver says nothing without a hit rate and a delay: add {}",
        missing.join(" ")
    ))
}

/// The conditions of a resolver's figures in words, without which they say nothing: its hit rate, and the delay of the servers. Each
/// has the name of its factor. Empty for a cell without an Internet.
pub fn conditions(factors: &Factors) -> Vec<(&'static str, String)> {
    let dataset = factors.dataset();
    if dataset.internet.is_none() {
        return Vec::new();
    }
    let hits =
        dataset.hits_percent.map_or("names by popularity".into(), |percent| format!("{percent} % hits"));
    let delay = dataset
        .delay_ms
        .map_or("servers as far away as the recipe has them".into(), |ms| format!("servers {ms} ms away"));
    vec![(name::INTERNET_HITS, hits), (name::INTERNET_DELAY, delay)]
}

/// The clients of a resolver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clients {
    /// The share of hits among their names, percent; `None` for names by popularity.
    pub(crate) hits_percent: Option<u32>,
    /// Whether they ask for the AD bit, of a resolver that validates.
    pub(crate) want_ad: bool,
}

impl Clients {
    /// Lines of a query file.
    pub(crate) fn queries(self, internet: &Internet, count: u64) -> impl Iterator<Item = String> {
        let steady = self.hits_percent.map(|percent| internet.steady_questions(percent));
        (0..count).map(move |number| {
            let question = match &steady {
                Some(steady) => steady.question(number),
                None => internet.question(number),
            };
            question_line(internet, &question, self.want_ad)
        })
    }
}

/// The line of a query file for a question of a client: with the rcode and the digest of the answer that a resolver must give, if
/// the tree says that. `wants_ad`: whether the client asks for the AD bit, which the digest then covers.
pub fn question_line(internet: &Internet, (name, qtype): &ClientQuestion, wants_ad: bool) -> String {
    let ad = if wants_ad { " AD" } else { "" };
    let line = format!("{} {}{ad}", NameText(name), RtypeName(*qtype));
    match internet.expected(name, *qtype) {
        Some(expected) => {
            let digest = match digest(&expected) {
                digest if wants_ad => digest.covering_ad(expected.rcode, expected.is_secure),
                digest => digest,
            };
            format!("{line} {} ={:016x}\n", RcodeName(expected.rcode), digest.number())
        }
        None => line + "\n",
    }
}

/// The digest of a resolver's answer, which has no authority (AA) of its own.
fn digest(expected: &Expected) -> Digest {
    let record = |digest: Digest, record: &ExpectedRecord| {
        let mut canonical = record.owner.to_ascii_lowercase();
        canonical.extend([record.rtype, CLASS_IN].map(u16::to_be_bytes).concat());
        canonical.extend(&record.data);
        digest.and(&canonical)
    };
    expected.answers.iter().fold(Digest::of_none(expected.rcode, false), record)
}

#[cfg(test)]
mod tests {
    use kqps_internet::Fault;

    use super::*;
    use crate::subject::builtin;

    #[test]
    fn an_internet_is_for_resolvers_and_these_have_one() {
        let subject =
            |name: &str| builtin::servers().into_iter().find(|definition| definition.name == name).unwrap();
        let of = |subject: &Definition, words: &[(&str, &str)]| {
            let words = words.iter().map(|(name, word)| ((*name).to_owned(), (*word).to_owned()));
            check(subject, &Factors::read(words).unwrap())
        };
        let (resolver, server) = (subject("unbound-resolver"), subject("nsd"));
        let internet = (name::INTERNET, "small");
        assert_eq!(
            (of(&resolver, &[internet, (name::PATH, "loopback")]), of(&server, &[])),
            (Ok(()), Ok(()))
        );
        for (subject, words, wanted) in [
            (&resolver, &[][..], "internet = \"small\""),
            (&server, &[internet][..], "is for resolvers"),
            (&server, &[(name::INTERNET_DELAY, "20")], "sets nothing without internet"),
            (&resolver, &[internet, (name::DATASET_RECIPE, "tld")], "dataset.recipe sets nothing beside"),
            (&resolver, &[internet, (name::PATH, "veth")], "path sets nothing beside"),
            (&resolver, &[internet, (name::PATH_GRO, "on")], "path.gro sets nothing beside"),
            (&resolver, &[internet, (name::HOST_RECEIVE_CORE, "0")], "host.receive-core sets nothing beside"),
            (
                &resolver,
                &[internet, (name::INTERNET_HITS, "80"), (name::INTERNET_ATTACK, "aliases")],
                "names by popularity",
            ),
        ] {
            let error = of(subject, words).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn attacks_are_recipes() {
        let of = |attack| recipe(InternetSize::Small, Some(attack), 7).unwrap();
        assert_eq!(of(InternetAttack::None), recipe(InternetSize::Small, None, 7).unwrap());
        let [fault] = &of(InternetAttack::ManyServers).behaviour[..] else { panic!("one behaviour") };
        assert_eq!((fault.fault, fault.names), (Fault::ManyServers, 30));
        let internet = Internet::new(&of(InternetAttack::Aliases)).unwrap();
        let of_sites: Vec<usize> = (0..500)
            .filter_map(|number| {
                let (name, qtype) = internet.question(number);
                let is_of_site = qtype == kqps_message::rtype::A && name.starts_with(b"\x03www");
                is_of_site.then(|| internet.expected(&name, qtype)).flatten()
            })
            .map(|expected| {
                expected.answers.iter().filter(|record| record.rtype == kqps_message::rtype::CNAME).count()
            })
            .collect();
        assert!(of_sites.len() > 200 && of_sites.iter().all(|aliases| *aliases == 8), "{of_sites:?}");
    }

    #[test]
    fn clients_ask_by_popularity_or_with_a_share_of_hits() {
        let internet = Internet::new(&recipe(InternetSize::Small, None, 7).unwrap()).unwrap();
        let of = |hits_percent| Clients { hits_percent, want_ad: false }.queries(&internet, 50).collect();
        let (by_popularity, steady): (Vec<_>, Vec<_>) = (of(None), of(Some(50)));
        assert!(by_popularity.iter().chain(&steady).all(|line| line.ends_with('\n')));
        assert_ne!(by_popularity, steady);
    }

    #[test]
    fn a_line_has_the_digest_of_the_records() {
        let internet = Internet::new(&recipe(InternetSize::Small, None, 7).unwrap()).unwrap();
        let ns = (b"\0".to_vec(), kqps_message::rtype::NS);
        let mut reply = vec![0, 7, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
        let expected = internet.expected(&ns.0, ns.1).unwrap();
        for record in &expected.answers {
            reply[7] += 1;
            reply.extend(&record.owner);
            reply.extend([record.rtype, CLASS_IN].map(u16::to_be_bytes).concat());
            reply.extend([0, 0, 0, 60]);
            reply.extend((record.data.len() as u16).to_be_bytes());
            reply.extend(&record.data);
        }
        assert!(expected.answers.len() > 1);
        let digest = Digest::of_reply(&reply, 0, &mut Vec::new()).unwrap();
        assert_eq!(question_line(&internet, &ns, false), format!(". NS NOERROR ={:016x}\n", digest.number()));
        // The root is signed.
        assert!(expected.is_secure);
        let secure = digest.covering_ad(0, true).number();
        assert_eq!(question_line(&internet, &ns, true), format!(". NS AD NOERROR ={secure:016x}\n"));
    }
}
