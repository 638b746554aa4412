// Command package builds what is needed to install cqld, into dist/:
//
//	cqld-VERSION-OS-ARCH             static binaries for Linux, macOS and Windows
//	cqld_VERSION_ARCH.deb            Debian packages with a systemd unit
//	cqld-VERSION-image.tar           an image for amd64 and arm64, as an OCI layout
//	cqld-VERSION-THIRD_PARTY_NOTICES the licenses of all code in the binaries, also in each package
//	cqld-VERSION-packaging.tar.gz    the compose file and the Kubernetes manifests
//	SHA256SUMS                       checksums of these files
//
// The outputs depend only on the commit and the version of Go: all times are SOURCE_DATE_EPOCH, by default the time of
// the commit.
//
// It is a module of its own, so that the libraries for packages and images are not requirements of cqld.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "package: "+err.Error())
		os.Exit(1)
	}
}

// release is what is packaged.
type release struct {
	root    string // of the repository
	out     string
	version string // begins with a digit
	epoch   time.Time
	targets []target
	quick   bool // for tests: share the build cache with plain go build
}

// target is a system that a binary is for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// binary returns the path of the binary for a target.
func (r *release) binary(t target) string {
	name := fmt.Sprintf("cqld-%s-%s-%s", r.version, t.os, t.arch)
	if t.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.out, name)
}

// linux returns the targets that packages and images are made for.
func (r *release) linux() (out []target) {
	for _, t := range r.targets {
		if t.os == "linux" {
			out = append(out, t)
		}
	}
	return out
}

func run(ctx context.Context) error {
	root := flag.String("root", ".", "the `directory` of the repository")
	out := flag.String("out", "dist", "the `directory` that the files are written to")
	version := flag.String("version", os.Getenv("VERSION"),
		"the `version`; by default, the tag or the time and the revision of the commit")
	targets := flag.String("targets", "linux/"+runtime.GOARCH, "`systems` to build for, separated by commas, or all")
	quick := flag.Bool("quick", false, "for tests: build with the paths of this machine, which reuses the build cache")
	flag.Parse()
	r, err := newRelease(ctx, *root, *out, *version, *targets)
	if err != nil {
		return err
	}
	r.quick = *quick
	if err := r.clean(); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"binaries", r.buildBinaries}, {"notices", r.buildNotices}, {"Debian packages", r.buildDebs},
		{"image", r.buildImage},
		{"deployment files", r.buildDeployment}, {"checksums", r.writeChecksums}} {
		begun := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%-17s %6.1f s\n", step.name, time.Since(begun).Seconds())
	}
	return r.list()
}

// allTargets are the systems that releases are made for.
const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// newRelease determines the version and the time of the commit.
func newRelease(ctx context.Context, root, out, version, targets string) (*release, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(out) {
		out = filepath.Join(root, out)
	}
	if targets == "all" {
		targets = allTargets
	}
	r := &release{root: root, out: out, version: version}
	for t := range strings.SplitSeq(targets, ",") {
		system, arch, ok := strings.Cut(t, "/")
		if !ok {
			return nil, fmt.Errorf("target %q is not of the form OS/ARCH", t)
		}
		r.targets = append(r.targets, target{system, arch})
	}
	if r.epoch, err = r.sourceDate(ctx); err != nil {
		return nil, err
	}
	if r.version == "" {
		if r.version, err = r.describe(ctx); err != nil {
			return nil, err
		}
	}
	if r.version[0] < '0' || r.version[0] > '9' || strings.ContainsAny(r.version, "/- _") {
		return nil, fmt.Errorf("version %q must begin with a digit and must not contain '-', '_', '/' and spaces",
			r.version)
	}
	return r, nil
}

// sourceDate returns SOURCE_DATE_EPOCH, or the time of the commit.
func (r *release) sourceDate(ctx context.Context) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = r.git(ctx, "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %q is not a number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// describe returns the version of the commit: its tag vVERSION, or 0~DATE.REVISION, which sorts before every tag.
func (r *release) describe(ctx context.Context) (string, error) {
	if tag, err := r.git(ctx, "describe", "--tags", "--exact-match", "--match", "v[0-9]*"); err == nil {
		return strings.ReplaceAll(strings.TrimPrefix(tag, "v"), "-", "~"), nil
	}
	revision, err := r.git(ctx, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "", err
	}
	return "0~" + r.epoch.Format("20060102150405") + "." + revision, nil
}

// git runs git in the repository and returns its output without the final newline.
func (r *release) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.root
	b, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(b)), err
}

// clean removes the files of earlier runs, and only those.
func (r *release) clean() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"cqld-*", "cqld_*.deb", checksumsFile} {
		old, err := filepath.Glob(filepath.Join(r.out, pattern))
		if err != nil {
			return err
		}
		for _, path := range old {
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// list prints the outputs and their sizes.
func (r *release) list() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Printf("%10.1f MiB  %s\n", float64(info.Size())/(1<<20), filepath.Join(r.out, e.Name()))
	}
	return nil
}
