//! `netferry completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Failure;
use crate::output;

/// Print the completion script of a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(netferry completions bash)
  netferry completions bash > /etc/bash_completion.d/netferry
  netferry completions zsh > \"${fpath[1]}/_netferry\"
  netferry completions fish > ~/.config/fish/completions/netferry.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell to print it for
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "netferry", &mut script);
    output::print(&String::from_utf8_lossy(&script))
}
