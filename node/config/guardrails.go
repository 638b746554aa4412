package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"cqld/query/guardrail"
	"cqld/ring"
)

// guardrailSettings returns the options of the guardrails, which have Cassandra's names. They are made from package
// guardrail, so that a new guardrail is an option without a change here. Thresholds are two options each, for example
// tables_warn_threshold and tables_fail_threshold.
func guardrailSettings() map[string]setting {
	// The fields have the opposite meaning of the options, so that their zero values are the defaults.
	all := map[string]setting{
		"drop_compact_storage_enabled": truth(func(o *Options) *bool { return &o.DropCompactStorage }),
		"intersect_filtering_query_enabled": falsehood(func(o *Options) *bool {
			return &o.Guardrails.IntersectionsRefused
		}),
		"intersect_filtering_query_warned": falsehood(func(o *Options) *bool {
			return &o.Guardrails.IntersectionsAccepted
		}),
		"zero_ttl_on_twcs_enabled": falsehood(func(o *Options) *bool { return &o.Guardrails.ZeroTTLRefused }),
		"zero_ttl_on_twcs_warned":  falsehood(func(o *Options) *bool { return &o.Guardrails.ZeroTTLAccepted }),
	}
	// Each flag disables something that is otherwise allowed.
	for _, f := range guardrail.Flags() {
		all[f.Option()] = falsehood(func(o *Options) *bool { return &o.Guardrails.Disabled[f] })
	}
	for _, t := range guardrail.Thresholds() {
		all[t.Name()+"_warn_threshold"] = guardrailThreshold(t,
			func(o *Options) *int64 { return &o.Guardrails.Warn[t] })
		all[t.Name()+"_fail_threshold"] = guardrailThreshold(t,
			func(o *Options) *int64 { return &o.Guardrails.Fail[t] })
	}
	for _, v := range guardrail.AllValues() {
		all[v.Name()+"_warned"] = words(v, func(o *Options) *[]string { return &o.Guardrails.Warned[v] })
		all[v.Name()+"_disallowed"] = words(v, func(o *Options) *[]string { return &o.Guardrails.Disallowed[v] })
	}
	// Only tables have a list of properties that are ignored.
	all[guardrail.TableProperties.Name()+"_ignored"] = words(guardrail.TableProperties,
		func(o *Options) *[]string { return &o.Guardrails.Ignored[guardrail.TableProperties] })
	return all
}

// guardrailThreshold reads a number, or a number of bytes with a unit. As in Cassandra, -1 and null mean no bound. A
// count is a plain number, a size has a unit. Zero in the file is an error, since it would refuse everything.
func guardrailThreshold(t guardrail.Threshold, field func(*Options) *int64) setting {
	return func(o *Options, v *yaml.Node) (err error) {
		switch {
		// Zero is no bound in the guardrails, and -1 in the file.
		case v.Value == "-1" || v.Tag == "!!null":
			*field(o) = 0
			return nil
		case t.Bytes():
			*field(o), err = ParseSize(v.Value)
			return err
		}
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil || n <= 0 {
			return fmt.Errorf("%q is neither a positive number nor -1", v.Value)
		}
		*field(o) = n
		return nil
	}
}

// words reads a list of names of properties or of consistency levels. Properties are in lower case, consistency levels
// in upper case. An empty list allows everything. Names of properties are not checked.
func words(of guardrail.Values, field func(*Options) *[]string) setting {
	return func(o *Options, v *yaml.Node) error {
		// A text would be read as one word, and guard nothing.
		if v.Kind != yaml.SequenceNode {
			return errors.New("expected a list")
		}
		var list []string
		for _, item := range v.Content {
			word := item.Value
			if of == guardrail.TableProperties {
				word = strings.ToLower(word)
				// The levels are checked here, because an unknown one would never match.
			} else if word = strings.ToUpper(word); !isConsistency(word) {
				return fmt.Errorf("%q is not a consistency level", item.Value)
			}
			list = append(list, word)
		}
		*field(o) = list
		return nil
	}
}

// isConsistency reports whether a name is a consistency level. SERIAL and LOCAL_SERIAL are levels as well.
func isConsistency(name string) bool {
	// The levels have consecutive numbers, from the protocol.
	for c := ring.Any; c <= ring.LocalOne; c++ {
		if c.String() == name {
			return true
		}
	}
	return false
}

// guardrailTexts returns the options of the guardrails for system_views.settings. A threshold of 0 is shown as -1,
// which is what the file contains.
func guardrailTexts(o *Options) map[string]string {
	// Fields with the opposite meaning are shown as the options that the file has.
	g := &o.Guardrails
	all := map[string]string{
		"drop_compact_storage_enabled":      strconv.FormatBool(o.DropCompactStorage),
		"intersect_filtering_query_enabled": strconv.FormatBool(!g.IntersectionsRefused),
		"intersect_filtering_query_warned":  strconv.FormatBool(!g.IntersectionsAccepted),
		"zero_ttl_on_twcs_enabled":          strconv.FormatBool(!g.ZeroTTLRefused),
		"zero_ttl_on_twcs_warned":           strconv.FormatBool(!g.ZeroTTLAccepted),
	}
	for _, f := range guardrail.Flags() {
		all[f.Option()] = strconv.FormatBool(!g.Disabled[f])
	}
	for _, t := range guardrail.Thresholds() {
		for suffix, n := range map[string]int64{"_warn_threshold": g.Warn[t], "_fail_threshold": g.Fail[t]} {
			text := strconv.FormatInt(n, 10)
			if n == 0 {
				// A size is shown with the unit B, which the file also reads.
				text = "-1"
			} else if t.Bytes() {
				text += "B"
			}
			all[t.Name()+suffix] = text
		}
	}
	// In the form of a YAML list, as the file has it.
	for _, v := range guardrail.AllValues() {
		all[v.Name()+"_warned"] = "[" + strings.Join(g.Warned[v], ", ") + "]"
		all[v.Name()+"_disallowed"] = "[" + strings.Join(g.Disallowed[v], ", ") + "]"
	}
	all["table_properties_ignored"] = "[" + strings.Join(g.Ignored[guardrail.TableProperties], ", ") + "]"
	return all
}
