package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// MemoryGroup is a memory cgroup with a limit, in which servers run. It works with the hierarchies of both versions.
// Tests use it to show that a node keeps its memory below a limit that the kernel enforces.
type MemoryGroup struct {
	dir string
	v2  bool
}

// NewMemoryGroup makes a cgroup with a limit of so many bytes, and without swap. The caller removes it when its
// processes have ended. name distinguishes the groups of one process; the process id distinguishes processes.
func NewMemoryGroup(name string, limit int64) (*MemoryGroup, error) {
	var errs []error
	// The first parent in which the group can be made counts; on failure, all reasons are reported.
	for _, parent := range memoryParents() {
		g := &MemoryGroup{dir: filepath.Join(parent.dir, fmt.Sprintf("cqld-%d-%s", os.Getpid(), name)), v2: parent.v2}
		err := g.create(limit)
		if err == nil {
			return g, nil
		}
		// The group may exist without its limit.
		errs = append(errs, err, g.Remove())
	}
	return nil, fmt.Errorf("process: no memory cgroup can be made: %w", errors.Join(errs...))
}

// create makes the directory of the group and sets its limit.
func (g *MemoryGroup) create(limit int64) error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	// Version 1 bounds memory and swap together, so equal limits leave no swap.
	bound, swap, noSwap := "memory.limit_in_bytes", "memory.memsw.limit_in_bytes", strconv.FormatInt(limit, 10)
	if g.v2 {
		bound, swap, noSwap = "memory.max", "memory.swap.max", "0"
	}
	if err := os.WriteFile(filepath.Join(g.dir, bound), []byte(strconv.FormatInt(limit, 10)), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(g.dir, swap), []byte(noSwap), 0o644); err != nil &&
		!errors.Is(err, os.ErrNotExist) {
		return err // the kernel counts swap, but does not let it be bounded
	}
	return nil
}

// memoryParent is a directory in which memory cgroups can be made. dir is absolute, below the mount point of the
// hierarchy.
type memoryParent struct {
	dir string
	v2  bool
}

// memoryParents returns the cgroup of this process, in version 1, or the root of version 2: there, the cgroup of a
// process cannot have children with limits.
func memoryParents() (parents []memoryParent) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	// A line: id, parent, device, root of the mount, mount point, options, optional fields, "-", type, source, options.
	for line := range strings.Lines(string(mounts)) {
		// A line of mountinfo has optional fields before the dash, so the file system type is counted from there.
		before, after, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		switch {
		case len(where) < 5 || len(what) < 3:
		case what[0] == "cgroup2":
			parents = append(parents, memoryParent{where[4], true})
		case what[0] == "cgroup" && slices.Contains(strings.Split(what[2], ","), "memory"):
			// First the cgroup of this process, then the root, which a container may not write to. where[3] is the root
			// of the mount in the hierarchy, and where[4] the mount point.
			parents = append(parents, memoryParent{filepath.Join(where[4], ownMemoryGroup(where[3])), false},
				memoryParent{where[4], false})
		}
	}
	// In version 2, children have a memory limit only if their parent passes the controller on.
	return slices.DeleteFunc(parents, func(p memoryParent) bool {
		controllers, err := os.ReadFile(filepath.Join(p.dir, "cgroup.subtree_control"))
		return p.v2 && (err != nil || !slices.Contains(strings.Fields(string(controllers)), "memory"))
	})
}

// ownMemoryGroup returns the path of this process' cgroup of version 1 below the mounted one. A container sees only a
// part of the hierarchy, whose root mounted is; the path is relative to it.
func ownMemoryGroup(mounted string) string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "/"
	}
	// A line is "id:controllers:path".
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && slices.Contains(strings.Split(fields[1], ","), "memory") {
			if path, err := filepath.Rel(mounted, fields[2]); err == nil && !strings.HasPrefix(path, "..") {
				return path
			}
		}
	}
	return "/"
}

