// Command mutants measures what the tests find: it puts one small fault at a time into the code that keeps data, and
// runs the scenarios of the packages concerned and then the simulation until a test fails.
//
//	go run ./tools/mutants                   all mutants, 1,000 seeds each
//	go run ./tools/mutants -list             what there is
//	go run ./tools/mutants -only=paxos/ -seeds=100
//	go run ./tools/mutants -resume -for=5m   continue an interrupted run
//	go run ./tools/mutants -rewrite          write the verdicts into tools/mutants/RESULTS.md
//
// All mutants are compiled once. "go build -overlay" replaces the source files by copies in which each fault stands
// with a switch, and a process turns one of them on by an environment variable. The repository's own files, and what
// is built from them, have no switches.
//
//	hand/*.txt ─┐
//	            ├─▶ catalog ─▶ overlay with switches ─▶ test binaries, one mutant on:
//	operator ───┘
//	    tests of packages ── none fails ──▶ simulation ── no seed fails ──▶ survived
//	        └── one fails ──▶ found             └── a seed fails ──▶ found
//
// A mutant that survives is a fault that no test would notice. It is then explained in explained.txt: either it is
// equivalent, which means that the program behaves the same with it, or the reason why it is accepted that it survives.
// A survivor without an explanation is work for the tests.
//
// Results are appended to DIR/results.jsonl, one verdict a line, so a run may be interrupted at any time.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// settings are the command's flags. The flags are described in main. It is not changed after the flags are parsed. The
// results in dir are valid for any settings, because each verdict has its number of seeds.
type settings struct {
	list, rewrite, resume, build bool
	// Parts of keys, separated by commas; empty selects all.
	only           string
	seeds, workers int
	// 0 means no limit. A negative limit only compiles.
	limit time.Duration
	dir   string
}

