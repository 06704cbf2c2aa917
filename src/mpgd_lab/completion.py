"""Scripts with which a shell completes commands, options and names of experiments.

tyro writes them for commands and options. It knows nothing of the words that follow a command, so
what completes the names of experiments after `mpgd reproduce` is added here, for each shell.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from string import Template
from typing import Final

from mpgd_lab.catalogue import EXPERIMENTS

FLAGS: Final = ("--quiet", "--json")  # of reproduce: after any other option comes its value

BASH: Final = """
_mpgd() {
  _tyro_mpgd "$@"
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  if [[ ${COMP_WORDS[1]} == reproduce && $word != -* && $COMP_CWORD -gt 1 ]] &&
     [[ $before != -* || " $flags " == *" $before "* ]]; then
    COMPREPLY+=($(compgen -W "$names" -- "$word"))
  fi
}
complete -o bashdefault -o default -F _mpgd mpgd
"""
ZSH: Final = """
if [[ $words[2] == reproduce && $words[CURRENT] != -* ]] && (( CURRENT > 2 )) &&
   [[ $words[CURRENT-1] != -* || " $flags " == *" $words[CURRENT-1] "* ]]; then
  compadd -- $names
fi
"""
FISH: Final = """
function _mpgd_wants_name
    set -l said (commandline -opc)
    test "$said[2]" = reproduce; or return 1
    contains -- $said[-1] $flags; and return 0
    not string match -q -- '-*' $said[-1]
end
complete --no-files --command mpgd --condition _mpgd_wants_name --arguments '$names'
"""
ADDED: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def script(shell: str, parse: Callable[[Sequence[str]], object]) -> str:
    """Return the script for a shell; ``parse`` is what tyro is asked through."""
    output = io.StringIO()
    try:
        with redirect_stdout(output):
            parse(["--tyro-print-completion", shell])
    except SystemExit:  # tyro prints and leaves
        pass
    words = {"names": " ".join(EXPERIMENTS), "flags": " ".join(FLAGS)}
    return output.getvalue() + Template(ADDED[shell]).safe_substitute(words)
