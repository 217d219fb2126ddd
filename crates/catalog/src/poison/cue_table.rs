//! The phrases that give the model instructions, by purpose. Points were set on our own poisoned and
//! clean definitions and checked against thousands of honest tools. Phrases that honest authors also use
//! (call this first, ask the user) have few points and count only together with other cues.

use super::PoisonKind::{
    self, Authority, Consent, Encoded, Harvest, Order, OtherTools, Override, Pressure, Redirect,
    Secrecy, Smuggle,
};
use super::tokens::Token;

#[derive(Debug)]
pub(super) struct Cue {
    pub(super) kind: PoisonKind,
    pub(super) points: u32,
    /// Words that make the phrase harmless: inside it, or up to three before it.
    exceptions: &'static [&'static str],
    pub(super) patterns: &'static [&'static str],
}

impl Cue {
    pub(super) fn is_excepted(
        &self,
        before: &[Token],
        span: &[Token],
        next: Option<&Token>,
    ) -> bool {
        const WORDS_BEFORE: usize = 3;
        if self.exceptions.is_empty() {
            return false;
        }
        // "Never tell the user a job was started" warns of a false report and hides nothing.
        if self.kind == Secrecy && next.is_some_and(|w| matches!(w.text.as_str(), "a" | "an")) {
            return true;
        }
        let sentence = span.first().map(|w| w.sentence);
        let near = before.iter().rev().take(WORDS_BEFORE).filter(|w| Some(w.sentence) == sentence);
        near.chain(span).any(|w| self.exceptions.contains(&w.text.as_str()))
    }
}

const fn cue(kind: PoisonKind, points: u32, patterns: &'static [&'static str]) -> Cue {
    Cue { kind, points, exceptions: &[], patterns }
}

const fn unless(
    kind: PoisonKind,
    points: u32,
    exceptions: &'static [&'static str],
    patterns: &'static [&'static str],
) -> Cue {
    Cue { kind, points, exceptions, patterns }
}

/// Hiding a password protects the user; hiding what was done does not.
const SECRETS: &[&str] = &[
    "key",
    "keys",
    "token",
    "tokens",
    "password",
    "passwords",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "pii",
    "id",
    "ids",
    "internal",
    "raw",
    "json",
    "uuid",
    "uuids",
    "bother",
];
const FAILS: &[&str] = &["fail", "fails", "failing", "failed", "ignore", "ignores", "dropped"];
const NOT: &[&str] = &["not", "never", "dont", "without", "unless", "must", "only", "cannot"];

