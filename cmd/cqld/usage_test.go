package main

import (
	"bytes"
	"strings"
	"testing"
)

// answer returns what cqld prints for arguments that run no command.
func answer(t *testing.T, args string) string {
	t.Helper()
	var cli commands
	var out bytes.Buffer
	parsed, done := shortcut(strings.Fields(args), &out)
	if done {
		return out.String()
	}
	k := newParser(t.Context(), &cli)
	k.Exit = func(int) {}
	k.Stdout = &out
	if c, err := k.Parse(parsed); err != nil {
		return usageError(k, err)
	} else if c.Selected() != nil && out.Len() == 0 {
		return "runs " + c.Command()
	}
	return out.String()
}

// TestWrongArgumentsAreAnsweredBriefly checks the answers to wrong arguments: they have at most eleven lines, and name
// what to do.
func TestWrongArgumentsAreAnsweredBriefly(t *testing.T) {
	for args, want := range map[string]string{
		"":                                "cqld local ",
		"help":                            "cqld ctl COMMAND",
		"--version":                       "runs version",
		"statsu":                          "did you mean: cqld ctl status",
		"loacl":                           "did you mean: cqld local",
		"nodetool":                        `cqld has no command or argument "nodetool"`,
		"status":                          "did you mean: cqld ctl status",
		"ctl statsu":                      "did you mean: cqld ctl status",
		"ctl":                             "Show the usage with: cqld ctl --help",
		"ctl jobs lst":                    "did you mean: cqld ctl jobs list",
		"certs nod":                       "did you mean: cqld certs node",
		"ctl enablegossip":                "cqld ctl has no command enablegossip of nodetool: there is no gossip",
		"enablegossip":                    "cqld ctl members",
		"start --data-dr x":               `did you mean "--data-dir"?` + "\nShow the usage with: cqld start --help",
		"start --foo":                     "Show the usage with: cqld start --help",
		"start --storage-port x":          "--storage-port",
		"ctl getendpoints":                "Show the usage with: cqld ctl getendpoints --help",
		"local --nodes many":              "--nodes",
		"local stat":                      "did you mean: cqld local status",
		"local stop --data-dir":           "--data-dir",
		"local --nodes 2 --datacenters 2": "runs local",

		"restore --from file:///b --local":               "runs restore",
		"restore --from file:///b --local --nodes 2":     "runs restore",
		"restore --from file:///b":                       "to restore to a ring that runs, use cqld ctl restore",
		"restore --local":                                "--from",
		"restore --from /b --local":                      "the location is not a URL",
		"restore --from file:///b --local --at today":    "is not a moment",
		"restore --from file:///b --local --tables a":    `did you mean one of "--table"`,
		"restore --from file:///b --local --as a.b":      "Show the usage with: cqld restore --help",
		"restore x --from file:///b --local":             "Show the usage with: cqld restore --help",
		"ctl restore --from file:///b --fit-replication": "runs ctl restore",
	} {
		got := answer(t, args)
		if !strings.Contains(got, want) || strings.Count(got, "\n") > 11 {
			t.Errorf("cqld %s: %q, want %q", args, got, want)
		}
	}
	if got := answer(t, "help ctl repair"); !strings.Contains(got, "Usage: cqld ctl repair") {
		t.Errorf("help of a command: %q", got)
	}
}
