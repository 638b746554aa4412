package simulation

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Shrink reduces the options of a run that fails while the run still fails: fewer faults, workloads, clients and turns,
// each by half. fails runs options; it is called at most tries times. It returns o itself if nothing smaller fails.
// Faults come first, because a shorter plan makes later attempts quicker.
func Shrink(o Options, tries int, fails func(Options) bool) Options {
	// try runs smaller options, and keeps them if they still fail.
	try := func(smaller Options) bool {
		if tries == 0 {
			return false
		}
		tries--
		if !fails(smaller) {
			return false
		}
		o = smaller
		return true
	}
	// The numbers of all faults, so that some can be omitted.
	if o.OnlyFaults == nil {
		o.OnlyFaults = []int{}
		for _, f := range plan(o.withAllFaults()) {
			o.OnlyFaults = append(o.OnlyFaults, f.number)
		}
	}
	// First half of the faults at once, then quarters, and so on to single ones (delta debugging).
	for part := (len(o.OnlyFaults) + 1) / 2; part > 0; part /= 2 {
		for at := 0; at < len(o.OnlyFaults); {
			less := o
			less.OnlyFaults = slices.Delete(slices.Clone(o.OnlyFaults), at, min(at+part, len(o.OnlyFaults)))
			// After a success, the next part has moved to position at.
			if !try(less) {
				at += part
			}
		}
	}
	// Workloads one by one: a run needs one at least.
	for i := 0; i < len(o.Workloads) && len(o.Workloads) > 1; {
		less := o
		less.Workloads = slices.Delete(slices.Clone(o.Workloads), i, i+1)
		if !try(less) {
			i++
		}
	}
	for i := 0; i < len(o.Points); {
		less := o
		less.Points = slices.Delete(slices.Clone(o.Points), i, i+1)
		if !try(less) {
			i++
		}
	}
	// The number of clients is halved while the run fails.
	for smaller := true; smaller; {
		less := o
		less.Clients = (o.Clients + 1) / 2
		smaller = less.Clients < o.Clients && try(less)
	}
	for turns := 64; turns > 0; turns /= 2 {
		less := o
		if less.Turns = turns; !try(less) {
			break
		}
	}
	// So is the time of faults. Its plan is a prefix of the former one.
	for smaller := true; smaller; {
		less := o
		less.Faults = o.Faults / 2
		smaller = less.Faults >= 500*time.Millisecond && try(less)
	}
	return o
}

// withAllFaults returns the options with the complete plan, which numbers the faults.
func (o Options) withAllFaults() Options {
	o.OnlyFaults = nil
	return o
}

// Command returns the command that repeats a run. Options that have no flag, such as limits, are not in it: they must
// be what the seed draws.
func (o Options) Command() string {
	// Only differences to what the seed draws become flags.
	d := DrawnOptions(o.Seed)
	args := []string{fmt.Sprintf("make sim SEED=%d N=1", o.Seed)}
	var flags []string
	// add appends a flag of the tests in sim_test.go.
	add := func(differs bool, format string, value any) {
		if differs {
			flags = append(flags, fmt.Sprintf(format, value))
		}
	}
	add(!slices.Equal(o.Workloads, d.Workloads), "-workloads=%s", strings.Join(o.Workloads, ","))
	add(!slices.Equal(o.FaultKinds, d.FaultKinds), "-kinds=%s", strings.Join(o.FaultKinds, ","))
	add(!slices.Equal(o.Points, d.Points), "-points=%s", strings.Join(o.Points, ","))
	if o.OnlyFaults != nil {
		flags = append(flags, "-faults="+strings.Trim(strings.ReplaceAll(fmt.Sprint(o.OnlyFaults), " ", ","), "[]")+"")
	}
	add(o.Nodes != d.Nodes, "-nodes=%d", o.Nodes)
	add(!slices.Equal(o.factors(), d.factors()), "-factors=%s",
		strings.Trim(strings.ReplaceAll(fmt.Sprint(o.factors()), " ", ","), "[]"))
	add(o.NodesMost != d.NodesMost, "-most=%d", o.NodesMost)
	add(o.Far != d.Far, "-far=%v", o.Far)
	add(o.Levels != d.Levels, "-levels=%v", o.Levels)
	add(o.TornWrites != d.TornWrites, "-torn=%v", o.TornWrites)
	add(o.Encrypted != d.Encrypted, "-encrypted=%v", o.Encrypted)
	add(o.ConvergeBy != d.ConvergeBy, "-converge=%s", cmp.Or(o.ConvergeBy, ByReads))
	add(o.Clients != d.Clients, "-clients=%d", o.Clients)
	add(o.Turns != d.Turns, "-turns=%d", o.Turns)
	add(o.Faults != d.Faults, "-for=%v", o.Faults)
	if len(flags) > 0 {
		args = append(args, "ARGS='"+strings.Join(flags, " ")+"'")
	}
	return strings.Join(args, " ")
}