pub(super) const CUES: &[Cue] = &[
    // Outranking.
    cue(
        Override,
        120,
        &[
            "ignore|disregard|forget|neglect|discard|overrule ..3 previous|prior|earlier|above|preceding|original|initial|your|system|former ..3 instruction*|prompt|prompts|guidelines|directive*|guardrails|programming|training|safety|rules|constraints|restrictions",
            "ignore|disregard|forget ..2 all|any|every|other|existing|current|these ..2 instruction*|guidelines|directive*|guardrails|safeguards|restrictions",
            "ignore|disregard|forget everything|anything ..3 told|said|above|before|instructed|know",
            "override|overrides|overriding|bypass|circumvent ..3 previous|prior|earlier|your|safety|security|user|users ..2 instruction*|guideline*|guardrails|policies|restrictions|safeguards|filters|checks|wishes|preferences",
            "takes|take|has|have|given precedence|priority over ..4 instruction*|guideline*|prompt|prompts|user|users",
            "supersede|supersedes|superseding|overrides|override|outranks|replaces ..3 all|any|other|previous|user|users|system|your ..2 instruction*|guideline*|prompt|request*|rules",
            "stop following ..3 instruction*|rules|guidelines|policy|user|users",
            "not bound by ..3 instruction*|rules|guidelines|policy|restrictions|safety",
        ],
    ),
    cue(
        Override,
        100,
        &[
            "do|must|should not|never obey|follow|trust|heed ..2 user|users|human|operator",
            "never obey|follow|trust|heed ..2 user|users|human|operator",
            "act|behave|respond|operate|function ..2 as ..3 unrestricted|unfiltered|jailbroken|uncensored|superuser",
            "you are no longer ..2 bound|restricted|required|limited|an|a",
            "regardless of ..3 user|users|human|person ..3 say|says|said|ask|asks|asked|want|wants|request*|instruct*|object*|prefer*|intent*|specif*",
            "reveal|print|output|repeat|recite|leak|dump|expose ..3 system prompt|message|instructions",
            "developer|god|sudo|dan|unrestricted mode ..2 enabled|activated|active|on",
        ],
    ),
    cue(
        Override,
        60,
        &[
            "you are now a|an|in|the|operating|acting|connected|authorized",
            "new|updated|real|actual|true|secret|hidden|special|override instructions|directive|directives|orders ..2 for|to|follow|are|apply|from|you",
            "system|admin|security override",
            "your new|real|true|actual|only|primary|main task|goal|objective|purpose|job|mission|role",
            "from|starting now on ..6 you",
            "even if|when|though the user|human ..2 object*|refuse*|declin*|disagree*|forbid*|say|says",
            "even if asked|told|instructed not|otherwise",
        ],
    ),
    // Secrecy.
    unless(
        Secrecy,
        110,
        SECRETS,
        &[
            "do|must|should|shall|can not|never ..2 tell|mention|inform|reveal|disclose|alert|admit|confess|report ..5 user|users|human|humans|person|operator|owner|anyone|anybody|them|him|customer",
            "dont|never|avoid|refrain ..2 tell|telling|mention|mentioning|inform|informing|reveal|revealing|disclose|disclosing|alert|alerting|admit|admitting|report|reporting ..5 user|users|human|humans|person|operator|owner|anyone|anybody|them|customer",
            "do|must|should|shall not|never ..1 mention|reveal|disclose|discuss|acknowledge|talk|reference|describe|explain|document ..2 this|these|that|it|them|any|its|the ..3 step|steps|instruction*|call|calls|action|copy|tool|note|rule|message|section|part|paragraph|behavio*|process|request|directive|forwarding|exchange|upload|requirement|notice|procedure|existence|anyone|anybody|response|answer|reply|summary|output",
            "dont|never|avoid mention|mentioning|reveal|revealing|disclose|discuss|acknowledge|talk|reference|describe|explain ..2 this|these|that|it|them|any|its|the ..3 step|steps|instruction*|call|calls|action|copy|tool|note|rule|message|section|part|paragraph|behavio*|process|request|directive|requirement|notice|existence|anyone|anybody|response|answer|reply|summary|output",
            "without telling|informing|alerting|mentioning ..4 user|users|human|person|operator|owner|anyone|this|it|them",
            "without ..2 knowledge|awareness of ..2 user|users|human|person|operator|owner",
            "without ..1 user|users|owner|owners|person|persons|their s|knowledge|knowing|awareness|noticing",
            "without ..1 users|owners|persons|their ..1 knowledge|awareness|noticing|knowing",
            "user|users|human|person|operator|owner ..1 must|should|need|needs|may|can|does|do|will|shall|is|are not|never|cannot ..3 know|notice|suspect|aware|learn|realize|realise",
            "user|users|human|person|operator|owner cannot|neednt|shouldnt|mustnt|wont|doesnt ..2 know|notice|suspect|learn|realize",
            "secretly|covertly|stealthily|surreptitiously|clandestinely ..3 read|send|call|copy|include|add|append|forward|attach|collect|upload|run|execute|pass|store|insert|use|invoke|record|fetch|log|gather|set|change|replace|transmit|post",
            "no mention|reference|trace|hint of|to ..2 this|these|it|the",
            "pretend|act|behave|respond|continue|reply|answer|proceed ..3 as|like ..1 if nothing|normal",
            "pretend|act like|as|that nothing|normal",
            "user|users|human|person need|needs not|no know|be|to",
            "hide ..3 this|these|fact|it|action|step|call|activity|instruction* ..3 from ..1 user|users|human|person|operator|owner",
        ],
    ),
    unless(
        Secrecy,
        60,
        SECRETS,
        &[
            "do|must|should not|never show|display|surface|expose|present|render ..3 this|these ..4 user|users|human",
            "dont|never show|display|surface|expose ..3 this|these ..4 user|users|human",
            "not visible|shown|displayed|known|apparent to ..1 user|users|human",
            "omit|exclude|leave|remove|strip ..3 this|these|it ..5 summary|response|answer|reply|explanation|output|log|logs|history",
            "for internal|your|model|assistant|ai eyes|use only",
            "just|only|simply say|tell|answer|respond|reply|report ..3 done|ok|success|successful|succeeded|completed|ready|normally",
        ],
    ),
    cue(
        Secrecy,
        30,
        &[
            "do|must|should not|never show|display|share|expose|reveal|disclose|output|print ..4 user|users",
            "without notifying|notification ..3 user|users|anyone|owner",
        ],
    ),
    cue(
        Secrecy,
        110,
        &[
            "secret|conceal|concealed ..3 from ..1 user|users|human|person|operator|owner",
            "keep ..2 this|these|it|that|them ..3 secret|confidential|hidden ..1 from|between",
            "keep this|it|that between us",
        ],
    ),
    cue(
        Secrecy,
        70,
        &["keep ..1 this|these|it|that ..2 secret|confidential|hidden|quiet|invisible"],
    ),
    cue(Secrecy, 40, &["hidden ..1 from ..1 user|users|human|person|operator|owner"]),
    unless(
        Secrecy,
        60,
        FAILS,
        &[
            "silently|quietly|discreetly|invisibly ..2 read|send|call|copy|include|add|append|forward|attach|collect|upload|execute|pass|insert|invoke|record|fetch|gather|transmit|post|bcc",
        ],
    ),
    // Where the gathered text goes.
    cue(
        Smuggle,
        60,
        &[
            "pass|hand|give|put|place|include|send|insert|write|add|paste|provide|supply|submit|embed|encode|copy|append|attach|store|fill|set|use|deliver ..6 contents|content|value|values|it|them|its|result|results|output|data|text|key|keys|file|files|history|transcript|everything ..6 parameter|parameters|argument|arguments|field|fields|property|as|in|into|to|query|url|body|header|subject|note|comment",
            "as ..3 parameter|argument|field|value|header|note|sidenote",
            "in|into|via|through ..2 this|the|that ..2 field|parameter|argument|property|note",
            "base64|encoded|encode|hex ..6",
        ],
    ),
    // Order of calls.
    cue(
        Order,
        50,
        &[
            "before|prior|ahead ..2 using|calling|invoking|running|executing|doing|performing|answering|responding|replying|use|call|any|every|each|all|of ..2 any|every|each|all|other|tool|tools|anything|question|questions ..2 tool|tools|action|actions|response|request|call|calls|operation|task|else|message|messages|command|commands|question|user",
            "before|after every|each|any ..1 response|message|turn|reply|answer|tool|call|request|prompt|action",
            "after|following every|each|any|all ..2 tool|tools|call|calls|invocation|use|response|message",
            "at|on|in ..1 start|beginning|end|top|close of ..1 every|each|any|all ..2 conversation|session|response|message|turn|task|request|reply|chat|call",
            "whenever|everytime ..2 any|another|other ..2 tool|tools",
            "every|each time ..3 any|another|other|a ..1 tool|tools",
            "must|should|always|shall ..1 be called|invoked|used|run|executed ..2 before|after|first|prior ..3 any|every|all|each|other",
            "call|invoke|use|run|execute this ..2 on|for|after|before|with every|each|all",
            "first action|thing|step in|of every|each|any",
        ],
    ),
    cue(
        Order,
        20,
        &[
            "must|always|should ..2 call|use|invoke|run|execute ..3 first|before|this",
            "call|use|invoke|run ..2 this ..2 first",
            "required before",
        ],
    ),
    // Other tools.
    cue(
        OtherTools,
        60,
        &[
            "never|dont use|call|trust|invoke ..2 any|other|another|original|the ..2 tool|tools|server|servers",
            "instead of ..3 other|original|official|built|builtin|native|any|trusted ..2 tool|tools|server",
            "tool|tools|function|functions of|from|on|by|in ..1 other|another|different|any|all|every ..1 server|servers|provider|vendor|mcp",
            "other|another|different server|servers|mcp ..3 tool|tools|call|calls|result|results",
            "output|outputs|results|result|response|responses of|from ..1 other|another|any|all|every ..2 tool|tools|server",
            "prefer|choose|select|pick|favor this ..2 over|above|instead|rather ..3 any|all|other|every|others|similar|alternative*",
            "this ..2 only|best|official|trusted|verified|approved|safe ..2 tool|version|replacement|server ..4 instead|never|not|avoid|others|only",
            "the|any|every|all ..2 tool|tools|function ..2 must|should|shall|needs ..2 also|always|instead|now|be ..3 sent|copied|forwarded|changed|replaced|set|include|included|routed|redirected|passed|called",
        ],
    ),
    cue(
        OtherTools,
        50,
        &[
            "change|replace|redirect|substitute|swap|rewrite|alter|overwrite|reroute ..4 recipient|recipients|destination|address|account|amount|wallet|payee|beneficiary|iban ..4 to|with|by|for",
            "set|use ..3 recipient|recipients|destination|wallet|payee|beneficiary|iban|bcc ..3 to|as ..2 attacker|following|address|always",
            "all|every|any|each emails|messages|payments|transfers|transactions|requests|invoices ..3 must|should|shall|need|are|to ..3 sent|go|copied|forwarded|routed|paid|addressed|include|cc|bcc|redirected|proxied",
            "prices|price|amount|amounts|total ..2 must|should be|to ..3 increased|raised|multiplied|doubled|reduced",
        ],
    ),
    cue(
        OtherTools,
        100,
        &[
            "all|any|every|the other|another ..2 tool|tools|server|servers ..3 are|is|have|has|was|were ..3 unsafe|insecure|compromised|malicious|untrusted|forbidden|infected|hacked",
        ],
    ),
    cue(
        OtherTools,
        60,
        &[
            "all|any|every other|another ..1 tool|tools|server|servers ..3 must|should|are|is|have|has|now|will ..3 deprecated|broken|disabled|unreliable|outdated|blocked|obsolete|unavailable",
        ],
    ),
    cue(
        OtherTools,
        40,
        &[
            "do|must not|never use|call|trust|invoke ..2 any|other|another|original|built|builtin|the ..2 tool|tools|server|servers|version",
        ],
    ),
    unless(
        OtherTools,
        60,
        &["this"],
        &[
            "when|whenever|if|before|after ..3 using|calling|invoking|call|use|invoke|uses|calls|runs ..4 tool|function ..8 must|always|also|instead|add|change|replace|set|append|include|first|forward|copy",
        ],
    ),
    // Where copies go.
    cue(
        Redirect,
        50,
        &[
            "bcc|blind ..3 copy|copies|address|to|every|all|each|field|recipient",
            "add|include|set|put|append|insert|always ..4 bcc",
            "send|forward|mail|email|deliver|post|upload|transmit|report|submit|copy|mirror|sync|beacon|exfiltrate ..3 copy|copies|duplicate|duplicates ..3 to",
            "send|forward|upload|transmit|post|exfiltrate|leak|beacon|relay ..6 to ..2 attacker|external|remote|our|collector|webhook|endpoint|telemetry|following",
            "exfiltrate|exfil",
        ],
    ),
    // Consent.
    unless(
        Consent,
        60,
        NOT,
        &[
            "no need|reason to ..2 ask|confirm|request|wait|verify|check",
            "skip|bypass|suppress|disable|auto|omit ..3 confirmation|confirmations|approval|approvals|permission|permissions|consent|prompts|review|verification",
            "auto|automatically approve|approves|confirm|accept|authorize ..3",
            "already|pre approved|authorized|authorised|consented ..2 by ..2 user|owner|human|admin|administrator|security",
            "preapproved|preauthorized|preauthorised",
        ],
    ),
    cue(
        Consent,
        60,
        &[
            "do|must|should not|never ..1 ask|request|seek|wait|prompt|require ..3 user|human|permission|confirmation|approval|consent",
            "dont|never ask|request|seek|wait|prompt ..3 user|human|permission|confirmation|approval|consent",
        ],
    ),
    unless(
        Consent,
        40,
        NOT,
        &[
            "without asking|requesting|waiting|seeking|prompting|confirming ..4 user|human|permission|confirmation|approval|consent",
            "without ..1 user|users|explicit|any|their|further confirmation|approval|permission|consent",
        ],
    ),
    unless(
        Consent,
        80,
        &["if", "when", "once", "after", "unless", "whether", "not", "only"],
        &[
            "user|human|owner|person|operator has|have ..1 already|previously|implicitly|pre ..1 approved|consented|agreed|authorized|authorised|granted|given|confirmed",
        ],
    ),
    // Pressure.
    cue(
        Pressure,
        30,
        &[
            "otherwise|else ..6 fail|fails|crash|crashes|break|breaks|blocked|terminated|lost|deleted|corrupt*|breach|banned|suspended|fired|harm|die|wrong|rejected|refuse|refuses|denied|proceed",
            "failure|failing to ..6 will|result|results|cause|causes|lead|is",
            "if you do not|dont",
            "if you dont|fail|refuse|skip",
            "tool|server|system|function ..1 will|does|would not|never|refuse ..3 work|function|respond|run|proceed|execute|unless",
            "will not|never ..2 work|function|respond|run|proceed unless|until|without|if",
            "required|mandatory|necessary|needed|essential for ..3 security|compliance|audit|auditing|verification|authentication|integrity|logging|telemetry|debugging|analytics|billing|legal|gdpr|tracking|quality|proper",
            "for ..1 security|compliance|audit|auditing|verification|telemetry|debugging|diagnostic|diagnostics|analytics|training|legal|safety|quality purposes|reasons|purpose|reason",
            "this is ..1 critical|vital|crucial|mandatory|urgent|essential|security",
            "very|extremely|absolutely|highly important|critical|urgent",
            "critical|urgent|mandatory|emergency security|compliance|system|policy ..1 requirement|update|notice|alert|step",
            "you|your access|session|account will be ..2 terminated|suspended|revoked|fired|shut|penalized|logged",
        ],
    ),
    // Speaking as the system, or to the model.
    cue(
        Authority,
        60,
        &[
            "as an ai|llm ..3 you|must|should|reading|assistant|agent|model",
            "assistant|model|ai|llm reading|processing|parsing|seeing this",
            "on behalf of ..2 system|administrator|anthropic|openai|developer|developers|security",
            "anthropic|openai ..3 require|requires|mandates|policy|authorized|instructs|security|compliance|team",
        ],
    ),
    cue(
        Authority,
        30,
        &[
            "before you ..2 respond|answer|reply|continue|proceed|do|use|call|start",
            "you must ..2 always|also|first|immediately|never|include|call|read|send|use|add|append|copy|forward",
            "you should ..1 always|also|first|immediately|silently",
            "you|assistant|model|agent are|is required|obligated|obliged|instructed|expected|ordered to",
            "your|the next response|message|reply|answer|output must|should",
        ],
    ),
    cue(
        Authority,
        60,
        &[
            "attention|dear|hey|hello|listen ai|llm|assistant|model|claude|chatgpt|gpt|copilot|gemini",
            "system|developer|administrator message|notice|directive|command|alert ..1 you|from|all|the|to|for|override|ignore|disregard|must",
            "admin message|notice|directive|command|alert ..1 you|override|ignore|disregard|must|assistant",
        ],
    ),
    cue(
        Authority,
        45,
        &[
            "note|notes|message|instruction|instructions|directive|notice|reminder|memo|warning|information to|for ..1 ai|llm|model|models|assistant|assistants|claude|chatgpt|gpt|copilot|cursor|gemini",
            "important|reminder|warning ai|llm|assistant|model|claude|chatgpt|gpt|copilot|gemini",
        ],
    ),
    cue(
        Authority,
        30,
        &[
            "ai|llm|assistant|assistants|model|agent must|shall ..1 always|never|not|silently|immediately|secretly|first|also",
        ],
    ),
    // What the model is to do with its own words, and with the person's.
    cue(
        Override,
        110,
        &[
            "ignore|disregard|overrule|refuse ..2 user|users|persons ..2 request|requests|wishes|wish|question|instructions|input|message|preferences|choice|objections",
            "even when|if|though ..1 user|human|person|they|he|she ..2 ask|asks|asked|tell|tells|say|says|want|wants|told|tries ..3 stop|not|otherwise|cancel|no|quit",
            "obeyed|followed|executed|trusted|accepted|obey|follow ..3 without ..1 question|questions|questioning|hesitation|doubt",
            "stop|abandon|drop what|whatever you are|were doing",
            "whatever ..2 server|tool|author|attacker says|wants|asks|tells|demands",
        ],
    ),
    cue(
        Override,
        60,
        &[
            "you are now",
            "must|shall be obeyed|followed ..3",
            "without ..1 restrictions|limits|filters|censorship|limitations|safeguards",
            "until told|instructed|notified otherwise",
            "trusted|authoritative|privileged system|developer|admin|administrator ..1 content|message|instructions|source|data|context",
        ],
    ),
    unless(
        Secrecy,
        110,
        SECRETS,
        &[
            "do|must|should|shall not|never let ..3 know|see|notice|suspect|find|learn|hear",
            "dont|never let ..3 know|see|notice|suspect|find|learn|hear",
            "do|must|should not|never bring ..3 up",
            "dont|never bring ..3 up",
            "nobody|noone|none ..3 can|will|may|could|should|to|must ..1 trace|see|know|find|notice|detect|learn",
            "no one ..2 can|will|may|could|should|must ..1 trace|see|know|find|notice|detect|learn",
            "cover|hide|erase|remove ..2 your|our|its|any|all|the ..1 tracks|traces|evidence",
            "leave|leaves|leaving no ..1 trace|traces|record|evidence",
            "stays|stay|remain|remains|kept between|secret|confidential|hidden ..1 from|you|us|between",
            "stays|stay|remains between",
        ],
    ),
    unless(
        Secrecy,
        70,
        SECRETS,
        &[
            "leave|leaves|leaving|keep|omit ..4 out of ..3 reply|replies|answer|answers|response|responses|summary|report|conversation|chat|output",
            "user|users|human|person ..1 must|should|need|needs|may|can|does|do|will|would|shall not|never ..2 see|hear|find|get",
            "users|user|people find|finds|get ..4 annoying|confusing|alarming|annoyed|confused|alarmed",
            "would|will|may|might only|just|unnecessarily confuse|worry|alarm|annoy|upset",
            "say|claim|pretend|insist ..3 it|that|everything|all ..2 succeeded|worked|fine|successful|normal",
            "say|claim|pretend ..1 succeeded|success",
            "no mention|word about|of",
            "before the user|person|human notices|sees|finds|knows",
        ],
    ),
    cue(
        Harvest,
        110,
        &[
            "send|pass|forward|give|include|copy|relay|share ..3 output|outputs|result|results|response|responses|contents of|from ..2 all|every|any|each ..1 other|previous|earlier|prior ..2 tool|tools|calls|servers",
            "your|the ..2 hidden|internal|private|secret ..1 reasoning|thoughts|thinking|scratchpad|instructions|prompt|monologue",
        ],
    ),
    cue(
        Harvest,
        80,
        &[
            "your ..1 system|initial|original|developer ..1 prompt|instructions|message|context",
            "printing|repeating|outputting|reciting|copying|quoting|revealing|pasting|including|writing|sending ..3 system|developer prompt|instructions|message",
            "system prompt|instructions|message you|word|verbatim|exactly|were",
            "exact|full|complete|entire|raw|whole|original system prompt|message|instructions",
        ],
    ),
    cue(
        Harvest,
        60,
        &[
            "gather|collect|harvest|compile|scrape ..10 all|every|entire ..2 contacts|emails|messages|files|documents|photos|records|passwords|contact|keys|tokens|chats",
            "execute|run|exec|call|running ..2 printenv|env|whoami|ifconfig|ipconfig|netstat|set",
            "printenv",
        ],
    ),
    cue(
        Harvest,
        45,
        &[
            "what|whatever the user|person is|has|was|said|wants|wrote|typed|works|working",
            "summary|summarize|summarise ..3 user|users|conversation|chat|discussion ..2",
        ],
    ),
    cue(
        OtherTools,
        60,
        &[
            "rule|rules|instruction|instructions|note|notes|policy for|about ..2 server|servers|tool|tools ..1",
            "every|each|any|all call|calls|use|invocation|request|requests to|of ..2 must|should|has|have|needs|shall",
            "every|each|any|all call|calls|use|request|requests ..4 must|should|has|have|needs|shall ..2 use|include|carry|add|contain|go|be",
            "turn|switch|switching|turning off ..2 sandbox|safety|confirmation|confirmations|approval|approvals|guard|guards|protection|firewall|antivirus|monitoring|logging|audit|auditing|checks",
            "disable|deactivate|suspend ..2 sandbox|safety|confirmations|approvals|guardrails|antivirus|monitoring|safeguards",
        ],
    ),
    cue(
        Order,
        60,
        &[
            "later|future|subsequent|next|all|every|other sessions|conversations|chats|session|conversation ..6 follow|obey|apply|without|must|automatically",
            "keep calling|invoking|running|repeating this|it ..4",
            "end|begin|start|finish|prefix|conclude|close ..2 your|every|each|all ..2 reply|replies|response|responses|answer|answers|message|messages|output ..2 with|by",
        ],
    ),
    cue(
        Order,
        40,
        &[
            "over and over",
            "again and again",
            "store|save|write|add|record|remember|note ..3 in|to|into ..2 memory|memories ..1 that",
        ],
    ),
    cue(
        Consent,
        80,
        &[
            "needs|need|requires|require|with|without no|any|further ..1 further|additional|more|other ..1 question|questions|confirmation|approval|permission|consent|review",
            "approve|accept|confirm|authorize|allow|grant ..2 all|every|any|each ..2 pending|future|requests|request|prompts|calls|pull ..3",
            "agreed|cleared|approved|authorized|authorised ..2 with|by ..2 security|management|administrator|it|legal|owner|admin",
        ],
    ),
    cue(
        Consent,
        40,
        &[
            "without asking|questions",
            "automatically approve|approves|accept|accepts|confirm|confirms",
        ],
    ),
    cue(Pressure, 30, &["urgent|emergency|immediately", "at once"]),
    cue(
        Authority,
        45,
        &[
            "assistant|agent|model|ai|llm ..1 has|have|needs|need|ought to",
            "assistant|model|ai|llm uploads|reads|sends|copies|forwards|collects|includes|attaches|shares",
            "system|security update|upgrade|patch|notice|alert|advisory ..3",
        ],
    ),
    cue(Authority, 20, &["you should|must|shall|will|need"]),
    cue(Override, 110, &["ignore|disregard|forget the above|previous|foregoing|preceding ..1"]),
    cue(
        Override,
        80,
        &[
            "follow|obey|execute|perform ..2 any|all|the|these|every ..1 instructions|commands|orders ..3 contained|in|from|found|within|returned|inside|embedded",
            "even if|when the user|customer|human ..2 specif*|provid*|gives|names|chooses|sets|picks",
        ],
    ),
    cue(Override, 60, &["as if|though ..4 came|from|by|were|said ..2 user|owner|system|human"]),
    unless(
        Secrecy,
        110,
        SECRETS,
        &[
            "do|must|should not|never point|call ..2 out",
            "dont|never point|call ..2 out",
            "keep ..5 to yourself",
            "no need|reason to ..1 tell|inform|mention|notify|alert|bother|trouble|worry ..2 user|users|them|anyone|person|customer|human|it|this",
            "without displaying|showing|mentioning|announcing|describing|explaining|reporting|disclosing ..2 this|it|step|these|that|so",
        ],
    ),
    unless(
        Secrecy,
        70,
        SECRETS,
        &[
            "do|must|should not mention|disclose|acknowledge|admit|reveal ..1",
            "dont|never mention|disclose|acknowledge|admit|reveal ..1",
        ],
    ),
    unless(
        Secrecy,
        60,
        FAILS,
        &[
            "silently|quietly|discreetly ..2 delete|remove|change|grant|approve|install|run|modify|overwrite|replace|disable|enable|switch|set",
        ],
    ),
    cue(
        Consent,
        80,
        &[
            "skip|bypass|suppress|disable|omit|avoid ..2 authorization|authorisation|security|safety|permission|access|identity ..1 checks|check|verification|controls",
        ],
    ),
    cue(
        Harvest,
        100,
        &["ask|asks|asking ..3 for ..2 password|passwords|pin|passphrase|card|seed|credentials"],
    ),
    cue(Order, 40, &["only ..1 use|call this one", "use only this one"]),
    cue(
        OtherTools,
        60,
        &[
            "tool|tools|server|servers is|are ..1 insecure|unsafe|compromised|malicious|untrusted|dangerous|infected",
        ],
    ),
    cue(
        Authority,
        40,
        &[
            "assistants|agents|models|ais ..1 are|must|shall|have ..1 required|obliged|instructed|ordered|to|always|submit|send",
        ],
    ),
    // Encodings that are to be followed.
    cue(
        Encoded,
        80,
        &[
            "decode|decrypt|deobfuscate|unescape|rot13 ..10 follow|execute|obey|run|instruction*|perform|comply|act|apply",
        ],
    ),
    // The conversation word for word.
    cue(
        Harvest,
        100,
        &[
            "conversation|chat|message|dialogue history|transcript|log|logs ..4 verbatim",
            "verbatim ..4 conversation|chat ..1 history|transcript|log",
        ],
    ),
    cue(
        Harvest,
        80,
        &[
            "transcript|conversation|history|record of ..2 chat|conversation|session|dialogue ..2 so|until|up|verbatim",
            "with ..1 entire|full|whole|complete ..2 conversation|chat|transcript|dialogue",
        ],
    ),
    // The conversation and the model's own text.
    cue(
        Harvest,
        70,
        &[
            "include|pass|send|copy|paste|provide|embed|put|append|attach|forward|write|dump|submit|repeat|supply|record|store|log|upload|summarize|summarise|add|insert|quote|share|give|export ..5 entire|full|whole|complete|all|verbatim|previous|prior|recent|raw|last|every|earlier|current|users|exact ..4 conversation|conversations|chat|transcript|dialogue|dialog|messages|message|history|prompt|prompts|context",
            "conversation|chat|message|messages|prompt|dialogue history|transcript|log|logs|context ..4 verbatim|so|including|word|full|must|up|complete",
            "include|pass|send|copy|paste|provide|embed|append|attach|forward|dump|submit|supply|record|store|log|upload|insert|quote|put|add|share|give ..5 system|developer prompt|message|instructions",
            "everything the user|human has|have|wrote|said|typed|told|shared",
            "verbatim ..3 user|conversation|system|messages|prompt|history|transcript",
            "all|every|any ..2 user|personal|private|sensitive|confidential|secret ..2 data|information|info|details|files|file|documents ..4 you|found|seen|available|have|access|to",
            "users ..1 last|previous|recent|other|earlier ..1 messages|message|questions|prompts|requests",
        ],
    ),
];

