package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/node/control"
)

// TestAnswersAreShownAsNodetoolShowsThem compares the output for results of nodes with testdata, where each file
// contains the results, as in --json, and the expected output.
func TestAnswersAreShownAsNodetoolShowsThem(t *testing.T) {
	shows := map[string]func(in []byte, out io.Writer) error{
		"status":          shown(showStatus),
		"ring":            shown(showRing),
		"describecluster": shown(showCluster),
		"describering":    shown(showRanges),
		"ranges":          shown(showLoads),
		"balance":         shown(showPlan),
		"getendpoints":    shown(showEndpoints),
		"members":         shown(showMembers),
		"operations":      shown(showChanges),
		"removenode":      shown(showRemoved),
		"upgrade":         shown(showUpgrade),
		"repair": shown(func(w io.Writer,
			r control.RepairResult) error {
			return showRepair(w, r, false)
		}),
		"repair-in-dc": shown(func(w io.Writer,
			r control.RepairResult) error {
			return showRepair(w, r, true)
		}),
		"jobs":                    shown(showJobs),
		"job":                     shown(showJob),
		"info":                    shown(func(w io.Writer, i control.Info) error { return showInfo(w, i, false) }),
		"info-tokens":             shown(func(w io.Writer, i control.Info) error { return showInfo(w, i, true) }),
		"tablestats":              shown(showTableStats),
		"tablehistograms":         shown(showHistograms),
		"toppartitions":           shown(showTop),
		"tpstats":                 shown(showPools),
		"compactionstats":         shown(showCompactions),
		"viewbuildstatus":         shown(showViewBuild),
		"getindexbuildthroughput": shown(showBuildThroughput),
		"netstats":                shown(showNet),
		"clientstats":             shown(showClients),
		"listsnapshots":           shown(showSnapshots),
		"verify":                  shown(showVerifiedFiles),
		"verifysnapshot":          shown(showVerified),
		"showsnapshot":            shown(showManifest),
		"rotatekeys":              shown(showRotated),
		"backups":                 shown(showBackups),
		"backup":                  shown(showBackup),
		"schedules":               shown(showSchedules),
		"restored":                shown(showRestored(false)),
		"planned":                 shown(showRestored(true)),
		"getlogginglevels":        shown(showLogging),
	}
	used := map[string]bool{}
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			show := shows[d.Cmd]
			if show == nil {
				d.Fatalf(t, "nothing shows %s", d.Cmd)
			}
			used[d.Cmd] = true
			var out bytes.Buffer
			if err := show([]byte(d.Input), &out); err != nil {
				d.Fatalf(t, "%v", err)
			}
			return visible(out.String())
		})
	})
	for name := range shows {
		if !used[name] {
			t.Errorf("no file of testdata shows %s", name)
		}
	}
}

// visible marks empty lines and trailing spaces, which the files cannot contain.
func visible(s string) string {
	var b strings.Builder
	for _, line := range strings.Split(strings.TrimSuffix(s, "\n"), "\n") {
		if line == "" {
			line = "·"
		} else if strings.HasSuffix(line, " ") {
			line = strings.TrimRight(line, " ") + "·"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func shown[R any](show func(io.Writer, R) error) func([]byte, io.Writer) error {
	return func(in []byte, out io.Writer) error {
		var r R
		d := json.NewDecoder(bytes.NewReader(in))
		d.DisallowUnknownFields()
		if err := d.Decode(&r); err != nil {
			return err
		}
		return show(out, r)
	}
}

func TestSizesArePrintedAsNodetoolPrintsThem(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 1023: "1023 bytes", 1024: "1.00 KiB", 1536: "1.50 KiB",
		30366761: "28.96 MiB",
		5 << 30:  "5.00 GiB", 3 << 40: "3.00 TiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestProgressBarShowsFractionAndRemainingTime(t *testing.T) {
	for _, c := range []struct {
		p    control.Progress
		want string
	}{
		{control.Progress{What: "streaming", Done: 1 << 20, Total: 4 << 20, Bytes: true},
			"streaming  [#######-----------------------]  25%  1.00 MiB of 4.00 MiB  30s left"},
		{control.Progress{What: "ranges", Done: 3, Total: 3}, "ranges  [##############################] 100%  3 of 3"},
		{control.Progress{What: "rows", Done: 7}, "rows  7  10s"},
		{control.Progress{What: "repairing k.t", Done: 12, Total: 48, Unit: "ranges", Job: "7", Left: 90 * time.Second},
			"job 7  repairing k.t  [#######-----------------------]  25%  12 of 48 ranges  1m30s left"},
		{control.Progress{What: "repairing k.t", Done: 12, Total: 48, Unit: "ranges", Job: "7"},
			"job 7  repairing k.t  [#######-----------------------]  25%  12 of 48 ranges"},
		{control.Progress{What: "more than all", Done: 9, Total: 3},
			"more than all  [##############################] 100%  9 of 3"},
	} {
		if got := drawing(c.p, 10*time.Second, 10*time.Second); got != c.want {
			t.Errorf("%+v:\n got %q\nwant %q", c.p, got, c.want)
		}
	}
	// Without progress the estimate stays constant, and then the line shows how long there was none.
	p := control.Progress{What: "ranges", Done: 1, Total: 4}
	for passed, want := range map[time.Duration]string{10 * time.Second: "30s left", 19 * time.Second: "30s left",
		25 * time.Second: "no progress for 15s"} {
		if got := drawing(p, passed, 10*time.Second); !strings.HasSuffix(got, want) {
			t.Errorf("after %v: %q, want %q", passed, got, want)
		}
	}
}

func TestProgressBarIsSilentWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out)
	for i := range int64(1000) {
		b.show(control.Progress{What: "x", Done: i, Total: 1000})
	}
	b.end()
	if out.Len() > 0 {
		t.Errorf("a short operation printed %q", out.String())
	}
	b.last = b.last.Add(-2 * barEvery)
	b.show(control.Progress{What: "x", Done: 1, Total: 2})
	if got := out.String(); !strings.HasPrefix(got, "x  [###") || strings.ContainsAny(got, "\r\x1b") {
		t.Errorf("a long one printed %q", got)
	}
}

func TestTablesAlign(t *testing.T) {
	tab := newTable("Name", "n").alignRight(1)
	tab.row("é", "10")
	tab.row("longer", "9")
	var out bytes.Buffer
	if err := tab.print(&out); err != nil {
		t.Fatal(err)
	}
	if want := "Name     n\né       10\nlonger   9\n"; out.String() != want {
		t.Errorf("got\n%s want\n%s", out.String(), want)
	}
}

// errWriter is a writer that fails.
type errWriter struct{}

func (errWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("full") }

func TestWriteErrorIsReported(t *testing.T) {
	if err := showStatus(errWriter{}, control.Status{Members: []control.Member{{State: "Normal"}}}); err == nil {
		t.Error("the write error was not reported")
	}
}
