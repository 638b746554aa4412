package memory

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// System is what Detect reads of the operating system. Tests pass a tree of files in memory.
type System struct {
	// Root contains /proc/self and /sys/fs/cgroup.
	Root fs.FS
	// Machine returns the memory of the machine; zero means unknown.
	Machine func() int64
}

// Figure is the memory that a process may use, and what determines it. Source is shown in the log and in errors, for
// example "/sys/fs/cgroup/memory.max".
type Figure struct {
	Bytes  int64
	Source string
}

// Detect returns the smallest limit of the machine and of the cgroups of this process. /proc/meminfo is not read: a
// unit with ProcSubset=pid hides it, while sysinfo(2), /proc/self and /sys/fs/cgroup remain. memory.high counts as
// well: above it, the kernel slows the process down, which is worse than a smaller cache.
func Detect(s System) (Figure, error) {
	f := Figure{Bytes: s.Machine(), Source: "the memory of the machine"}
	for _, h := range s.hierarchies() {
		// The smallest limit on the way to the root holds.
		for _, dir := range h.path() {
			for _, file := range h.files {
				n := s.number(path.Join(dir, file))
				// Zero means that there is no limit, or that the machine's memory is unknown. A limit above the
				// machine's memory has no effect.
				if n > 0 && (f.Bytes == 0 || n < f.Bytes) {
					f = Figure{n, "/" + path.Join(dir, file)}
				}
			}
		}
	}
	if f.Bytes == 0 {
		return f, ErrUnknown
	}
	return f, nil
}

// hierarchy is a mounted hierarchy of cgroups and the group of this process in it. files are names below each
// directory; a name that does not exist has no limit.
type hierarchy struct {
	mount, group string
	files        []string // with limits
}

// path returns the directories of the process' group and of all groups that contain it, whose limits hold for it as
// well. The last one is the mount itself.
func (h hierarchy) path() (dirs []string) {
	for g := h.group; ; g = path.Dir(g) {
		dirs = append(dirs, path.Join(h.mount, g))
		if g == "/" || g == "." {
			return dirs
		}
	}
}

// hierarchies returns those that may limit memory. In a container, the group of /proc/self/cgroup may be one that is
// not visible in the mounted directory: then the limits of the mounted group, the root of what is visible, hold. A
// process is in one hierarchy of each version at most.
func (s System) hierarchies() (all []hierarchy) {
	groups := s.groups()
	for _, m := range s.mounts() {
		group, ok := groups[m.controller]
		if !ok {
			continue
		}
		// Only a part of the hierarchy is mounted, and its root is this group. In a container, mountinfo and cgroup may
		// show the path on the host.
		if m.root != "/" {
			group = strings.TrimPrefix(group, m.root)
		}
		group = path.Clean("/" + group)
		if _, err := fs.Stat(s.Root, path.Join(m.dir, group)); err != nil {
			group = "/"
		}
		// Version 2.
		h := hierarchy{mount: m.dir, group: group, files: []string{"memory.max", "memory.high"}}
		if m.controller == "memory" {
			h.files = []string{"memory.limit_in_bytes"}
		}
		all = append(all, h)
	}
	return all
}

// groups returns the groups of this process by controller: "memory" in version 1, and "" in version 2. A line of
// /proc/self/cgroup is "4:memory:/user.slice" in version 1, and "0::/user.slice" in version 2.
func (s System) groups() map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(s.read("proc/self/cgroup")) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			if controller == "memory" || controller == "" {
				found[controller] = fields[2]
			}
		}
	}
	return found
}

// mount is a line of /proc/self/mountinfo for a hierarchy that may limit memory. controller is a key of groups.
type mount struct {
	dir, root  string // without the first slash; the group that is mounted
	controller string
}

// mounts returns the mounted hierarchies. Hybrid systems mount both versions.
func (s System) mounts() (all []mount) {
	for line := range strings.Lines(s.read("proc/self/mountinfo")) {
		before, after, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if len(where) < 5 || len(what) < 3 {
			continue
		}
		m := mount{dir: strings.TrimPrefix(where[4], "/"), root: where[3]}
		switch {
		// Version 2 has one hierarchy for all controllers.
		case what[0] == "cgroup2":
		case what[0] == "cgroup" && slices.Contains(strings.Split(what[2], ","), "memory"):
			m.controller = "memory"
		default:
			continue
		}
		all = append(all, m)
	}
	return all
}

// read returns the content of a file; empty if it cannot be read. A missing file is usual: not every system has
// cgroups.
func (s System) read(name string) string {
	b, err := fs.ReadFile(s.Root, name)
	if err != nil {
		return ""
	}
	return string(b)
}

// unlimited is above all memory: version 1 shows a missing limit as such a number. The number is 2^63 rounded down to a
// page.
const unlimited = 1 << 60

// number returns the limit in a file; zero means none. A limit of 0 bytes, with which no process could run, counts as
// none.
func (s System) number(name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s.read(name)), 10, 64)
	if err != nil || n >= unlimited { // "max"
		return 0
	}
	return n
}

// Counted is the memory of a process as the kernel counts it. Zero means unknown. Resident minus File is what the
// process itself has allocated; File can be dropped by the kernel.
type Counted struct {
	Resident int64 // of the process
	File     int64 // of it, pages of files and shared memory
	Group    int64 // of the process' cgroup, with its page cache
}

// Count returns the current memory of this process.
func (s System) Count() (c Counted) {
	for line := range strings.Lines(s.read("proc/self/status")) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		// Kilobytes of 1024 bytes.
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			continue
		}
		switch fields[0] {
		case "VmRSS:":
			c.Resident = n << 10
		case "RssFile:", "RssShmem:":
			c.File += n << 10
		}
	}
	for _, h := range s.hierarchies() {
		for _, file := range []string{"memory.current", "memory.usage_in_bytes"} {
			if n := s.number(path.Join(h.mount, h.group, file)); n > 0 {
				c.Group = n
			}
		}
	}
	return c
}
