//! The words that the classifier knows, by meaning. A word that ends in `~` is often a noun; it counts
//! as a verb only in the position of a verb.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The effect of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Action {
    /// Reads and returns.
    Read,
    /// Creates, changes or sends.
    Write,
    /// Deletes, revokes or ends.
    Destroy,
    /// Runs, starts or stops something.
    Run,
    /// Uses a screen, page or device as a person would.
    Drive,
    /// Moves money.
    Money,
    /// Depends on what follows.
    Mixed,
}

impl Action {
    pub(super) const ALL: [Self; 7] =
        [Self::Read, Self::Write, Self::Destroy, Self::Run, Self::Drive, Self::Money, Self::Mixed];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destroy => "destroy",
            Self::Run => "run",
            Self::Drive => "drive",
            Self::Money => "money",
            Self::Mixed => "mixed",
        }
    }
}

/// The topic of a noun, where it changes the meaning of a verb next to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Topic {
    /// A debt, a payment or a trade: creating or changing one moves money.
    Obligation,
    /// Other words about money: prices, balances, currencies.
    Money,
    /// Work that runs and ends: a job, a build, a workflow.
    Job,
    /// Something that is up or down: a container, a server, an app.
    Host,
    /// Something that can be run: code, a command, a query.
    Code,
    /// A browser, a page, a device.
    Screen,
    Credential,
    /// Guides, documentation, advice.
    Guidance,
    /// A result of reading: status, history, list.
    Facts,
    /// Something that exists because work was started: a run, an execution.
    Run,
    /// A query language that can only read.
    Lookup,
}

