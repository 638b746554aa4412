package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verdict is what became of one mutant. It is a line of results.jsonl, so its field names must stay. For example:
// {"Key":"hints/lost","Found":true,"By":"hints TestLost","How":"...","Seeds":0,"Clean":false,"CPU":3.1}.
type verdict struct {
	Key   string
	Found bool
	By    string  // the test, or the seed
	How   string  // the first line of the failure
	Seeds int     // simulated seeds that did not find it
	Clean bool    // no scenario finds it
	CPU   float64 // seconds
}

// runner looks for mutants with the binaries of one build. Workers share it; it is not changed after measured.
type runner struct {
	c        *catalog
	dir      string
	packages []string // whose tests are scenarios
	// For each package of tests, the directories of the module that it contains.
	depends  map[string]map[string]bool
	baseline map[string]time.Duration // of the tests of a package without a mutant
	skipped  map[string][]string      // tests of a package that fail without a mutant, by the load of the machine
	seeds    int
}

// scenarioTimeoutMin bounds the tests of a package from below; a run without a mutant takes seconds.
const scenarioTimeoutMin = 90 * time.Second

// seedTimeout is the real time one simulated seed may take; the slowest take five seconds.
const seedTimeout = 120 * time.Second

// attempt is the outcome of one process. failed is true for a test that failed, a crash and a time-out. cpu is the time
// of the process and its children, wall the real time.
type attempt struct {
	failed  bool
	timeout bool
	test    string
	// The first line that says why the test failed.
	how  string
	cpu  time.Duration
	wall time.Duration
}

// execute runs a test binary with a mutant on; zero: none. watch, which may be nil, sees each line of the output and
// says whether the process can be stopped. The process runs in the directory of its package, as go test does, for its
// testdata. It is killed when ctx or the timeout ends. An error means that the process could not be run, and says
// nothing about the mutant.
func (r *runner) execute(ctx context.Context, pkg string, id int, timeout time.Duration, watch func(string) bool,
	args ...string) (attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(r.dir, pkg), args...)
	cmd.Dir = filepath.Join(r.c.root, filepath.FromSlash(pkg))
	cmd.Env = append(os.Environ(), switchEnviron+"="+strconv.Itoa(id))
	// A killed process may have left children that hold the pipe open.
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return attempt{}, err
	}
	// A panic is printed to the standard error output, between lines of tests.
	cmd.Stderr = cmd.Stdout
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return attempt{}, err
	}
	var a attempt
	reader := bufio.NewReaderSize(out, 1<<16)
	var last bytes.Buffer
	for {
		line, err := reader.ReadString('\n')
		// The output is read line by line, because a simulation reports a failed seed long before it ends.
		a.note(strings.TrimRight(line, "\n"))
		// Enough for a process that ends before its first test, which is the only one that needs it.
		if last.Len() < 1<<16 {
			last.WriteString(line)
		}
		if watch != nil && watch(line) {
			cancel()
			break
		}
		if err != nil {
			break
		}
	}
	// Wait must not close the pipe before all is read.
	_, _ = io.Copy(io.Discard, reader)
	err = cmd.Wait()
	a.wall = time.Since(began)
	if s := cmd.ProcessState; s != nil {
		a.cpu = s.UserTime() + s.SystemTime()
	}
	var exit *exec.ExitError
	switch {
	// A test that does not end has found the mutant. This includes the deadline of the whole run; then no verdict is
	// recorded.
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.failed, a.timeout = true, true
	// It passed, or watch or the user has stopped it.
	case err == nil || ctx.Err() != nil:
	// The process ended by itself, with another status than 0.
	case errors.As(err, &exit):
		a.failed = true
		// The process ended without the report of a test, such as os.Exit.
		if a.test == "" && a.how == "" {
			a.how = lastLine(last.String())
		}
	default:
		return a, err
	}
	return a, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// Package testing and the simulation print these forms.
var (
	failedTest = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	failedSeed = regexp.MustCompile(`^\s+\S+_test\.go:\d+: seed (\d+): (.*)`)
	errorLine  = regexp.MustCompile(`^\s+\S+_test\.go:\d+: (.*)`)
)

// note takes from a line which test failed, and how.
func (a *attempt) note(line string) {
	// A subtest is more precise than the test that contains it.
	if m := failedTest.FindStringSubmatch(line); m != nil && (a.test == "" || strings.HasPrefix(m[1], a.test+"/")) {
		a.test = m[1]
	}
	if m := errorLine.FindStringSubmatch(line); m != nil && a.how == "" {
		a.how = m[1]
	}
	// A panic explains more than the messages before it.
	if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
		a.how = line
	}
}

