package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// checksumsFile has the form that sha256sum -c reads.
const checksumsFile = "SHA256SUMS"

// buildBinaries builds a static binary for each target, without cgo, which would take the block cache out of the memory
// that the node can account for (ADR 44).
func (r *release) buildBinaries(ctx context.Context) error {
	for _, t := range r.targets {
		args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w -buildid="}
		if r.quick {
			args = []string{"build", "-buildvcs=false"}
		}
		cmd := exec.CommandContext(ctx, "go", append(args, "-o", r.binary(t), "./cmd/cqld")...)
		cmd.Dir = r.root
		cmd.Env = append(reproducible(os.Environ()), "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

// reproducible returns an environment without the variables that change what the compiler generates.
func reproducible(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{"GOFLAGS", "GOEXPERIMENT", "GOAMD64", "GOARM64", "CGO_ENABLED", "GOOS",
			"GOARCH"}, name)
	})
}

// writeChecksums writes the checksums of all other outputs.
func (r *release) writeChecksums(context.Context) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "cqld") || e.IsDir() {
			continue
		}
		sum, err := fileSum(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, checksumsFile), []byte(b.String()), 0o644)
}

func fileSum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
