//! Windows: Ctrl-C and Ctrl-Break, the end of the console, of the session and of the machine. After the last three
//! the system ends the process within seconds.

use std::io;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
    ctrl_logoff, ctrl_shutdown,
};

pub(super) struct Listeners {
    interrupt: CtrlC,
    interrupt_group: CtrlBreak,
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

pub(super) fn listen() -> io::Result<Listeners> {
    Ok(Listeners {
        interrupt: ctrl_c()?,
        interrupt_group: ctrl_break()?,
        close: ctrl_close()?,
        logoff: ctrl_logoff()?,
        shutdown: ctrl_shutdown()?,
    })
}

impl Listeners {
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.interrupt_group.recv() => {}
            _ = self.close.recv() => {}
            _ = self.logoff.recv() => {}
            _ = self.shutdown.recv() => {}
        }
    }
}
