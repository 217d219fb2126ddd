//! Sign-in by a code that the owner types on another device.

use serde_json::json;

use super::books::{Device, Token};
use super::tokens::issue;
use super::{Provider, refusal, words};
use crate::control::Trouble;
use crate::http::{Asked, Reply, first};

impl Provider {
    /// Hands out a device code and the code to type.
    pub(crate) fn device_code(&self, asked: &Asked, now_us: i64) -> Reply {
        let form = asked.form();
        let mut inner = self.lock();
        let (rules, books) = &mut *inner;
        let Some(device) = rules.device else {
            return refusal(400, "unsupported_grant_type", "no sign-in by device here");
        };
        if first(&form, "client_id") != Some(self.client.id.as_str()) || !rules.client_known {
            return refusal(401, "invalid_client", "client authentication failed");
        }
        let scopes = words(first(&form, "scope").unwrap_or_default());
        if scopes.is_empty() || scopes.iter().any(|scope| !self.client.scopes.contains(scope)) {
            return refusal(400, "invalid_scope", "not a scope for sign-in by device");
        }
        let (name, user_code) = (books.secret("device"), books.user_code());
        let waiting = Device {
            user_code: user_code.clone(),
            scopes,
            good_until_us: now_us.saturating_add(device.life_s.saturating_mul(1_000_000)),
            asked_us: None,
            pending: 0,
            let_in: None,
        };
        books.devices.insert(name.clone(), waiting);
        Reply::json(
            200,
            &json!({
                "device_code": name,
                "user_code": user_code,
                "verification_url": self.device_page,
                "expires_in": device.life_s,
                "interval": device.interval_s,
            }),
        )
    }

    pub(super) fn device_token(
        &self,
        asked: &Asked,
        form: &[(String, String)],
        now_us: i64,
    ) -> Result<Reply, Reply> {
        let mut inner = self.lock();
        let (rules, books) = &mut *inner;
        let device = rules
            .device
            .ok_or_else(|| refusal(400, "unsupported_grant_type", "no sign-in by device here"))?;
        self.check_client(rules, asked, form, false)?;
        let name = first(form, "device_code").unwrap_or_default();
        let waiting = books
            .devices
            .get_mut(name)
            .filter(|waiting| waiting.good_until_us > now_us)
            .ok_or_else(|| refusal(400, "invalid_grant", "the device code is void or unknown"))?;
        let interval_us = device.interval_s.saturating_mul(1_000_000);
        let asked_before = waiting.asked_us.replace(now_us);
        match waiting.let_in {
            None if asked_before.is_some_and(|at| now_us.saturating_sub(at) < interval_us) => {
                Err(refusal(device.refused_status, "slow_down", "asked too often"))
            }
            None => {
                waiting.pending += 1;
                if device.pending.is_some_and(|pending| waiting.pending >= pending) {
                    waiting.let_in = Some(device.lets_in);
                }
                Err(refusal(device.pending_status, "authorization_pending", "not decided yet"))
            }
            Some(false) => {
                Err(refusal(device.refused_status, "access_denied", "the owner refused"))
            }
            Some(true) => {
                let scopes = waiting.scopes.clone();
                books.devices.remove(name);
                let sign_in = books.next_sign_in();
                let token =
                    Token { sign_in, scopes, good_until_us: 0, agreed_us: now_us, public: false };
                Ok(issue(rules, books, &token, now_us, true))
            }
        }
    }

    pub(crate) fn decide_device(&self, user_code: &str, let_in: bool) -> Result<(), Trouble> {
        let books = &mut self.lock().1;
        let waiting = books.devices.values_mut().find(|waiting| waiting.user_code == user_code);
        let waiting =
            waiting.ok_or_else(|| Trouble::Missing("no such device code waits".to_owned()))?;
        waiting.let_in = Some(let_in);
        Ok(())
    }
}
