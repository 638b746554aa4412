package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader sets options by their names, and notes the options of Cassandra that have no effect. One reader reads one file
// or one environment; the lines of a file are set in order. Warnings are collected and not logged, because the logger
// is not known before all options are read. The precedence of sources is by order of reading: a later source overwrites
// an earlier one, and "already set" is an error within one source only.
type reader struct {
	o        *Options
	known    map[string]setting
	renamed  map[string]renamed
	promised map[string]promised
	inert    map[string]bool

	values   options           // by their new names
	seen     map[string]string // where each option was set
	old      []string          // OLD (NEW) of options that have new names
	noEffect []string          // names of options that are accepted and have no effect
	notes    []string          // what accepted options do not do
}

// newReader returns a reader that sets options in o.
func newReader(o *Options) *reader {
	return &reader{o: o, known: settings(), renamed: renamedOptions(), promised: promisedOptions(), inert: inert(),
		values: options{}, seen: map[string]string{}}
}

// set sets the option with a name in cqld or in any version of Cassandra from 3.11 to 6. where is the line or the
// variable, for errors. Names are looked up in this order: renamed, known, promised, inert. An option that is in none
// of them is an error. An error does not name the option; LoadFile and LoadEnvironment add the place and the name.
func (r *reader) set(name string, v *yaml.Node, where string) error {
	// The old name is replaced, so duplicates of both names are found.
	if n, ok := r.renamed[name]; ok {
		var err error
		if v, err = n.read(v); err != nil {
			return fmt.Errorf("%w; its new name is %s", err, n.name)
		}
		r.old = append(r.old, name+" ("+n.name+")")
		name = n.name
	}
	// The same option under both of its names counts as set twice.
	if before := r.seen[name]; before != "" {
		return fmt.Errorf("already set on %s", before)
	}
	// Also for values that are refused below, so that a second one is reported as well.
	r.seen[name], r.values[name] = where, v
	// An option of cqld, which may have a name of Cassandra.
	if set, ok := r.known[name]; ok {
		return set(r.o, v)
	}
	// An option of Cassandra that promises something that cqld does not do.
	if p, ok := r.promised[name]; ok {
		if !p.harmless(v, r.values) {
			return fmt.Errorf("not supported: %s. Remove the option, or give it the value that disables it", p.reason)
		}
		// A harmless value is what Cassandra's own file contains, so it must not be an error.
		r.noEffect = append(r.noEffect, name)
		return nil
	}
	// Every other name is unknown: a typing error should not start a node.
	if !r.inert[name] {
		return errors.New(r.unknown(name))
	}
	if note := unsupported(name); note != "" {
		r.notes = append(r.notes, note)
		return nil
	}
	r.noEffect = append(r.noEffect, name)
	return nil
}

// unknown returns the message for an option that no version knows. It proposes the option with the most similar name.
// Options that have no effect are proposed as well, as they are valid names. Similarity is the edit distance (package
// typo), at most typosMax.
func (r *reader) unknown(name string) string {
	// Old names are left out: the proposal should be one that will stay.
	similar := map[string]bool{}
	for n := range r.known {
		similar[n] = true
	}
	for n := range r.promised {
		similar[n] = true
	}
	for n := range r.inert {
		similar[n] = true
	}
	return unknownName(name, similar)
}

// warning returns one message about all options without effect or with new names. It is empty if there are no such
// options. The options are named once, so a file of Cassandra causes one warning.
func (r *reader) warning() string {
	// One warning instead of many keeps the log of a node with a stock file of Cassandra readable.
	var parts []string
	if len(r.noEffect) > 0 {
		// The order does not depend on the file.
		slices.Sort(r.noEffect)
		parts = append(parts, "options of Cassandra without effect in cqld: "+strings.Join(r.noEffect, ", "))
	}
	if len(r.old) > 0 {
		slices.Sort(r.old)
		parts = append(parts, "options under old names, with the new ones: "+strings.Join(r.old, ", "))
	}
	parts = append(parts, r.notes...)
	return strings.Join(parts, "; ")
}
