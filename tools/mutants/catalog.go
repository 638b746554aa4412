package main

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// area is one subject of the mutation run: the files the operator works on, how many of its candidates are drawn, and
// the simulations that look for the faults first. Areas may share files; a candidate is drawn for the first of them
// only.
type area struct {
	name  string
	files []string // patterns of paths
	drawn int
	sims  []string
}

// areas are the subjects, in the order of the report. Patterns are path.Match's, from the root of the module. A
// simulation is the name of a test and its flags. The number of drawn mutants is small, because each survivor costs all
// seeds.
func areas() []area {
	// Each has its files, the number of drawn mutants, and the simulations that should find its faults.
	return []area{
		{"durability", []string{"storage/commit.go", "storage/logguard/*.go", "cluster/raftlog/log.go"}, 4,
			[]string{"TestSim -workloads=register,cas -kinds=power-all,power-one,power-torn,raft-fsync-error " +
				"-torn=true -levels=true"}},
		{"quorum", []string{"coordinator/quorum/*.go", "ring/consistency.go", "coordinator/write/*.go",
			"coordinator/plan.go", "coordinator/read_step.go"}, 5,
			[]string{"TestSim -workloads=register,set -kinds=isolate,halves,one-way,bad-links,kill"}},
		{"reconcile", []string{"row/reconcile.go", "row/merge.go", "coordinator/resolve/*.go",
			"coordinator/read_data.go"},
			5,
			[]string{"TestSim -workloads=register,set,ties,paging -kinds=isolate,one-way,bad-links"}},
		{"hints", []string{"hints/*.go"}, 4,
			[]string{"TestSim -workloads=set,register -kinds=isolate,kill,restart,power-one -converge=hints"}},
		{"paxos", []string{"paxos/*.go", "paxos/acceptor/*.go", "paxos/ballot/*.go"}, 6,
			[]string{"TestSim -workloads=cas -kinds=restart-storm,reorder,one-way,slow-links,pause", "TestSimPurge"}},
		{"batchlog", []string{"batchlog/*.go"}, 4,
			[]string{"TestSimBatches", "TestBatchesOfDepartingNodesAreComplete"}},
		{"ring", []string{"ring/operation.go", "ring/replicaset.go", "ring/strategy.go",
			"cluster/metadata/operation.go", "cluster/metadata/stale.go", "cluster/operation.go",
			"rebalance/movements*.go", "rebalance/compare.go", "rebalance/stream*.go"}, 6,
			[]string{"TestSim -workloads=set,register -kinds=join,leave,move,isolate,one-way,bad-links -nodes=4 " +
				"-factors=-1", "TestReadValuesStayVisible"}},
		{"repair", []string{"repair/machine.go", "repair/unit.go", "repair/run.go", "repair/scope.go",
			"repair/schedule_machine.go", "repair/dirty_machine.go", "repair/tables_machine.go", "repair/history.go",
			"repair/service.go"}, 4,
			[]string{"TestSim -workloads=set,register -kinds=isolate,one-way,kill -converge=repair",
				"TestSimDeletedRowsStayDeleted"}},
		{"purge", []string{"storage/purge/sweep.go", "repair/purge.go", "paxos/acceptor/purge.go"}, 4,
			[]string{"TestSimDeletedRowsStayDeleted", "TestSimPurge"}},
		{"rowcache", []string{"storage/rowcache/*.go", "storage/reading/cached.go"}, 4,
			[]string{"TestSim -workloads=register,set,cas -kinds=kill,restart,isolate"}},
		// Its places are in files of other areas, from which candidates are drawn.
		{"truncate", nil, 0, []string{"TestSimTruncate"}},
		// Most of its places are on paths that only a restoration executes.
		{"archive", nil, 0, []string{"TestMoments"}},
		{"index", []string{"storage/index/partitions.go", "storage/maintainer.go", "storage/ingest.go"}, 4,
			[]string{"TestSimOrdered"}},
		{"counter", []string{"counters/*.go", "counters/shard/*.go"}, 3,
			[]string{"TestSimCounters"}},
		{"listing", []string{"listing/*.go", "watermark/*.go"}, 4,
			[]string{"TestSimOrdered", "TestSim -workloads=ordered -kinds=isolate,one-way,bad-links,join,leave,move " +
				"-nodes=4 -factors=-1"}},
	}
}

