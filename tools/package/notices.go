package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticesName is the name of the file with the licenses of all code in the binaries.
const noticesName = "THIRD_PARTY_NOTICES"

// notices returns the path of that file.
func (r *release) notices() string {
	return filepath.Join(r.out, fmt.Sprintf("cqld-%s-%s", r.version, noticesName))
}

// licensed is code of others that the binaries contain.
type licensed struct {
	name  string   // a module with its version
	files []string // paths of its licenses and notices, the module's own first
	root  string   // its directory
}

// buildNotices collects the licenses and notices of the modules that are compiled into any of the binaries, and of Go's
// standard library, from the module cache. A module without a license is an error: it must not be distributed.
func (r *release) buildNotices(ctx context.Context) error {
	modules := map[string]*licensed{}
	for _, t := range r.targets {
		if err := r.addModules(ctx, t, modules); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	root, err := r.goTool(ctx, target{}, "env", "GOROOT")
	if err != nil {
		return err
	}
	version, err := r.goTool(ctx, target{}, "env", "GOVERSION")
	if err != nil {
		return err
	}
	standard := &licensed{name: "Go standard library and runtime " + strings.TrimSpace(version),
		root: strings.TrimSpace(root)}
	if err := standard.collect(standard.root); err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("cqld contains the code of others, under the licenses below. Its own license is in the file " +
		"LICENSE (copyright in Debian packages).\n")
	for _, one := range append([]*licensed{standard}, sorted(modules)...) {
		if err := one.append(&b); err != nil {
			return err
		}
	}
	return os.WriteFile(r.notices(), b.Bytes(), 0o644)
}

func sorted(modules map[string]*licensed) (out []*licensed) {
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		out = append(out, modules[name])
	}
	return out
}

// addModules adds the modules of the binary for a target, with the licenses in the directories of its packages and
// above.
func (r *release) addModules(ctx context.Context, t target, modules map[string]*licensed) error {
	const format = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"
	out, err := r.goTool(ctx, t, "list", "-deps", "-f", format, "./cmd/cqld")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue // of cqld itself, or of the standard library
		}
		m := modules[fields[0]]
		if m == nil {
			m = &licensed{name: fields[0], root: fields[1]}
			modules[m.name] = m
			if err := m.collect(m.root); err != nil {
				return err
			}
			if len(m.files) == 0 {
				return fmt.Errorf("%s has no license", m.name)
			}
		}
		for dir := fields[2]; len(dir) > len(m.root); dir = filepath.Dir(dir) {
			if err := m.collect(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// goTool runs the go command for a target, as buildBinaries does.
func (r *release) goTool(ctx context.Context, t target, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	cmd.Env = append(reproducible(os.Environ()), "CGO_ENABLED=0")
	if t.os != "" {
		cmd.Env = append(cmd.Env, "GOOS="+t.os, "GOARCH="+t.arch)
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, exit.Stderr)
	}
	return string(out), err
}

// collect adds the licenses and notices in a directory, unless they are there already.
func (l *licensed) collect(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	name := regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|copyright|notice|patents)([-_.].*)?$`)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() || !name.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") ||
			slices.Contains(l.files, path) {
			continue
		}
		l.files = append(l.files, path)
	}
	return nil
}

// append appends the texts.
func (l *licensed) append(b *bytes.Buffer) error {
	slices.SortStableFunc(l.files, func(x, y string) int { return strings.Count(x, "/") - strings.Count(y, "/") })
	for _, path := range l.files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(l.root, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n%[1]s\n%[2]s (%[3]s)\n%[1]s\n\n%[4]s\n", strings.Repeat("=", 80), l.name, name,
			bytes.TrimSpace(text))
	}
	return nil
}
