//! A simulated path: the goodput of a setting at each time, with the ramp-up of connections, and noise. Deterministic given a seed.

use std::time::Duration;
use thalweg_client::{Parameter, Stages};
use thalweg_tune::online::{Observation, Options, Tuner};

/// Polling interval.
const TICK: Duration = Duration::from_millis(100);
/// Flow buffers are counted whole.
const BUFFER_BYTES: f64 = 1_048_576.0;
/// Time constant of the exponential approach to a new goodput: connecting, slow start.
const GETTING_GOING_S: f64 = 0.25;

/// A client of the path, with its tuner (or without, for comparison).
pub struct Client {
    pub tuner: Option<Tuner>,
    pub values: Vec<(&'static str, u64)>,
    /// Current bytes per second.
    pub rate: f64,
    pub moved: f64,
    stages: Stages,
    begins_s: f64,
    /// Number of connections above which the server refuses more.
    refuses_above: u64,
}

impl Client {
    pub fn tuned(options: Options) -> Client {
        Client { tuner: Some(Tuner::new(options)), ..Client::plain() }
    }

    /// Returns a client without a tuner.
    pub fn plain() -> Client {
        let values = vec![("requests", 2), ("depth", 8), ("buffer", 1 << 20), ("streams", 1)];
        Client { tuner: None, values, rate: 0.0, moved: 0.0, stages: Stages::default(), begins_s: 0.0, refuses_above: u64::MAX }
    }

    pub fn beginning_at(self, begins_s: f64) -> Client {
        Client { begins_s, ..self }
    }

    pub fn refused_above(self, refuses_above: u64) -> Client {
        Client { refuses_above, ..self }
    }

    pub fn value(&self, name: &str) -> u64 {
        self.values.iter().find(|(known, _)| *known == name).unwrap().1
    }
}

/// Pseudo-random numbers, uniform in 0..1 and normal.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// The limit shown in the counters.
#[derive(Clone, Copy, PartialEq)]
pub enum Limit {
    Sending,
    Answers,
}

/// Returns each client's goodput and limit with all clients' current values, at a time in seconds.
pub type Path<'a> = &'a dyn Fn(f64, &[Client]) -> Vec<(f64, Limit)>;

/// Runs clients on a path for `seconds`; returns the bytes each had moved at each tick. `path` is called at each tick.
pub fn run(clients: &mut [Client], seconds: f64, noise: f64, seed: u64, path: Path<'_>) -> Vec<Vec<f64>> {
    let (mut chance, tick_s) = (Chance::new(seed), TICK.as_secs_f64());
    let mut moved = vec![Vec::new(); clients.len()];
    for tick in 1..=(seconds / tick_s) as u32 {
        let now_s = f64::from(tick) * tick_s;
        let wanted = path(now_s, clients);
        for (number, (client, (rate, limit))) in clients.iter_mut().zip(wanted).enumerate() {
            if now_s >= client.begins_s {
                client.rate += (rate - client.rate) * (1.0 - (-tick_s / GETTING_GOING_S).exp());
                client.moved += client.rate * tick_s * (1.0 + noise * chance.normal()).max(0.0);
                let spent = TICK * client.value("streams") as u32;
                match limit {
                    Limit::Sending => client.stages.sending += spent,
                    Limit::Answers => client.stages.answers += spent,
                }
                look(client, TICK * tick);
            }
            moved[number].push(client.moved);
        }
    }
    moved
}

fn look(client: &mut Client, now: Duration) {
    // As in the store's engine: the copy continues with the existing connections.
    if client.value("streams") > client.refuses_above {
        client.stages.lost_connections += 1;
        let streams = client.values.iter_mut().find(|(name, _)| *name == "streams").unwrap();
        streams.1 = client.refuses_above;
    }
    let Some(tuner) = &mut client.tuner else { return };
    let parameter = |(name, value): &(&'static str, u64)| Parameter { name, value: Some(*value), least: 1, most: 1 << 24, live: true };
    let parameters: Vec<Parameter> = client.values.iter().map(parameter).collect();
    let values = client.values.clone();
    let memory_bytes = |name: &str, value: u64| {
        let of = |wanted: &str| if wanted == name { value } else { values.iter().find(|(n, _)| *n == wanted).unwrap().1 };
        of("streams") * of("depth") * of("buffer")
    };
    let moved_bytes = ((client.moved / BUFFER_BYTES).floor() * BUFFER_BYTES) as u64;
    let (left_bytes, may_rest) = (None, false);
    let seen =
        Observation { now, moved_bytes, left_bytes, stages: client.stages, parameters: &parameters, memory_bytes: &memory_bytes, may_rest };
    for change in tuner.look(&seen) {
        let known = client.values.iter_mut().find(|(name, _)| *name == change.parameter).unwrap();
        known.1 = change.value;
    }
}