func main() {
	var s settings
	flag.BoolVar(&s.list, "list", false, "list the mutants")
	flag.BoolVar(&s.rewrite, "rewrite", false, "write the present results into tools/mutants/RESULTS.md, and run "+
		"nothing")
	flag.BoolVar(&s.resume, "resume", false, "leave out mutants that have a result, and those that survived as many "+
		"seeds")
	flag.BoolVar(&s.build, "build", true, "compile; false uses the binaries of the last build")
	flag.StringVar(&s.only, "only", "", "run mutants whose name contains one of these, separated by commas")
	flag.IntVar(&s.seeds, "seeds", 1000, "how many seeds are simulated for each mutant")
	flag.IntVar(&s.workers, "workers", 1, "how many mutants are run at a time")
	flag.DurationVar(&s.limit, "for", 0, "stop after this time; zero: when all have been run")
	flag.StringVar(&s.dir, "dir", ".tools/mutants", "where binaries and results are kept")
	flag.Parse()
	// An interrupt ends the running processes; the verdicts so far are in the file.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run executes the command in the module's root directory. It returns an error if the list by hand does not fit the
// code, or if a test fails without a mutant; surviving mutants are no error. The order: catalog, explanations, run,
// score. With -list, nothing is compiled.
func (s *settings) run(ctx context.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	c, err := newCatalog(root)
	if err != nil {
		return err
	}
	explained, err := readExplained(root)
	if err != nil {
		return err
	}
	// Before anything is compiled: a renamed mutant must take its explanation with it.
	if err := c.checkExplained(explained); err != nil {
		return err
	}
	if s.list {
		for _, m := range c.mutants {
			fmt.Printf("%3d  %-11s %s\n     %s: %s\n", m.id, m.area, m.key, m.at, m.what)
		}
		return nil
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	// Binaries, the overlay and results of earlier runs may already be in it.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if !s.rewrite {
		if err := s.runMutants(ctx, c, dir); err != nil {
			return err
		}
	}
	done, err := readResults(dir)
	if err != nil {
		return err
	}
	if s.rewrite {
		err = c.rewrite(done, explained)
	}
	// The score counts all results so far, not only the results of this run.
	result := c.score(done, explained)
	fmt.Println(result)
	if len(result.unexplained) > 0 {
		fmt.Printf("survivors without an explanation:\n\t%s\n", strings.Join(result.unexplained, "\n\t"))
	}
	return err
}

// selected are the mutants to be run. The order is the catalog's. Parts are compared as substrings of keys, so
// -only=paxos/ selects an area.
func (s *settings) selected(c *catalog, done results) (out []*mutant) {
	for _, m := range c.mutants {
		wanted := s.only == ""
		for _, part := range strings.Split(s.only, ",") {
			// An empty part would match everything.
			wanted = wanted || part != "" && strings.Contains(m.key, part)
		}
		// A survivor is run again only with more seeds than before.
		if v, known := done[m.key]; s.resume && known && (v.Found || v.Clean && v.Seeds >= s.seeds) {
			wanted = false
		}
		if wanted {
			out = append(out, m)
		}
	}
	return out
}

// runMutants compiles and runs the selected mutants, and appends each verdict to the results as soon as it is known.
// The mutants whose own tests are quick come first, so that an interrupted run has as many verdicts as possible. A
// worker runs one process at a time.
func (s *settings) runMutants(ctx context.Context, c *catalog, dir string) error {
	if s.limit > 0 {
		// The verdict of a mutant that is interrupted would be wrong, and is not recorded.
		limited, cancel := context.WithTimeout(ctx, s.limit)
		defer cancel()
		ctx = limited
	}
	done, err := readResults(dir)
	if err != nil {
		return err
	}
	mutants := s.selected(c, done)
	r := &runner{c: c, dir: dir, packages: scenarioPackages(), seeds: s.seeds}
	if s.build {
		if err := c.build(ctx, dir, append(scenarioPackages(), simPackage)); err != nil {
			return err
		}
	}
	// Nothing runs; the binaries are kept for a later run with -build=false.
	if s.limit < 0 {
		return nil
	}
	if r.depends, err = c.dependents(ctx, r.packages); err != nil {
		return err
	}
	if err := r.measured(ctx, s.build); err != nil {
		return err
	}
	// the cheap ones first
	slices.SortStableFunc(mutants, func(a, b *mutant) int { return cmp.Compare(r.cost(a), r.cost(b)) })
	// Unbuffered, so that an interruption leaves nothing in it.
	queue := make(chan *mutant)
	var workers sync.WaitGroup
	var mu sync.Mutex
	var first error
	// Workers share r, which is not changed from here on; mu guards the file, the output and first.
	for range max(1, s.workers) {
		workers.Go(func() {
			for m := range queue {
				v, err := r.runMutant(ctx, m, before(done, m, s.resume))
				mu.Lock()
				switch {
				case ctx.Err() != nil: // interrupted: no verdict
				// The other mutants are still run: their verdicts do not depend on this one.
				case err != nil:
					first = cmp.Or(first, err)
				default:
					first = cmp.Or(first, appendResult(dir, v))
					fmt.Println(v)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range mutants {
		select {
		case queue <- m:
		// The rest is not queued; workers end the mutants that they have begun.
		case <-ctx.Done():
		}
	}
	close(queue)
	workers.Wait()
	return first
}

// before is what an earlier run found out of a mutant, if the run continues it. It is empty without -resume, which
// makes every mutant run from its beginning.
func before(done results, m *mutant, resume bool) verdict {
	if !resume {
		return verdict{}
	}
	return done[m.key]
}

// String is a line of the log. For example: found     hints/lost by hints TestLostHintsAreReported (3 s): ….
func (v verdict) String() string {
	if v.Found {
		return fmt.Sprintf("found     %s by %s (%.0f s): %s", v.Key, v.By, v.CPU, oneLine(v.How))
	}
	return fmt.Sprintf("SURVIVED  %s %d seeds (%.0f s)", v.Key, v.Seeds, v.CPU)
}