// flakyMax is how many tests of a package may fail by the load of the machine, and are left out.
const flakyMax = 3

// measure runs the tests of all packages without a mutant. A test that fails may measure time on a machine that is
// busy: it is left out, if all others pass. It takes as long as all tests with -short.
func (r *runner) measure(ctx context.Context) error {
	r.baseline, r.skipped = map[string]time.Duration{}, map[string][]string{}
	for _, p := range r.packages {
		for {
			a, err := r.execute(ctx, p, 0, 10*time.Minute, nil, shortTests(r.skipped[p])...)
			if err != nil {
				return err
			}
			// Too many unstable tests would make the verdicts of this package worthless.
			if a.failed && (a.test == "" || len(r.skipped[p]) == flakyMax) {
				return fmt.Errorf("mutants: %s fails without a mutant: %s: %s", p, a.test, a.how)
			}
			if !a.failed {
				r.baseline[p] = a.wall
				fmt.Printf("# %s: %.1f s of CPU, %.1f s, without %v\n", p, a.cpu.Seconds(), a.wall.Seconds(),
					r.skipped[p])
				break
			}
			// The next attempt runs without this test.
			r.skipped[p] = append(r.skipped[p], topTest(a.test))
		}
	}
	return nil
}

// measured is measure, or what it found for the same binaries. The file is valid for the binaries beside it only.
func (r *runner) measured(ctx context.Context, again bool) error {
	path := filepath.Join(r.dir, "baseline.json")
	type kept struct {
		Baseline map[string]time.Duration
		Skipped  map[string][]string
	}
	// New binaries are measured again, because a test may have been added or repaired.
	if b, err := os.ReadFile(path); err == nil && !again {
		var k kept
		if err := json.Unmarshal(b, &k); err != nil {
			return err
		}
		r.baseline, r.skipped = k.Baseline, k.Skipped
		return nil
	}
	if err := r.measure(ctx); err != nil {
		return err
	}
	b, err := json.Marshal(kept{r.baseline, r.skipped})
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// shortTests are the arguments that run the tests of a package but some. -test.failfast ends the process with the first
// failure, which suffices for a verdict.
func shortTests(skip []string) []string {
	args := []string{"-test.short", "-test.failfast", "-test.v"}
	if len(skip) > 0 {
		args = append(args, "-test.skip", "^("+strings.Join(skip, "|")+")$")
	}
	return args
}

// topTest returns the test that contains a subtest.
func topTest(name string) string {
	top, _, _ := strings.Cut(name, "/")
	return top
}

// order lists the packages whose tests contain the mutant: its own first, then the quick ones. A package that does not
// contain the mutant's code is left out. For a mutant in paxos, the tests of paxos come first, and then the packages
// whose tests contain paxos.
func (r *runner) order(m *mutant) (out []string) {
	// First the packages that contain the mutant, then the ones that use them.
	for own := range 2 {
		for _, p := range r.packages {
			mine := false
			for _, d := range m.dirs {
				mine = mine || p == d
			}
			uses := false
			for _, d := range m.dirs {
				uses = uses || r.depends[p][d]
			}
			if uses && mine == (own == 0) {
				out = append(out, p)
			}
		}
	}
	mine := 0
	for mine < len(out) && slices.Contains(m.dirs, out[mine]) {
		mine++
	}
	// A quick package that finds the mutant saves the slow ones.
	slices.SortStableFunc(out[mine:], func(a, b string) int { return cmp.Compare(r.baseline[a], r.baseline[b]) })
	return out
}

// cost is how long the tests of the mutant's own packages take.
func (r *runner) cost(m *mutant) (d time.Duration) {
	for _, dir := range m.dirs {
		d += r.baseline[dir]
	}
	return d
}

// runMutant looks for one mutant: with the scenarios, then with the simulation. before is what an earlier run has
// found. It returns an error only if a process cannot be started or ctx ends; a failed test is the verdict.
func (r *runner) runMutant(ctx context.Context, m *mutant, before verdict) (v verdict, err error) {
	v = verdict{Key: m.key, Clean: before.Clean, CPU: before.CPU}
	for _, p := range r.order(m) {
		// An earlier run has tried all scenarios.
		if before.Clean {
			break
		}
		a, err := r.scenarios(ctx, p, m.id)
		v.CPU += a.cpu.Seconds()
		if err != nil {
			return v, err
		}
		if a.failed {
			v.Found, v.By, v.How = true, strings.TrimSpace(p+" "+a.test), a.how
			return v, nil
		}
	}
	// It is part of the verdict, so that -resume continues with the seeds.
	v.Clean = true
	// Up to a quarter of the seeds for each simulation of the area, the rest for the general one.
	share := r.seeds
	for _, s := range m.sims {
		n := min(share, max(1, r.seeds/4))
		if err := r.simulate(ctx, m, s, n, &v); err != nil || v.Found {
			return v, err
		}
		share -= n
	}
	err = r.simulate(ctx, m, "TestSim", share, &v)
	return v, err
}

// scenarios runs the tests of a package with a mutant. What failed must fail again by itself, unless the process ended
// in a panic: tests that measure time fail on a busy machine now and then. It ends: each iteration leaves one more test
// out.
func (r *runner) scenarios(ctx context.Context, pkg string, id int) (attempt, error) {
	// A mutant may make tests wait for their own timeouts, and the machine may be busier than for the baseline.
	timeout := max(scenarioTimeoutMin, 4*r.baseline[pkg])
	skip := r.skipped[pkg]
	var cpu time.Duration
	for {
		// With -test.failfast, so the first failure decides.
		a, err := r.execute(ctx, pkg, id, timeout, nil, shortTests(skip)...)
		cpu += a.cpu
		if err != nil || !a.failed || a.test == "" {
			if a.timeout {
				a.test, a.how = "(timeout)", fmt.Sprintf("no end after %v", timeout)
			}
			a.cpu = cpu
			return a, err
		}
		// The failed test alone, on a machine that is less busy now.
		b, err := r.execute(ctx, pkg, id, timeout, nil,
			append(shortTests(nil), "-test.run", "^"+topTest(a.test)+"$")...)
		cpu += b.cpu
		if err != nil || b.failed {
			b.cpu, b.test = cpu, a.test
			return b, err
		}
		// A copy: r.skipped must not grow by what failed with this mutant.
		skip = append(skip[:len(skip):len(skip)], topTest(a.test))
	}
}

// simulate runs up to n seeds of a simulation with a mutant. A seed that fails without the mutant, too, says nothing:
// it is passed over. v collects seeds and CPU time of all simulations of the mutant. first is the number of the next
// seed, and n how many are left.
func (r *runner) simulate(ctx context.Context, m *mutant, sim string, n int, v *verdict) error {
	name, options, _ := strings.Cut(sim, " ")
	for first := uint64(1); n > 0; {
		a, failed, how, err := r.seedsOf(ctx, m.id, name, options, first, n)
		v.CPU += a.cpu.Seconds()
		switch {
		case err != nil:
			return err
		// The process failed without naming a seed, by a panic or the timeout.
		case failed == 0 && a.failed:
			v.Found, v.By, v.How = true, name, a.how
			if a.timeout {
				v.How = "no end"
			}
			return nil
		case failed == 0:
			v.Seeds += n
			return nil
		}
		// The same seed without a mutant, which must pass for the failure to count.
		b, without, _, err := r.seedsOf(ctx, 0, name, options, failed, 1)
		v.CPU += b.cpu.Seconds()
		if err != nil {
			return err
		}
		if without == 0 && !b.failed {
			v.Found, v.By, v.How = true, fmt.Sprintf("%s seed %d", name, failed), how
			return nil
		}
		// The seeds up to the failed one have passed with the mutant, apart from it.
		// At least one, so that the loop ends even if the reported seed is outside of the range.
		passed := 1
		if failed >= first && failed < first+uint64(n) {
			passed = int(failed-first) + 1
		}
		fmt.Printf("# %s: seed %d fails without a mutant, too: %s\n", name, failed, oneLine(how))
		first, n = failed+1, n-passed
		v.Seeds += passed
	}
	return nil
}

// seedsOf runs n seeds until one fails, which is returned with the promise that it breaks; zero: none does. Seeds are
// numbered from first. The process is stopped at the first seed that fails, as the verdict needs no more. The timeout
// assumes that the mean seed takes an eighth of the slowest one.
func (r *runner) seedsOf(ctx context.Context, id int, name, options string, first uint64, n int) (a attempt,
	failed uint64, how string, err error) {
	// -test.v prints each failed seed at once; without it, package testing prints them at the end.
	args := []string{"-test.run", "^" + name + "$", "-test.v", "-test.timeout", "24h"}
	args = append(args, strings.Fields(options)...)
	args = append(args, "-seed="+strconv.FormatUint(first, 10), "-seeds="+strconv.Itoa(n))
	watch := func(line string) bool {
		x := failedSeed.FindStringSubmatch(line)
		if x == nil {
			return false
		}
		// Seeds begin at 1, so 0 stands for no failed seed.
		failed, _ = strconv.ParseUint(x[1], 10, 64) // digits
		how = x[2]
		return true
	}
	a, err = r.execute(ctx, simPackage, id, time.Duration(n)*seedTimeout/8+seedTimeout, watch, args...)
	return a, failed, how, err
}
