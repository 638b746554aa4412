package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// results are verdicts by key. Verdicts of mutants that no longer exist stay in it and are not counted.
type results map[string]verdict

// resultsFile has a line for each verdict, in the order in which the runs reached them.
func resultsFile(dir string) string { return filepath.Join(dir, "results.jsonl") }

// readResults reads what runs have found so far; a later verdict of a mutant takes the place of an earlier one. A
// missing file means that nothing was run yet.
func readResults(dir string) (results, error) {
	out := results{}
	f, err := os.Open(resultsFile(dir))
	// The first run of a directory.
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	// A failure may be longer than the default line of a scanner.
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var v verdict
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			return nil, err
		}
		out[v.Key] = v
	}
	return out, s.Err()
}

// appendResult adds a verdict to the file. The caller serializes the calls.
func appendResult(dir string, v verdict) error {
	// One line a verdict, written at once: an interrupted run loses nothing.
	f, err := os.OpenFile(resultsFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err == nil {
		// In one call: an interrupted process leaves whole lines, or a part of the last one.
		_, err = f.Write(append(b, '\n'))
	}
	return errors.Join(err, f.Close())
}

// explanation says why a mutant is not found. It is for a version of the code: a mutant that is found later needs none,
// but keeps it without harm. Explanations are written by people.
type explanation struct {
	equivalent bool // the program does the same with it
	text       string
}

// readExplained reads tools/mutants/explained.txt: lines of a key, "equivalent:" or "survives:", and the reason.
//
//	hints/order survives: the order is an optimization, and no test measures it
func readExplained(root string) (map[string]explanation, error) {
	b, err := os.ReadFile(filepath.Join(root, "tools/mutants/explained.txt"))
	if err != nil {
		return nil, err
	}
	out := map[string]explanation{}
	// The same form as the list by hand: an explanation may take several lines.
	for _, l := range joinLines(string(b)) {
		key, rest, _ := strings.Cut(strings.Join(strings.Fields(l.text), " "), " ")
		// The reason may contain further colons.
		kind, text, ok := strings.Cut(rest, ": ")
		if !ok || kind != "equivalent" && kind != "survives" {
			return nil, fmt.Errorf("explained.txt, line %d: want a key, \"equivalent:\" or \"survives:\", and a "+
				"reason", l.line)
		}
		// One of the two would be lost.
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("explained.txt, line %d: %s is explained twice", l.line, key)
		}
		out[key] = explanation{kind == "equivalent", text}
	}
	return out, nil
}

// checkExplained refuses explanations of mutants that there are not.
func (c *catalog) checkExplained(explained map[string]explanation) error {
	there := map[string]bool{}
	for _, m := range c.mutants {
		there[m.key] = true
	}
	// All of them, because a renamed area renames several keys.
	var missing []string
	// An explanation without its mutant would excuse another one that gets the key later.
	for key := range explained {
		if !there[key] {
			missing = append(missing, key)
		}
	}
	// Maps have no order, and the message should not change.
	sort.Strings(missing)
	if len(missing) > 0 {
		return fmt.Errorf("explained.txt: there is no mutant %s", strings.Join(missing, ", "))
	}
	return nil
}

// score is the outcome of a run. cpu is in seconds. found + survived = total.
type score struct {
	total, found, equivalent, survived, unknown int
	cpu                                         float64
	unexplained                                 []string
}

// score counts verdicts. Equivalent mutants do not count in the total: no test can find them. A verdict of a mutant
// that was found needs no explanation.
func (c *catalog) score(done results, explained map[string]explanation) (s score) {
	for _, m := range c.mutants {
		v, known := done[m.key]
		// Zero if the mutant was not run.
		s.cpu += v.CPU
		x, explained := explained[m.key]
		switch {
		case !known:
			s.unknown++
		case v.Found:
			s.found++
			s.total++
		// Only a verdict of survival counts as equivalent: an explanation cannot replace the run.
		case explained && x.equivalent:
			s.equivalent++
		// An explanation does not change the score: the tests do not notice the fault.
		default:
			s.survived++
			s.total++
			if !explained {
				s.unexplained = append(s.unexplained, m.key)
			}
		}
	}
	return s
}

// share is how many of the mutants that change anything were found, in percent.
func (s score) share() float64 {
	// No mutant was run, or all are equivalent.
	if s.total == 0 {
		return 0
	}
	return 100 * float64(s.found) / float64(s.total)
}

// String returns the summary, which is the first paragraph of RESULTS.md.
func (s score) String() string {
	return fmt.Sprintf("%d mutants change what the program does; %d of them (%.1f %%) are found, %d survive.\n"+
		"%d more are equivalent, %d were not run. %.0f minutes of CPU.",
		s.total, s.found, s.share(), s.survived, s.equivalent, s.unknown, s.cpu/60)
}

// report is the content of the file with the results. It is Markdown and the same for equal results, so a diff shows
// what changed.
func (c *catalog) report(done results, explained map[string]explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of the mutants\n\n%s\n", c.score(done, explained))
	for _, a := range areas() {
		fmt.Fprintf(&b, "\n## %s\n\n| mutant | fault | found by |\n|---|---|---|\n", a.name)
		// In the order of the catalog, so that a new verdict changes one line.
		for _, m := range c.mutants {
			if m.area == a.name {
				fmt.Fprintf(&b, "| %s | %s | %s |\n", cell("`"+m.key+"`"), cell(m.what),
					cell(outcome(m, done, explained)))
			}
		}
	}
	return b.String()
}

// outcome returns the last column of the report for a mutant. A verdict comes before an explanation, which may be out
// of date. For example `hints TestLost`, or "**survives** 1000 seeds".
func outcome(m *mutant, done results, explained map[string]explanation) string {
	v, known := done[m.key]
	x, isExplained := explained[m.key]
	switch {
	// An explanation of an earlier survivor is out of date.
	case known && v.Found:
		return "`" + v.By + "`"
	case isExplained && x.equivalent:
		return "equivalent: " + x.text
	case isExplained:
		return "**survives**: " + x.text
	case known:
		return fmt.Sprintf("**survives** %d seeds", v.Seeds)
	}
	return "not run"
}

// cell escapes the separator of columns, which Go's || contains.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// reportPath is the file with the verdict of each mutant. Only this tool writes it.
func (c *catalog) reportPath() string { return filepath.Join(c.root, "tools/mutants/RESULTS.md") }

// rewrite writes the report.
func (c *catalog) rewrite(done results, explained map[string]explanation) error {
	return os.WriteFile(c.reportPath(), []byte(c.report(done, explained)), 0o644)
}