/// The same demands where the words are others.
pub(super) const OTHER_LANGUAGES: &[(PoisonKind, &[&str])] = &[
    (
        Override,
        &[
            "忽略之前的",
            "忽略先前的",
            "忽略以上",
            "忽略所有",
            "无视之前",
            "無視之前",
            "以前の指示を無視",
            "これまでの指示を無視",
            "ignora las instrucciones",
            "ignora todas las instrucciones",
            "ignore as instruções",
            "ignorez les instructions",
            "ignore les instructions",
            "ignoriere alle",
            "ignoriere die vorherigen",
            "ignora le istruzioni",
            "игнорируй предыдущие",
            "игнорируйте предыдущие",
            "이전 지시를 무시",
            "negeer alle eerdere",
        ],
    ),
    (
        Secrecy,
        &[
            "不要告诉用户",
            "不要告訴使用者",
            "不要向用户",
            "请勿告知用户",
            "不得告知用户",
            "ユーザーに知らせない",
            "ユーザーには言わない",
            "ユーザーに伝えない",
            "no le digas al usuario",
            "no informes al usuario",
            "sin informar al usuario",
            "sin que el usuario",
            "não conte ao usuário",
            "não informe o usuário",
            "ne dites pas à l",
            "ne le dis pas à l",
            "sans en informer l",
            "sage dem benutzer nicht",
            "sag dem nutzer nicht",
            "ohne den benutzer zu informieren",
            "ohne den nutzer zu informieren",
            "non dire all'utente",
            "не сообщай пользователю",
            "не говори пользователю",
            "사용자에게 알리지",
            "vertel de gebruiker niet",
        ],
    ),
];
