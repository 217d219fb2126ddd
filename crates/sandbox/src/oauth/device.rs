//! The device sign-in: the owner types a code on another device.

use serde_json::json;

use super::token_store::{Device, Token};
use super::tokens::issue;
use super::{Provider, refusal, scopes};
use crate::error::ControlError;
use crate::http::{Request, Response, first};

impl Provider {
    /// Issues a device code and the code to type.
    pub(crate) fn device_code(&self, request: &Request, now_us: i64) -> Response {
        let form = request.form();
        let mut inner = self.lock();
        let (rules, store) = &mut *inner;
        let Some(device) = rules.device else {
            return refusal(400, "unsupported_grant_type", "device sign-in is not supported");
        };
        if first(&form, "client_id") != Some(self.client.id.as_str()) || !rules.client_known {
            return refusal(401, "invalid_client", "client authentication failed");
        }
        let scopes = scopes(first(&form, "scope").unwrap_or_default());
        if scopes.is_empty() || scopes.iter().any(|scope| !self.client.scopes.contains(scope)) {
            return refusal(400, "invalid_scope", "a scope is not allowed for the device sign-in");
        }
        let (name, user_code) = (store.secret("device"), store.user_code());
        let waiting = Device {
            user_code: user_code.clone(),
            scopes,
            good_until_us: now_us.saturating_add(device.life_s.saturating_mul(1_000_000)),
            asked_us: None,
            pending: 0,
            let_in: None,
        };
        store.devices.insert(name.clone(), waiting);
        Response::json(
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
        request: &Request,
        form: &[(String, String)],
        now_us: i64,
    ) -> Result<Response, Response> {
        let mut inner = self.lock();
        let (rules, store) = &mut *inner;
        let device = rules.device.ok_or_else(|| {
            refusal(400, "unsupported_grant_type", "device sign-in is not supported")
        })?;
        self.check_client(rules, request, form, false)?;
        let name = first(form, "device_code").unwrap_or_default();
        let waiting = store
            .devices
            .get_mut(name)
            .filter(|waiting| waiting.good_until_us > now_us)
            .ok_or_else(|| {
                refusal(400, "invalid_grant", "the device code is invalid or unknown")
            })?;
        let interval_us = device.interval_s.saturating_mul(1_000_000);
        let asked_before = waiting.asked_us.replace(now_us);
        match waiting.let_in {
            None if asked_before.is_some_and(|at| now_us.saturating_sub(at) < interval_us) => {
                Err(refusal(device.refused_status, "slow_down", "polled too often"))
            }
            None => {
                waiting.pending += 1;
                if device.pending.is_some_and(|pending| waiting.pending >= pending) {
                    waiting.let_in = Some(device.lets_in);
                }
                Err(refusal(
                    device.pending_status,
                    "authorization_pending",
                    "the owner has not decided yet",
                ))
            }
            Some(false) => {
                Err(refusal(device.refused_status, "access_denied", "the owner denied the request"))
            }
            Some(true) => {
                let scopes = waiting.scopes.clone();
                store.devices.remove(name);
                let sign_in = store.next_sign_in();
                let token =
                    Token { sign_in, scopes, good_until_us: 0, agreed_us: now_us, public: false };
                Ok(issue(rules, store, &token, now_us, true))
            }
        }
    }

    pub(crate) fn decide_device(&self, user_code: &str, let_in: bool) -> Result<(), ControlError> {
        let store = &mut self.lock().1;
        let waiting = store.devices.values_mut().find(|waiting| waiting.user_code == user_code);
        let waiting = waiting.ok_or_else(|| {
            ControlError::Missing("no pending device sign-in has this code".to_owned())
        })?;
        waiting.let_in = Some(let_in);
        Ok(())
    }
}
