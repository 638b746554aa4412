package rebalance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"cqld/ring"
	"cqld/schema"
)

// mayBePartial reports whether the operation completes with the live sources of a range: the nodes that would have to
// be awaited may be dead for good. Other operations can be aborted.
func (v *movement) mayBePartial() bool { return v.operation.Kind == ring.Remove || v.operation.Force }

// noteShort records a range that is fetched from too few sources.
func (v *movement) noteShort(f *gainedRange) {
	// The range is not short if the operation still waits for sources, if it belongs to system keyspaces, or if the
	// losing node is alive, whose copy suffices.
	if !v.partial || !f.required() || f.gain.From != 0 && v.m.view.Alive(f.gain.From) {
		return
	}
	// Other ranges of a partial operation may have enough sources.
	if _, enough := v.sources(f.gain); enough {
		return
	}
	for _, name := range f.keyspaces {
		if schema.IsReplicatedSystem(name) {
			continue
		}
		if v.short[name] == nil {
			v.short[name] = map[ring.Range]bool{}
		}
		// The ranges form a set, because a range is planned once for each table and attempt.
		v.short[name][f.gain.Range] = true
	}
}

// shortfalls counts the ranges that were fetched from too few sources, by keyspace.
func (v *movement) shortfalls() (out []ring.Shortfall) {
	// Keyspaces are sorted, as in the metadata.
	for _, name := range slices.Sorted(maps.Keys(v.short)) {
		out = append(out, ring.Shortfall{Node: v.m.view.Self(), Keyspace: name, Ranges: len(v.short[name])})
	}
	return out
}

// partialReason describes to the operator the first range for which the live sources must suffice.
func (v *movement) partialReason(f *gainedRange) string {
	return fmt.Sprintf("operation %d (%s): range %s of keyspace %s has too few live sources (down: %s): it and "+
		"others like it are fetched from "+
		"the live ones; repair the keyspace on this node when more replicas are up", v.operation.ID, v.operation.Kind,
		f.gain.Range,
		strings.Join(f.keyspaces, ", "), strings.Join(v.deadSources(f), ", "))
}

// stuckReason describes to the operator which range waits for which dead nodes.
func (v *movement) stuckReason(f *gainedRange) string {
	return fmt.Sprintf("operation %d (%s): range %s of keyspace %s waits: too few of its sources are alive (down: "+
		"%s); start them, "+
		"or abort the operation: cqld ctl abort %d", v.operation.ID, v.operation.Kind, f.gain.Range,
		strings.Join(f.keyspaces, ", "),
		strings.Join(v.deadSources(f), ", "), v.operation.ID)
}

// deadSources returns the addresses of the dead sources of a range.
func (v *movement) deadSources(f *gainedRange) (out []string) {
	view := v.m.view
	for _, id := range f.gain.Sources {
		if n := view.Topology().Node(id); n != nil && !view.Alive(id) {
			out = append(out, n.Internode.String())
		}
	}
	return out
}
