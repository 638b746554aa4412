package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// verdict is what became of one mutant.
type verdict struct {
	Key   string
	Found bool
	By    string  // the test, or the seed
	How   string  // the first line of the failure
	Seeds int     // simulated seeds that did not find it
	CPU   float64 // seconds
}

// runner looks for mutants with the binaries of one build.
type runner struct {
	c        *catalog
	dir      string
	packages []string // whose tests are scenarios
	depends  map[string]map[string]bool
	baseline map[string]time.Duration // of the tests of a package without a mutant
	seeds    int
	nice     bool
}

// scenarioTimeoutMin bounds the tests of a package from below; a run without a mutant takes seconds.
const scenarioTimeoutMin = 90 * time.Second

// seedTimeout is the real time one simulated seed may take; the slowest take five seconds.
const seedTimeout = 120 * time.Second

// attempt is the outcome of one process.
type attempt struct {
	failed  bool
	timeout bool
	test    string
	how     string
	cpu     time.Duration
	wall    time.Duration
}

// execute runs a test binary with a mutant on; zero: none. watch, which may be nil, sees each line of the output and says
// whether the process can be stopped.
func (r *runner) execute(ctx context.Context, pkg string, id int, timeout time.Duration, watch func(string) bool, args ...string) (attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	name, args := binary(r.dir, pkg), args
	if r.nice {
		name, args = "nice", append([]string{name}, args...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join(r.c.root, filepath.FromSlash(pkg))
	cmd.Env = append(os.Environ(), switchEnviron+"="+strconv.Itoa(id))
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return attempt{}, err
	}
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
		a.note(strings.TrimRight(line, "\n"))
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
	_, _ = io.Copy(io.Discard, reader)
	err = cmd.Wait()
	a.wall = time.Since(began)
	if s := cmd.ProcessState; s != nil {
		a.cpu = s.UserTime() + s.SystemTime()
	}
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		a.failed, a.timeout = true, true
	case err == nil || ctx.Err() != nil:
	case errors.As(err, &exit):
		a.failed = true
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

var (
	failedTest = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	runTest    = regexp.MustCompile(`^=== RUN\s+(\S+)`)
	failedSeed = regexp.MustCompile(`seed (\d+): (.*)`)
	errorLine  = regexp.MustCompile(`^\s+\S+_test\.go:\d+: (.*)`)
)

// note takes from a line which test failed, and how.
func (a *attempt) note(line string) {
	if m := failedTest.FindStringSubmatch(line); m != nil && (a.test == "" || strings.HasPrefix(m[1], a.test+"/")) {
		a.test = m[1]
	}
	if m := errorLine.FindStringSubmatch(line); m != nil && a.how == "" {
		a.how = m[1]
	}
	if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
		a.how = line
	}
}

// measure runs the tests of all packages without a mutant. They must pass.
func (r *runner) measure(ctx context.Context) error {
	r.baseline = map[string]time.Duration{}
	for _, p := range r.packages {
		a, err := r.execute(ctx, p, 0, 10*time.Minute, nil, "-test.short", "-test.failfast", "-test.v")
		if err != nil {
			return err
		}
		if a.failed { // a test that measures time may fail on a machine that is busy
			if a, err = r.execute(ctx, p, 0, 10*time.Minute, nil, "-test.short", "-test.failfast", "-test.v"); err != nil {
				return err
			}
		}
		if a.failed {
			return fmt.Errorf("mutants: %s fails without a mutant: %s: %s", p, a.test, a.how)
		}
		r.baseline[p] = a.wall
		fmt.Printf("# %s: %.1f s of CPU, %.1f s\n", p, a.cpu.Seconds(), a.wall.Seconds())
	}
	return nil
}

// order lists the packages whose tests contain the mutant, its own first.
func (r *runner) order(m *mutant) (out []string) {
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
	return out
}

// look looks for one mutant: with the scenarios, then with the simulation.
func (r *runner) look(ctx context.Context, m *mutant) (v verdict, err error) {
	v.Key = m.key
	for _, p := range r.order(m) {
		a, err := r.scenarios(ctx, p, m.id)
		v.CPU += a.cpu.Seconds()
		if err != nil {
			return v, err
		}
		if a.failed {
			v.Found, v.By, v.How = true, p+" "+a.test, a.how
			return v, nil
		}
	}
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

// scenarios runs the tests of a package with a mutant. What failed must fail again by itself, unless the process
// ended in a panic: tests that measure time fail on a busy machine now and then.
func (r *runner) scenarios(ctx context.Context, pkg string, id int) (attempt, error) {
	timeout := max(scenarioTimeoutMin, 10*r.baseline[pkg])
	a, err := r.execute(ctx, pkg, id, timeout, nil, "-test.short", "-test.failfast", "-test.v")
	if err != nil || !a.failed || a.test == "" {
		if a.timeout {
			a.test, a.how = "(timeout)", fmt.Sprintf("no end after %v", timeout)
		}
		return a, err
	}
	top, _, _ := strings.Cut(a.test, "/")
	b, err := r.execute(ctx, pkg, id, timeout, nil, "-test.short", "-test.failfast", "-test.v", "-test.run", "^"+top+"$")
	b.cpu += a.cpu
	if b.failed && b.test == "" {
		b.test = a.test
	}
	return b, err
}

// simulate runs up to n seeds of a simulation with a mutant.
func (r *runner) simulate(ctx context.Context, m *mutant, sim string, n int, v *verdict) error {
	if n <= 0 {
		return nil
	}
	fields := strings.Fields(sim)
	args := []string{"-test.run", "^" + fields[0] + "$", "-test.v", "-test.timeout", "24h"}
	args = append(args, fields[1:]...)
	if fields[0] == "TestSim" {
		args = append(args, "-seeds="+strconv.Itoa(n))
	} else {
		args = append(args, "-seeds="+strconv.Itoa(max(n, 15))) // these run a fraction of the seeds
	}
	found := ""
	watch := func(line string) bool {
		if x := failedSeed.FindStringSubmatch(line); x != nil {
			v.By, found = fields[0]+" seed "+x[1], x[2]
			return true
		}
		return false
	}
	a, err := r.execute(ctx, simPackage, m.id, time.Duration(n)*seedTimeout/8+seedTimeout, watch, args...)
	v.CPU += a.cpu.Seconds()
	switch {
	case err != nil:
		return err
	case found != "":
		v.Found, v.How = true, found
	case a.failed:
		v.Found, v.By, v.How = true, fields[0], a.how
		if a.timeout {
			v.How = "no end"
		}
	default:
		v.Seeds += n
	}
	return nil
}
