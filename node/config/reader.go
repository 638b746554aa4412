package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reader sets options by their names, and notes the options of Cassandra that have no effect.
type reader struct {
	o        *Options
	known    map[string]setting
	renamed  map[string]renamed
	promised map[string]promised
	inert    map[string]bool

	values   options           // by their new names
	seen     map[string]string // where each option was set
	old      []string          // OLD (NEW) of options that have new names
	noEffect []string
	notes    []string
}

func newReader(o *Options) *reader {
	return &reader{o: o, known: settings(), renamed: renamedOptions(), promised: promisedOptions(), inert: inert(),
		values: options{}, seen: map[string]string{}}
}

// set sets the option with a name in cqld or in any version of Cassandra from 3.11 to 6.
func (r *reader) set(name string, v *yaml.Node, where string) error {
	if n, ok := r.renamed[name]; ok {
		var err error
		if v, err = n.read(v); err != nil {
			return fmt.Errorf("%w; its new name is %s", err, n.name)
		}
		r.old = append(r.old, name+" ("+n.name+")")
		name = n.name
	}
	if before := r.seen[name]; before != "" {
		return fmt.Errorf("already set on %s", before)
	}
	r.seen[name], r.values[name] = where, v
	if set, ok := r.known[name]; ok {
		return set(r.o, v)
	}
	if p, ok := r.promised[name]; ok {
		if !p.harmless(v, r.values) {
			return fmt.Errorf("not supported: %s. Remove the option, or give it the value that disables it", p.reason)
		}
		r.noEffect = append(r.noEffect, name)
		return nil
	}
	if !r.inert[name] {
		return errors.New(r.unknown(name))
	}
	if note := unsupported(name, v); note != "" {
		r.notes = append(r.notes, note)
		return nil
	}
	r.noEffect = append(r.noEffect, name)
	return nil
}

// unknown returns the message for an option that no version knows. It proposes the option with the most similar name.
func (r *reader) unknown(name string) string {
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

// warning returns one text about all options without effect or with new names; empty if there are none.
func (r *reader) warning() string {
	var parts []string
	if len(r.noEffect) > 0 {
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
