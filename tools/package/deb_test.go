package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// unpackedDeb returns the package, and directories with its files and with its maintainer scripts.
func unpackedDeb(t *testing.T) (path, root, scripts string) {
	t.Helper()
	need(t, "dpkg-deb")
	paths, err := filepath.Glob(filepath.Join(built.out, "*.deb"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	root, scripts = t.TempDir(), t.TempDir()
	command(t, "", "dpkg-deb", "--extract", paths[0], root)
	command(t, "", "dpkg-deb", "--control", paths[0], scripts)
	return paths[0], root, scripts
}

// TestPackageFollowsPolicy checks what lintian would.
func TestPackageFollowsPolicy(t *testing.T) {
	path, root, scripts := unpackedDeb(t)
	for field, want := range map[string]string{"Package": "cqld", "Architecture": runtime.GOARCH,
		"Version": built.version, "Section": "database", "Priority": "optional"} {
		if got := strings.TrimSpace(command(t, "", "dpkg-deb", "--field", path, field)); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	conffiles, err := os.ReadFile(filepath.Join(scripts, "conffiles"))
	if err != nil || strings.TrimSpace(string(conffiles)) != "/etc/cqld/cqld.yaml" {
		t.Errorf("conffiles: %q, %v", conffiles, err)
	}
	owner := regexp.MustCompile(`^[-d][rwx-]{9} root/root `)
	for line := range strings.Lines(command(t, "", "dpkg-deb", "--contents", path)) {
		if !owner.MatchString(line) || line[8] == 'w' {
			t.Errorf("owner or mode: %s", line)
		}
	}
	command(t, root, "md5sum", "--check", "--quiet", filepath.Join(scripts, "md5sums"))
	for _, name := range []string{"usr/bin/cqld", "usr/lib/systemd/system/cqld.service",
		"usr/share/doc/cqld/copyright", "usr/share/doc/cqld/" + noticesName} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestPackagedNodeRuns starts the binary of the package with the configuration of the package, as its unit does.
func TestPackagedNodeRuns(t *testing.T) {
	_, root, _ := unpackedDeb(t)
	flags, probes := arguments(t)
	args := append([]string{"start", "--config", filepath.Join(root, "etc/cqld/cqld.yaml"), "--data-dir",
		filepath.Join(t.TempDir(), "data")}, flags...)
	n := startNode(t, exec.Command(filepath.Join(root, "usr/bin/cqld"), args...))
	n.awaitReady(t, probes)
	n.stop(t)
}

// TestMaintainerScripts runs the scripts, in the order of an installation, an upgrade and a removal, with programs that
// only record their arguments.
func TestMaintainerScripts(t *testing.T) {
	_, _, scripts := unpackedDeb(t)
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "log")
	for _, name := range []string{"adduser", "install", "chown", "chmod", "systemctl", "rm", "rmdir", "getent"} {
		text := "#!/bin/sh\necho " + name + " \"$@\" >>" + log + "\n"
		if name == "getent" { // the user exists after the first installation
			text += "grep -q ^adduser " + log + "\n"
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range [][]string{{"postinst", "configure", ""}, {"postinst", "configure", ""},
		{"prerm", "upgrade", "1"}, {"postinst", "configure", "1"},
		{"prerm", "remove"}, {"postrm", "remove"}, {"postrm", "purge"}, {"postrm", "purge"}} {
		cmd := exec.Command("/bin/sh", slices.Concat([]string{"-eu", filepath.Join(scripts, step[0])}, step[1:])...)
		cmd.Env = []string{"PATH=" + bin + ":/usr/bin:/bin"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", step, err, out)
		}
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if n := strings.Count(text, "adduser "); n != 1 {
		t.Errorf("the user was created %d times:\n%s", n, text)
	}
	if regexp.MustCompile(`(?m)^rm .*/var/lib`).MatchString(text) {
		t.Errorf("the data were removed:\n%s", text)
	}
	if !strings.Contains(text, "install -d -m 0700 -o cqld -g cqld /var/lib/cqld\n") {
		t.Errorf("the data directory was not made:\n%s", text)
	}
}

// exposureMax is the greatest exposure of the unit, in tenths, that systemd-analyze may report. 100 is a unit without
// restrictions.
const exposureMax = "15"

func TestUnit(t *testing.T) {
	need(t, "systemd-analyze")
	text, err := os.ReadFile("../../packaging/systemd/cqld.service")
	if err != nil {
		t.Fatal(err)
	}
	// The program of the unit must exist.
	text = []byte(strings.ReplaceAll(string(text), "/usr/bin/cqld", built.binary(built.targets[0])))
	unit := filepath.Join(t.TempDir(), "cqld.service")
	if err := os.WriteFile(unit, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := command(t, "", "systemd-analyze", "verify", "--man=no", unit); strings.Contains(out, "cqld.service") {
		t.Error(out)
	}
	command(t, "", "systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+exposureMax, unit)
	weak := filepath.Join(t.TempDir(), "cqld.service")
	protections := regexp.MustCompile(`(?m)^(Protect|Restrict|SystemCallFilter|CapabilityBoundingSet).*\n`)
	if err := os.WriteFile(weak, protections.ReplaceAll(text, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold="+exposureMax,
		weak).Run(); err == nil {
		t.Error("a unit without protections passes")
	}
}
