package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"cqld/cmd/cqld/ctl"
	"cqld/internal/typo"
)

// overview is what cqld prints without a command.
const overview = `cqld is a wide-column database for clients of Cassandra (CQL) and of Azure Tables.

  cqld local           Run a ring of four nodes on this machine; also: local status, local stop
  cqld restore --local Start such a ring with a copy of a backup
  cqld start           Run one node
  cqld ctl COMMAND     Inspect and manage a running node; replaces nodetool
  cqld certs COMMAND   Make certificates for TLS
  cqld recover COMMAND Recover a cluster that has lost a majority of its voters
  cqld version         Print the version

Show the flags of a command with cqld COMMAND --help, all commands with cqld --help.
`

// shortcut translates the user's arguments into the arguments that kong parses, or prints the answer itself. It accepts
// common spellings: `cqld help COMMAND`, --version and -v. done is true if the answer has been printed. Other arguments
// are returned unchanged.
func shortcut(args []string, out io.Writer) (parsed []string, done bool) {
	switch {
	case len(args) == 0, len(args) == 1 && args[0] == "help":
		fmt.Fprint(out, overview)
		return nil, true
	// The capacity is limited so that append copies and os.Args stays unchanged.
	case args[0] == "help":
		return append(args[1:len(args):len(args)], "--help"), false
	case len(args) == 1 && (args[0] == "--version" || args[0] == "-version" || args[0] == "-v"):
		return []string{"version"}, false
	}
	return args, false
}

// usageError returns what is wrong with the arguments, and what to do, in a few lines. It never prints the whole usage,
// which would scroll the message off the screen.
func usageError(k *kong.Kong, err error) string {
	at := "cqld"
	// The usage of the deepest recognized command is the most helpful.
	var wrong *kong.ParseError
	if errors.As(err, &wrong) {
		// Without a selected command, the deepest group is named.
		if n := wrong.Context.Selected(); n != nil {
			at = n.Path()
		} else if len(wrong.Context.Path) > 0 {
			at = wrong.Context.Path[len(wrong.Context.Path)-1].Node().Path()
		}
	}
	if !strings.HasPrefix(at, "cqld") { // kong omits the program's name in the paths of commands
		at = strings.TrimSpace("cqld " + at)
	}
	if at == "cqld local start" { // the default command of local
		at = "cqld local"
	}
	text := "cqld: " + err.Error()
	// The message may continue after a comma.
	if word, found := strings.CutPrefix(err.Error(), "unexpected argument "); found {
		word, _, _ = strings.Cut(word, ",")
		text = "cqld: " + unknownCommand(k, at, word)
	}
	return fmt.Sprintf("%s\nShow the usage with: %s --help\n", text, at)
}

// unknownCommand returns the message for an unknown command. It suggests the nearest command, or the substitute for a
// nodetool command. at is the path of the recognized command, such as "cqld ctl". A command is near if the edit
// distance is at most one more than a third of the word's length, or if the word has at least three letters and is a
// prefix of its name. For example, "decomission" after cqld suggests cqld ctl decommission at distance 1.
func unknownCommand(k *kong.Kong, at, word string) string {
	// Users type nodetool's commands after cqld as well as after cqld ctl.
	if text := ctl.Substitute(word); text != "" && (at == "cqld" || at == "cqld ctl") {
		return fmt.Sprintf("cqld ctl has no command %s of nodetool: %s", word, text)
	}
	// least is the largest accepted distance. Until a command is found, an equal distance is accepted as well.
	best, least := "", 1+len(word)/3
	for _, n := range k.Model.Leaves(true) {
		path := strings.Fields(n.Path()) // of a command with arguments, they follow
		full := "cqld"
		for _, p := range path {
			// Placeholders of arguments are not part of a command.
			if p == "cqld" || strings.HasPrefix(p, "<") || strings.HasPrefix(p, "[") {
				continue
			}
			full += " " + p
			d := typo.Distance(word, p)
			if len(word) > 2 && strings.HasPrefix(p, word) {
				d = 0
			}
			// Among equally near commands, the first of `cqld ctl` wins at the top level, because users of nodetool
			// type its commands there.
			better := d < least || d == least && (best == "" || at == "cqld" && strings.HasPrefix(full, "cqld ctl") &&
				!strings.HasPrefix(best, "cqld ctl"))
			// Below the top level, commands of other groups would be misleading.
			if better && (at == "cqld" || strings.HasPrefix(full, at+" ")) {
				best, least = full, d
			}
		}
	}
	if best == "" {
		return fmt.Sprintf("%s has no command or argument %q", at, word)
	}
	return fmt.Sprintf("%s has no command %q; did you mean: %s", at, word, best)
}