// RunIn makes the next start of the server run in a cgroup: its process enters the group before it becomes the server.
// It applies to this and all later starts, and must follow UseBinary: the shell takes the first place of the command.
func (s *Server) RunIn(g *MemoryGroup) {
	// $0 is the path of cgroup.procs, and "$@" the command with its flags.
	s.argv = append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs")},
		s.argv...)
}

// hideProc mounts a /proc that contains processes only, in a mount namespace of its own, as ProcSubset=pid and
// ProtectProc=invisible of the packaged unit do, and executes a command there. The test -e makes the start fail, rather
// than prove nothing, where the kernel ignores subset=pid.
var hideProc = []string{"unshare", "--mount", "/bin/sh", "-c",
	`mount -t proc -o subset=pid,hidepid=2 proc /proc && test ! -e /proc/meminfo && exec "$0" "$@"`}

// HideProc makes the next start of the server see no /proc/meminfo, as the packaged unit does. It must follow
// UseBinary, like RunIn.
func (s *Server) HideProc() { s.argv = slices.Concat(hideProc, s.argv) }

// CanHideProc returns nil if HideProc works on this machine.
func CanHideProc() error {
	out, err := exec.Command(hideProc[0], append(hideProc[1:], "/bin/true")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("process: /proc cannot be mounted with subset=pid: %w: %s", err, out)
	}
	return nil
}

// MemoryUsage is the memory of a MemoryGroup in bytes, as the kernel counts it. Anonymous is what a server cannot give
// back; a test that bounds a server's memory looks at it, and at Killed.
type MemoryUsage struct {
	Current, Peak int64 // with the page cache, which the kernel takes back
	Anonymous     int64 // of processes
	Killed        int64 // processes that the kernel has killed because the group was at its limit
}

// Usage returns the present memory of the group. It fails on a kernel that lacks one of the files, such as memory.peak
// before Linux 5.19.
func (g *MemoryGroup) Usage() (u MemoryUsage, err error) {
	// The names of version 1 and, below, of version 2.
	current, peak, anonymous, kills := "memory.usage_in_bytes", "memory.max_usage_in_bytes", "total_rss",
		"memory.oom_control"
	if g.v2 {
		current, peak, anonymous, kills = "memory.current", "memory.peak", "anon", "memory.events"
	}
	var errs []error
	// One entry for each number: its file, its key in the file, and where it goes.
	for _, f := range []struct {
		file, key string
		value     *int64
	}{{current, "", &u.Current}, {peak, "", &u.Peak}, {"memory.stat", anonymous, &u.Anonymous},
		{kills, "oom_kill", &u.Killed}} {
		var err error
		*f.value, err = g.read(f.file, f.key)
		errs = append(errs, err)
	}
	return u, errors.Join(errs...)
}

// read returns the number in a file of the group, after a key if the file has several.
func (g *MemoryGroup) read(file, key string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(g.dir, file))
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		// Either a single number, or lines of a key and a number.
		if len(fields) == 1 && key == "" || len(fields) == 2 && fields[0] == key {
			return strconv.ParseInt(fields[len(fields)-1], 10, 64)
		}
	}
	return 0, fmt.Errorf("process: %s has no %q", file, key)
}

// ResetPeak makes MemoryUsage.Peak begin again, where the kernel can. On version 2 it does nothing, so the peak is the
// maximum since the group was made.
func (g *MemoryGroup) ResetPeak() error {
	file := "memory.max_usage_in_bytes"
	if g.v2 {
		return nil
	}
	return os.WriteFile(filepath.Join(g.dir, file), []byte("0"), 0o644)
}

// removeWait bounds how long the kernel takes to release the memory of ended processes.
const removeWait = 5 * time.Second

// Remove removes the group. It fails while processes of the group run. A group that does not exist is no error.
func (g *MemoryGroup) Remove() error {
	for end := time.Now().Add(removeWait); ; time.Sleep(10 * time.Millisecond) {
		err := os.Remove(g.dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		// A process that was killed stays in the group until the kernel has freed it.
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			return err
		}
	}
}
