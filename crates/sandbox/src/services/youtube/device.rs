//! The page where the owner types the code that a device shows.

use crate::http::{Request, Response, first};
use crate::oauth::Provider;

pub(super) const PAGE: &str = "/google/device";

pub(super) fn page(provider: &Provider, request: &Request) -> Response {
    if request.method == "GET" {
        return html(200, FORM);
    }
    let form = request.form();
    let code = first(&form, "user_code").unwrap_or_default().trim().to_uppercase();
    let let_in = first(&form, "decision") != Some("refuse");
    match provider.decide_device(&code, let_in) {
        Ok(()) if let_in => html(200, "<p>Your device is connected.</p>"),
        Ok(()) => html(200, "<p>Access was refused.</p>"),
        Err(_) => html(400, "<p>That code is not valid.</p>"),
    }
}

const FORM: &str = "<form method=\"post\"><label>Enter the code displayed on your device \
                    <input name=\"user_code\"></label>\
                    <button name=\"decision\" value=\"allow\">Allow</button>\
                    <button name=\"decision\" value=\"refuse\">Refuse</button></form>";

fn html(status: u16, body: &str) -> Response {
    let title = "<!doctype html><meta charset=\"utf-8\"><title>Sandbox: connect a device</title>";
    Response::text(status, "text/html; charset=utf-8", format!("{title}{body}"))
}
