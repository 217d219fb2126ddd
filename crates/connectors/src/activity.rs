//! What a mirror says about how its owner spends time: which lists are a history, and what is counted in
//! them. One table per service; the pages are made from it.

use insights::Unit;

/// The activity of a service.
pub struct Activity {
    /// The page that it is shown on.
    pub topic: Topic,
    pub lists: &'static [ActivityList],
}

/// A page with activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    Music,
    Games,
    Video,
    Forums,
}

impl Topic {
    pub const ALL: [Topic; 4] = [Topic::Music, Topic::Games, Topic::Video, Topic::Forums];

    /// As in addresses.
    pub fn name(self) -> &'static str {
        match self {
            Topic::Music => "music",
            Topic::Games => "games",
            Topic::Video => "video",
            Topic::Forums => "forums",
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Topic::Music => "Music",
            Topic::Games => "Games",
            Topic::Video => "Video",
            Topic::Forums => "Forums",
        }
    }

    pub fn parse(name: &str) -> Option<Topic> {
        Topic::ALL.into_iter().find(|topic| topic.name() == name)
    }
}

/// One list of the mirror.
pub struct ActivityList {
    /// The kind of its records.
    pub kind: &'static str,
    pub title: &'static str,
    /// Its records are events, so that they can be counted by day and hour. The time of others is that of
    /// their last change.
    pub is_history: bool,
    pub tops: &'static [Top],
}

/// What a list is ranked by.
pub struct Top {
    pub title: &'static str,
    /// The member of the derived record with the name.
    pub name: &'static str,
    pub amount: Amount,
}

/// What is added up for each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Records,
    /// A member of the derived record, in units of `unit` after multiplying with 1/`divisor`.
    Member {
        name: &'static str,
        divisor: u32,
        unit: Unit,
    },
}

pub(crate) const fn history(
    kind: &'static str,
    title: &'static str,
    tops: &'static [Top],
) -> ActivityList {
    ActivityList { kind, title, is_history: true, tops }
}

#[cfg(test)]
mod tests {
    use crate::SERVICES;

    #[test]
    fn every_list_is_mirrored_and_every_member_is_a_column() {
        for connector in SERVICES {
            let Some(activity) = connector.activity else { continue };
            let exports = connector.mirror.map(|mirror| mirror.export.kinds).unwrap_or_default();
            for list in activity.lists {
                let kind = exports.iter().find(|kind| kind.name == list.kind);
                let columns = kind.map(|kind| format!("{:?}", kind.view)).unwrap_or_default();
                assert!(!columns.is_empty(), "{} {}", connector.name(), list.kind);
                for top in list.tops {
                    assert!(columns.contains(top.name), "{} {}", list.kind, top.name);
                }
            }
        }
    }
}
