//! What the WHOOP server tells models: the skill `tollgate-insights`, and prompts for the usual questions.

use crate::prompt::{Prompt, PromptArgument};
use crate::skill::{Skill, SkillFile};

pub(super) const SKILLS: &[Skill] = &[Skill {
    name: "tollgate-insights",
    description: "Answer questions about the owner's WHOOP data (recovery, sleep, HRV, strain, training load, trends, what helps or hurts) with the insight tools of tollgate. Use it for \"how am I doing\", \"am I overtraining\", \"what do my best nights have in common\", a weekly review or a race plan.",
    license: "Apache-2.0",
    files: &[
        SkillFile { path: "SKILL.md", text: include_str!("skills/tollgate-insights/SKILL.md") },
        SkillFile {
            path: "references/wording.md",
            text: include_str!("skills/tollgate-insights/references/wording.md"),
        },
    ],
}];

/// The end of every prompt.
macro_rules! rules {
    () => {
        "\n\nEach tool begins with `summary`: use its sentences. State only numbers that a tool returned, each with its dates and with n (and n_eff and the interval where they are given). `not_enough_data` is an answer: say what is missing. A relation is not a cause. No diagnosis and no medical advice."
    };
}

pub(super) const PROMPTS: &[Prompt] = &[
    Prompt {
        name: "weekly_review",
        title: "Weekly review",
        description: "How the last week or month was, compared with the one before",
        arguments: &[PromptArgument {
            name: "period",
            description: "`week` or `month`",
            default: Some("week"),
        }],
        text: concat!(
            "Review my last {period}. Call `sync_whoop`, then `get_whoop_review` with this period, `get_whoop_sleep_report` and `get_whoop_training_load`. ",
            "Give the verdict in one sentence, then the three changes with the best evidence, then one thing to keep and one to try in the next {period}.",
            rules!()
        ),
    },
    Prompt {
        name: "overtraining_check",
        title: "Overtraining check",
        description: "Whether training load exceeds recovery, with what speaks for and against it",
        arguments: &[PromptArgument {
            name: "days",
            description: "How many days back to look",
            default: Some("42"),
        }],
        text: concat!(
            "Am I training more than I recover from? Look at the last {days} days. Call `sync_whoop`, then `get_whoop_training_load`, `get_whoop_trend` for HRV, resting heart rate and recovery, and `get_whoop_baseline` for unusual nights. ",
            "List what speaks for it and what against it. Do not use day strain as load, and do not call any ratio a safe or dangerous zone.",
            rules!()
        ),
    },
    Prompt {
        name: "before_a_race",
        title: "Before a race",
        description: "Where training and recovery stand before an event, and what the days until then can do",
        arguments: &[
            PromptArgument { name: "date", description: "The day of the event", default: None },
            PromptArgument {
                name: "event",
                description: "What kind of event",
                default: Some("a race"),
            },
        ],
        text: concat!(
            "I have {event} on {date}. Call `sync_whoop`, then `get_whoop_today`, `get_whoop_training_load`, `get_whoop_sleep_report`, and `get_whoop_drivers` for what goes with my good recoveries. ",
            "Say where fitness, fatigue and sleep stand, and plan the days until the event from what my own data shows. Mark what is general advice and not from my data.",
            rules!()
        ),
    },
    Prompt {
        name: "sleep_coach",
        title: "Sleep coach",
        description: "How regular and long sleep is, what goes with good nights, and one change to try",
        arguments: &[PromptArgument {
            name: "goal",
            description: "What should get better",
            default: Some("feel more rested"),
        }],
        text: concat!(
            "Help me with my sleep. My goal: {goal}. Call `sync_whoop`, then `get_whoop_sleep_report`, `get_whoop_trend` for sleep duration, and `get_whoop_drivers`. ",
            "Say how regular my sleep is and how much is missing, what my good nights have in common, and one change to try for two weeks with the number that will show whether it helped.",
            rules!()
        ),
    },
];
