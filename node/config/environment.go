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

// EnvironmentPrefix precedes the names of options, in capitals, in the environment: CQLD_CLUSTER_NAME.
const EnvironmentPrefix = "CQLD_"

// LoadEnvironment sets the options that the environment, NAME=VALUE, has. Values are written as in the file. A variable
// with the prefix that is similar to an option is reported in a warning; others belong to other programs.
func (o *Options) LoadEnvironment(environment []string) error {
	r := newReader(o)
	var errs []error
	for _, entry := range inOrder(environment) {
		variable, text, _ := strings.Cut(entry, "=")
		name, ours := strings.CutPrefix(variable, EnvironmentPrefix)
		if !ours {
			continue
		}
		if name = strings.ToLower(name); !r.knows(name) {
			if similar := typo.Nearest(name, maps.Keys(r.known), typosMaxEnvironment); similar != "" &&
				!elsewhere(name) {
				o.Warnings = append(o.Warnings, variable+" is no option; did you mean "+
					EnvironmentPrefix+strings.ToUpper(similar)+"?")
			}
			continue
		}
		value, err := environmentValue(text)
		if err == nil {
			err = r.set(name, value, variable)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w", variable, err))
		}
	}
	if err := o.checkInitialTokens(r.values); err != nil {
		errs = append(errs, fmt.Errorf("environment: %w", err))
	}
	if w := r.warning(); w != "" {
		o.Warnings = append(o.Warnings, "environment: "+w)
	}
	return errors.Join(errs...)
}

// inOrder sorts the variables, and puts seeds and broadcast addresses last because they depend on other options.
func inOrder(environment []string) []string {
	last := func(entry string) int {
		if strings.HasPrefix(entry, EnvironmentPrefix+"SEED") ||
			strings.HasPrefix(entry, EnvironmentPrefix+"BROADCAST_") {
			return 1
		}
		return 0
	}
	sorted := slices.Sorted(slices.Values(environment))
	slices.SortStableFunc(sorted, func(a, b string) int { return last(a) - last(b) })
	return sorted
}

// elsewhere reports whether a variable belongs to a flag or to `cqld ctl`.
func elsewhere(name string) bool {
	return slices.Contains([]string{"data_dir", "config", "log_level", "log_format", "superuser", "superuser_password",
		"superuser_password_file"}, name)
}

// environmentValue parses a value as the file has it. A text that YAML would read as something else, such as `a: b`,
// stays a text.
func environmentValue(text string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, err
	}
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

// knows reports whether an option exists in cqld or in Cassandra.
func (r *reader) knows(name string) bool {
	return r.known[name] != nil || r.inert[name] || has(r.renamed, name) || has(r.promised, name)
}

func has[V any](m map[string]V, name string) bool {
	_, ok := m[name]
	return ok
}