// drawSeed makes another sample of the operator's candidates when it is changed. It was chosen once. Changing it
// discards the verdicts of drawn mutants, whose keys are others then.
const drawSeed = "cqld mutants 1"

// mutant is one fault with the switch that turns it on. Exactly one mutant is on in a process, or none (0). Its id
// depends on the catalog and may change; its key identifies it in results and explanations.
type mutant struct {
	id   int
	key  string // area/name, or file:function:kind:ordinal
	area string
	what string
	// The first place of a mutant with several.
	at string // file and function
	// Packages whose code the mutant changes, by their directories.
	dirs []string
	hand bool
	// sampled says that the tests of this command run it.
	sampled bool
	// Tests of package simulation with their flags, in the order in which they run.
	sims []string
}

// catalog is all mutants, and the files with all their switches. It is complete after newCatalog and is read
// concurrently by the workers.
type catalog struct {
	// The directory of the module.
	root    string
	mutants []*mutant
	// Parsed packages by their directories. Their files collect the edits of all mutants.
	packages map[string][]*file
}

// newCatalog reads the list by hand and draws the operator's share. It reads the source files of the module at root,
// and writes nothing.
func newCatalog(root string) (*catalog, error) {
	c := &catalog{root: root, packages: map[string][]*file{}}
	list, err := readHandList(filepath.Join(root, "tools/mutants/hand"))
	if err != nil {
		return nil, err
	}
	var errs []error
	// Edits of all mutants are collected first, and each file is rendered once.
	for _, h := range list {
		// All errors of the list are reported together: a change of the code often breaks several patterns.
		errs = append(errs, c.addByHand(h))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, a := range areas() {
		// After the list by hand, whose edits have precedence over drawn ones at the same place.
		if err := c.draw(a); err != nil {
			return nil, err
		}
	}
	// Keys identify results of earlier runs, so they must be unique.
	keys := map[string]bool{}
	for _, m := range c.mutants {
		if keys[m.key] {
			return nil, fmt.Errorf("mutants: two are named %s", m.key)
		}
		keys[m.key] = true
	}
	return c, nil
}

// files returns the parsed files of a directory. It parses them once, because their edits are collected in them.
func (c *catalog) files(dir string) ([]*file, error) {
	if c.packages[dir] == nil {
		files, err := parsePackage(c.root, dir)
		if err != nil {
			return nil, err
		}
		c.packages[dir] = files
	}
	return c.packages[dir], nil
}

// function finds a function by name. A name that several files declare, under build constraints, is ambiguous. Methods
// have the name of their type before a dot, without a star.
func (c *catalog) function(dir, name string) (function, error) {
	files, err := c.files(dir)
	if err != nil {
		return function{}, err
	}
	for _, f := range files {
		for _, fn := range f.functions() {
			if fn.name == name {
				return fn, nil
			}
		}
	}
	return function{}, fmt.Errorf("mutants: package %s has no function %s", dir, name)
}

// area finds an area by name.
func (c *catalog) area(name string) (area, error) {
	for _, a := range areas() {
		if a.name == name {
			return a, nil
		}
	}
	return area{}, fmt.Errorf("mutants: there is no area %q", name)
}

// addByHand adds a mutant of the list. An error names the line of the list: the pattern no longer fits the code. Two
// mutants may be nested in each other, but not overlap in part: the text between could not be rendered.
func (c *catalog) addByHand(h *handMutant) error {
	a, err := c.area(h.area())
	if err != nil {
		return fmt.Errorf("line %d: %w", h.line, err)
	}
	// Ids begin at 1, because 0 means that no mutant is on.
	m := &mutant{id: len(c.mutants) + 1, key: h.key, area: a.name, what: h.what, hand: true, sampled: h.sampled,
		sims: a.sims}
	if len(h.sims) > 0 {
		m.sims = h.sims
	}
	for _, p := range h.patterns {
		fn, err := c.function(p.dir, p.function)
		if err != nil {
			return fmt.Errorf("%s (line %d): %w", h.key, h.line, err)
		}
		e, err := p.edit(fn, h.key, m.id)
		if err != nil {
			return fmt.Errorf("%s (line %d): %w", h.key, h.line, err)
		}
		if !fn.file.fits(e) {
			return fmt.Errorf("%s (line %d): %s overlaps another mutant", h.key, h.line, fn.name)
		}
		// All patterns of a mutant have the same id, so they are switched on together.
		fn.file.edits = append(fn.file.edits, e)
		m.place(p.dir, fn)
	}
	c.mutants = append(c.mutants, m)
	return nil
}

// place records where the mutant changes the code.
func (m *mutant) place(dir string, fn function) {
	if !slices.Contains(m.dirs, dir) {
		m.dirs = append(m.dirs, dir)
	}
	if at := fn.file.path + " " + fn.name; m.at == "" {
		m.at = at
	}
}

// draw takes the candidates of an area with the lowest hashes of their names, so that a change of one function leaves
// the rest of the sample as it is. At most two are in one function. The hash of a name is independent of the others,
// unlike a draw from a list, in which one more candidate would move all later ones.
func (c *catalog) draw(a area) error {
	type named struct {
		key  string
		hash uint64
		fn   function
		candidate
	}
	// The candidates of all files of the area, before the sample is taken.
	var all []named
	for _, p := range a.files {
		files, err := c.files(path.Dir(p))
		if err != nil {
			return err
		}
		for _, f := range files {
			if ok, err := path.Match(p, f.path); !ok || err != nil {
				continue
			}
			for _, fn := range f.functions() {
				// The ordinal of a candidate among those of its kind, which makes its key unique.
				ordinals := map[string]int{}
				for _, x := range candidates(fn) {
					// No line number is part of the key, so a change elsewhere in the file keeps it.
					key := fmt.Sprintf("%s:%s:%s:%d", f.path, fn.name, x.kind, ordinals[x.kind])
					ordinals[x.kind]++
					all = append(all, named{key, hashOf(key), fn, x})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b named) int {
		// The order is random, but the same in each run.
		return cmp.Or(cmp.Compare(a.hash, b.hash),
			strings.Compare(a.key, b.key))
	})
	// The lowest hashes first, until the area has its number.
	taken, of := 0, map[string]int{}
	for _, x := range all {
		place := x.fn.file.path + " " + x.fn.name
		if taken == a.drawn {
			break
		}
		same := func(m *mutant) bool { return m.key == x.key } // drawn for another area
		// Faults of one function are mostly found by the same tests, so more of them would measure little.
		if of[place] == 2 || slices.ContainsFunc(c.mutants, same) {
			continue
		}
		m := &mutant{id: len(c.mutants) + 1, key: x.key, area: a.name, what: x.what, sims: a.sims}
		// The id is known only now, so the switch is rendered later.
		e := &edit{key: x.key, start: x.start, end: x.end,
			render: func(inner string) string { return x.render(m.id, inner) }}
		if !x.fn.file.fits(e) {
			continue
		}
		x.fn.file.edits = append(x.fn.file.edits, e)
		m.place(path.Dir(x.fn.file.path), x.fn)
		c.mutants = append(c.mutants, m)
		taken++
		of[place]++
	}
	// The sample would become smaller without notice.
	if taken < a.drawn {
		return fmt.Errorf("mutants: area %s has only %d candidates", a.name, taken)
	}
	return nil
}

// hashOf returns the position of a key in the sample. The last three lines are the finalizer of MurmurHash3, which
// spreads each bit over all.
func hashOf(key string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(drawSeed))
	h.Write([]byte(key))
	// FNV's high bits depend little on the last bytes.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}
