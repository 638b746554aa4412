package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoticesNameEveryModule compares the notices with the modules that the binary itself records.
func TestNoticesNameEveryModule(t *testing.T) {
	text, err := os.ReadFile(built.notices())
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for line := range strings.Lines(command(t, "", "go", "version", "-m", built.binary(built.targets[0]))) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != "dep" {
			continue
		}
		modules++
		if !bytes.Contains(text, []byte("\n"+fields[1]+" "+fields[2]+" (")) {
			t.Errorf("no license of %s %s", fields[1], fields[2])
		}
	}
	if modules < 20 {
		t.Errorf("the binary records %d modules", modules)
	}
	for _, want := range []string{"Go standard library and runtime go1.", "Apache License",
		"Redistribution and use in source and binary forms", "Permission is hereby granted"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
	if bytes.Contains(text, []byte(built.root)) {
		t.Error("the notices contain a path of this machine")
	}
}

// TestDeploymentFilesContainTheNotices checks the archive; TestPackageFollowsPolicy and TestImageContainsTheNotices
// check the other packages.
func TestDeploymentFilesContainTheNotices(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(built.out, "*-packaging.tar.gz"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	f, err := os.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(h.Name)] = h.Size > 1000
	}
	if !found["LICENSE"] || !found[noticesName] {
		t.Errorf("the archive contains %v", found)
	}
}

// TestModulesWithoutLicenseAreFound: such a module ends the build.
func TestModulesWithoutLicenseAreFound(t *testing.T) {
	dir := t.TempDir()
	l := &licensed{root: dir}
	for name, counts := range map[string]bool{"main.go": false, "license.go": false, "LICENSE": true,
		"COPYING.txt": true, "NOTICE": true, "licence-MIT": true,
		"PATENTS": true, "README.md": false, "licensing.md": false} {
		before := len(l.files)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.collect(dir); err != nil || (len(l.files) > before) != counts {
			t.Errorf("%s: %v, %v", name, l.files, err)
		}
	}
}

// TestImageContainsTheNotices checks that the image has the texts of its licenses.
func TestImageContainsTheNotices(t *testing.T) {
	_, root := unpackedImage(t)
	for _, name := range []string{"LICENSE", noticesName} {
		if info, err := os.Stat(filepath.Join(root, "usr/share/doc/cqld", name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
