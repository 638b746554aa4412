package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"cqld/internal/typo"
)

// EnvironmentPrefix precedes the names of options, in capitals, in the environment: CQLD_CLUSTER_NAME. All options of
// the file may be set there. A container sets its node up without a file, for example
// CQLD_SEEDS=cqld-0.cqld,cqld-1.cqld.
const EnvironmentPrefix = "CQLD_"

// LoadEnvironment sets the options that the environment, NAME=VALUE, has. Values are written as in the file. A variable
// with the prefix that is similar to an option is reported in a warning; others belong to other programs. A variable
// whose name is not an option is ignored, unless it is probably a typing error. Variables override options of the file,
// also lists as a whole. The errors of all variables are joined. Renamed and inert options are handled as in a file.
func (o *Options) LoadEnvironment(environment []string) error {
	// A reader of its own: a variable may set an option that the file has set.
	r := newReader(o)
	var errs []error
	// Variables are sorted by name, so an error does not depend on the environment's order.
	for _, entry := range inOrder(environment) {
		// Only the first equals sign separates: values may contain others.
		variable, text, _ := strings.Cut(entry, "=")
		// A variable without an equals sign has an empty value.
		name, ours := strings.CutPrefix(variable, EnvironmentPrefix)
		if !ours {
			continue
		}
		// Names of variables are in capitals, options are not.
		if name = strings.ToLower(name); !r.knows(name) {
			// Other programs have variables with this prefix as well, so a typing error is a warning and not an error.
			if similar := typo.Nearest(name, maps.Keys(r.known), typosMaxEnvironment); similar != "" &&
				!elsewhere(name) {
				o.Warnings = append(o.Warnings, variable+" is no option; did you mean "+
					EnvironmentPrefix+strings.ToUpper(similar)+"?")
			}
			continue
		}
		// The value is parsed like a value of the file, so lists and numbers look the same.
		value, err := environmentValue(text)
		if err == nil {
			err = r.set(name, value, variable)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w", variable, err))
		}
	}
	// Only num_tokens of the environment is compared, because another one has been applied to o.
	if err := o.checkInitialTokens(r.values); err != nil {
		errs = append(errs, fmt.Errorf("environment: %w", err))
	}
	// The warning is about all variables together, not about one.
	if w := r.warning(); w != "" {
		o.Warnings = append(o.Warnings, "environment: "+w)
	}
	return errors.Join(errs...)
}

// inOrder sorts the variables, and puts seeds and broadcast addresses last because they depend on other options. Both
// are compared with options that may come later in the list. Seeds get the default port, and broadcast addresses are
// compared with the listening ones.
func inOrder(environment []string) []string {
	last := func(entry string) int {
		if strings.HasPrefix(entry, EnvironmentPrefix+"SEED") ||
			strings.HasPrefix(entry, EnvironmentPrefix+"BROADCAST_") {
			return 1
		}
		return 0
	}
	// The sort is stable, so names keep their order within both groups.
	sorted := slices.Sorted(slices.Values(environment))
	slices.SortStableFunc(sorted, func(a, b string) int { return last(a) - last(b) })
	return sorted
}

// elsewhere reports whether a variable belongs to a flag or to `cqld ctl`. Package cmd/cqld reads these variables
// itself; they are no options of the file.
func elsewhere(name string) bool {
	return slices.Contains([]string{"data_dir", "config", "log_level", "log_format", "superuser", "superuser_password",
		"superuser_password_file"}, name)
}

// environmentValue parses a value as the file has it. A text that YAML would read as something else, such as `a: b`,
// stays a text. Several documents in one value are not possible: the first one counts.
func environmentValue(text string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, err
	}
	// An empty value is null, as in the file.
	if len(doc.Content) == 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	}
	return doc.Content[0], nil
}

// A name within these distances of an option's name counts as a typing error, in a file and in the environment. The
// environment also has variables of other programs.
const (
	typosMax            = 3
	typosMaxEnvironment = 2
)

// knows reports whether an option exists in cqld or in Cassandra. Options that are promised, renamed or inert count as
// well: they are accepted.
func (r *reader) knows(name string) bool {
	return r.known[name] != nil || r.inert[name] || has(r.renamed, name) || has(r.promised, name)
}

// has reports whether a map has a key, whatever its value is.
func has[V any](m map[string]V, name string) bool {
	_, ok := m[name]
	return ok
}