impl Topic {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Obligation => "obligation",
            Self::Money => "money",
            Self::Job => "job",
            Self::Host => "host",
            Self::Code => "code",
            Self::Screen => "screen",
            Self::Credential => "credential",
            Self::Guidance => "guidance",
            Self::Facts => "facts",
            Self::Run => "run",
            Self::Lookup => "lookup",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Verb {
    pub(super) act: Action,
    /// As often a noun as a verb.
    pub(super) weak: bool,
}

const VERBS: &[(Action, &str)] = &[
    (
        Action::Read,
        "get list find fetch read retrieve return show describe lookup look check count explain \
         summarize analyze analyse inspect monitor compare validate verify preview estimate \
         calculate compute detect identify discover browse explore enumerate peek poll \
         wait determine diagnose examine investigate extract obtain gather collect view~ search~ \
         query~ tail~ stat~ diff~ history~ status~ info~ detail~ stats~ screenshot~ snapshot~ \
         recommend suggest predict forecast~ simulate lint audit~ trace~ profile~ measure~ rank~ \
         match~ sort~ parse decode encode hash~ whoami ask answer~ introspect locate \
         report~ watch~ scan~ observe evaluate~ debug~ troubleshoot translate convert~ format~ \
         transform~ classify score~ provide display render visualize plot~ draw~ crawl scrape map~ \
         research~ guide~ help~ learn~ teach think~ plan~ review~ overview~ summary~ test~ ping~ \
         echo~ whois geocode tokenize transcribe embed filter~ aggregate~ download~ \
         export~ dump~ print~ tree~ health~ dry dryrun tell indicate",
    ),
    (
        Action::Write,
        "create add update set edit modify insert write append post~ send put~ patch~ upload save \
         store~ register rename move copy~ clone duplicate assign attach link~ tag~ label~ \
         comment~ reply react invite share~ publish unpublish reschedule schedule~ restore enable \
         activate configure change~ replace import~ merge~ apply subscribe follow like~ star~ \
         unstar pin~ unpin mark~ complete reopen transition commit~ push~ fork~ draft~ log~ submit \
         request~ accept respond upsert increment decrement toggle mute unmute snooze lock~ unlock \
         allocate reserve join grant promote demote ingest index~ refresh rotate provision scale~ \
         upgrade connect bind extend adjust alter annotate arrange compose \
         customize define enroll escalate acknowledge favorite forward~ group~ hide \
         unhide initialize init integrate issue~ make notify number~ \
         organize overwrite populate prepend prepare prioritize reassign rebase \
         recategorize redact reorder resize retag revert rewrite broadcast~ seed~ \
         sign~ split~ stage~ tweet~ vote~ upvote downvote unarchive \
         undelete vectorize whitelist allowlist authorize authenticate login onboard \
         record~ note~ remember bookmark~ crop synthesize \
         archive sync~ synchronize optimize normalize rsvp \
         book~ dismiss flag~ impersonate rate~ release~ retweet unfollow unlike setup unmerge \
         reindex reconfigure recreate regenerate renew freeze unfreeze reconcile associate relate \
         stash~ embargo enrich redirect~ postpone fulfill ship~ deliver",
    ),
    (
        Action::Destroy,
        "delete remove drop destroy purge wipe erase truncate revoke uninstall detach disconnect \
         unlink unassign unschedule unsubscribe deregister unregister deprovision discard prune \
         cleanup clean~ trash~ evict expire flush clear~ empty~ rm del rmdir unset unwatch \
         unshare disassociate dissociate deactivate deauthorize ban kick block~ blacklist burn~ \
         obliterate shred nuke decommission teardown demolish pop~ trim",
    ),
    (
        Action::Run,
        "execute exec run~ eval invoke trigger~ start~ stop~ restart launch~ deploy rerun \
         retry resume~ pause~ abort reboot shutdown boot~ spawn backfill replay rollback migrate \
         terminate kill interrupt suspend hibernate wake rebuild redeploy dispatch call~ shell~ \
         drain cordon uncordon failover switchover compile~ bash~ sudo enqueue install",
    ),
    (
        Action::Drive,
        "click~ type~ tap~ swipe~ press~ drag~ hover~ fill~ navigate scroll~ dblclick doubleclick \
         rightclick keypress keyboard~ mouse~ gesture~ pinch~ focus~ goto",
    ),
    (
        Action::Money,
        "pay buy sell~ trade~ swap~ withdraw deposit~ refund~ charge~ bill~ invoice~ stake~ \
         unstake borrow lend repay donate purchase~ payout~ liquidate redeem wire~ bridge~ \
         wrap unwrap supply~ spend~ disburse reimburse prepay overpay topup remit claim~ hedge~ \
         checkout~ order~ bid~ settle mint~",
    ),
    (
        Action::Mixed,
        "manage handle process~ control~ resolve cancel close~ open~ reset~ transfer~ approve \
         reject deny decline disable use~ operate batch~ bulk~ administer maintain access~ \
         interact work~ finish finalize end~ switch~ emulate exchange~ leave~ \
         unblock disarm arm~ quit~ exit~ repair~ fix~ void~ select~ turn load~ \
         pull~ track~ generate capture~ respawn build~",
    ),
];

const TOPICS: &[(Topic, &str)] = &[
    (
        Topic::Obligation,
        "payment invoice refund payout charge transaction order subscription bill credit debit \
         purchase payroll journal dispute trade loan escrow checkout dividend swap position \
         transfer fund expense reimbursement stake liquidity collateral allowance spender \
         receivable payable deposit withdrawal remittance",
    ),
    (
        Topic::Money,
        "money price billing wallet eth weth usdc usdt usd eur btc bitcoin ether sol crypto coin \
         balance salary wage tax ledger stock portfolio erc20 spl lightning sats satoshi \
         vault debt reward staking yield pool currency amount fee cost cart quotation quote \
         estimate coupon discount bank cash margin spend paid pay buy sell x402 l402 onchain \
         exchange dex defi nft financial finance vendor merchant budget \
         donation revenue stripe",
    ),
    (
        Topic::Job,
        "job run build pipeline workflow execution dag crawl crawler scan migration rollout suite \
         test campaign statement training backup pipelinerun taskrun rerun deployment playbook \
         automation scenario macro routine import export simulation",
    ),
    (
        Topic::Host,
        "container process instance vm cluster dyno pod server service machine session \
         sandbox daemon worker emulator stack app function lambda actor device droplet kernel \
         environment database broker replica",
    ),
    (
        Topic::Code,
        "command code script shell bash powershell terminal sql cypher query mutation javascript \
         js python groovy apex expression program method function notebook cell graphql \
         statement repl console cli",
    ),
    (
        Topic::Screen,
        "browser page tab url app simulator device screen dialog element button window keyboard \
         mouse form viewport cursor key text",
    ),
    (
        Topic::Credential,
        "token secret credential password passphrase apikey oauth key session auth \
         authentication login certificate",
    ),
    (
        Topic::Guidance,
        "guide guidance documentation doc docs instruction practice tutorial reference example \
         help methodology skill prompt tutor advice recommendation rule schema template",
    ),
    (
        Topic::Facts,
        "status info information detail details history list stats statistic metadata log logs \
         metric summary report overview profile result count usage version versions",
    ),
    (Topic::Run, "run execution pipelinerun taskrun rerun rollout backfill deployment invocation"),
    (
        Topic::Lookup,
        "soql sosl promql logql kql jql nrql gaql jmespath jsonpath xpath lucene dql logsql esql",
    ),
];

static VERB_TABLE: LazyLock<HashMap<&'static str, Verb>> = LazyLock::new(|| {
    let mut table = HashMap::new();
    for (act, words) in VERBS {
        for word in words.split_whitespace() {
            let weak = word.ends_with('~');
            let word = word.trim_end_matches('~');
            table.entry(word).or_insert(Verb { act: *act, weak });
        }
    }
    table
});

static TOPIC_TABLE: LazyLock<HashMap<&'static str, Vec<Topic>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Topic>> = HashMap::new();
    for (thing, words) in TOPICS {
        for word in words.split_whitespace() {
            table.entry(word).or_default().push(*thing);
        }
    }
    table
});

pub(super) fn verb(base: &str) -> Option<Verb> {
    VERB_TABLE.get(base).copied()
}

pub(super) fn topics(base: &str) -> &'static [Topic] {
    TOPIC_TABLE.get(base).map_or(&[], Vec::as_slice)
}

pub(super) fn is_known(base: &str) -> bool {
    VERB_TABLE.contains_key(base) || TOPIC_TABLE.contains_key(base)
}
