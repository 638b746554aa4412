package config

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"cqld/query/definition"
)

// indexSettings returns the options of secondary indexes. They restrict CREATE INDEX; existing indexes are not
// affected, so a node with other settings serves them like the others.
func indexSettings() map[string]setting {
	return map[string]setting{
		"default_secondary_index": setDefaultIndex,
		"default_secondary_index_enabled": falsehood(func(o *Options) *bool {
			return &o.Indexes.DefaultDisabled
		}),
		"secondary_indexes_enabled": falsehood(func(o *Options) *bool { return &o.Indexes.Disabled }),
		"sasi_indexes_enabled": falsehood(func(o *Options) *bool {
			return &o.Indexes.SASIDisabled
		}),
		"secondary_indexes_per_table_warn_threshold": threshold(func(o *Options) *int {
			return &o.Indexes.PerTableWarn
		}),
		"secondary_indexes_per_table_fail_threshold": threshold(func(o *Options) *int {
			return &o.Indexes.PerTableFail
		}),
	}
}

// setDefaultIndex reads the class of CREATE INDEX without USING. CREATE INDEX with USING names its class itself. The
// spelling of the file is kept for system_views.settings.
func setDefaultIndex(o *Options, v *yaml.Node) error {
	// As in Cassandra, the class may be written in any case.
	if name := strings.ToLower(v.Value); !definition.IsIndexName(name) {
		// The error lists the two classes.
		return fmt.Errorf("%q is neither legacy_local_table nor sai", v.Value)
	}
	o.Indexes.Default = v.Value
	return nil
}

// falsehood reads true or false into a field that has the opposite meaning. A field that says the opposite has a zero
// value that is the default.
func falsehood(field func(*Options) *bool) setting {
	return func(o *Options, v *yaml.Node) error {
		b, err := truthOf(v)
		if err == nil {
			*field(o) = !b
		}
		return err
	}
}

// threshold reads the number of a guardrail; -1 disables it. 0 is refused, because it could mean either.
func threshold(field func(*Options) *int) setting {
	return func(o *Options, v *yaml.Node) error {
		// -1 is kept as it is: Default has it, too.
		n, err := strconv.Atoi(v.Value)
		if err != nil || n < -1 || n == 0 {
			return fmt.Errorf("%q is neither a positive number nor -1", v.Value)
		}
		*field(o) = n
		return nil
	}
}

// indexValues returns the values of these options, as system_views.settings shows them. Zero and negative numbers are
// both shown as -1: there is no guardrail.
func (o *Options) indexValues() map[string]string {
	number := func(n int) string {
		if n <= 0 {
			n = -1
		}
		return strconv.Itoa(n)
	}
	// An empty class means the default, which is shown by its name.
	x := &o.Indexes
	name := x.Default
	if name == "" {
		name = definition.LegacyIndexName
	}
	return map[string]string{
		"default_secondary_index":                    name,
		"default_secondary_index_enabled":            strconv.FormatBool(!x.DefaultDisabled),
		"secondary_indexes_enabled":                  strconv.FormatBool(!x.Disabled),
		"sasi_indexes_enabled":                       strconv.FormatBool(!x.SASIDisabled),
		"secondary_indexes_per_table_warn_threshold": number(x.PerTableWarn),
		"secondary_indexes_per_table_fail_threshold": number(x.PerTableFail),
	}
}
