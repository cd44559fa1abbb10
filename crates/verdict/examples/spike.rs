use kqps_observation::run::Purpose;
use kqps_verdict::search::{Next, Preset, Probe, Start, bounds_found, next_trial};

struct Rng(fastrand::Rng);
impl Rng {
    fn u(&mut self) -> f64 { self.0.f64().max(1e-12) }
    fn n(&mut self) -> f64 { (-2.0 * self.u().ln()).sqrt() * (std::f64::consts::TAU * self.u()).cos() }
    fn exp(&mut self, m: f64) -> f64 { -self.u().ln() * m }
}

/// Host speed over time.
struct Host { changes: Vec<(f64, f64)>, stalls: Vec<(f64, f64)> }
impl Host {
    fn new(r: &mut Rng, speeds: bool, stalls: bool) -> Self {
        let mut changes = vec![(0.0, 1.0)];
        let mut t = 0.0; let mut fast = r.u() < 0.5;
        if speeds { let dwell = 60f64.powf(r.u());
            changes[0].1 = if fast {1.0} else {1.0/1.3};
            while t < 400.0 { t += r.exp(dwell).clamp(0.2, 1e9); fast = !fast; changes.push((t, if fast {1.0} else {1.0/1.3})); } }
        let mut s = vec![]; let mut t = 0.0;
        if stalls { while t < 400.0 { t += r.exp(1.0); s.push((t, 0.001 + 0.004 * r.u())); } }
        Host { changes, stalls: s }
    }
    fn at(&self, t: f64) -> f64 { self.changes.iter().rev().find(|c| c.0 <= t).unwrap().1 }
    fn mean(&self, a: f64, b: f64) -> f64 { let n = 20; (0..n).map(|i| self.at(a + (b-a)*(i as f64+0.5)/n as f64)).sum::<f64>()/n as f64 }
    fn stall(&self, a: f64, b: f64) -> f64 { self.stalls.iter().filter(|s| s.0 >= a && s.0 < b).map(|s| s.1).fold(0.0, f64::max) }
}

const GRID: usize = 1201; const STEP: f64 = 0.001;
fn phi(x: f64) -> f64 { // logistic approx
    1.0/(1.0+(-1.702*x).exp()) }

/// starts: (load, good) ; returns log posterior on grid centred at c
fn posterior(starts: &[Vec<(f64,bool)>], c: f64) -> Vec<f64> {
    let sigmas: Vec<f64> = (0..8).map(|i| 0.004 * (0.10f64/0.004).powf(i as f64/7.0)).collect();
    let taus = [0.0, 0.003, 0.006, 0.012, 0.024];
    let tw = [0.2,0.25,0.25,0.2,0.1];
    let x = |i: usize| (i as f64 - (GRID/2) as f64)*STEP;
    let mut total = vec![0.0; GRID];
    for &s in &sigmas {
        let lik: Vec<Vec<f64>> = starts.iter().map(|st| (0..GRID).map(|i| {
            st.iter().map(|&(l,g)| { let z = (x(i) - (l/c).ln())/s; let p = phi(z)*0.97+0.015; (if g {p} else {1.0-p}).ln() }).sum::<f64>().exp()
        }).collect()).collect();
        for (k,&tau) in taus.iter().enumerate() {
            let half = if tau == 0.0 {0} else {(3.0*tau/STEP).ceil() as i64};
            let kern: Vec<f64> = (-half..=half).map(|j| if tau==0.0 {1.0} else {(-0.5*(j as f64*STEP/tau).powi(2)).exp()}).collect();
            let ks: f64 = kern.iter().sum();
            let mut prod = vec![tw[k]; GRID];
            for l in &lik { for i in 0..GRID {
                let mut v = 0.0;
                for (j,w) in kern.iter().enumerate() { let at = i as i64 + j as i64 - half; if at>=0 && (at as usize) < GRID { v += w*l[at as usize]; } }
                prod[i] *= v/ks;
            } }
            for i in 0..GRID { total[i] += prod[i]; }
        }
    }
    let sum: f64 = total.iter().sum();
    total.iter().map(|v| v/sum).collect()
}
fn quant(p: &[f64], q: f64) -> f64 { let mut a=0.0; for (i,v) in p.iter().enumerate() { if a+v>=q { return (i as f64 + (q-a)/v - 0.5 - (GRID/2) as f64)*STEP; } a+=v; } 0.6 }

