//! Sends one message by SMTP.

use std::time::Duration;

use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use store::registry::SmtpSecurity;

use crate::message::Message;
use crate::send::SendError;

/// Each step of the exchange may take this long.
const STEP_WAIT_MAX: Duration = Duration::from_secs(15);

/// A mail server with its login.
pub(crate) struct MailServer<'s> {
    pub(crate) host: &'s str,
    pub(crate) port: u16,
    pub(crate) security: SmtpSecurity,
    pub(crate) login: Option<(String, String)>,
}

pub(crate) async fn send(
    server: MailServer<'_>,
    from: &str,
    to: &[String],
    message: &Message,
) -> Result<(), SendError> {
    let mail = mail(from, to, message).map_err(SendError::permanent)?;
    let transport = transport(server).map_err(SendError::permanent)?;
    transport.send(mail).await.map(drop).map_err(|error| SendError {
        message: error.to_string(),
        is_permanent: error.is_permanent(),
    })
}

fn mail(from: &str, to: &[String], message: &Message) -> Result<lettre::Message, String> {
    let mailbox = |text: &str| text.parse::<Mailbox>().map_err(|error| error.to_string());
    let mut mail = lettre::Message::builder()
        .from(mailbox(from)?)
        // A header must not end early.
        .subject(message.title.replace(char::is_control, " "))
        .header(ContentType::TEXT_PLAIN);
    for recipient in to {
        mail = mail.to(mailbox(recipient)?);
    }
    mail.body(message.plain_text()).map_err(|error| error.to_string())
}

fn transport(server: MailServer<'_>) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let tls = || TlsParameters::new(server.host.to_owned()).map_err(|error| error.to_string());
    let tls = match server.security {
        SmtpSecurity::Starttls => Tls::Required(tls()?),
        SmtpSecurity::Tls => Tls::Wrapper(tls()?),
        SmtpSecurity::None => Tls::None,
    };
    let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(server.host)
        .port(server.port)
        .tls(tls)
        .timeout(Some(STEP_WAIT_MAX));
    if let Some((user, password)) = server.login {
        transport = transport.credentials(Credentials::new(user, password));
    }
    Ok(transport.build())
}
