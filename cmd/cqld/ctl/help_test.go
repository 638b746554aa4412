package ctl

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestHelpShowsTheUsageOfACommand(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"help", "ctl tablestats"},
		{"help info", "Usage: cqld ctl info [flags]"},
		{"help gettimeout", "Usage: cqld ctl gettimeout <kind> [flags]"},
		{"help gossipinfo", "Usage: cqld ctl members"},
		{"help nosuch", "there is no command nosuch"},
	} {
		var cli struct {
			Ctl Commands `cmd:""`
		}
		var out bytes.Buffer
		ctx := t.Context()
		k, err := kong.New(&cli, kong.Name("cqld"), kong.BindTo(ctx, (*context.Context)(nil)), kong.Writers(&out, &out))
		if err != nil {
			t.Fatal(err)
		}
		run, err := k.Parse(append([]string{"ctl"}, strings.Fields(c.args)...))
		if err == nil {
			err = run.Run()
		}
		got := out.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %q", c.args, got, c.want)
		}
	}
}