fn main() {
    let args: Vec<f64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (blocks, rounds, sigma, tau) = (args[0] as usize, args[1] as usize, args[2], args[3]);
    let runs = args[4] as u64;
    for (speeds, stalls) in [(false,false),(true,false),(false,true),(true,true)] {
        let mut covered = 0; let mut widths = vec![]; let mut errs = vec![]; let mut spoiled=0u64; let mut made=0u64;
        for seed in 0..runs {
            let mut r = Rng(fastrand::Rng::with_seed(seed*7+speeds as u64*3+stalls as u64));
            let host = Host::new(&mut r, speeds, stalls);
            let goal = Preset::Quick.goal();
            let cap: f64 = 60_000.0 * 4f64.powf(r.u()); let ceil = 400_000.0; let packets = 277.0;
            let mut t = 5.0; let mut bounds: Option<(f64,f64)> = None;
            let mut starts = vec![]; let mut ceils: Vec<Vec<f64>> = vec![];
            for _ in 0..blocks {
                t += 3.0;
                let c_start = cap * (tau*r.n()).exp(); let e_start = ceil*(tau*r.n()).exp();
                let mut probes: Vec<Probe> = vec![]; let mut obs = vec![]; let mut cs = vec![];
                let start = Start { bounds_qps: bounds };
                for _ in 0..rounds {
                    // subject and two others and two echoes; time passes
                    for who in 0..5 {
                        let g0 = host.at(t); let (a,b) = (t+0.05, t+0.55); t += 0.62; let g1 = host.at(t);
                        made+=1;
                        let bad_gauge = ((g0-g1)/g1).abs() > 0.05;
                        let g = (g0+g1)/2.0; let speed = host.mean(a,b);
                        let noise = (sigma*r.n()).exp();
                        if who == 0 {
                            let next = next_trial(&goal, &start, &probes);
                            let (load, dur, purpose) = match next { Next::Overload{duration_s} => (0.0, duration_s, Purpose::Ceiling), Next::Trial{rate_qps,duration_s,purpose} => (rate_qps, duration_s, purpose),
                                Next::Done(b) => { let l = b.lower_qps.or(b.missed_qps).unwrap_or(cap); let u = b.upper_qps.unwrap_or(l*1.02); (goal.round_load(if r.u()<0.5 {l} else {u}), 0.5, Purpose::Latency) } };
                            let c_now = c_start*speed/g*noise;
                            // trial load in reference units, host plays load*g0
                            let l_eff = load*g0/g;
                            let stall = host.stall(a,b);
                            let witnessed = stall > packets/(load.max(1.0)*g0);
                            if bad_gauge || (load>0.0 && witnessed) { spoiled+=1; continue; }
                            let over = if load>0.0 {((l_eff-c_now)/l_eff).max(0.0)} else {0.0};
                            let p = Probe { load_qps: load, duration_s: dur, wall_s: dur+0.1, bad_ratio: over, answered_qps: if load>0.0 {l_eff.min(c_now)} else {c_now}, purpose, ..Default::default() };
                            if load>0.0 { obs.push((l_eff, over<=goal.loss)); }
                            if purpose != Purpose::Latency { probes.push(p); }
                        } else if who == 1 {
                            if bad_gauge { continue; }
                            cs.push((e_start*speed/g*noise).ln());
                        }
                    }
                }
                let b = bounds_found(&goal,&probes);
                if let (Some(l),Some(u)) = (b.lower_qps,b.upper_qps) { bounds = Some((l,u)); }
                starts.push(obs); ceils.push(cs);
            }
            // centre
            let all: Vec<f64> = starts.iter().flatten().map(|o| o.0).collect();
            if all.is_empty() { continue; }
            let c = (all.iter().map(|l| l.ln()).sum::<f64>()/all.len() as f64).exp();
            let p = posterior(&starts, c);
            // ceiling: normal about mean of starts
            let ms: Vec<f64> = ceils.iter().filter(|c| !c.is_empty()).map(|c| c.iter().sum::<f64>()/c.len() as f64).collect();
            let m = ms.iter().sum::<f64>()/ms.len() as f64;
            let n: usize = ceils.iter().map(|c| c.len()).sum();
            let within = ceils.iter().filter(|c| !c.is_empty()).zip(&ms).map(|(c,m)| c.iter().map(|x|(x-m).powi(2)).sum::<f64>()).sum::<f64>()/(n-ms.len()).max(1) as f64;
            let between = ms.iter().map(|x|(x-m).powi(2)).sum::<f64>()/(ms.len() as f64-1.0);
            let var_mean = (within/n as f64).max(between/ms.len() as f64);
            // convolve
            let sd = var_mean.sqrt().max(1e-4); let half=(4.0*sd/STEP).ceil() as i64;
            let kern: Vec<f64> = (-half..=half).map(|j| (-0.5*(j as f64*STEP/sd).powi(2)).exp()).collect(); let ks: f64=kern.iter().sum();
            let q: Vec<f64> = (0..GRID).map(|i| kern.iter().enumerate().map(|(j,w)| { let at=i as i64+j as i64-half; if at>=0&&(at as usize)<GRID {w*p[at as usize]} else {0.0} }).sum::<f64>()/ks).collect();
            let truth = (cap/ceil).ln();
            let off = c.ln()-m;
            let (lo,md,hi) = (quant(&q,0.025)+off, quant(&q,0.5)+off, quant(&q,0.975)+off);
            covered += (lo<=truth && truth<=hi) as u32; widths.push(hi-lo); errs.push(md-truth);
        }
        widths.sort_by(f64::total_cmp); let n=errs.len(); errs.sort_by(f64::total_cmp);
        println!("speeds {speeds} stalls {stalls}: n {n} covered {:.1}% width med {:.2}% p90 {:.2}% err med {:+.2}% p5 {:+.2} p95 {:+.2} spoiled {:.1}%", covered as f64/n as f64*100.0, widths[n/2]*100.0, widths[n*9/10]*100.0, errs[n/2]*100.0, errs[n/20]*100.0, errs[n*19/20]*100.0, spoiled as f64/made as f64*500.0);
    }
}
