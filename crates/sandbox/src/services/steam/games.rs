//! Generates games by number: names, application ids, and special cases.

use crate::rng::Rng;

/// The number of games.
pub(super) const GAMES: i64 = 180;

const FIRST: &[&str] = &[
    "Iron", "Star", "Deep", "Lost", "Tiny", "Grim", "Cyber", "Wander", "Frost", "Pixel", "Rogue",
    "Silent", "Hyper", "Dune", "Moss",
];
const SECOND: &[&str] = &[
    "Harvest", "Dominion", "Caverns", "Drift", "Tactics", "Horizon", "Protocol", "Keeper",
    "Frontier", "Odyssey", "Workshop", "Legends",
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Game {
    number: i64,
}

impl Game {
    pub(super) fn all() -> impl Iterator<Item = Game> {
        (0..GAMES).map(|number| Game { number })
    }

    pub(super) fn of_app(appid: i64) -> Option<Game> {
        Game::all().find(|game| game.appid() == appid)
    }

    pub(super) fn number(self) -> i64 {
        self.number
    }

    pub(super) fn appid(self) -> i64 {
        200_000 + self.number * 1_370
    }

    pub(super) fn name(self) -> String {
        let pick = |from: &[&str], number: i64| {
            let length = i64::try_from(from.len()).unwrap_or(1);
            let at = usize::try_from(number.rem_euclid(length)).unwrap_or(0);
            from.get(at).map_or_else(String::new, |word| (*word).to_owned())
        };
        let name = format!("{} {}", pick(FIRST, self.number), pick(SECOND, self.number / 15));
        match self.number % 10 {
            3 => format!("{name} II"),
            6 => format!("{name}™: Definitive Edition"),
            _ => name,
        }
    }

    pub(super) fn is_free(self) -> bool {
        self.number % 12 == 5
    }

    /// Some games have no statistics at all.
    pub(super) fn has_stats(self) -> bool {
        self.number % 9 != 8
    }

    /// Some have statistics but no achievements.
    pub(super) fn achievements(self) -> i64 {
        if self.number % 9 == 4 {
            0
        } else {
            Rng::stream(0, "achievements", self.number).whole(8, 60)
        }
    }
}
